//! Runs a command in a service and follows its output: `follow SOCKET COMMAND`.

use std::io::Write as _;

use procyard_api::BashArguments;
use procyard_api::http::{CreateSession, LogsQuery};
use procyard_client::{Client, ClientError};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), ClientError> {
    let mut arguments = std::env::args().skip(1);
    let (Some(socket), Some(command)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: follow SOCKET COMMAND");
        return Ok(());
    };
    let service = Client::unix(socket);
    let session = service.create_session(&CreateSession::default()).await?;
    let mine = service.with_token(&session.token);
    let command = BashArguments { command: Some(command), background: true, ..BashArguments::default() };
    let handle = mine.start(&command, None).await?.process.entry.process_id;
    let mut logs = mine.logs(&handle, &LogsQuery { follow: Some(true), ..LogsQuery::default() }).await?;
    while let Some(bytes) = logs.next().await? {
        // Nobody may be reading any more; the process does not care.
        let _ = std::io::stdout().write_all(&bytes);
    }
    println!("{} ended: {}", handle.reveal(), mine.process(&handle).await?.state.as_str());
    service.close_session(session.session_id).await
}
