//! Raw process output to model-safe text, resumable at any cursor; pure.
