//! Durable, versioned records of supervised processes, and the session directory that holds them.
