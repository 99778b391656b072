//! Model-facing tools over a procyard supervisor: Bash, ProcessOutput, ProcessInput, ProcessStop, ProcessList.
