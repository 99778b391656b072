//! Reading the output of a process on and on: chunk by chunk, waiting where that is wanted.
//!
//! Nothing is read ahead of whoever asks for the next piece, so that a slow client costs one chunk. Not for text.

use std::collections::VecDeque;
use std::time::Duration;

use axum::body::Bytes;
use procyard_core::{Handle, Owner};
use procyard_supervisor::{
    Page, ReadFrom, ReadRequest, Snapshot, StreamFilter, Supervisor, SupervisorError, Target, Until,
    WaitMode, WaitPlace,
};

/// The most bytes of one piece.
const CHUNK: usize = 64 * 1024;

/// One wait for more. Afterwards it is waited again.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A piece of output.
#[derive(Debug)]
pub(crate) enum Piece {
    /// The next bytes.
    Bytes(Bytes),
    /// The bytes from here to there are not to be had.
    Gap { from: u64, until: u64 },
    /// There is no more.
    End(Box<Snapshot>),
}

pub(crate) struct Reading {
    supervisor: Supervisor,
    owner: Owner,
    handle: Handle,
    streams: StreamFilter,
    cursor: u64,
    /// Reads no further than this.
    until: Option<u64>,
    /// Waits for more until the process has ended.
    place: Option<WaitPlace>,
    pieces: VecDeque<Piece>,
}

impl Reading {
    /// Reads what there is, up to `until`.
    pub(crate) fn up_to(
        supervisor: &Supervisor,
        owner: Owner,
        handle: Handle,
        streams: StreamFilter,
        cursor: u64,
        until: u64,
    ) -> Self {
        Self {
            supervisor: supervisor.clone(),
            owner,
            handle,
            streams,
            cursor,
            until: Some(until),
            place: None,
            pieces: VecDeque::new(),
        }
    }

    /// Reads on until the process has ended. Takes a waiter's place; refused when there is none.
    pub(crate) fn following(
        supervisor: &Supervisor,
        owner: Owner,
        handle: Handle,
        streams: StreamFilter,
        cursor: u64,
    ) -> Result<Self, SupervisorError> {
        let place = Some(supervisor.reserve_wait()?);
        let reading = Self::up_to(supervisor, owner, handle, streams, cursor, u64::MAX);
        Ok(Self { until: None, place, ..reading })
    }

    /// The next piece. Cancellation safe: a piece is taken by whoever gets it.
    pub(crate) async fn next(&mut self) -> Result<Piece, SupervisorError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(piece);
            }
            let room = self.until.map_or(u64::MAX, |until| until.saturating_sub(self.cursor));
            if room == 0 {
                return Ok(Piece::End(Box::new(self.supervisor.snapshot(self.owner, &self.handle)?)));
            }
            let request = ReadRequest {
                from: ReadFrom::Cursor(self.cursor),
                max_bytes: usize::try_from(room).unwrap_or(CHUNK).min(CHUNK),
                streams: self.streams,
            };
            match self.supervisor.read(self.owner, &self.handle, request).await {
                Ok((page, snapshot)) => {
                    let at_end = page.next_cursor >= page.total_bytes;
                    let stuck = page.next_cursor <= self.cursor;
                    self.take(page);
                    if !self.pieces.is_empty() {
                        continue;
                    }
                    if at_end && (self.place.is_none() || snapshot.state.is_terminal()) {
                        return Ok(Piece::End(Box::new(snapshot)));
                    }
                    if at_end {
                        self.wait().await?;
                    } else if stuck {
                        return Err(SupervisorError::Internal("a read made no progress"));
                    }
                }
                Err(SupervisorError::Damaged { until, .. }) if until > self.cursor => {
                    self.pieces.push_back(Piece::Gap { from: self.cursor, until });
                    self.cursor = until;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn wait(&mut self) -> Result<(), SupervisorError> {
        let target = Target { handle: self.handle, cursor: self.cursor, probe: None };
        let Some(place) = &mut self.place else { return Ok(()) };
        let waited = place.wait(self.owner, WaitMode::Any, Until::Probe, vec![target], PATIENCE).await?;
        // It is somebody else's now, or was removed.
        if waited.iter().any(|target| target.snapshot.is_none()) {
            Err(SupervisorError::NotFound)
        } else {
            Ok(())
        }
    }

    /// Puts the bytes and gaps of a page into their order.
    fn take(&mut self, page: Page) {
        let bytes = Bytes::from(page.bytes);
        let mut taken = 0;
        for gap in page.gaps {
            if gap.offset > taken {
                self.pieces.push_back(Piece::Bytes(bytes.slice(taken..gap.offset)));
                taken = gap.offset;
            }
            self.pieces.push_back(Piece::Gap { from: gap.from, until: gap.until });
        }
        if bytes.len() > taken {
            self.pieces.push_back(Piece::Bytes(bytes.slice(taken..)));
        }
        self.cursor = page.next_cursor;
    }
}
