//! The contract between a supervisor of processes and what can start them.
