//! Tables of arguments and results, from schemas.

use std::fmt::Write as _;

use procyard_tools::ToolDefinition;
use serde_json::{Map, Value};

/// Fields that results of several tools have, described once.
const SHARED: [&str; 3] = ["screen", "notifications", "limits"];

/// The arguments of a tool.
pub(crate) fn arguments(schema: &Value) -> String {
    let mut table = "| argument | type | default | limits | meaning |\n|---|---|---|---|---|\n".to_owned();
    let required = schema["required"].as_array();
    for (name, property) in properties(schema) {
        let needed = required.is_some_and(|names| names.iter().any(|needed| needed == name));
        let default = match property.get("default") {
            _ if needed => "required".to_owned(),
            None => String::new(),
            Some(value) => format!("`{value}`"),
        };
        let (kind, limits) = (kind(property), limits(property));
        let _ = writeln!(table, "| `{name}` | {kind} | {default} | {limits} | {} |", meaning(property));
    }
    table
}

/// The fields of a tool's result, of each of its forms.
pub(crate) fn result(tool: &ToolDefinition) -> String {
    let forms: Vec<&Value> = forms(tool).collect();
    let mut text = String::new();
    for form in &forms {
        if forms.len() > 1 {
            let of = if form["properties"].get("results").is_some() { "process_ids" } else { "process_id" };
            let _ = writeln!(text, "Of `{of}`:\n");
        }
        text.push_str(&fields(form));
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// The forms of a result but for the error.
fn forms(tool: &ToolDefinition) -> impl Iterator<Item = &Value> {
    let forms = tool.output_schema.as_ref().unwrap()["anyOf"].as_array().unwrap().iter();
    forms.filter(|form| form["properties"].get("error").is_none())
}

/// What several results share.
pub(crate) fn shared(tools: &[ToolDefinition]) -> String {
    let mut text = "## Parts of results\n\n".to_owned();
    for name in SHARED {
        let found = tools.iter().flat_map(forms).find_map(|form| form["properties"].get(name)).unwrap();
        let inner = found.get("items").unwrap_or(found);
        let _ = writeln!(text, "### {name}\n\n{}\n\n{}", meaning(found), fields(inner));
    }
    text
}

fn fields(schema: &Value) -> String {
    let mut table = "| field | type | meaning |\n|---|---|---|\n".to_owned();
    for (name, property) in properties(schema) {
        field(&mut table, name, property, 0);
    }
    table
}

fn field(table: &mut String, name: &str, property: &Value, depth: usize) {
    let _ = writeln!(table, "| `{name}` | {} | {} |", kind(property), meaning(property));
    let last = name.rsplit('.').next().unwrap_or(name);
    if SHARED.contains(&last) || depth > 0 || name == "results" {
        return;
    }
    let inner = property.get("items").unwrap_or(property);
    for (within, property) in properties(inner) {
        field(table, &format!("{name}.{within}"), property, depth + 1);
    }
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

fn kind(property: &Value) -> String {
    if let Some(Value::Array(words)) = property.get("enum") {
        return words
            .iter()
            .map(|word| format!("`{}`", word.as_str().unwrap()))
            .collect::<Vec<_>>()
            .join(" ");
    }
    match (property["type"].as_str(), property["format"].as_str()) {
        (Some("array"), _) => format!("array of {}", kind_of_items(&property["items"])),
        (Some("object"), _) if property.get("additionalProperties").is_some_and(Value::is_object) => {
            format!("object of {}", kind_of_items(&property["additionalProperties"]))
        }
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some(kind), _) => kind.to_owned(),
        (None, _) => "object".to_owned(),
    }
}

fn kind_of_items(items: &Value) -> String {
    match items["type"].as_str() {
        Some(kind) => format!("{kind}s"),
        None => "objects".to_owned(),
    }
}

fn limits(property: &Value) -> String {
    let number = |key: &str| property.get(key).and_then(Value::as_u64);
    let between = |low: Option<u64>, high: Option<u64>, unit: &str| match (low, high) {
        (Some(low), Some(high)) => Some(format!("{low}–{high}{unit}")),
        (Some(1), None) if !unit.is_empty() => Some("not empty".to_owned()),
        (Some(low), None) if low > 0 => Some(format!("at least {low}{unit}")),
        (None, Some(high)) => Some(format!("at most {high}{unit}")),
        _ => None,
    };
    let pattern = property.get("pattern").and_then(Value::as_str);
    let said = [
        pattern.map(|_| "22 characters".to_owned()),
        between(number("minimum"), number("maximum"), ""),
        between(number("minLength"), number("maxLength"), " characters"),
        between(number("minItems"), number("maxItems"), " entries"),
    ];
    said.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The description on one line of a table.
fn meaning(property: &Value) -> String {
    let text = property["description"].as_str().unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}
