//! The environment of a command: what it inherits, what is filtered, what is set for pipes and for terminals.
//!
//! Not for the caller's changes being right: names and values are checked where a request is validated.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use procyard_runner::{Environment, EnvironmentBase};

/// Set for commands on pipes unless the caller sets them: nothing colours, pages or asks.
const FOR_PIPES: [(&str, &str); 7] = [
    ("TERM", "dumb"),
    ("NO_COLOR", "1"),
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GH_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("DEBIAN_FRONTEND", "noninteractive"),
];

/// Set for commands with a terminal unless the caller sets it.
const FOR_TERMINALS: [(&str, &str); 1] = [("TERM", "xterm-256color")];

const MINIMAL: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "SHELL", "TZ"];

/// Where programs are looked for when the environment has no `PATH`.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Puts the environment of a command together.
pub(crate) fn compose(
    inherited: impl Iterator<Item = (OsString, OsString)>,
    wanted: &Environment,
    filter: &[String],
    workdir: &Path,
    terminal: bool,
) -> BTreeMap<OsString, OsString> {
    let minimal = |name: &OsStr| {
        MINIMAL.iter().any(|kept| name == OsStr::new(kept)) || name.as_bytes().starts_with(b"LC_")
    };
    let mut env: BTreeMap<_, _> = inherited
        .filter(|(name, _)| match wanted.base {
            EnvironmentBase::Inherit => true,
            EnvironmentBase::Minimal => minimal(name),
        })
        .filter(|(name, _)| !filter.iter().any(|pattern| matches_glob(pattern.as_bytes(), name.as_bytes())))
        .collect();
    for (name, value) in if terminal { &FOR_TERMINALS[..] } else { &FOR_PIPES[..] } {
        env.insert(name.into(), value.into());
    }
    // The inherited one names the supervisor's own directory; shells and tools trust it.
    env.insert("PWD".into(), workdir.into());
    for (name, value) in &wanted.changes {
        match value {
            Some(value) => drop(env.insert(name.clone(), value.clone())),
            None => drop(env.remove(name)),
        }
    }
    env
}

/// `*` is any text; letters match in both cases.
fn matches_glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // Where to go on when the text after the last `*` does not fit here.
    let mut retry: Option<(usize, usize)> = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at, in_name));
                at += 1;
            }
            Some(byte) if byte.eq_ignore_ascii_case(&name[in_name]) => {
                at += 1;
                in_name += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    at = star + 1;
                    in_name = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composed(base: EnvironmentBase, changes: &[(&str, Option<&str>)], filter: &[&str]) -> Vec<String> {
        let inherited =
            [("PATH", "/bin"), ("LC_ALL", "de_DE.UTF-8"), ("MY_TOKEN", "x"), ("TERM", "xterm"), ("PWD", "/")];
        let changes = changes.iter().map(|(name, value)| (name.into(), value.map(Into::into))).collect();
        let filter: Vec<_> = filter.iter().map(|pattern| (*pattern).to_owned()).collect();
        let inherited = inherited.iter().map(|(name, value)| (name.into(), value.into()));
        compose(inherited, &Environment { base, changes }, &filter, Path::new("/w"), false)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .filter(|line| !line.contains("PAGER") && !line.contains("GIT") && !line.contains("DEBIAN"))
            .collect()
    }

    #[test]
    fn pipes_are_told_to_be_plain_and_the_locale_is_kept() {
        let env = composed(EnvironmentBase::Inherit, &[], &[]);
        assert_eq!(
            env,
            ["LC_ALL=de_DE.UTF-8", "MY_TOKEN=x", "NO_COLOR=1", "PATH=/bin", "PWD=/w", "TERM=dumb"]
        );
    }

    #[test]
    fn pipes_have_no_pager_and_no_prompt_unless_the_caller_asks_for_one() {
        let names = ["PAGER", "GIT_PAGER", "GH_PAGER", "GIT_TERMINAL_PROMPT", "DEBIAN_FRONTEND"];
        let values = |changes: &[(&str, Option<&str>)], terminal| {
            let changes = changes.iter().map(|(name, value)| (name.into(), value.map(Into::into))).collect();
            let environment = Environment { base: EnvironmentBase::Inherit, changes };
            let composed = compose(std::iter::empty(), &environment, &[], Path::new("/w"), terminal);
            let value = |name: &str| {
                let found = composed.iter().find(|(known, _)| known.to_str() == Some(name));
                found.map(|(_, value)| value.display().to_string()).unwrap_or_default()
            };
            names.map(value)
        };
        assert_eq!(values(&[], false), ["cat", "cat", "cat", "0", "noninteractive"]);
        let wanted = [("GIT_PAGER", Some("less")), ("GIT_TERMINAL_PROMPT", None)];
        assert_eq!(values(&wanted, false), ["cat", "less", "cat", "", "noninteractive"]);
        assert_eq!(values(&[], true), [""; 5]);
    }

    #[test]
    fn the_caller_has_the_last_word_and_filters_only_meet_what_is_inherited() {
        let changes = [("TERM", Some("vt100")), ("NO_COLOR", None), ("OTHER_TOKEN", Some("y"))];
        let env = composed(EnvironmentBase::Minimal, &changes, &["*_token"]);
        assert_eq!(env, ["LC_ALL=de_DE.UTF-8", "OTHER_TOKEN=y", "PATH=/bin", "PWD=/w", "TERM=vt100"]);
        assert!(!composed(EnvironmentBase::Inherit, &[], &["*token*"]).contains(&"MY_TOKEN=x".to_owned()));
    }

    #[test]
    fn globs_match_whole_names() {
        for (pattern, name, expect) in [
            ("*_TOKEN", "GH_TOKEN", true),
            ("*_TOKEN", "GH_TOKENS", false),
            ("*SECRET*", "my_secret_key", true),
            ("AWS_*", "AWS", false),
            ("*", "", true),
            ("", "A", false),
            ("a*b*c", "aXbXbc", true),
            ("a*b*c", "aXbXb", false),
        ] {
            assert_eq!(matches_glob(pattern.as_bytes(), name.as_bytes()), expect, "{pattern} {name}");
        }
    }
}
