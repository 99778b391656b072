//! What happens on a full and on a read-only file system, layer by layer.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use procyard_core::{
    ErrorCode, ExecutionId, Handle, Identity, Limits, LoopId, Origin, Owner, SessionId, State, Stream,
    Timestamp,
};
use procyard_manifest::{
    AccessRecord, AnchorSettings, Ceilings, CommandRecord, Manifest, ManifestError, ManifestStore,
    SessionError, SessionRoot, StableIds,
};
use procyard_runner::{CommandSpec, ProcessRequest, Runner as _};
use procyard_spool::{Page, Read, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::{Dir, FsDir, TEMPORARY_PREFIX};
use procyard_supervisor::{
    Lease, ReadFrom, ReadRequest, Services, StartOptions, Started, Supervisor, Target, Until, WaitMode,
};
use procyard_testkit::{DEADLINE, Script, ScriptedRunner};

use crate::room;

pub(crate) const ALL: [(&str, fn()); 7] = [
    ("a_full_disk_makes_a_hole_and_later_output_is_written_again", full_disk_for_a_spool),
    ("a_manifest_that_finds_no_room_leaves_the_old_one_and_is_saved_later", full_disk_for_a_manifest),
    ("a_session_that_finds_no_room_is_not_entered_and_is_entered_later", full_disk_for_a_session),
    ("a_session_on_a_read_only_disk_is_not_entered", read_only_for_a_session),
    (
        "output_and_manifests_on_a_disk_that_turns_read_only_are_refused_and_go_on_later",
        read_only_for_records,
    ),
    ("a_process_outlives_a_full_disk_and_its_record_says_so", full_disk_for_a_process),
    ("a_start_on_a_read_only_disk_is_refused_before_anything_runs", read_only_for_a_start),
];

const NAME: &str = "p.spool";
const OPTIONS: SpoolOptions = SpoolOptions { ceiling: 4 << 20, window: 0, head: 0 };

fn root() -> Arc<dyn Dir> {
    FsDir::open(&room::path()).unwrap()
}

fn pattern(from: u64, until: u64) -> Vec<u8> {
    (from..until).map(|cursor| cursor.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[2]).collect()
}

fn append(spool: &mut Spool, len: u64) -> bool {
    let from = spool.total_bytes();
    spool.append(Stream::Stdout, Timestamp::from_unix_micros(1), &pattern(from, from + len)).degraded
}

/// Checks that everything on a page was printed where it says, and that what is missing is told.
fn check(page: &Page) {
    for span in &page.spans {
        let bytes = &page.bytes[span.offset..][..span.len];
        assert!(bytes == pattern(span.cursor, span.cursor + span.len as u64), "{span:?}");
    }
    let missing: u64 = page.gaps.iter().map(|gap| gap.until - gap.from).sum();
    assert_eq!(page.bytes.len() as u64 + missing, page.total_bytes);
    assert_eq!(page.gap, missing > 0);
}

fn everything(reader: &SpoolReader) -> Page {
    reader.read(&Read { cursor: 0, max_bytes: 8 << 20, streams: StreamFilter::Both }).unwrap()
}

fn full_disk_for_a_spool() {
    room::fill_but(200_000);
    let mut spool = Spool::create(root(), NAME, OPTIONS);
    let mut written = 0;
    while !append(&mut spool, 7000) {
        written += 7000;
        assert!(written < room::SIZE);
    }
    assert!(written > 100_000, "{written}");
    append(&mut spool, 7000);
    let page = everything(&spool.reader());
    check(&page);
    assert!(page.gap && page.gaps.last().unwrap().until == spool.total_bytes());
    room::free();
    append(&mut spool, 5000);
    spool.sync().unwrap();
    let total = spool.total_bytes();
    for reader in [spool.reader(), SpoolReader::open(root(), NAME, OPTIONS).unwrap()] {
        let page = everything(&reader);
        check(&page);
        assert_eq!(page.total_bytes, total);
        assert_eq!(page.gaps.len(), 1, "one hole: {:?}", page.gaps);
        assert_eq!(page.gaps[0].until, total - 5000);
        assert!(reader.degraded());
    }
}

fn session() -> SessionId {
    SessionId::from_random([9; 16])
}

fn owner() -> Owner {
    Owner { session: session(), loop_id: LoopId::from_random([1; 16]) }
}

fn origin() -> Origin {
    Origin { execution: ExecutionId::from_random([3; 16]) }
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_unix_micros(1_700_000_000_000_000 + second * 1_000_000)
}

fn admitted(of: u8) -> Manifest {
    let mut seed = of;
    let ids = StableIds::generate(|bytes| {
        seed += 1;
        *bytes = [seed; 16];
        true
    });
    let identity = Identity { handle: Handle::from_bytes([of; 16]), owner: owner(), origin: origin() };
    Manifest::new(identity, CommandRecord::line("make", "/"), AccessRecord::BroadWrite, ids.unwrap(), at(0))
}

fn running(of: u8) -> Manifest {
    let mut manifest = admitted(of);
    manifest.state = State::Running;
    manifest.started_at = Some(at(1));
    manifest
}

fn refused(result: Result<(), ManifestError>, kind: ErrorKind) {
    let Err(ManifestError::Io(error)) = result else { panic!("{result:?}") };
    assert_eq!(error.kind(), kind);
}

fn no_temporaries() {
    let left = root().list().unwrap();
    assert!(left.iter().all(|entry| !entry.name.starts_with(TEMPORARY_PREFIX)), "{left:?}");
}

fn full_disk_for_a_manifest() {
    let store = ManifestStore::new(root());
    store.create(&admitted(1)).unwrap();
    room::fill_but(0);
    refused(store.save(&running(1)), ErrorKind::StorageFull);
    refused(store.create(&admitted(2)), ErrorKind::StorageFull);
    no_temporaries();
    let fresh = ManifestStore::new(root());
    assert_eq!(fresh.scan().unwrap().manifests, [admitted(1)]);
    room::free();
    store.save(&running(1)).unwrap();
    store.create(&admitted(2)).unwrap();
    assert_eq!(ManifestStore::new(root()).scan().unwrap().manifests.len(), 2);
}

fn enter() -> Result<SessionRoot, SessionError> {
    let ceilings = Ceilings { spool_bytes: 1 << 20, spool_bytes_total: 2 << 20 };
    let settings = AnchorSettings { provider: "files".to_owned(), ceilings };
    SessionRoot::open_or_create(&room::path(), session(), settings, Duration::ZERO)
}

fn not_entered(kind: ErrorKind) {
    let Err(SessionError::Io(error)) = enter() else { panic!("entered, or refused for another reason") };
    assert_eq!(error.kind(), kind);
}

fn full_disk_for_a_session() {
    room::fill_but(0);
    not_entered(ErrorKind::StorageFull);
    room::free();
    enter().unwrap().manifests().create(&admitted(1)).unwrap();
}

fn read_only_for_a_session() {
    room::set_read_only(true);
    not_entered(ErrorKind::ReadOnlyFilesystem);
    room::set_read_only(false);
    enter().unwrap().manifests().create(&admitted(1)).unwrap();
    // One that is there is not entered either: nothing could be recorded.
    room::set_read_only(true);
    not_entered(ErrorKind::ReadOnlyFilesystem);
    room::set_read_only(false);
    assert_eq!(enter().unwrap().manifests().scan().unwrap().manifests, [admitted(1)]);
}

fn read_only_for_records() {
    let store = ManifestStore::new(root());
    store.create(&admitted(1)).unwrap();
    let mut spool = Spool::create(root(), NAME, OPTIONS);
    assert!(!append(&mut spool, 3000));
    // A file that is open for writing keeps a file system writable, so the writer goes and another one comes.
    drop(spool);
    room::set_read_only(true);
    refused(store.save(&running(1)), ErrorKind::ReadOnlyFilesystem);
    assert!(Spool::recover(root(), NAME, OPTIONS).is_err(), "nobody can go on writing here");
    let mut other = Spool::create(root(), "other.spool", OPTIONS);
    assert!(append(&mut other, 10), "nor begin");
    let page = everything(&SpoolReader::open(root(), NAME, OPTIONS).unwrap());
    check(&page);
    assert_eq!((page.total_bytes, page.gap), (3000, false), "what is there is read");
    assert_eq!(ManifestStore::new(root()).load(&admitted(1).identity.handle).unwrap(), admitted(1));
    room::set_read_only(false);
    store.save(&running(1)).unwrap();
    no_temporaries();
    append(&mut other, 500);
    let page = everything(&SpoolReader::open(root(), "other.spool", OPTIONS).unwrap());
    assert_eq!((page.bytes, page.total_bytes, page.gap), (pattern(10, 510), 510, true));
    let (mut spool, _) = Spool::recover(root(), NAME, OPTIONS).unwrap();
    assert!(!append(&mut spool, 10));
}

/// Runs on a clock that passes only while nothing else is done.
fn run(task: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(task);
}

async fn start(supervisor: &Supervisor, runner: &ScriptedRunner) -> Result<Handle, ErrorCode> {
    let request = ProcessRequest::new(CommandSpec::Shell("play".into()), "/", origin());
    let prepared = runner.prepare(request).await.unwrap();
    let options = StartOptions { background: true, ..StartOptions::new(CommandRecord::line("play", "/")) };
    let started = supervisor.start(owner(), origin(), prepared, Lease::none(), options).await;
    started.map(Started::handle).map_err(|error| error.code())
}

async fn wait_for(supervisor: &Supervisor, handle: Handle, until: Until, cursor: u64) {
    let target = Target { handle, cursor, probe: None };
    let waited = supervisor.wait(owner(), WaitMode::All, until, vec![target], DEADLINE).await.unwrap();
    assert!(waited[0].satisfied);
}

async fn read(supervisor: &Supervisor, handle: Handle) -> Page {
    let request = ReadRequest { from: ReadFrom::Cursor(0), max_bytes: 1 << 20, streams: StreamFilter::Both };
    supervisor.read(owner(), &handle, request).await.unwrap().0
}

fn full_disk_for_a_process() {
    run(async {
        let limits = Limits { window_bytes: 1000, ..Limits::default() };
        let supervisor = Supervisor::new(session(), limits.clone(), root());
        supervisor.activate(Services::discard()).await.unwrap();
        let runner = ScriptedRunner::new(Script::new());
        let handle = start(&supervisor, &runner).await.unwrap();
        let played = runner.last().unwrap();
        let print = async |from: u64, len: u64| {
            played.stdout(pattern(from, from + len)).await;
            wait_for(&supervisor, handle, Until::Probe, from + len - 1).await;
        };
        print(0, 5000).await;
        room::fill_but(0);
        print(5000, 60_000).await;
        assert!(supervisor.snapshot(owner(), &handle).unwrap().storage_degraded);
        assert_eq!(start(&supervisor, &runner).await, Err(ErrorCode::StorageUnavailable));
        assert_eq!(played.survivors(), 1, "it goes on");
        room::free();
        print(65_000, 4000).await;
        played.exit(0).await;
        wait_for(&supervisor, handle, Until::Exit, 0).await;
        let end = supervisor.snapshot(owner(), &handle).unwrap();
        assert_eq!((end.state, end.total_bytes, end.storage_degraded), (State::Exited, 69_000, true));
        supervisor.shutdown().await;

        let next = Supervisor::new(session(), limits, root());
        next.activate(Services::discard()).await.unwrap();
        let page = read(&next, handle).await;
        check(&page);
        assert!(page.gap && page.total_bytes == 69_000);
        assert!(page.gaps[0].from >= 5000 && page.gaps[0].until == 65_000, "{:?}", page.gaps);
        let snapshot = next.snapshot(owner(), &handle).unwrap();
        assert_eq!((snapshot.state, snapshot.storage_degraded), (State::Exited, true));
        next.shutdown().await;
    });
}

fn read_only_for_a_start() {
    run(async {
        let supervisor = Supervisor::new(session(), Limits::default(), root());
        supervisor.activate(Services::discard()).await.unwrap();
        let runner = ScriptedRunner::new(Script::new());
        room::set_read_only(true);
        assert_eq!(start(&supervisor, &runner).await, Err(ErrorCode::StorageUnavailable));
        assert!(runner.played().is_empty(), "nothing was started");
        room::set_read_only(false);
        let handle = start(&supervisor, &runner).await.unwrap();
        runner.last().unwrap().exit(0).await;
        wait_for(&supervisor, handle, Until::Exit, 0).await;
        supervisor.shutdown().await;
    });
}
