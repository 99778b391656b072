//! `procyard gc`, and the same at the start of every server: removes sessions that ended long ago.
//!
//! Not for what lives: a session whose lock is held, by a supervisor or by a guardian whose trees are not gone, is never
//! touched; nor is one whose anchor does not say that it is ours.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context as _;
use procyard_core::{Limits, SessionId};
use procyard_manifest::{SessionError, SessionRoot};
use serde_json::{Map, json};
use tokio_util::sync::CancellationToken;

use crate::cli::GcOptions;
use crate::config::Flag;
use crate::remote::give_json;
use crate::say::{Voice, say};
use crate::session::anchor;
use crate::{exit, log, problem};

/// How often a service looks through ended sessions.
const COLLECT_EVERY: Duration = Duration::from_secs(6 * 3600);

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
    let voice = Voice::of(options.json);
    let told = removed(&options, voice).await.and_then(|found| tell(&found, voice).map(|()| found));
    match told {
        Ok(found) if found.failed.is_empty() => ExitCode::SUCCESS,
        Ok(_) => exit::FAULT.into(),
        Err(error) => exit::fault_as(&error, voice),
    }
}

async fn removed(options: &GcOptions, voice: Voice) -> anyhow::Result<Collected> {
    let data_dir = options.data.resolve()?;
    let configured = options.config.load(options.flags())?;
    log::start(&voice.logs(&configured.config.log))?;
    let older_than = days(configured.config.retention.log_days);
    tokio::task::spawn_blocking(move || collect(&data_dir, older_than, &CancellationToken::new()))
        .await
        .context("the removal failed")?
}

fn tell(found: &Collected, voice: Voice) -> anyhow::Result<()> {
    match voice {
        Voice::Json => {
            let failed: Map<_, _> = found
                .failed
                .iter()
                .map(|(session, error)| (session.to_string(), json!(problem::public(error))))
                .collect();
            give_json(&json!({"removed": found.removed, "kept": found.kept, "failed": failed}))?;
        }
        Voice::Text => {
            for (session, error) in &found.failed {
                say(format_args!("session {session} could not be removed: {}", problem::words(error)));
            }
            say(format_args!("{} sessions removed, {} kept", found.removed, found.kept));
        }
    }
    Ok(())
}

/// Removes them now and again, until a service ends, and tells its logs what could not be removed.
pub(crate) async fn collect_until(stop: CancellationToken, data_dir: PathBuf, keep: Duration) {
    loop {
        collect_once(stop.clone(), data_dir.clone(), keep).await;
        tokio::select! {
            () = tokio::time::sleep(COLLECT_EVERY) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn collect_once(stop: CancellationToken, data_dir: PathBuf, keep: Duration) {
    match tokio::task::spawn_blocking(move || collect(&data_dir, keep, &stop)).await {
        Ok(Ok(found)) => {
            for (session, error) in found.failed {
                tracing::warn!(%session, error = format!("{error:#}"), "an old session could not be removed");
            }
        }
        Ok(Err(error)) => {
            tracing::warn!(error = format!("{error:#}"), "old sessions were not looked through");
        }
        Err(error) => tracing::warn!(%error, "old sessions were not looked through"),
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
