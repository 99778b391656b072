//! Any lines to the MCP server: it answers in protocol, and ends when the client leaves.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use procyard_server::serve_mcp;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use super::world::World;

/// Longer than any conversation may take, of the paused clock.
const LONGEST: Duration = Duration::from_secs(3600);

/// Opens the protocol in a revision.
fn hello(revision: &str) -> Vec<u8> {
    let params = json!({
        "protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "fuzz", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": params});
    let opened = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    format!("{hello}\n{opened}\n").into_bytes()
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::new(World::new());
}

/// The first byte chooses the surface and whether the client greets, from 128 on in a revision that has batches; the rest is
/// what it then sends.
pub(crate) fn mcp(data: &[u8]) {
    let Some((&choice, lines)) = data.split_first() else { return };
    WORLD.with_borrow_mut(|world| {
        let mut sent = match choice {
            silent if silent & 1 == 0 => Vec::new(),
            ..128 => hello("2025-11-25"),
            _ => hello("2025-03-26"),
        };
        match std::str::from_utf8(lines) {
            Ok(lines) => sent.extend_from_slice(world.named(lines).as_bytes()),
            Err(_) => sent.extend_from_slice(lines),
        }
        let surface = Arc::clone(&world.surfaces()[usize::from(choice >> 1) % 3]);
        let said = world.run(async {
            let (client, server) = tokio::io::duplex(4096);
            let (read, write) = tokio::io::split(server);
            let serving = tokio::spawn(serve_mcp(surface, read, write, CancellationToken::new()));
            let (mut answers, mut input) = tokio::io::split(client);
            let asking = tokio::spawn(async move {
                // A server that has ended reads no more.
                let _ = input.write_all(&sent).await;
                let _ = input.shutdown().await;
            });
            let mut said = Vec::new();
            let conversation = async {
                let _ = answers.read_to_end(&mut said).await;
                serving.await
            };
            let ended = tokio::time::timeout(LONGEST, conversation).await;
            let outcome = ended.unwrap_or_else(|_| panic!("the server stays when its client has left"));
            // A client that does not open the protocol as it must is an error, and no panic.
            let _ = outcome.unwrap_or_else(|error| panic!("the server's task failed: {error}"));
            asking.abort();
            said
        });
        for line in said.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let message: Value =
                serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
            // The answers to a batch come in one line, if there are any.
            let messages = message.as_array().map_or(std::slice::from_ref(&message), Vec::as_slice);
            assert!(!messages.is_empty(), "{message}");
            for message in messages {
                assert_eq!(message["jsonrpc"], "2.0", "{message}");
            }
        }
    });
}
