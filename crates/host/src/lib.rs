//! A procyard runner for this machine: pipes, and process trees that cannot escape.
