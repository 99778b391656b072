//! Bounded, cursor-addressed process output: a window in memory and a spool on disk.
