//! `procyard completions` and `procyard man`: both are made from the definition of the command line.
//!
//! Not for the pages of `docs/`.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::CommandFactory as _;

use crate::cli::{Cli, CompletionsOptions, ManOptions};
use crate::exit;
use crate::say::give;

/// Writes the completions for a shell.
pub(crate) fn completions(options: &CompletionsOptions) -> ExitCode {
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut Cli::command(), "procyard", &mut text);
    written(&text)
}

/// Writes the first page, or all of them into a directory.
pub(crate) fn man(options: &ManOptions) -> ExitCode {
    match &options.dir {
        None => {
            let mut text = Vec::new();
            match clap_mangen::Man::new(Cli::command()).render(&mut text) {
                Ok(()) => written(&text),
                Err(error) => exit::fault(&error.into()),
            }
        }
        Some(dir) => match into(dir) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => exit::fault(&error),
        },
    }
}

fn into(dir: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(dir)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), dir))
        .with_context(|| format!("the pages cannot be written into {}", dir.display()))
}

/// To stdout, whose reader may have had enough.
fn written(text: &[u8]) -> ExitCode {
    match give(String::from_utf8_lossy(text)) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => exit::fault(&error),
    }
}
