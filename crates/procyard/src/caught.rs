//! The signals that procyard acts on.
//!
//! Not for what is done about them.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A signal that is caught, unless it was ignored when this program was started: `nohup` and shells' background jobs mean
/// that.
pub(crate) struct Caught(Option<Signal>);

impl Caught {
    /// Catches it from now on. Must be called within a runtime.
    pub(crate) fn catch(kind: SignalKind) -> anyhow::Result<Self> {
        if is_ignored(kind.as_raw_value()) {
            return Ok(Self(None));
        }
        signal(kind).map(|caught| Self(Some(caught))).context("signals cannot be caught")
    }

    /// Resolves when the signal has come; never for one that is ignored. Cancellation safe.
    pub(crate) async fn recv(&mut self) {
        if let Some(caught) = &mut self.0
            && caught.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// A token that SIGTERM, SIGINT and SIGHUP cancel.
pub(crate) fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let mut terminate = Caught::catch(SignalKind::terminate())?;
    let mut interrupt = Caught::catch(SignalKind::interrupt())?;
    let mut hangup = Caught::catch(SignalKind::hangup())?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = terminate.recv() => {}
            () = interrupt.recv() => {}
            () = hangup.recv() => {}
        }
        told.cancel();
    });
    Ok(stop)
}

/// Whether a signal is ignored now, as proc(5) tells it: where that is not to be read, it is not.
fn is_ignored(number: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| mask_has(&status, number))
}

fn mask_has(status: &str, number: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(number - 1).is_ok_and(|bit| mask.checked_shr(bit).is_some_and(|mask| mask & 1 == 1))
}

#[cfg(test)]
mod tests {
    use super::mask_has;

    #[test]
    fn a_mask_tells_which_signals_are_ignored() {
        let status = "Name:\tcat\nSigBlk:\tffffffffffffffff\nSigIgn:\t8000000000001001\nSigCgt:\t0\n";
        for (number, ignored) in [(1, true), (2, false), (13, true), (15, false), (64, true), (0, false)] {
            assert_eq!(mask_has(status, number), ignored, "{number}");
        }
        assert!(!mask_has("", 1) && !mask_has("SigIgn:\tnothing\n", 1));
    }
}
