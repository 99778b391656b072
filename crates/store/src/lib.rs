//! The few file operations that durable formats need, as a small trait and the real thing.
