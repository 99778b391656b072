//! The `Range` of a request for output (RFC 9110, section 14).
//!
//! One range is served. Several, and units that are not `bytes`, are passed over, as a server may, and the whole output is the
//! answer; what does not read as the section says is refused. Not for which bytes are retained.

use axum::http::{HeaderMap, HeaderValue, Method, header};

/// One range of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Range {
    /// From here to there, both included.
    Between(u64, u64),
    /// From here to the end.
    From(u64),
    /// So many at the end.
    Last(u64),
}

/// The header does not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unreadable;

impl Range {
    /// The range that a request asks for; `None` where the whole output is the answer. A request that is conditional
    /// (`If-Range`) has nothing that could match, since output has no validator.
    pub(crate) fn asked(method: &Method, headers: &HeaderMap) -> Result<Option<Self>, Unreadable> {
        let mut given = headers.get_all(header::RANGE).iter();
        let Some(first) = given.next().filter(|_| method == Method::GET) else { return Ok(None) };
        if headers.contains_key(header::IF_RANGE) {
            return Ok(None);
        }
        match given.next() {
            None => first.to_str().map_err(|_| Unreadable).and_then(Self::parse),
            Some(_) => Err(Unreadable),
        }
    }

    fn parse(text: &str) -> Result<Option<Self>, Unreadable> {
        let (unit, set) = text.split_once('=').ok_or(Unreadable)?;
        if !unit.trim().eq_ignore_ascii_case("bytes") {
            return Ok(None);
        }
        let specs = set.split(',').map(str::trim).filter(|spec| !spec.is_empty());
        let ranges = specs.map(Self::of_spec).collect::<Result<Vec<_>, _>>()?;
        match ranges.as_slice() {
            [] => Err(Unreadable),
            [range] => Ok(Some(*range)),
            _ => Ok(None),
        }
    }

    fn of_spec(spec: &str) -> Result<Self, Unreadable> {
        match spec.split_once('-').ok_or(Unreadable)? {
            ("", last) => Ok(Self::Last(number(last)?)),
            (first, "") => Ok(Self::From(number(first)?)),
            (first, last) => {
                let (first, last) = (number(first)?, number(last)?);
                if first <= last { Ok(Self::Between(first, last)) } else { Err(Unreadable) }
            }
        }
    }

    /// The first byte and the one behind the last, of so many; `None` where it has none of them.
    pub(crate) fn of(self, total: u64) -> Option<(u64, u64)> {
        let (from, until) = match self {
            Self::Between(first, last) => (first, last.saturating_add(1).min(total)),
            Self::From(first) => (first, total),
            Self::Last(count) => (total.saturating_sub(count), total),
        };
        (from < until).then_some((from, until))
    }
}

/// Digits. A number that is greater than any stream is long stands for one behind its end.
fn number(text: &str) -> Result<u64, Unreadable> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Unreadable);
    }
    Ok(text.parse().unwrap_or(u64::MAX))
}

/// The part that a response holds, as `Content-Range`; `None` for a length that nobody knows yet.
pub(crate) fn content(from: u64, until: u64, length: Option<u64>) -> Option<HeaderValue> {
    let length = length.map_or_else(|| "*".to_owned(), |length| length.to_string());
    HeaderValue::from_str(&format!("bytes {from}-{}/{length}", until.saturating_sub(1))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_what_there_is() {
        for (text, expect) in [
            ("bytes=0-0", Some((0, 1))),
            ("bytes=2-5", Some((2, 6))),
            ("BYTES = 2-5 ,", Some((2, 6))),
            ("bytes=2-500", Some((2, 10))),
            ("bytes=2-99999999999999999999999999", Some((2, 10))),
            ("bytes=4-", Some((4, 10))),
            ("bytes=-3", Some((7, 10))),
            ("bytes=-300", Some((0, 10))),
            ("bytes=-99999999999999999999999999", Some((0, 10))),
            ("bytes=10-", None),
            ("bytes=18446744073709551615-", None),
            ("bytes=99999999999999999999999999-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(Range::parse(text).unwrap().unwrap().of(10), expect, "{text}");
        }
        assert_eq!(Range::From(0).of(0), None);
    }

    #[test]
    fn several_ranges_and_other_units_are_passed_over_and_what_does_not_read_is_not() {
        for text in ["bytes=1-2,4-5", "bytes=1-2, -5,", "lines=1-2", "items=x"] {
            assert_eq!(Range::parse(text), Ok(None), "{text}");
        }
        for text in [
            "bytes=5-2",
            "bytes=a-b",
            "bytes=-",
            "bytes=",
            "bytes",
            "bytes=,",
            "bytes=+1-2",
            "bytes=1",
            "bytes=1-2-3",
            "bytes=0-1,x",
            "",
        ] {
            assert_eq!(Range::parse(text), Err(Unreadable), "{text}");
        }
    }

    #[test]
    fn a_range_is_asked_for_by_an_unconditional_get() {
        let asked = |method, given: &[(header::HeaderName, &'static str)]| {
            let mut headers = HeaderMap::new();
            for (name, value) in given {
                headers.append(name, HeaderValue::from_static(value));
            }
            Range::asked(&method, &headers)
        };
        let range = || (header::RANGE, "bytes=1-");
        assert_eq!(asked(Method::GET, &[]), Ok(None));
        assert_eq!(asked(Method::GET, &[range()]), Ok(Some(Range::From(1))));
        assert_eq!(asked(Method::HEAD, &[range()]), Ok(None));
        assert_eq!(asked(Method::GET, &[range(), (header::IF_RANGE, "\"x\"")]), Ok(None));
        assert_eq!(asked(Method::GET, &[range(), range()]), Err(Unreadable));
    }
}
