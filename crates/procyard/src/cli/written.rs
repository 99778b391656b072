//! Numbers and addresses as they are written on the command line, and what is said of one that is not.
//!
//! Not for times: those have units.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// A whole number from this range.
pub(crate) fn whole<N: TryFrom<i128>>(
    range: RangeInclusive<i128>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            // Up to what the type holds is no bound that anybody meets.
            match (range.start(), range.end()) {
                (least, most) if *most >= u32::MAX.into() => {
                    format!("must be a whole number, {least} or more")
                }
                (least, most) => format!("must be a whole number from {least} to {most}"),
            }
        })
    }
}

/// An IP address with a port.
pub(crate) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_| "must be an IP address and a port, such as 127.0.0.1:7411 or [::1]:7411".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_whole_and_within_its_range_or_told_what_it_must_be() {
        let niceness = whole::<i32>(-20..=19);
        assert_eq!((niceness("-20"), niceness("19")), (Ok(-20), Ok(19)));
        for text in ["20", "-21", "", "1.5", "x", "99999999999999999999999999999999999999999"] {
            assert_eq!(niceness(text), Err("must be a whole number from -20 to 19".to_owned()), "{text}");
        }
        let lines = whole::<u64>(0..=u64::MAX.into());
        assert_eq!(lines(&u64::MAX.to_string()), Ok(u64::MAX));
        for text in ["-1", "18446744073709551616", "many"] {
            assert_eq!(lines(text), Err("must be a whole number, 0 or more".to_owned()), "{text}");
        }
    }

    #[test]
    fn an_address_has_numbers_and_a_port() {
        assert!(address("127.0.0.1:0").is_ok() && address("[::1]:7411").is_ok());
        for text in ["localhost:80", "127.0.0.1", "127.0.0.1:99999", "::1:80", ""] {
            assert!(address(text).is_err_and(|why| why.contains("such as 127.0.0.1:7411")), "{text}");
        }
    }
}
