//! Times on the command line: seconds, in fractions where somebody likes, or with a unit, as `timeout(1)` and `sleep(1)`
//! take them.
//!
//! Not for how long is sensible: each option has its own bounds.

use std::time::Duration;

/// Ten years of 365 days: more than anything runs.
const TEN_YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// The longest grace that a stop may have.
const GRACE_MAX: Duration = Duration::from_secs(600);

/// A deadline: some time, at most ten years.
pub(crate) fn deadline(text: &str) -> Result<Duration, String> {
    match patience(text)? {
        Duration::ZERO => Err("must be more than 0; leave it out for none".to_owned()),
        time => Ok(time),
    }
}

/// How long something is waited for, at most ten years; 0 is a look.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time > TEN_YEARS { Err("must be at most 3650d".to_owned()) } else { Ok(time) }
}

/// How long a process gets to end by itself, at most ten minutes.
pub(crate) fn grace(text: &str) -> Result<Duration, String> {
    let time = time(text)?;
    if time > GRACE_MAX { Err("must be at most 600 seconds, which is 10m".to_owned()) } else { Ok(time) }
}

/// A time in whole milliseconds; a part of one counts as one, so that no time becomes none.
fn time(text: &str) -> Result<Duration, String> {
    let malformed =
        || "must be seconds, such as 90 or 0.5, or a number with s, m, h or d, such as 10m".to_owned();
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 60 * 60),
        Some((at, 'd')) => (&text[..at], 24 * 60 * 60),
        _ => (text, 1),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) || fraction.len() > 9
    {
        return Err(malformed());
    }
    let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    let whole: Option<u64> = if whole.is_empty() { Some(0) } else { whole.parse().ok() };
    let whole = whole.and_then(|whole| whole.checked_mul(unit * 1000)).ok_or("is too long")?;
    let part = (nanos * unit).div_ceil(1_000_000);
    Ok(Duration::from_millis(whole.saturating_add(part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_seconds_in_fractions_too_or_has_a_unit() {
        for (text, millis) in [
            ("90", 90_000),
            ("0.5", 500),
            (".5", 500),
            ("2.", 2_000),
            ("1.5s", 1_500),
            ("10m", 600_000),
            ("0.1m", 6_000),
            ("2h", 7_200_000),
            ("1d", 86_400_000),
            ("0.0000001", 1),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(deadline(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn what_is_no_time_is_refused_with_how_one_is_written() {
        for text in ["", ".", "s", "x", "-1", "+1", "1,5", "1.5.5", "1e3", "1 s", "1w", "٣", "0.0000000001"]
        {
            assert!(patience(text).is_err_and(|why| why.contains("such as 90 or 0.5")), "{text}");
        }
    }

    #[test]
    fn each_option_has_its_bounds() {
        assert_eq!((patience("0"), grace("0s")), (Ok(Duration::ZERO), Ok(Duration::ZERO)));
        for (refused, why) in [
            (deadline("0"), "more than 0"),
            (deadline("0.0"), "more than 0"),
            (deadline("3650.1d"), "at most 3650d"),
            (patience("315360001"), "at most 3650d"),
            (patience("99999999999999999999"), "too long"),
            (patience("99999999999999999d"), "too long"),
            (grace("601"), "at most 600 seconds"),
        ] {
            assert!(refused.as_ref().is_err_and(|error| error.contains(why)), "{why}: {refused:?}");
        }
    }
}
