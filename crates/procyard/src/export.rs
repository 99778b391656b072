//! `procyard export`: the record of one process, from disk, in a form that other programs read.
//!
//! Not for following a process: it writes what is there and ends.

mod asciicast;
mod jsonl;
mod plain;

use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use procyard_core::Handle;
use procyard_manifest::{LoadError, Manifest, ManifestStore, SessionRoot, spool_name};
use procyard_spool::{Page, Read, ReadError, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};

use crate::cli::{ExportFormat, ExportOptions};
use crate::exit;
use crate::say::say;

/// How much is read at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// Something that a record is written as.
trait Format {
    /// Before any output.
    fn begin(&mut self, manifest: &Manifest, out: &mut dyn Write) -> std::io::Result<()>;

    /// A part of the output, in order. Its `gaps` are where bytes are missing.
    fn page(&mut self, page: &Page, out: &mut dyn Write) -> std::io::Result<()>;

    /// After all output.
    fn end(&mut self, manifest: &Manifest, out: &mut dyn Write) -> std::io::Result<()>;
}

/// Finds the process in whatever session it is and writes its record to standard output.
pub(crate) async fn export(options: ExportOptions) -> ExitCode {
    let written = tokio::task::spawn_blocking(move || write(&options)).await;
    match written.context("the export failed").and_then(|written| written) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => exit::fault(&error),
    }
}

fn write(options: &ExportOptions) -> anyhow::Result<()> {
    let data_dir = options.data.resolve()?;
    let (root, manifest) = find(&data_dir, &options.handle)?;
    let mut format: Box<dyn Format> = match options.format {
        ExportFormat::Raw => Box::new(plain::Raw),
        ExportFormat::Text => Box::new(plain::Text::default()),
        ExportFormat::Jsonl => Box::new(jsonl::Jsonl),
        ExportFormat::Asciicast => Box::new(asciicast::Asciicast::new(&manifest)),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match pages(root, &manifest, format.as_mut(), &mut out) {
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(&error) => Ok(()),
        written => written,
    }
}

fn pages(
    root: Arc<dyn Dir>,
    manifest: &Manifest,
    format: &mut dyn Format,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let ceiling = manifest.spool.ceiling.unwrap_or(u64::MAX);
    let options = SpoolOptions { ceiling, ..SpoolOptions::default() };
    let reader = SpoolReader::open(root, &spool_name(&manifest.identity.handle), options)
        .context("the output does not open")?;
    format.begin(manifest, out)?;
    let mut cursor = 0;
    loop {
        let read = Read { cursor, max_bytes: PAGE_BYTES, streams: StreamFilter::Both };
        let page = match reader.read(&read) {
            Ok(page) => page,
            Err(ReadError::Corrupt { from, until }) => {
                say(format_args!("bytes {from} to {until} are damaged and left out"));
                cursor = until;
                continue;
            }
            Err(error) => return Err(error).context("the output does not read"),
        };
        for gap in &page.gaps {
            say(format_args!("bytes {} to {} were not kept", gap.from, gap.until));
        }
        format.page(&page, out)?;
        if page.next_cursor >= page.total_bytes {
            break;
        }
        if page.next_cursor <= cursor {
            bail!("the output does not read on from byte {cursor}");
        }
        cursor = page.next_cursor;
    }
    format.end(manifest, out)?;
    out.flush()?;
    Ok(())
}

/// Looks through the sessions for the process.
fn find(data_dir: &Path, handle: &Handle) -> anyhow::Result<(Arc<dyn Dir>, Manifest)> {
    for session in SessionRoot::list_sessions(data_dir).context("the sessions cannot be listed")? {
        let Ok(root) = FsDir::open(&SessionRoot::path_of(data_dir, session)) else { continue };
        match ManifestStore::new(Arc::clone(&root)).load(handle) {
            Ok(manifest) => return Ok((root, manifest)),
            Err(LoadError::Missing) => {}
            Err(error) => return Err(error).context("the record of this process does not load"),
        }
    }
    bail!("there is no process with this handle in the data directory")
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
