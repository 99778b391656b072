//! Admits, records, drains, waits for, stops, retains and restores processes, on any runner.
