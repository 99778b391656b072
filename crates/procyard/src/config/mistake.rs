//! What is wrong with the settings: in words for people, and by key for programs.
//!
//! Not for finding it.

use std::error::Error;
use std::fmt;

use crate::problem::words;

/// A mistake in the settings, or several that are told together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    text: String,
    /// The keys that are at fault, as they were written. None where something else is, such as the syntax.
    keys: Vec<String>,
}

impl Mistake {
    /// One that no key is at fault of.
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), keys: Vec::new() }
    }

    /// One of these keys, most at fault first.
    pub(super) fn of(keys: impl IntoIterator<Item = impl Into<String>>, text: impl Into<String>) -> Self {
        Self { text: text.into(), keys: keys.into_iter().map(Into::into).collect() }
    }

    /// With where it was found in front.
    pub(super) fn at(self, place: impl fmt::Display) -> Self {
        Self { text: format!("{place}{}", self.text), ..self }
    }

    /// All of them: one by itself, several each on a line of its own. Nothing is wrong where there are none.
    pub(super) fn together(mut mistakes: Vec<Self>) -> Result<(), Self> {
        if mistakes.len() < 2 {
            return mistakes.pop().map_or(Ok(()), Err);
        }
        let mut all = Self::new("the configuration is not right");
        for mistake in mistakes {
            all.text.push('\n');
            all.text.push_str(&mistake.text);
            for key in mistake.keys {
                if !all.keys.contains(&key) {
                    all.keys.push(key);
                }
            }
        }
        Err(all)
    }

    /// The keys that are at fault.
    pub(crate) fn keys(&self) -> &[String] {
        &self.keys
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Mistake {}

impl From<anyhow::Error> for Mistake {
    fn from(error: anyhow::Error) -> Self {
        Self::new(words(&error))
    }
}
