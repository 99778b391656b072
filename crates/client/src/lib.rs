//! A typed client of the procyard service, over its Unix socket or TCP.
//!
//! Every route of the service is a method of [`Client`] that takes and gives the wire types of `procyard-api`. Logs and
//! events are streams, a terminal is an [`Attachment`]. What the service refuses is a [`ClientError::Refused`] with its own
//! words; every other error says what to do next.
//!
//! ```no_run
//! use procyard_api::http::CreateSession;
//! use procyard_api::BashArguments;
//! use procyard_client::Client;
//!
//! # async fn example() -> Result<(), procyard_client::ClientError> {
//! // On its own socket the service takes its own user for the administrator.
//! let service = Client::unix("/home/me/.local/state/procyard/procyard.sock");
//! let session = service.create_session(&CreateSession::default()).await?;
//!
//! // What a token starts belongs to its loop, and nobody else's token reaches it.
//! let mine = service.with_token(&session.token);
//! let command =
//!     BashArguments { command: Some("cargo test".to_owned()), background: true, ..BashArguments::default() };
//! let started = mine.start(&command, None).await?;
//! println!("{} runs", started.process.entry.process_id.reveal());
//! # Ok(())
//! # }
//! ```
//!
//! Each request has a connection of its own: on one machine that costs less than keeping connections costs in care. Not for
//! finding or starting a service, and not for trying again: only the caller knows whether a request may be repeated.

mod attach;
mod client;
mod connect;
mod cut_off;
mod error;
mod events;
mod logs;
mod path;
mod processes;
mod service;
mod sessions;
mod sse;

pub use attach::{Attachment, FromProcess};
pub use client::Client;
pub use connect::Address;
pub use cut_off::CutOff;
pub use error::ClientError;
pub use events::{Events, StreamEvent};
pub use logs::Logs;
