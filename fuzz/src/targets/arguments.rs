//! Calls of every tool of every dialect with any arguments: an answer comes, of the promised shape, and an argument that is
//! wrong is named.

use std::cell::RefCell;
use std::time::Duration;

use procyard_tools::CallContext;
use serde_json::Value;

use super::world::World;

/// Longer than any call may take, of the paused clock.
const LONGEST: Duration = Duration::from_secs(3600);

struct Calls {
    world: World,
    /// Surface, tool, and what its structured results are held against.
    tools: Vec<(usize, &'static str, Option<jsonschema::Validator>)>,
}

impl Calls {
    fn new() -> Self {
        let world = World::new();
        let mut tools = Vec::new();
        for (at, surface) in world.surfaces().iter().enumerate() {
            for tool in surface.definitions().iter() {
                let schema = tool.output_schema.as_ref();
                let validator =
                    schema.map(|schema| jsonschema::validator_for(schema).expect("a valid schema"));
                tools.push((at, tool.name, validator));
            }
        }
        Self { world, tools }
    }
}

thread_local! {
    static CALLS: RefCell<Calls> = RefCell::new(Calls::new());
}

/// The first byte chooses the tool, from `a` on; the rest are its arguments as JSON.
pub(crate) fn arguments(data: &[u8]) {
    let Some((&choice, json)) = data.split_first() else { return };
    let Ok(json) = std::str::from_utf8(json) else { return };
    CALLS.with_borrow_mut(|calls| {
        let json = calls.world.named(json);
        let Ok(arguments) = serde_json::from_str::<Value>(&json) else { return };
        let choice = usize::from(choice.wrapping_sub(b'a')) % calls.tools.len();
        let (surface, tool, schema) = &calls.tools[choice];
        let is_object = arguments.is_object() || arguments.is_null();
        let surface = &calls.world.surfaces()[*surface];
        let call = surface.call(tool, arguments, CallContext::default());
        let reply = calls.world.run(async {
            let answered = tokio::time::timeout(LONGEST, call).await;
            let reply = answered.unwrap_or_else(|_| panic!("{tool} does not answer"));
            reply.handed_to_transport();
            reply
        });
        assert!(reply.text.ends_with('\n'), "{:?}", reply.text);
        assert!(reply.structured.is_object());
        assert_eq!(reply.is_error, reply.structured.get("error").is_some());
        if let Some(schema) = schema {
            assert!(schema.is_valid(&reply.structured), "{}", reply.structured);
        }
        let error = &reply.structured["error"];
        if error["code"] == "invalid_arguments" {
            assert!(!is_object || error["field"].is_string(), "no argument is named: {error}");
        }
        assert!(error["code"] != "internal", "{error}");
    });
}
