//! `procyard gc`, and the same at the start of every server: removes sessions that ended long ago.
//!
//! Not for what lives: a session whose lock is held, by a supervisor or by a guardian whose trees are not gone, is never
//! touched; nor is one whose anchor does not say that it is ours.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use procyard_core::{Limits, SessionId};
use procyard_manifest::{SessionError, SessionRoot};
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;

use crate::cli::GcOptions;
use crate::config::Flag;
use crate::say::{print, say};
use crate::session::anchor;
use crate::{exit, log};

/// So many days.
pub(crate) const fn days(count: u64) -> Duration {
    Duration::from_secs(count * 24 * 60 * 60)
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) removed: usize,
    pub(crate) kept: usize,
    /// What could not be removed, and why.
    pub(crate) failed: Vec<(SessionId, anyhow::Error)>,
}

impl GcOptions {
    fn flags(&self) -> Vec<Flag> {
        let value = self.older_than.map(|days| days.to_string());
        let flag = |value| Flag { name: "--older-than", key: "retention.log_days", value };
        value.map(flag).into_iter().collect()
    }
}

/// Removes, and says how many.
pub(crate) async fn gc(options: GcOptions) -> ExitCode {
    let collected = async {
        let data_dir = options.data.resolve()?;
        let configured = options.config.load(options.flags())?;
        log::start(&configured.config.log)?;
        let older_than = days(configured.config.retention.log_days);
        tokio::task::spawn_blocking(move || collect(&data_dir, older_than, &CancellationToken::new()))
            .await
            .context("the removal failed")?
    };
    match collected.await {
        Ok(found) if options.json => {
            let failed: Map<_, _> = found
                .failed
                .iter()
                .map(|(session, error)| (session.to_string(), json!(format!("{error:#}"))))
                .collect();
            let report = json!({"removed": found.removed, "kept": found.kept, "failed": failed});
            print(std::io::stdout(), format_args!("{report}\n"));
            if found.failed.is_empty() { ExitCode::SUCCESS } else { exit::FAULT.into() }
        }
        Ok(found) => {
            for (session, error) in &found.failed {
                say(format_args!("session {session} could not be removed: {error:#}"));
            }
            say(format_args!("{} sessions removed, {} kept", found.removed, found.kept));
            if found.failed.is_empty() { ExitCode::SUCCESS } else { exit::FAULT.into() }
        }
        Err(error) if options.json => exit::fault_as_json(&error),
        Err(error) => exit::fault(&error),
    }
}

/// Removes sessions that nobody holds and that have not changed for this long; ends after the one that it is at when it is
/// to stop. Blocking.
pub(crate) fn collect(
    data_dir: &Path,
    older_than: Duration,
    stop: &CancellationToken,
) -> anyhow::Result<Collected> {
    let mut found = Collected::default();
    for session in SessionRoot::list_sessions(data_dir).context("the sessions cannot be listed")? {
        if stop.is_cancelled() {
            break;
        }
        match remove(data_dir, session, older_than) {
            Ok(true) => found.removed += 1,
            Ok(false) => found.kept += 1,
            Err(error) => found.failed.push((session, error)),
        }
    }
    Ok(found)
}

fn remove(data_dir: &Path, session: SessionId, older_than: Duration) -> anyhow::Result<bool> {
    // Every save renames a file in the directory, so this is when it last changed.
    let changed = std::fs::metadata(SessionRoot::path_of(data_dir, session))?.modified()?;
    let age = SystemTime::now().duration_since(changed).unwrap_or_default();
    if age < older_than {
        return Ok(false);
    }
    match SessionRoot::open(data_dir, session, anchor(&Limits::default()), Duration::ZERO) {
        Ok(root) => {
            root.remove(data_dir)?;
            Ok(true)
        }
        Err(SessionError::Locked | SessionError::Missing) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_that_is_to_stop_removes_nothing_more() {
        let place = tempfile::tempdir().unwrap();
        for session in 1..=3 {
            let session = SessionId::from_random([session; 16]);
            let anchor = anchor(&Limits::default());
            SessionRoot::open_or_create(place.path(), session, anchor, Duration::ZERO).unwrap();
        }
        let stop = CancellationToken::new();
        stop.cancel();
        let found = collect(place.path(), Duration::ZERO, &stop).unwrap();
        assert_eq!((found.removed, found.kept), (0, 0));
        let found = collect(place.path(), Duration::ZERO, &CancellationToken::new()).unwrap();
        assert_eq!((found.removed, found.kept), (3, 0));
    }
}
