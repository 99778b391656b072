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
use procyard_core::{ErrorCode, Handle};
use procyard_manifest::{LoadError, Manifest, ManifestStore, SessionRoot, spool_name};
use procyard_spool::{Gap, Page, Read, ReadError, SpoolError, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir};

use crate::cli::{ExportFormat, ExportOptions};
use crate::exit;
use crate::problem::refused;
use crate::say::Voice;

/// How much is read at a time.
const PAGE_BYTES: usize = 256 * 1024;

/// How often the output of a process that still prints is opened anew at one place: what was there a moment ago may have
/// fallen out, and its files may hold later output.
const LOOKS: u32 = 16;

/// Something that a record is written as.
trait Format {
    /// Before any output.
    fn begin(&mut self, manifest: &Manifest, out: &mut dyn Write) -> std::io::Result<()>;

    /// A part of the output, in order. Its `gaps` are where bytes are missing.
    fn page(&mut self, page: &Page, out: &mut dyn Write) -> std::io::Result<()>;

    /// After all output, of which there were so many bytes.
    fn end(&mut self, manifest: &Manifest, total_bytes: u64, out: &mut dyn Write) -> std::io::Result<()>;
}

/// Finds the process in whatever session it is and writes its record to standard output.
pub(crate) async fn export(options: ExportOptions) -> ExitCode {
    let voice = Voice::of(options.json);
    let written = tokio::task::spawn_blocking(move || write(&options, voice)).await;
    match written.context("the export failed").and_then(|written| written) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads has seen enough.
        Err(error) if is_broken_pipe(&error) => exit::BROKEN_PIPE.into(),
        // Only output gives such an error and says nothing of where it is from.
        Err(error) if error.is::<std::io::Error>() => {
            exit::fault_as(&error.context("the record could not be written"), voice)
        }
        Err(error) => exit::fault_as(&error, voice),
    }
}

fn write(options: &ExportOptions, voice: Voice) -> anyhow::Result<()> {
    let data_dir = options.data.resolve()?;
    let (root, manifest) = find(&data_dir, &options.handle)?;
    let mut format: Box<dyn Format> = match options.format {
        ExportFormat::Raw => Box::new(plain::Raw),
        ExportFormat::Text => Box::new(plain::Text::default()),
        ExportFormat::Jsonl => Box::new(jsonl::Jsonl),
        ExportFormat::Asciicast => Box::new(asciicast::Asciicast::new(&manifest)),
    };
    pages(root, &manifest, format.as_mut(), &mut BufWriter::new(std::io::stdout().lock()), voice)
}

fn pages(
    root: Arc<dyn Dir>,
    manifest: &Manifest,
    format: &mut dyn Format,
    out: &mut dyn Write,
    voice: Voice,
) -> anyhow::Result<()> {
    let mut output = Output::open(root, manifest)?;
    format.begin(manifest, out)?;
    // A process that goes on printing is written as far as it had come.
    let end = output.reader.bounds().total_bytes;
    let mut cursor = 0;
    while cursor < end {
        let page = output.page(cursor)?;
        for gap in &page.gaps {
            voice.note(format_args!("bytes {} to {} are missing", gap.from, gap.until));
        }
        format.page(&page, out)?;
        if page.next_cursor <= cursor {
            bail!("the output does not read on from byte {cursor}");
        }
        cursor = page.next_cursor;
    }
    let total_bytes = cursor.max(manifest.spool.total_bytes);
    if cursor < total_bytes {
        voice.note(format_args!("bytes {cursor} to {total_bytes} are missing"));
        format.page(&missing(cursor, total_bytes), out)?;
    }
    format.end(manifest, total_bytes, out)?;
    out.flush()?;
    Ok(())
}

/// The stored output of a process that may still be printing.
struct Output {
    root: Arc<dyn Dir>,
    name: String,
    options: SpoolOptions,
    may_print: bool,
    reader: SpoolReader,
}

impl Output {
    fn open(root: Arc<dyn Dir>, manifest: &Manifest) -> anyhow::Result<Self> {
        let name = spool_name(&manifest.identity.handle);
        let ceiling = manifest.spool.ceiling.unwrap_or(u64::MAX);
        let options = SpoolOptions { ceiling, ..SpoolOptions::default() };
        let may_print = !manifest.state.is_terminal();
        let reader = Self::look(&root, &name, options, may_print)?;
        Ok(Self { root, name, options, may_print, reader })
    }

    fn look(
        root: &Arc<dyn Dir>,
        name: &str,
        options: SpoolOptions,
        may_print: bool,
    ) -> anyhow::Result<SpoolReader> {
        let mut looks = 1;
        loop {
            match SpoolReader::open(Arc::clone(root), name, options) {
                // A file went between its being listed and its being opened.
                Err(SpoolError::Io(error))
                    if may_print && error.kind() == std::io::ErrorKind::NotFound && looks < LOOKS =>
                {
                    looks += 1;
                }
                opened => return opened.context("the output does not open"),
            }
        }
    }

    /// What there is at a cursor. Damaged bytes are missing ones.
    fn page(&mut self, cursor: u64) -> anyhow::Result<Page> {
        let read = Read { cursor, max_bytes: PAGE_BYTES, streams: StreamFilter::Both };
        let mut looks = 1;
        loop {
            match self.reader.read(&read) {
                Ok(page) => return Ok(page),
                Err(ReadError::Corrupt { .. } | ReadError::Io(_)) if self.may_print && looks < LOOKS => {
                    self.reader = Self::look(&self.root, &self.name, self.options, true)?;
                    looks += 1;
                }
                Err(ReadError::Corrupt { from, until }) => return Ok(missing(from, until)),
                Err(error) => return Err(error).context("the output does not read"),
            }
        }
    }
}

/// A page of which there is nothing.
fn missing(from: u64, until: u64) -> Page {
    let gaps = vec![Gap { offset: 0, from, until }];
    Page { start_cursor: until, next_cursor: until, gap: true, gaps, ..Page::default() }
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
    Err(refused(ErrorCode::NotFound, "there is no process with this handle in the data directory"))
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
