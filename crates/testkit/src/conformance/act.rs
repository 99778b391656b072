//! What the commands of the suite do, without saying how.
//!
//! Not for how a runner gets there: each stage has its own way.

use std::path::PathBuf;

/// The behaviour of a command. An act that stays prints a line `ready` to standard output when it has become what it is.
/// Unless it says otherwise it dies of SIGINT, SIGTERM and SIGKILL, leaves no descendants, and reads nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Prints these texts and exits with this code.
    Exit {
        /// To standard output, as it is.
        stdout: String,
        /// To standard error, as it is.
        stderr: String,
        /// The exit code.
        code: u8,
    },
    /// Dies of this signal, which nobody else sent.
    Die(u8),
    /// Prints so many `x` to standard output and exits with 0.
    Flood(usize),
    /// Gets ready and stays.
    Stay,
    /// Gets ready and stays; exits with this code on SIGTERM.
    Answer(u8),
    /// Gets ready and stays; ignores SIGTERM and SIGINT.
    Endure,
    /// Makes so many descendants that stay, gets ready and stays. The descendants hold its output, are not in the leader's
    /// process group where there are groups, and die of SIGTERM.
    Accompanied(u32),
    /// Makes so many of the same descendants, then exits with this code.
    Leave {
        /// How many stay.
        descendants: u32,
        /// The exit code of the leader.
        code: u8,
    },
    /// Copies standard input to standard output until end of file and exits with 0.
    Echo,
    /// Gets ready, prints for each line of standard input its length in bytes as a line, and exits with 0 at end of file.
    /// In a terminal it turns echo off before it is ready, and leaves line editing on.
    CountLines,
    /// In a terminal, prints a line `size ROWS COLS`, now and whenever the size changes, and stays.
    TellSize,
    /// Tries to create this file; exits with 0 when it could, else with 1.
    Write(PathBuf),
    /// A program that does not exist.
    MissingProgram,
    /// A file that is there and is no program.
    NotExecutable,
    /// Any command in a working directory that was there and is deleted.
    DeletedWorkdir,
}

impl Act {
    /// Prints this to standard output and exits with 0.
    pub(super) fn print(text: &str) -> Self {
        Act::Exit { stdout: text.to_owned(), stderr: String::new(), code: 0 }
    }
}
