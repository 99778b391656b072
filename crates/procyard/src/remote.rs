//! The verbs that talk to a running service, each in a file of its own, and the client that they share.
//!
//! Not for the service.

pub(crate) mod attach;
mod events;
mod logs;
mod ps;
mod send;
mod stop;
mod wait;

use std::process::ExitCode;

use anyhow::Context as _;
use procyard_client::{Address, Client};

pub(crate) use attach::attach;
pub(crate) use events::events;
pub(crate) use logs::logs;
pub(crate) use ps::ps;
pub(crate) use send::send;
pub(crate) use stop::stop;
pub(crate) use wait::wait;

use crate::cli::{RemoteOptions, ServerOptions};
use crate::{exit, log};

/// The token of a loop or of the administrator. No flag has it: everybody on a machine sees what flags say.
pub(crate) const TOKEN: &str = "PROCYARD_TOKEN";

impl RemoteOptions {
    /// A client of the service that is meant.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let server = ServerOptions { socket: self.socket.clone(), listen: None };
        let configured = self.config.load(server.flags())?;
        log::start(&configured.config.log)?;
        let address = match self.connect {
            Some(address) => Address::Tcp(address),
            None => Address::Unix(match configured.config.server.socket {
                Some(socket) => socket,
                None => self.data.resolve()?.join(crate::serve::SOCKET),
            }),
        };
        let client = Client::new(address);
        match std::env::var(TOKEN) {
            Ok(token) if !token.is_empty() => Ok(client.with_token(&token)),
            _ if self.connect.is_some() => {
                anyhow::bail!("over TCP the service asks for a token; put one into ${TOKEN}")
            }
            _ => Ok(client),
        }
    }

    /// What a verb came to, as an exit code.
    pub(crate) fn told(&self, result: anyhow::Result<u8>) -> ExitCode {
        match result {
            Ok(code) => code.into(),
            Err(error) if self.json => exit::fault_as_json(&error),
            Err(error) => exit::fault(&error),
        }
    }
}

/// One line of JSON on stdout.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let text = serde_json::to_string(value).context("the answer cannot be written as JSON")?;
    crate::say::print(std::io::stdout(), format_args!("{text}\n"));
    Ok(())
}
