//! What a new supervisor makes of what an old one left.

use std::path::Path;
use std::sync::Arc;

use crate::common::{Yard, eventually, options, origin, owner, read_from, with_stdin};
use procyard_core::{
    EventKind, Handle, Identity, Limits, LoopId, Owner, Reason, SessionId, State, StopKind, Timestamp,
};
use procyard_manifest::{
    AccessRecord, CommandRecord, Durability, Manifest, ManifestStore, StableIds, StopRecord, manifest_name,
    spool_name,
};
use procyard_store::FsDir;
use procyard_supervisor::{RestoreReport, Services, StartOptions, StdinStatus, Supervisor};
use procyard_testkit::assertions::assert_terminal_once;
use procyard_testkit::{
    DEADLINE, Failure, Fault, Faults, FaultyDir, Journal, LosingStore, Operation, Script,
};
use tempfile::TempDir;

fn manifest(of: u8, whose: Owner) -> Manifest {
    let identity = Identity { handle: Handle::from_bytes([of; 16]), owner: whose, origin: origin() };
    let mut seed = of;
    let ids = StableIds::generate(|bytes| {
        seed = seed.wrapping_add(16);
        *bytes = [seed; 16];
        true
    });
    let created = Timestamp::from_unix_micros(1_000_000 + i64::from(of));
    let command = CommandRecord::line("play", "/");
    Manifest::new(identity, command, AccessRecord::ReadOnly, ids.unwrap(), created)
}

fn running(of: u8) -> Manifest {
    let mut manifest = manifest(of, owner(1));
    manifest.state = State::Running;
    manifest.started_at = Some(manifest.created_at);
    manifest
}

/// Writes a manifest as a supervisor does: first `starting`, then what it became.
fn save(place: &Path, manifest: &Manifest) {
    let store = ManifestStore::new(FsDir::open(place).unwrap());
    let mut first = manifest.clone();
    first.state = State::Starting;
    first.started_at = None;
    first.stop_requested = None;
    first.spool.total_bytes = 0;
    first.handed_over = false;
    store.create(&first).unwrap();
    if *manifest != first {
        store.save_with(manifest, Durability::Written).unwrap();
    }
}

async fn activated(place: &TempDir) -> (Supervisor, RestoreReport, Arc<Journal>) {
    let supervisor = Supervisor::new(owner(1).session, Limits::default(), FsDir::open(place.path()).unwrap());
    let journal = Journal::new();
    let report = supervisor.activate(journal.services()).await.unwrap();
    (supervisor, report, journal)
}

#[tokio::test(start_paused = true)]
async fn what_had_not_ended_is_lost_whatever_it_was_doing() {
    let place = tempfile::tempdir().unwrap();
    let starting = manifest(1, owner(1));
    let plain = running(2);
    let mut stopping = running(3);
    let at = stopping.created_at;
    stopping.stop_requested = Some(StopRecord { reason: Reason::Terminated, state: State::Running, at });
    let mut handed = running(4);
    handed.handed_over = true;
    for manifest in [&starting, &plain, &stopping, &handed] {
        save(place.path(), manifest);
    }
    let (supervisor, report, journal) = activated(&place).await;
    assert_eq!((report.lost, report.restored), (4, 0));
    let list = supervisor.list(owner(1));
    assert_eq!(list.len(), 4);
    for process in &list {
        assert_eq!(process.state, State::LostOnRestore);
        assert_eq!(process.outcome.as_ref().unwrap().reason, Reason::LostOnRestore);
    }
    for manifest in [&starting, &plain, &stopping, &handed] {
        let handle = manifest.identity.handle;
        eventually("it is published", || journal.ends_of(handle) == [manifest.ids.lost]).await;
        let stored = ManifestStore::new(FsDir::open(place.path()).unwrap()).load(&handle).unwrap();
        assert_eq!(stored.state, State::LostOnRestore, "it is on disk before");
    }
    eventually("the owner is told", || journal.noticed() == [handed.identity.handle]).await;
    // What the crash may have kept from being published is published with it.
    let said = |manifest: &Manifest| -> Vec<_> {
        let events = journal.events();
        let mine = events.iter().filter(|event| event.identity.handle == manifest.identity.handle);
        mine.map(|event| event.kind).collect()
    };
    assert_eq!(said(&starting), [EventKind::Lost]);
    assert_eq!(said(&plain), [EventKind::Started, EventKind::Lost]);
    assert_eq!(said(&stopping), [EventKind::Started, EventKind::StopRequested, EventKind::Lost]);
    assert_eq!(said(&handed), [EventKind::Started, EventKind::Lost]);
}

#[tokio::test(start_paused = true)]
async fn what_a_crash_kept_from_being_published_is_published_as_it_would_have_been() {
    let run = async |hangs: bool| {
        let yard = Yard::new(Script::new()).await;
        if hangs {
            yard.journal.hang();
        }
        let handed = yard.start(options()).await;
        yard.supervisor.hand_over(yard.owner, &handed, false).await.unwrap();
        let stopped = yard.background().await;
        yard.stop(stopped, StopKind::Terminate, DEADLINE).await.unwrap();
        (yard, handed, stopped)
    };
    let kinds =
        |events: Vec<(EventKind, State)>| -> Vec<_> { events.into_iter().map(|(kind, _)| kind).collect() };
    let (yard, handed, stopped) = run(false).await;
    let expected = (kinds(yard.events(handed, 2).await), kinds(yard.events(stopped, 3).await));

    let (yard, handed, stopped) = run(true).await;
    let next = yard.restarted().await;
    let after = (kinds(next.events(handed, 3).await), kinds(next.events(stopped, 3).await));
    assert_eq!(after.0, [expected.0, vec![EventKind::Lost]].concat());
    assert_eq!(after.1, expected.1);
    let stored = ManifestStore::new(FsDir::open(yard.place.path()).unwrap()).load(&handed).unwrap();
    let ids: Vec<_> = stored.events().iter().map(|event| event.id).collect();
    assert_eq!(ids, [stored.ids.started, stored.ids.backgrounded, stored.ids.lost]);
    let published = next.journal.events();
    let mine = published.iter().filter(|event| event.identity.handle == handed);
    assert_eq!(
        mine.cloned().collect::<Vec<_>>(),
        stored.events(),
        "under the ids that it has held all along"
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_evicted_unpublished_is_published_after_a_restart_and_stays_gone() {
    let limits = || Limits { retained_per_session: 1, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().stdout("out").exit(0), limits()).await;
    yard.journal.hang();
    let mut handles = Vec::new();
    for _ in 0..3 {
        let handle = yard.background().await;
        yard.end(handle).await;
        handles.push(handle);
    }
    let gone = |yard: &Yard, handle| yard.supervisor.snapshot(yard.owner, handle).is_err();
    eventually("two give way", || gone(&yard, &handles[0]) && gone(&yard, &handles[1])).await;
    let due = |yard: &Yard| {
        yard.supervisor.notices(yard.owner).iter().map(|notice| notice.handle).collect::<Vec<_>>()
    };
    assert_eq!(due(&yard), handles);
    yard.supervisor.shutdown().await;
    let spools = yard
        .files()
        .into_iter()
        .filter(|name| Path::new(name).extension().is_some_and(|kind| kind == "spool"));
    assert_eq!(spools.count(), 1, "the output of the others went at once");

    let next = Yard::on(yard.place.clone(), Script::new().exit(0), limits()).await;
    assert_eq!(next.supervisor.list(next.owner).len(), 1);
    assert!(gone(&next, &handles[0]) && gone(&next, &handles[1]));
    for handle in &handles {
        eventually("it is published", || next.journal.ends_of(*handle).len() == 1).await;
    }
    assert_eq!(due(&next), handles, "and its owner can still be told");
    next.supervisor.learnt(next.owner, &handles);
    let of_first =
        |name: &String| name.starts_with(&handles[0].reveal()) || name.starts_with(&handles[1].reveal());
    eventually("its record goes when all is told", || !next.files().iter().any(of_first)).await;
    next.supervisor.shutdown().await;
    let last = Yard::on(yard.place.clone(), Script::new(), limits()).await;
    last.supervisor.shutdown().await;
    assert!(last.journal.events().is_empty() && last.journal.noticed().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_restore_that_breaks_off_anywhere_is_completed_by_the_next_one() {
    let mut broken = 0;
    for writes in 0..20 {
        let place = tempfile::tempdir().unwrap();
        for of in 1..=4 {
            save(place.path(), &running(of));
        }
        std::fs::write(place.path().join(".tmp-left"), b"x").unwrap();
        let faults = Faults::none();
        faults.fail(Fault::on(&[Operation::Write]).with(Failure::NoSpace).after(writes));
        let root = FaultyDir::over(FsDir::open(place.path()).unwrap(), &faults);
        let first = Supervisor::new(owner(1).session, Limits::default(), root);
        let failed = first.activate(Services::discard()).await.is_err();
        broken += usize::from(failed);
        drop(first);
        let (supervisor, report, journal) = activated(&place).await;
        assert_eq!(report.lost + report.restored, 4, "after {writes} writes");
        assert!(supervisor.list(owner(1)).iter().all(|process| process.state == State::LostOnRestore));
        supervisor.shutdown().await;
        if failed {
            let ends: Vec<_> = (1..=4).map(|of| journal.ends_of(running(of).identity.handle)).collect();
            assert_eq!(ends, (1..=4).map(|of| vec![running(of).ids.lost]).collect::<Vec<_>>());
        }
    }
    assert!((3..20).contains(&broken), "{broken} of the attempts broke off");
}

#[tokio::test(start_paused = true)]
async fn the_output_of_what_had_ended_is_not_opened_before_somebody_reads_it() {
    let yard = Yard::new(Script::new().stdout("kept").exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let faults = Faults::none();
    let root = FaultyDir::over(FsDir::open(yard.place.path()).unwrap(), &faults);
    let next = Supervisor::new(owner(1).session, Limits::default(), root);
    next.activate(Services::discard()).await.unwrap();
    let opened = || faults.calls_of(Operation::OpenDir);
    assert_eq!((next.list(owner(1))[0].total_bytes, opened()), (4, 0));
    next.read(owner(1), &handle, read_from(0)).await.unwrap();
    assert!(opened() > 0);
}

#[tokio::test(start_paused = true)]
async fn the_torn_end_of_a_lost_output_is_cut_for_good() {
    let yard = Yard::new(Script::new().stdout("whole ")).await;
    let handle = yard.background().await;
    yard.output_to(handle, 6).await;
    yard.runner.last().unwrap().stdout("torn").await;
    yard.output_to(handle, 10).await;
    drop(yard.supervisor.shutdown());
    let segment = yard.place.path().join(spool_name(&handle)).join("00000000000000000000.seg");
    let file = std::fs::OpenOptions::new().write(true).open(&segment).unwrap();
    let cut = file.metadata().unwrap().len() - 1;
    file.set_len(cut).unwrap();
    let next = yard.restarted().await;
    assert_eq!(next.text(handle).await, "whole ");
    assert!(std::fs::metadata(&segment).unwrap().len() < cut, "what was left of the chunk is gone");
    next.supervisor.shutdown().await;
    assert_eq!(next.restarted().await.text(handle).await, "whole ");
}

#[tokio::test(start_paused = true)]
async fn what_had_ended_is_there_with_its_output() {
    let yard = Yard::new(Script::new().stdout("kept\n").exit(7)).await;
    let handle = yard.start(options()).await;
    let before = yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let next = yard.restarted().await;
    let after = next.supervisor.snapshot(next.owner, &handle).unwrap();
    assert_eq!((after.state, &after.outcome), (before.state, &before.outcome));
    assert_eq!((after.total_bytes, after.finished_at), (5, before.finished_at));
    assert_eq!(next.text(handle).await, "kept\n");
    let (head, _) = next.supervisor.head(next.owner, &handle).await.unwrap();
    assert_eq!(head.bytes, b"kept\n");
    let ahead = next.supervisor.read(next.owner, &handle, read_from(6)).await.unwrap_err();
    assert_eq!(ahead.code(), procyard_core::ErrorCode::CursorAhead);
}

#[tokio::test(start_paused = true)]
async fn a_crash_leaves_the_output_that_was_there() {
    let yard = Yard::new(Script::new().stdout("so far")).await;
    let handle = yard.background().await;
    yard.output_to(handle, 6).await;
    let next = yard.restarted().await;
    assert_eq!(next.state(handle), State::LostOnRestore);
    assert_eq!(next.text(handle).await, "so far");
    assert!(!next.supervisor.snapshot(next.owner, &handle).unwrap().storage_degraded);
}

#[tokio::test(start_paused = true)]
async fn restoring_twice_gives_the_same_as_once() {
    let place = tempfile::tempdir().unwrap();
    save(place.path(), &manifest(1, owner(1)));
    save(place.path(), &running(2));
    let (supervisor, first, _) = activated(&place).await;
    let seen = |supervisor: &Supervisor| format!("{:?}", supervisor.list(owner(1)));
    let once = seen(&supervisor);
    supervisor.shutdown().await;
    let (supervisor, second, journal) = activated(&place).await;
    assert_eq!(seen(&supervisor), once);
    assert_eq!((first.lost, second.lost, second.restored), (2, 0, 2));
    supervisor.shutdown().await;
    assert!(journal.events().is_empty(), "each loss was published once");
}

#[tokio::test(start_paused = true)]
async fn one_bad_record_hides_no_good_one() {
    let place = tempfile::tempdir().unwrap();
    save(place.path(), &running(1));
    save(place.path(), &running(2));
    save(place.path(), &running(3));
    let stranger = Owner { session: SessionId::from_random([8; 16]), loop_id: LoopId::from_random([1; 16]) };
    save(place.path(), &manifest(4, stranger));
    let bad = manifest_name(&Handle::from_bytes([2; 16]));
    std::fs::write(place.path().join(&bad), b"{").unwrap();
    std::fs::create_dir(place.path().join(spool_name(&Handle::from_bytes([2; 16])))).unwrap();
    let (supervisor, report, _) = activated(&place).await;
    assert_eq!(report.lost, 2);
    let names: Vec<_> = report.unreadable.iter().map(|(name, _)| name.clone()).collect();
    let foreign = manifest_name(&Handle::from_bytes([4; 16]));
    assert!(names.contains(&bad) && names.contains(&foreign), "{names:?}");
    assert_eq!(supervisor.list(owner(1)).len(), 2);
    supervisor.shutdown().await;
    for kept in [bad.clone(), spool_name(&Handle::from_bytes([2; 16])), foreign] {
        assert!(place.path().join(&kept).exists(), "{kept} is left for a person to look at");
    }
    assert_eq!(std::fs::read(place.path().join(bad)).unwrap(), b"{");
}

#[tokio::test(start_paused = true)]
async fn an_orphan_spool_and_stale_temporaries_are_swept() {
    let place = tempfile::tempdir().unwrap();
    let orphan = place.path().join(spool_name(&Handle::from_bytes([5; 16])));
    std::fs::create_dir(&orphan).unwrap();
    std::fs::write(orphan.join("00000000000000000000"), b"x").unwrap();
    std::fs::write(place.path().join(".tmp-left"), b"x").unwrap();
    let (_, report, _) = activated(&place).await;
    assert_eq!((report.orphans_removed, report.temporaries_removed), (1, 1));
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_spool_that_is_shorter_than_its_record_is_believed() {
    let place = tempfile::tempdir().unwrap();
    let mut promised = running(1);
    promised.spool.total_bytes = 100;
    save(place.path(), &promised);
    let (supervisor, report, _) = activated(&place).await;
    assert_eq!(report.lost, 1);
    let lost = supervisor.snapshot(owner(1), &promised.identity.handle).unwrap();
    assert_eq!((lost.total_bytes, lost.storage_degraded), (0, true));
}

/// What is done to the segments of a spool.
type Damage = fn(&[std::path::PathBuf]);

#[tokio::test(start_paused = true)]
async fn what_an_ended_process_has_lost_since_is_a_gap_or_an_error_and_never_a_shorter_output() {
    let cases: [(&str, Damage); 7] = [
        ("everything", |segments| std::fs::remove_dir_all(segments[0].parent().unwrap()).unwrap()),
        ("every segment", |segments| segments.iter().for_each(|path| std::fs::remove_file(path).unwrap())),
        ("the first segment", |segments| std::fs::remove_file(&segments[0]).unwrap()),
        ("one in the middle", |segments| std::fs::remove_file(&segments[2]).unwrap()),
        ("the last segment", |segments| std::fs::remove_file(segments.last().unwrap()).unwrap()),
        ("its end", |segments| {
            let last = std::fs::OpenOptions::new().write(true).open(segments.last().unwrap()).unwrap();
            last.set_len(last.metadata().unwrap().len() - 1).unwrap();
        }),
        ("a byte", |segments| {
            let mut bytes = std::fs::read(&segments[1]).unwrap();
            bytes[100] ^= 1;
            std::fs::write(&segments[1], bytes).unwrap();
        }),
    ];
    for (what, damage) in cases {
        let yard = Yard::new(Script::new()).await;
        // Several segments, of which the oldest have fallen out by right.
        let ceiling = Some(512 << 10);
        let handle = yard.start(StartOptions { spool_ceiling: ceiling, ..options() }).await;
        let played = yard.runner.last().unwrap();
        for chunk in 0..200_u8 {
            played.stdout([chunk; 5000]).await;
        }
        played.exit(0).await;
        let end = yard.end(handle).await;
        yard.supervisor.shutdown().await;
        let spool = yard.place.path().join(spool_name(&handle));
        let mut segments: Vec<_> =
            std::fs::read_dir(&spool).unwrap().map(|entry| entry.unwrap().path()).collect();
        segments.sort();
        assert!(segments.len() > 4 && end.retained_from > 0);
        damage(&segments);
        let next = yard.restarted().await;
        let (mut cursor, mut missing) = (end.retained_from, 0);
        while cursor < end.total_bytes {
            match next.supervisor.read(next.owner, &handle, read_from(cursor)).await {
                Ok((page, snapshot)) => {
                    assert_eq!((page.total_bytes, snapshot.total_bytes), (1_000_000, 1_000_000), "{what}");
                    for span in &page.spans {
                        let printed = (span.cursor..).map(|at| u8::try_from(at / 5000).unwrap());
                        assert!(printed.zip(&page.bytes[span.offset..][..span.len]).all(|(a, b)| a == *b));
                    }
                    missing += page.gaps.iter().map(|gap| gap.until - gap.from).sum::<u64>();
                    assert!(page.next_cursor > cursor, "{what}");
                    cursor = page.next_cursor;
                }
                Err(procyard_supervisor::SupervisorError::Damaged { from, until }) => {
                    assert_eq!(from, cursor, "{what}");
                    missing += until - from;
                    cursor = until;
                }
                Err(error) => panic!("{what}: {error}"),
            }
        }
        assert_eq!(cursor, end.total_bytes, "{what}");
        assert!(missing > 0, "{what}");
        assert!(next.supervisor.snapshot(next.owner, &handle).unwrap().storage_degraded, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ended_process_that_has_everything_is_not_said_to_be_degraded() {
    for printed in [0, 10, 200 << 10] {
        let yard = Yard::new(Script::new().stdout("x".repeat(printed)).exit(0)).await;
        let ceiling = Some(40 << 10);
        let handle = yard.start(StartOptions { spool_ceiling: ceiling, ..options() }).await;
        let end = yard.end(handle).await;
        yard.supervisor.shutdown().await;
        let next = yard.restarted().await;
        let (page, found) =
            next.supervisor.read(next.owner, &handle, read_from(end.retained_from)).await.unwrap();
        assert!(!page.gap && !found.storage_degraded);
        assert_eq!((found.total_bytes, found.retained_from), (end.total_bytes, end.retained_from));
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_not_published_is_published_with_its_id() {
    let yard = Yard::new(Script::new().exit(0)).await;
    yard.journal.hang();
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    yard.supervisor.shutdown().await;
    let stored = ManifestStore::new(FsDir::open(yard.place.path()).unwrap()).load(&handle).unwrap();
    let next = yard.restarted().await;
    eventually("it is published", || next.journal.ends_of(handle) == [stored.ids.completed]).await;
    next.supervisor.shutdown().await;
    let last = next.restarted().await;
    last.supervisor.shutdown().await;
    assert!(last.journal.ends_of(handle).is_empty(), "and never again");
}

#[tokio::test(start_paused = true)]
async fn what_exceeds_the_retention_is_evicted_after_the_restore() {
    let place = tempfile::tempdir().unwrap();
    for of in 1..=105 {
        save(place.path(), &running(of));
    }
    let (supervisor, report, journal) = activated(&place).await;
    assert_eq!(report.lost, 105);
    assert_eq!(supervisor.list(owner(1)).len(), 100);
    supervisor.shutdown().await;
    let events = journal.events();
    let lost = events.iter().filter(|event| event.kind == EventKind::Lost).map(|event| event.id);
    let lost: std::collections::HashSet<_> = lost.collect();
    assert_eq!(lost.len(), 105, "what is evicted is announced all the same");
}

#[tokio::test(start_paused = true)]
async fn no_call_is_served_before_the_restore_and_none_restores_again() {
    let place = tempfile::tempdir().unwrap();
    let supervisor = Supervisor::new(owner(1).session, Limits::default(), FsDir::open(place.path()).unwrap());
    let early = supervisor.snapshot(owner(1), &Handle::from_bytes([1; 16])).unwrap_err();
    assert_eq!(early.code(), procyard_core::ErrorCode::ProcessSetupFailed);
    supervisor.activate(Services::discard()).await.unwrap();
    assert!(supervisor.activate(Services::discard()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn what_was_lost_is_only_said_to_be_gone_where_its_tier_needs_nobody_for_that() {
    let place = tempfile::tempdir().unwrap();
    for (of, tier) in [(1, "cgroup"), (2, "subreaper"), (3, "pidns")] {
        let mut manifest = running(of);
        manifest.tier = tier.to_owned();
        save(place.path(), &manifest);
    }
    let (supervisor, _, _) = activated(&place).await;
    let gone = |of| supervisor.snapshot(owner(1), &Handle::from_bytes([of; 16])).unwrap().tree_is_gone();
    assert_eq!([1, 2, 3].map(gone), [true, false, true]);
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_process_of_which_nothing_is_missing_is_not_said_to_be_degraded() {
    for printed in [0, 200 << 10] {
        let yard = Yard::new(Script::new().stdout("x".repeat(printed))).await;
        let ceiling = Some(40 << 10);
        let handle = yard.start(StartOptions { spool_ceiling: ceiling, ..options() }).await;
        if printed > 0 {
            yard.output_to(handle, printed as u64).await;
        }
        let next = yard.restarted().await;
        let lost = next.supervisor.snapshot(next.owner, &handle).unwrap();
        assert_eq!((lost.state, lost.total_bytes), (State::LostOnRestore, printed as u64));
        assert!(!lost.storage_degraded, "what no longer fits is gone by right");
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_supervisor_kept_counts_towards_the_bytes_on_disk() {
    let kib = 1024;
    let limits = Limits { spool_bytes: 64 * kib, spool_bytes_total: 140 * kib, ..Limits::default() };
    let yard = Yard::with_limits(Script::new().stdout("x".repeat(40 << 10)).exit(0), limits.clone()).await;
    let mut ended = Vec::new();
    for _ in 0..2 {
        let handle = yard.start(options()).await;
        yard.end(handle).await;
        ended.push(handle);
    }
    yard.supervisor.shutdown().await;
    let next = Yard::on(yard.place.clone(), Script::new(), limits).await;
    assert_eq!(next.supervisor.list(next.owner).len(), 2);
    let running = next.start(options()).await;
    let kept: Vec<_> =
        next.supervisor.list(next.owner).iter().map(|process| process.identity.handle).collect();
    assert_eq!(kept, [running, ended[1]], "the older one gave way");
}

#[tokio::test(start_paused = true)]
async fn restored_processes_are_listed_in_the_order_of_their_starts_before_new_ones() {
    let place = tempfile::tempdir().unwrap();
    for of in [2, 1, 3] {
        save(place.path(), &running(of));
    }
    let (supervisor, _, _) = activated(&place).await;
    let listed: Vec<_> = supervisor.list(owner(1)).iter().map(|process| process.identity.handle).collect();
    assert_eq!(listed, [3, 2, 1].map(|of| Handle::from_bytes([of; 16])), "newest first");
    supervisor.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_more_than_the_queue_to_the_journal_takes_is_published_from_the_records() {
    // Four events each, which is more than the 4096 that are queued.
    const PROCESSES: u32 = 1_030;
    let disk = LosingStore::new();
    let store = ManifestStore::new(disk.root());
    for of in 0..PROCESSES {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&of.to_be_bytes());
        let mut manifest = manifest(0, owner(1));
        manifest.identity.handle = Handle::from_bytes(bytes);
        let mut minted = 0;
        let ids = StableIds::generate(|id| {
            minted += 1;
            *id = bytes;
            id[8] = minted;
            true
        });
        manifest.ids = ids.unwrap();
        store.create(&manifest).unwrap();
        manifest.state = State::Running;
        manifest.started_at = Some(manifest.created_at);
        let at = manifest.created_at;
        manifest.handed_over = true;
        manifest.handed_over_at = Some(at);
        manifest.stop_requested = Some(StopRecord { reason: Reason::Killed, state: State::Running, at });
        store.save_with(&manifest, Durability::Written).unwrap();
    }
    let limits = Limits { retained_per_session: PROCESSES, ..Limits::default() };
    let supervisor = Supervisor::new(owner(1).session, limits, disk.root());
    let journal = Journal::new();
    supervisor.activate(journal.services()).await.unwrap();
    // It gives the journal what there is for it first.
    supervisor.shutdown().await;
    let events = journal.events();
    let ids: std::collections::HashSet<_> = events.iter().map(|event| event.id).collect();
    assert_eq!(ids.len(), PROCESSES as usize * 4);
    for process in supervisor.list(owner(1)).iter().take(50) {
        assert_terminal_once(&events, process.identity.handle);
    }
}

#[tokio::test(start_paused = true)]
async fn it_is_known_after_a_restart_whether_there_was_a_standard_input() {
    let yard = Yard::new(Script::new()).await;
    let (with, without) = (yard.start(with_stdin()).await, yard.start(options()).await);
    let next = yard.restarted().await;
    let stdin = |handle| next.supervisor.snapshot(next.owner, &handle).unwrap().stdin;
    assert_eq!((stdin(with), stdin(without)), (StdinStatus::Closed, StdinStatus::None));
    let words = [StdinStatus::None, StdinStatus::Open, StdinStatus::Closed].map(StdinStatus::as_str);
    assert_eq!(words, ["none", "open", "closed"]);
}
