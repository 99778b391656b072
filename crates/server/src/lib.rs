//! Transports over procyard's tools: MCP over stdio.
