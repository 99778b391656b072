//! Numbers and addresses as they are written on the command line, and what is said of one that is not.
//!
//! Not for times: those have units.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

/// The largest number that the service takes: the largest that JSON carries exactly everywhere (RFC 8259, section 6).
pub(crate) const MOST: i128 = (1 << 53) - 1;

/// A whole number from this range.
pub(crate) fn whole<N: TryFrom<i128>>(
    range: RangeInclusive<i128>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number
            .and_then(|number| N::try_from(number).ok())
            .ok_or_else(|| format!("must be a whole number from {} to {}", range.start(), range.end()))
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
        let lines = whole::<u64>(0..=MOST);
        assert_eq!(lines("9007199254740991"), Ok(9_007_199_254_740_991));
        for text in ["-1", "9007199254740992", "18446744073709551615", "many"] {
            let expect = "must be a whole number from 0 to 9007199254740991";
            assert_eq!(lines(text), Err(expect.to_owned()), "{text}");
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
