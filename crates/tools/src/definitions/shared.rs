//! Definitions that all toolboxes with the same settings have together: their schemas take some hundred KiB, and a service has a
//! toolbox for each of its loops.
//!
//! Not for making them.

use std::sync::{Arc, LazyLock, Mutex, PoisonError, Weak};

use procyard_api::{BashArguments, input_schema};
use procyard_core::Limits;
use serde_json::Value;

use super::{ToolDefinition, definitions};
use crate::toolbox::Lasting;

/// What definitions are made from.
#[derive(Clone, PartialEq)]
struct Settings {
    limits: Limits,
    lasting: Lasting,
    with_bash: bool,
}

/// Those that somebody has. Held while one more is made, so that it is made once.
static MADE: Mutex<Vec<(Settings, Weak<[ToolDefinition]>)>> = Mutex::new(Vec::new());

/// Every tool, as [`definitions`] makes them.
pub(crate) fn shared(limits: &Limits, lasting: Lasting, with_bash: bool) -> Arc<[ToolDefinition]> {
    let settings = Settings { limits: limits.clone(), lasting, with_bash };
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    made.retain(|(_, shared)| shared.strong_count() > 0);
    let found = made.iter().find(|(of, _)| *of == settings).and_then(|(_, shared)| shared.upgrade());
    found.unwrap_or_else(|| {
        let new: Arc<[ToolDefinition]> = definitions(limits, lasting, with_bash).into();
        made.push((settings, Arc::downgrade(&new)));
        new
    })
}

/// The whole schema of the arguments of Bash, whatever of it a client is told.
pub(crate) fn bash_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(input_schema::<BashArguments>);
    &SCHEMA
}

#[cfg(test)]
mod tests {
    use procyard_core::LimitSettings;

    use super::*;

    #[test]
    fn toolboxes_with_the_same_settings_have_the_same_definitions_and_others_their_own() {
        let settings = LimitSettings { inline_bytes: 4321, ..LimitSettings::default() };
        let limits = settings.resolve().unwrap();
        let one = shared(&limits, Lasting::Possible, true);
        assert!(Arc::ptr_eq(&one, &shared(&limits.clone(), Lasting::Possible, true)));
        assert_eq!(shared(&limits, Lasting::Possible, false).len(), one.len() - 1);
        let other = LimitSettings { inline_bytes: 1234, ..LimitSettings::default() }.resolve().unwrap();
        let other = shared(&other, Lasting::Possible, true);
        assert_eq!(other[0].input_schema["properties"]["limit_bytes"]["default"], 1234);
        assert_eq!(one[0].input_schema["properties"]["limit_bytes"]["default"], 4321);
    }
}
