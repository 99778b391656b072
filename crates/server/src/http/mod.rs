//! The HTTP service.
mod host;
pub use host::{HostError, HostedSession, SessionHost};
