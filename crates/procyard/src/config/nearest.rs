//! What a misspelt name was meant to be.
//!
//! Not for deciding whether a name is known.

/// How similar a known name must be to be suggested; 1 is the same.
const NEAR: f64 = 0.75;

/// The most similar of these, where one is similar enough. Case makes no difference.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase();
    most_similar(known.into_iter().map(|known| (similarity(&name, &known.to_lowercase()), known)))
}

/// The one that is the most similar, where that is similar enough.
pub(super) fn most_similar<'a>(known: impl Iterator<Item = (f64, &'a str)>) -> Option<&'a str> {
    known
        .filter(|(similar, _)| *similar >= NEAR)
        .max_by(|one, other| one.0.total_cmp(&other.0))
        .map(|(_, name)| name)
}

pub(super) fn similarity(one: &str, other: &str) -> f64 {
    strsim::jaro_winkler(one, other)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_is_similar_is_suggested_and_nothing_else() {
        let levels = ["error", "warn", "info", "debug", "trace"];
        for (name, expect) in [
            ("inof", Some("info")),
            ("INFO", Some("info")),
            ("warning", Some("warn")),
            ("debgu", Some("debug")),
            ("verbose", None),
            ("", None),
        ] {
            assert_eq!(nearest(name, levels), expect, "{name}");
        }
    }
}
