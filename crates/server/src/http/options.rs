//! How the service is run.
//!
//! Not for sessions: those are the host's.

use std::path::PathBuf;
use std::time::Duration;

use super::admin_token::AdminToken;
use super::serve::ServiceError;
use super::tokens::Tokens;
use crate::McpHttpOptions;

/// The settings of a service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The file of the administrator's token; made where there is none.
    pub admin_token_file: PathBuf,
    /// The private directory that keeps the tokens of loops, hashed; made where there is none.
    pub tokens_dir: PathBuf,
    /// Connections of one listener at the same time; more wait to be accepted. Three quarters of as many may be streams
    /// that go on until somebody ends them. At least 1.
    pub max_connections: usize,
    /// Valid tokens of one session, and so its loops, since each has one. At least 1.
    pub max_tokens_per_session: usize,
    /// How long a connection may take to send the head of a request, also the first or the next one; how long it may
    /// take to send a body; and how long it may read nothing of what is sent to it; on the Unix socket the
    /// service's own user may take a day for that.
    pub idle_timeout: Duration,
    /// How `/v1/mcp` is served, where the token of a loop says whose tools a client has.
    pub mcp: McpHttpOptions,
}

impl ServiceOptions {
    /// The settings of a service that keeps everything of its own in this private directory: 512 connections,
    /// 1,024 tokens for each session, 30 s.
    pub fn in_directory(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            admin_token_file: data_dir.join("admin.token"),
            tokens_dir: data_dir.join("tokens"),
            max_connections: 512,
            max_tokens_per_session: 1024,
            idle_timeout: Duration::from_secs(30),
            mcp: McpHttpOptions::default(),
        }
    }

    /// Looks whether the tokens can be used, and makes the administrator's where there is none: so a mistake is known
    /// before anything is opened. Blocking.
    pub fn check_tokens(&self) -> Result<(), ServiceError> {
        AdminToken::open(&self.admin_token_file).map_err(ServiceError::AdminToken)?;
        Tokens::open(&self.tokens_dir, self.max_tokens_per_session).map(drop).map_err(ServiceError::Tokens)
    }
}
