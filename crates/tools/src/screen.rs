//! What a terminal shows now: drawings of processes, each brought up to date when somebody looks.
//!
//! Nothing is drawn and nothing grows while nobody asks. A look draws what was printed since the last one, at most the
//! end of it; a few drawings are kept, within a bound of memory, and drawn anew once they were let go.
//!
//! Not for interpreting sequences: see `emulator`. Not for waiting.

mod drawing;
mod emulator;
mod marks;

use std::sync::{Mutex, PoisonError};

use procyard_api::Screen;
use procyard_core::{ErrorCode, Handle, PublicError};
use procyard_runner::TerminalSize;
use procyard_supervisor::{ReadFrom, Snapshot};

use crate::page::Shown;
use crate::source::Source;
use drawing::Drawing;

/// Bytes from the end of the output that a look draws at most.
const DRAWN_MAX: u64 = 4 << 20;

/// Bytes of one read.
const STEP: usize = 256 << 10;

/// Cells that a look paints at most, a second or so, before what is still to be drawn is left out, but for the last
/// [`LATEST`] bytes.
const WORK_MAX: u64 = 400_000_000;

/// Bytes of the end that are drawn when the work before them was too much, for which there is as much work again.
const LATEST: usize = 4 << 10;

/// Cells of the largest terminal that can be looked at.
const CELLS_MAX: usize = 250_000;

/// Drawings that are kept.
const KEPT_MAX: usize = 8;

/// Cells of all drawings that are kept, 16 bytes each, on two screens.
const KEPT_CELLS_MAX: usize = 500_000;

/// The drawings of one owner's processes.
pub(crate) struct Screens {
    /// Cells that a look paints at most, of all and then of the latest bytes.
    work: u64,
    latest_work: u64,
    /// The one used last is the last. Guards the list only: a drawing is taken out while it is worked on.
    kept: Mutex<Vec<(Handle, Drawing)>>,
}

impl Default for Screens {
    fn default() -> Self {
        Self { work: WORK_MAX, latest_work: WORK_MAX, kept: Mutex::default() }
    }
}

impl Screens {
    /// The screen of a process within `limit` bytes of text, and where a wait for changes of it begins.
    ///
    /// Cancellation safe: a drawing that is lost is begun again by the next look.
    pub(crate) async fn look(
        &self,
        source: &dyn Source,
        snapshot: Snapshot,
        limit: usize,
    ) -> Result<(Screen, Shown), PublicError> {
        let (mut drawing, snapshot) = self.drawn(source, snapshot).await?;
        let screen = drawing.screen(limit);
        let ground = drawing.ground();
        self.put_back(snapshot.identity.handle, drawing);
        let shown = Shown {
            output: String::new(),
            start_cursor: ground,
            next_cursor: ground,
            total_bytes: snapshot.total_bytes,
            retained_from: snapshot.retained_from,
            gap: false,
            normalized: true,
            binary: false,
            reaches_end: true,
            snapshot,
        };
        Ok((screen, shown))
    }

    /// Whether the program has asked for the application form of the cursor keys. Where its terminal cannot be drawn, it
    /// counts as not.
    pub(crate) async fn application_keys(&self, source: &dyn Source, snapshot: Snapshot) -> bool {
        let Ok((drawing, snapshot)) = self.drawn(source, snapshot).await else { return false };
        let application = drawing.application_keys();
        self.put_back(snapshot.identity.handle, drawing);
        application
    }

    /// The drawing of a process, taken out and up to date.
    async fn drawn(
        &self,
        source: &dyn Source,
        snapshot: Snapshot,
    ) -> Result<(Drawing, Snapshot), PublicError> {
        let size = terminal(&snapshot)?;
        let first = snapshot.initial_terminal.filter(|first| drawing::cells(*first) <= CELLS_MAX);
        let kept = self.take(&snapshot.identity.handle);
        let drawing = kept.unwrap_or_else(|| Drawing::new(first.unwrap_or(size)));
        let (mut drawing, snapshot) =
            catch_up(drawing, source, snapshot, self.work, self.latest_work).await?;
        // A change of the size behind the last byte is not in any page yet.
        drawing.resize(terminal(&snapshot)?);
        Ok((drawing, snapshot))
    }

    fn take(&self, handle: &Handle) -> Option<Drawing> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let at = kept.iter().position(|(of, _)| of == handle)?;
        Some(kept.remove(at).1)
    }

    /// Keeps a drawing, and as many of the others as there is room for. Of two of one process, the further one stays.
    fn put_back(&self, handle: Handle, drawing: Drawing) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let mut drawing = drawing;
        if let Some(at) = kept.iter().position(|(of, _)| *of == handle) {
            let other = kept.remove(at).1;
            if other.next() > drawing.next() {
                drawing = other;
            }
        }
        kept.push((handle, drawing));
        while kept.len() > KEPT_MAX
            || kept.iter().map(|(_, drawing)| drawing.cells()).sum::<usize>() > KEPT_CELLS_MAX
        {
            kept.remove(0);
        }
    }
}

/// The size of a process's terminal; an error where it has none, or one that is too large.
pub(crate) fn terminal(snapshot: &Snapshot) -> Result<TerminalSize, PublicError> {
    let Some(size) = snapshot.terminal else {
        let message = "a screen needs a terminal, and this process has none; leave out `view`";
        return Err(PublicError::new(ErrorCode::PtyUnavailable, message).field("view"));
    };
    if drawing::cells(size) > CELLS_MAX {
        let message = format!(
            "the terminal has {} rows and {} columns; a screen has at most {CELLS_MAX} places: make it smaller, or \
             leave out `view`",
            size.rows, size.cols
        );
        return Err(PublicError::argument("view", message));
    }
    Ok(size)
}

/// Draws what was printed up to now; of a process that has ended, all of it.
async fn catch_up(
    mut drawing: Drawing,
    source: &dyn Source,
    mut snapshot: Snapshot,
    mut work: u64,
    latest_work: u64,
) -> Result<(Drawing, Snapshot), PublicError> {
    let oldest = snapshot.total_bytes.saturating_sub(DRAWN_MAX).max(snapshot.retained_from);
    if drawing.next() < oldest {
        if drawing.next() == 0 {
            // The beginning is kept whatever falls out: it often says which screen it is, and the title.
            let (page, _) = source.head().await?;
            (drawing, work) = draw(drawing, page, work).await?;
        }
        drawing.resize(terminal(&snapshot)?);
        drawing.skip_to(oldest);
    }
    let mut target = snapshot.total_bytes;
    while drawing.next() < target {
        let (page, now) = source.read(ReadFrom::Cursor(drawing.next()), STEP).await?;
        snapshot = now;
        if snapshot.state.is_terminal() {
            target = snapshot.total_bytes;
        }
        let before = drawing.next();
        (drawing, work) = draw(drawing, page, work).await?;
        if work == 0 && drawing.next() < target {
            // Rare, and large: not a part of every look's future.
            return Box::pin(draw_latest(drawing, source, snapshot, latest_work)).await;
        }
        if drawing.next() == before {
            break;
        }
    }
    Ok((drawing, snapshot))
}

/// Draws the last [`LATEST`] bytes, and leaves out what comes before them. They are those of one moment: a process that
/// prints on is not followed, and of one that ends meanwhile it is the end after all.
async fn draw_latest(
    mut drawing: Drawing,
    source: &dyn Source,
    mut snapshot: Snapshot,
    work: u64,
) -> Result<(Drawing, Snapshot), PublicError> {
    loop {
        drawing.skip_to(snapshot.total_bytes.saturating_sub(LATEST as u64));
        let (page, now) = source.read(ReadFrom::Cursor(drawing.next()), LATEST).await?;
        (drawing, _) = draw(drawing, page, work).await?;
        let ends = now.state.is_terminal() && !snapshot.state.is_terminal();
        snapshot = now;
        if !ends {
            return Ok((drawing, snapshot));
        }
    }
}

/// Draws a page on a blocking thread, since painting takes its time. A drawing that fails is lost, and nothing else; one
/// whose caller goes away is finished, which is bounded, and thrown away.
async fn draw(
    mut drawing: Drawing,
    page: procyard_supervisor::Page,
    mut work: u64,
) -> Result<(Drawing, u64), PublicError> {
    let drawn = tokio::task::spawn_blocking(move || {
        drawing.draw(&page, &mut work);
        (drawing, work)
    });
    let message = "the screen could not be drawn; read the stream instead";
    drawn.await.map_err(|_| PublicError::new(ErrorCode::Internal, message).field("view"))
}

#[cfg(test)]
mod tests;
