//! The configuration file: found, read, and held against the table of keys, line by line.
//!
//! Not for what its values mean.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use toml::Value;
use toml::de::{DeTable, DeValue};

use super::keys::{KEYS, Key, SECTIONS, find};
use super::kind::Kind;
use super::mistake::Mistake;
use super::nearest::{most_similar, nearest, similarity};

/// Far more than any configuration has.
const FILE_MAX: u64 = 1 << 20;

/// A key that a file sets.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static Key,
    pub(crate) value: Value,
    pub(crate) line: usize,
}

/// The file that is named, else that of the environment, else the user's own where there is one.
pub(crate) fn locate(named: Option<&Path>) -> anyhow::Result<Option<PathBuf>> {
    let from = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(named) = named.map(Path::to_owned).or_else(|| from("PROCYARD_CONFIG")) {
        return std::path::absolute(named).map(Some).context("the configuration file's path is not usable");
    }
    // The base directory specification: a relative path there is to be ignored.
    let config = from("XDG_CONFIG_HOME").filter(|path| path.is_absolute());
    let home = || from("HOME").filter(|path| path.is_absolute()).map(|home| home.join(".config"));
    let file = config.or_else(home).map(|directory| directory.join("procyard/config.toml"));
    Ok(file.filter(|file| file.exists()))
}

/// Reads a file, or gives every mistake in it, with its line.
pub(crate) fn read(path: &Path) -> Result<Vec<Setting>, Vec<Mistake>> {
    let text = text_of(path).map_err(|mistake| vec![mistake])?;
    let directory = path.parent().unwrap_or(Path::new("/"));
    parse(&text, directory).map_err(|mistakes| {
        mistakes.into_iter().map(|mistake| mistake.at(format_args!("{}:", path.display()))).collect()
    })
}

fn text_of(path: &Path) -> Result<String, Mistake> {
    let file = std::fs::File::open(path)
        .with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    let mut text = String::new();
    file.take(FILE_MAX + 1)
        .read_to_string(&mut text)
        .with_context(|| format!("the configuration {} cannot be read", path.display()))?;
    if text.len() as u64 > FILE_MAX {
        return Err(Mistake::new(format!("the configuration {} is too long", path.display())));
    }
    Ok(text)
}

/// What a text sets, or every mistake with its line in front.
pub(crate) fn parse(text: &str, directory: &Path) -> Result<Vec<Setting>, Vec<Mistake>> {
    let line = |at: usize| text[..text.floor_char_boundary(at)].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| {
        let at = error.span().map_or(0, |span| span.start);
        vec![Mistake::new(format!("{}: {}", line(at), error.message()))]
    })?;
    let (mut settings, mut mistakes) = (Vec::new(), Vec::new());
    let wrong = |at: usize, key: &str, text: &str| (at, Mistake::of([key], format!("{at}: {text}")));
    for (section, entries) in table.get_ref() {
        let name = section.get_ref().as_ref();
        let at = line(section.span().start);
        if !SECTIONS.iter().any(|known| known.name == name) {
            mistakes.push(wrong(at, name, &unknown_section(name)));
            continue;
        }
        let DeValue::Table(entries) = entries.get_ref() else {
            mistakes.push(wrong(at, name, &format!("`{name}` must be a section, [{name}]")));
            continue;
        };
        for (key, value) in entries {
            let path = format!("{name}.{}", key.get_ref());
            let at = line(key.span().start);
            let Some(key) = find(&path) else {
                mistakes.push(wrong(at, &path, &unknown(&path)));
                continue;
            };
            let value = plain(value.get_ref()).ok_or_else(|| key.kind.must_be());
            match value.and_then(|value| key.kind.admit(value)) {
                Ok(value) => settings.push(Setting { key, value: placed(key, value, directory), line: at }),
                Err(must_be) => mistakes.push(wrong(at, &path, &format!("`{path}` {must_be}"))),
            }
        }
    }
    if mistakes.is_empty() {
        return Ok(settings);
    }
    // The parser's order is that of the names.
    mistakes.sort_by_key(|(at, _)| *at);
    Err(mistakes.into_iter().map(|(_, mistake)| mistake).collect())
}

/// A value without its place; `None` for what no key has.
fn plain(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(Value::String(text.to_string())),
        DeValue::Boolean(is) => Some(Value::Boolean(*is)),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(Value::Integer)
        }
        DeValue::Array(values) => {
            values.iter().map(|value| plain(value.get_ref())).collect::<Option<_>>().map(Value::Array)
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

/// A relative path in a file is relative to the file, wherever procyard is started.
fn placed(key: &Key, value: Value, directory: &Path) -> Value {
    match (key.kind, &value) {
        (Kind::Path, Value::String(path)) => {
            Value::String(directory.join(path).to_string_lossy().into_owned())
        }
        _ => value,
    }
}

/// That there is no such key, with the nearest one that there is; where it is the section that is misspelt, with that.
pub(crate) fn unknown(path: &str) -> String {
    if let Some((section, name)) = path.split_once('.')
        && !SECTIONS.iter().any(|known| known.name == section)
        && let Some(meant) = nearest_section(section)
    {
        let keys = KEYS.iter().filter(|key| key.section == meant);
        let key = nearest(name, keys.map(|key| key.name));
        let key = key.map(|key| format!(", and `{meant}.{key}`")).unwrap_or_default();
        return format!("there is no section `{section}`; did you mean `{meant}`{key}?");
    }
    let known: Vec<_> = KEYS.iter().map(Key::path).collect();
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    // A key in the wrong section is as near as one that is misspelt.
    let similar = |known: &String| similarity(path, known).max(similarity(&name(path), &name(known)));
    said("key", path, most_similar(known.iter().map(|known| (similar(known), known.as_str()))))
}

fn unknown_section(name: &str) -> String {
    // A key that stands outside its section.
    if let Some(key) = KEYS.iter().find(|key| key.name == name) {
        return format!("`{name}` is a key of section [{}]", key.section);
    }
    said("section", name, nearest_section(name))
}

fn nearest_section(name: &str) -> Option<&'static str> {
    nearest(name, SECTIONS.iter().map(|known| known.name))
}

fn said(what: &str, name: &str, nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("there is no {what} `{name}`; did you mean `{nearest}`?"),
        None => format!("there is no {what} `{name}`; `procyard config` lists what there is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: &str) {
        let mistakes = parse(text, Path::new("/etc")).expect_err(text);
        let told: Vec<_> = mistakes.iter().map(ToString::to_string).collect();
        assert!(told.iter().any(|mistake| mistake == expect), "{expect:?} is none of {told:?}");
    }

    #[test]
    fn a_mistake_is_told_with_its_line_and_with_what_was_meant() {
        check(
            "[processes]\nmax_concurent = 3\n",
            "2: there is no key `processes.max_concurent`; did you mean `processes.max_concurrent`?",
        );
        check(
            "[processes]\nmemory_max = 3\n",
            "2: there is no key `processes.memory_max`; did you mean `containment.memory_max`?",
        );
        check("\n[procesess]\n", "2: there is no section `procesess`; did you mean `processes`?");
        check("[xyzzy]", "1: there is no section `xyzzy`; `procyard config` lists what there is");
        check("inline_bytes = 3", "1: `inline_bytes` is a key of section [processes]");
        check("log = 3", "1: `log` must be a section, [log]");
        check(
            "[log]\nformat = \"jsno\"",
            "2: `log.format` must be one of `\"text\"`, `\"json\"`; did you mean `\"json\"`?",
        );
        check(
            "[containment]\ntier = \"subreeper\"",
            "2: `containment.tier` must be one of `\"strongest\"`, `\"cgroup\"`, `\"subreaper\"`, `\"pidns\"`; did you mean `\"subreaper\"`?",
        );
        check("[log]\nlevel = \"inof\"", "2: `log.level` `inof` is no level; did you mean `info`?");
        check("[log]\n\nformat = \"xml\"", "3: `log.format` must be one of `\"text\"`, `\"json\"`");
        check(
            "[processes]\nmax_concurrent = 0",
            "2: `processes.max_concurrent` must be a whole number from 1 to 10000",
        );
        check(
            "[processes]\nmax_concurrent = 1.5",
            "2: `processes.max_concurrent` must be a whole number from 1 to 10000",
        );
        check(
            "[retention]\ndata_max_bytes = \"1Q\"",
            "2: `retention.data_max_bytes` `1Q` has an unknown unit; use K, M, G or T",
        );
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        let mistakes = parse("[log]\nlevel = \n", Path::new("/etc")).unwrap_err();
        assert!(mistakes.len() == 1 && mistakes[0].to_string().starts_with("2: "), "{mistakes:?}");
        let twice = parse("[log]\nlevel = \"a\"\nlevel = \"b\"", Path::new("/etc")).unwrap_err();
        assert!(twice[0].to_string().starts_with("3: "), "{twice:?}");
    }

    #[test]
    fn every_mistake_is_told_at_once_in_the_order_of_lines() {
        let mistakes = parse("[processes]\nshell = 2\nb = 1\n[a]", Path::new("/etc")).unwrap_err();
        let keys: Vec<_> = mistakes.iter().flat_map(Mistake::keys).collect();
        assert_eq!(keys, ["processes.shell", "processes.b", "a"], "{mistakes:?}");
    }

    #[test]
    fn a_key_that_is_not_there_is_told_with_the_section_and_the_key_that_were_meant() {
        for (path, expect) in [
            ("servr.listen", "there is no section `servr`; did you mean `server`, and `server.listen`?"),
            ("servr.listn", "there is no section `servr`; did you mean `server`, and `server.listen`?"),
            ("servr.colour", "there is no section `servr`; did you mean `server`?"),
            (
                "procces.shell",
                "there is no section `procces`; did you mean `processes`, and `processes.shell`?",
            ),
            ("server.listn", "there is no key `server.listn`; did you mean `server.listen`?"),
            ("xyzzy.shell", "there is no key `xyzzy.shell`; did you mean `processes.shell`?"),
            ("max_concurent", "there is no key `max_concurent`; did you mean `processes.max_concurrent`?"),
            ("xyzzy.qwop", "there is no key `xyzzy.qwop`; `procyard config` lists what there is"),
        ] {
            assert_eq!(unknown(path), expect);
        }
    }

    #[test]
    fn a_relative_path_is_relative_to_the_file() {
        let settings = parse("[server]\nsocket = \"a.sock\"", Path::new("/etc/procyard")).unwrap();
        assert_eq!(settings[0].value.as_str(), Some("/etc/procyard/a.sock"));
        assert_eq!((settings[0].key.path(), settings[0].line), ("server.socket".to_owned(), 2));
        let settings = parse("[server]\nsocket = \"/run/a.sock\"", Path::new("/etc/procyard")).unwrap();
        assert_eq!(settings[0].value.as_str(), Some("/run/a.sock"));
    }
}
