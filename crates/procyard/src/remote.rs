//! The verbs that talk to a running service, each in a file of its own, and the client that they share.
//!
//! Not for the service.

pub(crate) mod attach;
mod ended;
mod events;
mod logs;
mod ps;
mod send;
mod stop;
mod wait;

use std::process::ExitCode;

use anyhow::Context as _;
use procyard_client::{Address, Client};
use procyard_core::ErrorCode;

pub(crate) use attach::attach;
pub(crate) use events::events;
pub(crate) use logs::logs;
pub(crate) use ps::ps;
pub(crate) use send::send;
pub(crate) use stop::stop;
pub(crate) use wait::wait;

use crate::cli::{RemoteOptions, ServerOptions};
use crate::problem::refused;
use crate::say::{Voice, give};
use crate::{exit, log};

/// The token of a loop or of the administrator. No flag has it: everybody on a machine sees what flags say.
pub(crate) const TOKEN: &str = "PROCYARD_TOKEN";

impl RemoteOptions {
    /// A client of the service that is meant.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let server = ServerOptions { socket: self.socket.clone(), listen: None };
        let configured = self.config.load(server.flags())?;
        log::start(&self.voice().logs(&configured.config.log))?;
        let address = match self.connect {
            Some(address) => Address::Tcp(address),
            None => Address::Unix(match configured.config.server.socket {
                Some(socket) => socket,
                None => self.data.resolve()?.join(crate::serve::SOCKET),
            }),
        };
        match (token()?, self.connect) {
            (Some(token), _) => Ok(Client::new(address).with_token(&token)),
            (None, Some(_)) => Err(refused(
                ErrorCode::Unauthenticated,
                format!("over TCP the service asks for a token; put one into ${TOKEN}"),
            )),
            (None, None) => Ok(Client::new(address)),
        }
    }

    /// How the verb speaks on stderr.
    pub(crate) fn voice(&self) -> Voice {
        Voice::of(self.json)
    }

    /// What a verb came to, as an exit code.
    pub(crate) fn told(&self, result: anyhow::Result<u8>) -> ExitCode {
        match result {
            Ok(code) => code.into(),
            Err(error) => exit::fault_as(&error, self.voice()),
        }
    }
}

/// The token of the environment, where there is one. One that no request can carry is told before anything is asked, and
/// never shown.
pub(crate) fn token() -> anyhow::Result<Option<String>> {
    let Some(token) = std::env::var_os(TOKEN).filter(|token| !token.is_empty()) else { return Ok(None) };
    match token.into_string() {
        Ok(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => Ok(Some(token)),
        _ => Err(refused(
            ErrorCode::Unauthenticated,
            format!(
                "${TOKEN} holds no token: one is a single word, such as the content of admin.token in the data directory"
            ),
        )),
    }
}

/// One line of JSON on stdout; false when nobody reads it any more.
pub(crate) fn give_json(value: &impl serde::Serialize) -> anyhow::Result<bool> {
    let text = serde_json::to_string(value).context("the answer cannot be written as JSON")?;
    give(format_args!("{text}\n"))
}
