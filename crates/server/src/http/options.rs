//! How the service is run.
//!
//! Not for sessions: those are the host's.

use std::path::PathBuf;
use std::time::Duration;

use crate::McpHttpOptions;

/// The settings of a service.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The file of the administrator's token; made where there is none.
    pub admin_token_file: PathBuf,
    /// The private directory that keeps the tokens of loops, hashed; made where there is none.
    pub tokens_dir: PathBuf,
    /// Connections of each listener at the same time; more wait to be accepted. At least 1.
    pub max_connections: usize,
    /// How long a connection may take to send the head of a request, also the first or the next one; how long it may
    /// take to send a body; and how long it may read nothing of what is sent to it.
    pub idle_timeout: Duration,
    /// How `/v1/mcp` is served, where the token of a loop says whose tools a client has.
    pub mcp: McpHttpOptions,
}

impl ServiceOptions {
    /// The settings of a service that keeps everything of its own in this private directory: 512 connections of each listener, 30 s.
    pub fn in_directory(data_dir: impl Into<PathBuf>) -> Self {
        let data_dir = data_dir.into();
        Self {
            admin_token_file: data_dir.join("admin.token"),
            tokens_dir: data_dir.join("tokens"),
            max_connections: 512,
            idle_timeout: Duration::from_secs(30),
            mcp: McpHttpOptions::default(),
        }
    }
}
