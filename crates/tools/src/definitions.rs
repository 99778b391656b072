//! What a client is told of each tool: name, purpose, schemas, hints.
//!
//! Where nothing may outlive its call, background use is not in the schema at all. Not for refusing it: the tool
//! does that whatever the schema says.

mod shared;

use procyard_api::{
    BashArguments, BashResult, InputArguments, InputResult, ListArguments, ListResult, OutputArguments,
    OutputReply, StopArguments, StopResult, input_schema, output_schema,
};
use procyard_core::{ErrorCode, Limits, PublicError};
use procyard_text::shorten;
use serde_json::{Value, json};

pub(crate) use self::shared::{bash_schema, shared};
use crate::toolbox::Lasting;

/// Hints about what a tool does, as MCP has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// It changes nothing.
    pub read_only: bool,
    /// It may destroy something.
    pub destructive: bool,
    /// Repeating a call with the same arguments changes nothing more.
    pub idempotent: bool,
    /// It reaches beyond a closed set of things.
    pub open_world: bool,
}

/// A tool as a client is told of it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolDefinition {
    /// The name that calls use.
    pub name: &'static str,
    /// A name for people.
    pub title: &'static str,
    /// When to use it and when not.
    pub description: String,
    /// JSON schema of the arguments; an object.
    pub input_schema: Value,
    /// JSON schema of the structured result; an object, of which the error is one form. `None`: the text is the whole
    /// result, and a transport sends no structured content, which clients would show a model in its place.
    pub output_schema: Option<Value>,
    /// Hints.
    pub annotations: ToolAnnotations,
}

/// The tool of this name.
pub(crate) fn named<'d>(
    definitions: &'d [ToolDefinition],
    name: &str,
) -> Result<&'d ToolDefinition, PublicError> {
    definitions.iter().find(|tool| tool.name == name).ok_or_else(|| {
        PublicError::new(ErrorCode::InvalidArguments, format!("there is no tool `{}`", shorten(name, 80)))
    })
}

/// The name of the tool that starts commands.
pub(crate) const BASH: &str = "Bash";

/// Arguments that only make sense where a command may outlive its call.
const LASTING: [&str; 3] = ["background", "yield_time_ms", "stall_ms"];

/// Every tool. Bash only with a runner.
pub(crate) fn definitions(limits: &Limits, lasting: Lasting, with_bash: bool) -> Vec<ToolDefinition> {
    let mut all = vec![process_output(), process_input(), process_stop(), process_list()];
    if with_bash {
        all.insert(0, bash(limits, lasting));
    }
    for tool in &mut all {
        configure(&mut tool.input_schema, limits);
    }
    all
}

/// Writes what is configured into a schema: defaults, and what may not be exceeded.
fn configure(schema: &mut Value, limits: &Limits) {
    let grace = u64::try_from(limits.graceful_shutdown.as_millis()).unwrap_or(u64::MAX);
    for (argument, keyword, value) in [
        ("limit_bytes", "default", limits.inline_bytes),
        ("max_output_bytes", "default", limits.spool_bytes),
        ("max_output_bytes", "maximum", limits.spool_bytes),
        ("grace_ms", "default", grace),
    ] {
        let property = schema.pointer_mut(&format!("/properties/{argument}")).and_then(Value::as_object_mut);
        if let Some(property) = property {
            property.insert(keyword.to_owned(), json!(value));
        }
    }
}

fn bash(limits: &Limits, lasting: Lasting) -> ToolDefinition {
    let mut schema = input_schema::<BashArguments>();
    let (default, maximum) = (limits.foreground_default.as_secs(), limits.foreground_maximum.as_secs());
    let mut description = "Runs a command in a shell, or a program with arguments, and returns its output and how it \
                           ended. A non-zero exit is a normal result. Everything that the command starts belongs to it \
                           and ends with it: nothing survives as a daemon."
        .to_owned();
    let timeout = match lasting {
        Lasting::Possible => {
            description.push_str(
                " For what runs long (servers, watchers, builds that you do not want to wait for) use background: true, \
                 or yield_time_ms if you do not know: you get a process_id for ProcessOutput, ProcessInput and \
                 ProcessStop, and are notified when it ends. Do not start things with & or nohup, and do not wait by \
                 running sleep: wait with ProcessOutput.",
            );
            format!(
                "Seconds that the command may run before it is stopped with everything it started. Foreground: default \
                 {default}, at most {maximum}, and 0 is invalid: use background for what takes longer. Background or \
                 yielded: no limit by default, and 0 means until the session ends."
            )
        }
        Lasting::Uncontained | Lasting::Unannounced => {
            description.push_str(" The call waits for the end of the command.");
            if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
                for name in LASTING {
                    properties.remove(name);
                }
            }
            format!(
                "Seconds that the command may run before it is stopped with everything it started. Default {default}, at \
                 most {maximum}."
            )
        }
    };
    if let Some(property) = schema.pointer_mut("/properties/timeout/description") {
        *property = json!(timeout);
    }
    ToolDefinition {
        name: BASH,
        title: "Run a command",
        description,
        input_schema: schema,
        output_schema: Some(output_schema::<BashResult>()),
        annotations: ToolAnnotations {
            read_only: false,
            destructive: true,
            idempotent: false,
            open_world: true,
        },
    }
}

fn process_output() -> ToolDefinition {
    ToolDefinition {
        name: "ProcessOutput",
        title: "Read a process's output",
        description: "Reads what a process has printed, from a cursor on or from the end, and can wait: for more output, \
                      for the end of the process, or until a pattern appears. Of a full-screen program on a terminal it can \
                      show the screen. Give the next_cursor of the last result as cursor, so that nothing is repeated. \
                      To wait, use wait: any with a long timeout_ms in one call instead of asking again and again. Not \
                      needed after a Bash call that has finished, unless its output was shortened."
            .to_owned(),
        input_schema: input_schema::<OutputArguments>(),
        output_schema: Some(output_schema::<OutputReply>()),
        annotations: ToolAnnotations { read_only: true, destructive: false, idempotent: true, open_world: false },
    }
}

fn process_input() -> ToolDefinition {
    ToolDefinition {
        name: "ProcessInput",
        title: "Write to a process",
        description: "Writes to the standard input or terminal of a running process that was started with stdin: true or \
                      tty: true: text, keys, end of file, or a new terminal size. Returns what the process printed since; \
                      with yield_time_ms and quiet_ms it waits for the whole answer. Not for input that is known beforehand: \
                      give that to Bash as input. Not for ending a process: ProcessStop does that with everything it \
                      started."
            .to_owned(),
        input_schema: input_schema::<InputArguments>(),
        output_schema: Some(output_schema::<InputResult>()),
        annotations: ToolAnnotations { read_only: false, destructive: true, idempotent: false, open_world: true },
    }
}

fn process_stop() -> ToolDefinition {
    ToolDefinition {
        name: "ProcessStop",
        title: "Stop a process",
        description: "Ends a process and everything it started, and returns when all of it is proven gone. Of a process \
                      that has ended it returns how. Use mode interrupt to send ^C and let it go on. Never use kill or \
                      pkill in Bash instead."
            .to_owned(),
        input_schema: input_schema::<StopArguments>(),
        output_schema: Some(output_schema::<StopResult>()),
        annotations: ToolAnnotations { read_only: false, destructive: true, idempotent: true, open_world: false },
    }
}

fn process_list() -> ToolDefinition {
    ToolDefinition {
        name: "ProcessList",
        title: "List processes",
        description: "Lists your processes, running and ended, newest first. Use it when you have lost a process_id; do \
                      not use it to wait."
            .to_owned(),
        input_schema: input_schema::<ListArguments>(),
        output_schema: Some(output_schema::<ListResult>()),
        annotations: ToolAnnotations { read_only: true, destructive: false, idempotent: true, open_world: false },
    }
}

#[cfg(test)]
mod tests {
    use procyard_core::LimitSettings;

    use super::*;

    fn all(lasting: Lasting) -> Vec<ToolDefinition> {
        definitions(&LimitSettings::default().resolve().unwrap(), lasting, true)
    }

    #[test]
    fn every_schema_is_a_plain_object_that_describes_its_fields() {
        for tool in all(Lasting::Possible) {
            jsonschema::meta::validate(&tool.input_schema).unwrap();
            let output_schema = tool.output_schema.unwrap();
            jsonschema::meta::validate(&output_schema).unwrap();
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            assert_eq!(output_schema["type"], "object", "{}", tool.name);
            assert_eq!(tool.input_schema["additionalProperties"], false, "{}", tool.name);
            for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
                assert!(property["description"].is_string(), "{}.{name}", tool.name);
                assert!(property["type"].is_string(), "{}.{name}: {property}", tool.name);
            }
            let text = format!("{}{}", tool.input_schema, output_schema);
            for word in ["$ref", "$defs", "\"null\"", "\"const\"", "uint", "int32"] {
                assert!(!text.contains(word), "{} has {word}", tool.name);
            }
            assert!(!tool.description.contains('\n'), "{}", tool.name);
        }
    }

    /// Every field of every object in a schema, with its path.
    fn fields<'s>(schema: &'s Value, path: &str, found: &mut Vec<(String, &'s Value)>) {
        match schema {
            Value::Object(object) => {
                for (name, property) in
                    object.get("properties").and_then(Value::as_object).into_iter().flatten()
                {
                    found.push((format!("{path}.{name}"), property));
                }
                for (key, value) in object {
                    let inner = if key == "properties" { path.to_owned() } else { format!("{path}/{key}") };
                    fields(value, &inner, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| fields(item, path, found)),
            _ => {}
        }
    }

    #[test]
    fn every_field_of_every_schema_has_a_description() {
        for tool in all(Lasting::Possible) {
            for (side, schema) in
                [("arguments", &tool.input_schema), ("result", tool.output_schema.as_ref().unwrap())]
            {
                let mut found = Vec::new();
                fields(schema, &format!("{} {side}", tool.name), &mut found);
                assert!(!found.is_empty());
                for (path, field) in found {
                    let described = field["description"].as_str().is_some_and(|text| text.len() > 5);
                    assert!(described, "{path}: {field}");
                }
            }
        }
    }

    #[test]
    fn defaults_are_the_configured_ones_and_fit_their_schema() {
        let settings = LimitSettings { inline_bytes: 1000, spool_bytes: 1 << 20, ..LimitSettings::default() };
        let tools = definitions(&settings.resolve().unwrap(), Lasting::Possible, true);
        let default =
            |tool: usize, argument: &str| tools[tool].input_schema["properties"][argument]["default"].clone();
        assert_eq!(
            [default(0, "limit_bytes"), default(1, "limit_bytes"), default(2, "limit_bytes")],
            [1000, 1000, 1000]
        );
        assert_eq!((default(0, "max_output_bytes"), default(3, "grace_ms")), (json!(1 << 20), json!(5000)));
        assert_eq!(tools[0].input_schema["properties"]["max_output_bytes"]["maximum"], 1 << 20);
        for tool in &tools {
            for (name, property) in tool.input_schema["properties"].as_object().unwrap() {
                if let Some(default) = property.get("default") {
                    assert!(jsonschema::is_valid(property, default), "{}.{name}", tool.name);
                }
            }
        }
    }

    #[test]
    fn every_output_schema_admits_an_error() {
        let error = json!({"error": {
            "code": "not_found", "message": "there is no such process", "retryable": false, "effects": "none"
        }});
        for tool in all(Lasting::Possible) {
            let schema = tool.output_schema.unwrap();
            assert!(jsonschema::is_valid(&schema, &error), "{}", tool.name);
            assert!(!jsonschema::is_valid(&schema, &json!({"x": 1})), "{}", tool.name);
        }
    }

    #[test]
    fn what_may_not_outlive_its_call_is_not_in_the_schema_at_all() {
        for lasting in [Lasting::Uncontained, Lasting::Unannounced] {
            let tools = all(lasting);
            let bash = &tools[0];
            let text = format!("{}{}", bash.description, bash.input_schema);
            for word in ["background", "yield", "stall_ms"] {
                assert!(!text.contains(word), "{word} in {text}");
            }
        }
    }

    #[test]
    fn hints_say_what_a_tool_may_do() {
        let hints: Vec<_> = all(Lasting::Possible)
            .iter()
            .map(|tool| {
                (
                    tool.name,
                    tool.annotations.read_only,
                    tool.annotations.destructive,
                    tool.annotations.idempotent,
                )
            })
            .collect();
        assert_eq!(
            hints,
            [
                ("Bash", false, true, false),
                ("ProcessOutput", true, false, true),
                ("ProcessInput", false, true, false),
                ("ProcessStop", false, true, true),
                ("ProcessList", true, false, true),
            ]
        );
    }
}
