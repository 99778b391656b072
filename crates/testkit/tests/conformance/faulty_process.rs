//! A process with one fault.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use async_trait::async_trait;
use procyard_core::WaitStatus;
use procyard_runner::{
    Delivery, ExitStatus, Input, Output, Process, RunnerError, RunnerErrorKind, Signal, StreamMode,
    TerminalSize, TreeProof,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, ReadBuf};
use tokio::sync::{Mutex, OwnedSemaphorePermit};

use crate::faulty::{Fault, Shared};

pub(crate) struct FaultyProcess {
    shared: Arc<Shared>,
    /// `None` only while it is dropped.
    inner: Option<Box<dyn Process>>,
    has_stdin: bool,
    /// Somebody gave up what they waited for.
    abandoned: AtomicBool,
    /// It was asked before.
    asked: AtomicBool,
    busy: Mutex<()>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl FaultyProcess {
    pub(crate) fn new(
        shared: Arc<Shared>,
        inner: Box<dyn Process>,
        asked_for_stdin: bool,
        turn: Option<OwnedSemaphorePermit>,
    ) -> Self {
        let has_stdin = asked_for_stdin || inner.stream_mode() == StreamMode::Terminal;
        Self {
            shared,
            inner: Some(inner),
            has_stdin,
            abandoned: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            busy: Mutex::new(()),
            _turn: turn,
        }
    }

    fn is(&self, fault: Fault) -> bool {
        self.shared.is(fault)
    }

    fn inner(&self) -> &dyn Process {
        self.inner.as_deref().unwrap()
    }

    async fn leader_has_ended(&self) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, self.inner().wait()).await.is_ok()
    }

    /// True for ever once a future that did this was dropped before its end.
    async fn breaks_when_dropped<T>(&self, future: impl Future<Output = T>) -> T {
        if self.abandoned.load(Ordering::Relaxed) {
            std::future::pending::<()>().await;
        }
        let breaking = Breaking(Some(&self.abandoned));
        tokio::task::yield_now().await;
        let done = future.await;
        breaking.done();
        done
    }
}

/// Remembers that it was dropped before it was done.
struct Breaking<'a>(Option<&'a AtomicBool>);

impl Breaking<'_> {
    fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Breaking<'_> {
    fn drop(&mut self) {
        if let Some(broken) = self.0 {
            broken.store(true, Ordering::Relaxed);
        }
    }
}

impl Drop for FaultyProcess {
    fn drop(&mut self) {
        if self.is(Fault::OutlivesItsDrop) {
            self.shared.hoard.lock().unwrap().extend(self.inner.take());
        }
    }
}

#[async_trait]
impl Process for FaultyProcess {
    fn stream_mode(&self) -> StreamMode {
        self.inner().stream_mode()
    }

    fn take_stdout(&mut self) -> Option<Output> {
        let inner = self.inner.as_deref_mut().unwrap();
        let output = match self.shared.fault {
            Fault::SwapsOutputs => inner.take_stderr(),
            _ => inner.take_stdout(),
        };
        match self.shared.fault {
            Fault::GivesStreamsAgain => output.or_else(|| Some(Box::new(tokio::io::empty()))),
            Fault::CutsOutput => output.map(|output| Box::new(output.take(1_000_000)) as Output),
            Fault::NeverEndsOutput => output.map(|output| Box::new(Endless(output)) as Output),
            // Here nothing is read before the leader has ended.
            Fault::EndsOutputWithTheLeader => output.map(|_| Box::new(tokio::io::empty()) as Output),
            Fault::LosesOutputAfterTheEnd if self.asked.load(Ordering::Relaxed) => {
                output.map(|_| Box::new(tokio::io::empty()) as Output)
            }
            _ => output,
        }
    }

    fn take_stderr(&mut self) -> Option<Output> {
        let is_terminal = self.stream_mode() == StreamMode::Terminal;
        let inner = self.inner.as_deref_mut().unwrap();
        match self.shared.fault {
            Fault::SwapsOutputs => inner.take_stdout(),
            Fault::GivesTerminalsAStderr if is_terminal => Some(Box::new(tokio::io::empty())),
            _ => inner.take_stderr(),
        }
    }

    fn take_stdin(&mut self) -> Option<Input> {
        if !self.has_stdin {
            return None;
        }
        let input = self.inner.as_deref_mut().unwrap().take_stdin()?;
        match self.shared.fault {
            Fault::NeverEndsInput => Some(Box::new(Deaf { input: std::mem::ManuallyDrop::new(input) })),
            Fault::CutsInput => Some(Box::new(Cut { input, line: 0 })),
            _ => Some(input),
        }
    }

    fn admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        self.inner().admit_input(data, eof)
    }

    fn would_admit_input(&self, data: &[u8], eof: bool) -> Result<(), RunnerError> {
        self.inner().would_admit_input(data, eof)
    }

    async fn wait(&self) -> ExitStatus {
        match self.shared.fault {
            Fault::TellsSuccess => {
                self.inner().wait().await;
                ExitStatus { status: Some(WaitStatus::exited(0)) }
            }
            Fault::TellsAnothersEnd => {
                let end = self.inner().wait().await;
                self.shared.last_end.lock().unwrap().replace(end).unwrap_or(end)
            }
            Fault::WaitsForNothing => ExitStatus { status: None },
            Fault::WaitsForTheTree => {
                self.inner().emptied().await;
                self.inner().wait().await
            }
            Fault::TellsTheEndOnce => {
                let end = self.inner().wait().await;
                if self.asked.swap(true, Ordering::Relaxed) { ExitStatus { status: None } } else { end }
            }
            Fault::SignalsAfterWaits => {
                let _busy = self.busy.lock().await;
                self.inner().wait().await
            }
            Fault::LosesDroppedWaits => self.breaks_when_dropped(self.inner().wait()).await,
            Fault::LosesOutputAfterTheEnd => {
                self.asked.store(true, Ordering::Relaxed);
                self.inner().wait().await
            }
            _ => self.inner().wait().await,
        }
    }

    async fn signal(&self, signal: Signal) -> Result<Delivery, RunnerError> {
        let signal = match (self.shared.fault, signal) {
            (Fault::InterruptIsKill, Signal::Interrupt) | (Fault::TerminateIsKill, Signal::Terminate) => {
                Signal::Kill
            }
            (Fault::TerminateIsInterrupt, Signal::Terminate) | (Fault::KillIsInterrupt, Signal::Kill) => {
                Signal::Interrupt
            }
            (_, signal) => signal,
        };
        match self.shared.fault {
            Fault::SignalsAfterWaits => {
                let _busy = self.busy.lock().await;
                self.inner().signal(signal).await
            }
            Fault::CountsNobody => {
                let delivery = self.inner().signal(signal).await?;
                Ok(Delivery { processes: 0, ..delivery })
            }
            Fault::FailsAfterTheEnd if self.leader_has_ended().await => {
                Err(RunnerError::new(RunnerErrorKind::Gone, "the process has ended"))
            }
            Fault::SignalsEverybody => {
                for played in self.shared.inner.played() {
                    played.die_of(9).await;
                    played.ended().await;
                }
                self.inner().signal(signal).await
            }
            Fault::FallsSilent => self.breaks_when_dropped(self.inner().signal(signal)).await,
            _ => self.inner().signal(signal).await,
        }
    }

    async fn tree(&self) -> TreeProof {
        match (self.shared.fault, self.inner().tree().await) {
            (Fault::CountsTheLeaderOnly, TreeProof::Survivors(_)) => TreeProof::Survivors(1),
            (Fault::CallsEmptyTooEarly, TreeProof::Survivors(_)) if self.leader_has_ended().await => {
                TreeProof::Empty
            }
            (Fault::CannotTell, TreeProof::Empty) => TreeProof::Unknown,
            (_, proof) => proof,
        }
    }

    async fn emptied(&self) -> TreeProof {
        match self.shared.fault {
            Fault::EmptiedWithSurvivors => self.inner().tree().await,
            Fault::EmptiedOnce => self.breaks_when_dropped(self.inner().emptied()).await,
            _ => self.inner().emptied().await,
        }
    }

    async fn resize(&self, size: TerminalSize) -> Result<(), RunnerError> {
        match self.shared.fault {
            Fault::KeepsTheFirstSize => size.check(),
            Fault::ResizesAnything => {
                let _ = self.inner().resize(size).await;
                Ok(())
            }
            Fault::FailsLateResizes if self.leader_has_ended().await => {
                Err(RunnerError::new(RunnerErrorKind::Gone, "the terminal is gone"))
            }
            _ => self.inner().resize(size).await,
        }
    }

    async fn close(&self) -> TreeProof {
        match self.shared.fault {
            Fault::ClosesNothing => TreeProof::Empty,
            Fault::ClosesOnce => self.breaks_when_dropped(self.inner().close()).await,
            _ => self.inner().close().await,
        }
    }
}

/// An output without an end.
struct Endless(Output);

impl AsyncRead for Endless {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.0).poll_read(cx, buffer);
        if read.is_ready() && buffer.filled().len() == before { Poll::Pending } else { read }
    }
}

/// An input without an end, also when it is dropped.
struct Deaf {
    input: std::mem::ManuallyDrop<Input>,
}

impl AsyncWrite for Deaf {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut **self.input).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut **self.input).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// An input that drops what a line has beyond 4,094 bytes, and does not say so.
struct Cut {
    input: Input,
    line: usize,
}

impl AsyncWrite for Cut {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        let Some(byte) = bytes.first() else { return Poll::Ready(Ok(0)) };
        if *byte == b'\n' {
            self.line = 0;
        } else {
            self.line += 1;
            if self.line > 4094 {
                return Poll::Ready(Ok(1));
            }
        }
        Pin::new(&mut self.input).poll_write(cx, &bytes[..1])
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.input).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.input).poll_shutdown(cx)
    }
}
