//! `mcp-sdk`: the official MCP SDKs: a Python environment in `target/mcp-sdk`, and where there is Node, the one of
//! `mcp_node`.
//!
//! The MCP transport is tested with a client that others wrote. The SDK's version is pinned.
//!
//! It is not needed to build or to use procyard.

use std::path::PathBuf;

use crate::python_env::Package;
use crate::{command, mcp_node};

/// The SDK under test. Its major version 2 speaks both the stateless protocol and the older
/// `initialize` handshake.
const SDK: Package = Package { folder: "mcp-sdk", name: "mcp", version: "2.3.0" };

pub(crate) fn run() -> anyhow::Result<()> {
    let python = ensure()?;
    println!("MCP SDK {}: {}", SDK.version, python.display());
    match mcp_node::node() {
        Ok(()) => println!("MCP SDK for TypeScript: {}", mcp_node::ensure()?.display()),
        Err(why) => command::warn("the MCP SDK for TypeScript is not installed", &why),
    }
    Ok(())
}

/// Makes the environment unless it is there, and gives the path of its Python.
pub(crate) fn ensure() -> anyhow::Result<PathBuf> {
    SDK.ensure()
}
