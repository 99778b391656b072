//! Output on its way from a process to its readers: counted, bounded, in order, whole.

use std::time::Duration;

use crate::common::{Yard, eventually, full_disk, on_terminal, options, read_from};
use procyard_core::{Limits, State, Stream};
use procyard_manifest::spool_name;
use procyard_supervisor::{Pace, ReadFrom, ReadRequest, StartOptions, StreamFilter};
use procyard_testkit::{Faults, Leftover, Reaction, Script};
use tokio::sync::watch;
use tokio::time::Instant;

const KIB: u64 = 1024;

/// Bytes that tell where they are.
fn pattern(len: usize) -> Vec<u8> {
    (0_u8..251).flat_map(|byte| [byte; 7]).cycle().take(len).collect()
}

fn disk_use(yard: &Yard, handle: procyard_core::Handle) -> u64 {
    let entries = std::fs::read_dir(yard.place.path().join(spool_name(&handle))).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[tokio::test(start_paused = true)]
async fn a_flood_is_counted_and_keeps_within_its_ceiling() {
    let printed = pattern(6 << 20);
    let yard = Yard::new(Script::new().stdout(&printed).exit(0)).await;
    let ceiling = 256 * KIB;
    let handle = yard.start(StartOptions { spool_ceiling: Some(ceiling), ..options() }).await;
    let end = yard.end(handle).await;
    let total = printed.len() as u64;
    assert_eq!((end.state, end.total_bytes), (State::Exited, total));
    assert!(end.retained_from >= total - ceiling && end.retained_from < total, "{}", end.retained_from);
    assert!(disk_use(&yard, handle) <= ceiling * 5 / 4 + ceiling / 8 + 16 * KIB);
    let (page, _) = yard.supervisor.read(yard.owner, &handle, read_from(0)).await.unwrap();
    assert!(page.gap);
    let from = usize::try_from(page.start_cursor).unwrap();
    assert_eq!(page.start_cursor, end.retained_from);
    assert_eq!(page.bytes, printed[from..from + page.bytes.len()]);
    let (head, _) = yard.supervisor.head(yard.owner, &handle).await.unwrap();
    assert_eq!(head.bytes, printed[..16 << 10]);
    let tail = ReadRequest { from: ReadFrom::TailBytes(100), max_bytes: 100, streams: StreamFilter::Both };
    let (page, _) = yard.supervisor.read(yard.owner, &handle, tail).await.unwrap();
    assert_eq!(page.bytes, printed[printed.len() - 100..]);
}

#[tokio::test(start_paused = true)]
async fn a_process_is_not_slowed_by_readers_that_do_not_read() {
    let yard = Yard::new(Script::new().stdout(pattern(3 << 20)).exit(0)).await;
    let began = Instant::now();
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_paced_reader_loses_nothing_however_slow_it_is() {
    let printed = pattern(1 << 20);
    let yard = Yard::new(Script::new().stdout(&printed).exit(0)).await;
    let (consumed, follows) = watch::channel(0);
    let behind = Some(Pace { consumed: follows, ahead: 64 * KIB });
    let slowed = StartOptions { spool_ceiling: Some(512 * KIB), pace: behind, ..options() };
    let handle = yard.start(slowed).await;
    let mut read = Vec::new();
    loop {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let cursor = read.len() as u64;
        let request =
            ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 40_000, streams: StreamFilter::Both };
        let (page, snapshot) = yard.supervisor.read(yard.owner, &handle, request).await.unwrap();
        assert!(!page.gap, "at {cursor}");
        // What may be read at once beyond the pace is one read and what the pipe holds at the end.
        assert!(snapshot.total_bytes <= cursor + 64 * KIB + 512 * KIB);
        read.extend_from_slice(&page.bytes);
        consumed.send_replace(read.len() as u64);
        if snapshot.state.is_terminal() && read.len() as u64 == snapshot.total_bytes {
            break;
        }
    }
    assert!(read == printed);
}

#[tokio::test(start_paused = true)]
async fn a_paced_reader_loses_nothing_when_the_disk_takes_nothing_any_more() {
    let printed = pattern(4 << 20);
    let faults = Faults::none();
    let script = Script::new().pause(Duration::from_secs(1)).stdout(&printed).exit(0);
    let yard = Yard::brittle(script, &faults).await;
    let (consumed, follows) = watch::channel(0);
    let behind = Some(Pace { consumed: follows, ahead: 4096 * KIB });
    let handle = yard.start(StartOptions { pace: behind, ..options() }).await;
    faults.fail(full_disk());
    let mut read = Vec::new();
    while read.len() < printed.len() {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let cursor = read.len() as u64;
        let request =
            ReadRequest { from: ReadFrom::Cursor(cursor), max_bytes: 100_000, streams: StreamFilter::Both };
        let (page, _) = yard.supervisor.read(yard.owner, &handle, request).await.unwrap();
        assert!(!page.gap, "at {cursor}");
        read.extend_from_slice(&page.bytes);
        consumed.send_replace(read.len() as u64);
    }
    assert!(read == printed);
}

#[tokio::test(start_paused = true)]
async fn a_paced_process_that_has_ended_does_not_wait_for_its_reader() {
    let yard = Yard::new(Script::new().stdout(pattern(300 << 10)).exit(0)).await;
    let (consumed, follows) = watch::channel(0);
    let pace = Some(Pace { consumed: follows, ahead: 290 * KIB });
    let handle = yard.start(StartOptions { pace, ..options() }).await;
    // The reader waits for the end before it reads.
    let end = yard.end(handle).await;
    assert_eq!(end.total_bytes, 300 * KIB);
    drop(consumed);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_gone_lifts_its_pace() {
    let yard = Yard::new(Script::new().stdout(pattern(1 << 20)).exit(0)).await;
    let (consumed, follows) = watch::channel(0);
    let pace = Some(Pace { consumed: follows, ahead: KIB });
    let handle = yard.start(StartOptions { pace, ..options() }).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(yard.state(handle), State::Running, "it waits for its reader");
    drop(consumed);
    assert_eq!(yard.end(handle).await.total_bytes, 1 << 20);
}

#[tokio::test(start_paused = true)]
async fn a_character_of_one_stream_is_not_split_by_the_other() {
    let crab = "🦀".as_bytes();
    let mut script = Script::new().stdout("日".as_bytes());
    for byte in crab {
        script = script.stdout([*byte]).stderr("e").pause(Duration::from_millis(1));
    }
    let yard = Yard::new(script.exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    let text = yard.text(handle).await;
    assert!(text.contains('🦀') && text.contains('日'), "{text}");
    let request = ReadRequest {
        from: ReadFrom::Cursor(0),
        max_bytes: 100,
        streams: StreamFilter::Only(Stream::Stderr),
    };
    let (page, _) = yard.supervisor.read(yard.owner, &handle, request).await.unwrap();
    assert_eq!(page.bytes, b"eeee");
}

#[tokio::test(start_paused = true)]
async fn half_a_character_is_not_held_back_for_long() {
    let yard = Yard::new(Script::new().stdout(b"a\xF0\x9F").pause(Duration::from_secs(5)).exit(0)).await;
    let handle = yard.background().await;
    let began = Instant::now();
    yard.output_to(handle, 3).await;
    assert!(began.elapsed() <= Duration::from_millis(10), "{:?}", began.elapsed());
    assert_eq!(yard.end(handle).await.total_bytes, 3);
}

#[tokio::test(start_paused = true)]
async fn neither_stream_starves_the_other() {
    let yard = Yard::new(Script::new().stderr("early").stdout(pattern(2 << 20)).exit(0)).await;
    let handle = yard.start(options()).await;
    yard.end(handle).await;
    let (page, _) = yard.supervisor.read(yard.owner, &handle, read_from(0)).await.unwrap();
    let err = page.spans.iter().find(|span| span.stream == Stream::Stderr).expect("it comes early");
    assert!(err.cursor <= 256 * KIB, "{}", err.cursor);
}

#[tokio::test(start_paused = true)]
async fn what_a_descendant_prints_for_ever_delays_the_end_by_the_cap_at_most() {
    let left = Leftover { count: 1, on_terminate: Reaction::Ignore, end_after: None, hold_output: true };
    let yard = Yard::new(Script::new().stdout("mine\n").exit(0).leaves(left)).await;
    let limits = Limits::default();
    let began = Instant::now();
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let chatter = async {
        while played.survivors() > 0 {
            played.stdout(".").await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let (end, ()) = tokio::join!(yard.end(handle), chatter);
    assert_eq!(end.state, State::Exited);
    let bound = limits.drain_cap + limits.leftover_grace + Duration::from_millis(200);
    assert!(began.elapsed() <= bound, "{:?}", began.elapsed());
    assert!(began.elapsed() >= limits.drain_cap, "what still prints may be a part of it");
    assert!(yard.text(handle).await.starts_with("mine\n"));
}

#[tokio::test(start_paused = true)]
async fn everything_that_was_written_before_the_end_is_read() {
    for size in [1, 4095, 64 << 10, 200 << 10] {
        let printed = pattern(size);
        let yard = Yard::new(Script::new().stdout(&printed).stderr(&printed).die_of(9)).await;
        let handle = yard.start(options()).await;
        assert_eq!(yard.end(handle).await.total_bytes, 2 * size as u64);
        for stream in [Stream::Stdout, Stream::Stderr] {
            let streams = StreamFilter::Only(stream);
            let request = ReadRequest { from: ReadFrom::Cursor(0), max_bytes: 1 << 20, streams };
            let (page, _) = yard.supervisor.read(yard.owner, &handle, request).await.unwrap();
            assert!(page.bytes == printed);
        }
    }
}

/// The drains of one thread share a buffer, which an append on a blocking thread takes along.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_many_processes_print_at_once_is_not_mixed_up() {
    let printed = |byte: u8| [vec![byte; 700 << 10], "日".as_bytes().to_vec()].concat();
    let script = |byte: u8| Script::new().stdout(printed(byte)).stderr([byte; 5]).exit(0);
    let yard = Yard::new(script(0)).await;
    let mut handles = vec![yard.start(options()).await];
    for byte in 1..8 {
        yard.runner.play(script(byte));
        handles.push(yard.start(options()).await);
    }
    for (byte, handle) in (0_u8..).zip(handles) {
        yard.end(handle).await;
        let streams = StreamFilter::Only(Stream::Stdout);
        let request = ReadRequest { from: ReadFrom::Cursor(0), max_bytes: 1 << 20, streams };
        let (page, _) = yard.supervisor.read(yard.owner, &handle, request).await.unwrap();
        assert!(page.bytes == printed(byte), "{byte}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_resize_is_in_the_stream_where_it_happened() {
    let yard = Yard::new(Script::new().stdout("ab")).await;
    let handle = yard.start(crate::common::on_terminal()).await;
    yard.output_to(handle, 2).await;
    let size = procyard_runner::TerminalSize { rows: 3, cols: 4 };
    let request = procyard_supervisor::InputRequest { size: Some(size), ..Default::default() };
    yard.supervisor.input(yard.owner, &handle, request).await.unwrap();
    let snapshot = yard.supervisor.snapshot(yard.owner, &handle).unwrap();
    assert_eq!(snapshot.terminal, Some(size));
    // The drain records it when it is awake next.
    eventually("the drain has seen it", || yard.runner.last().unwrap().sizes() == [size]).await;
    tokio::time::sleep(Duration::from_millis(1)).await;
    yard.runner.last().unwrap().stdout("cd").await;
    yard.output_to(handle, 4).await;
    let (page, _) = yard.supervisor.read(yard.owner, &handle, read_from(0)).await.unwrap();
    let resizes: Vec<_> = page.resizes.iter().map(|size| (size.cursor, size.rows, size.cols)).collect();
    assert_eq!(resizes, [(2, 3, 4)]);
}

#[tokio::test(start_paused = true)]
async fn a_pipe_that_an_outsider_holds_is_read_until_it_is_quiet() {
    let yard = Yard::new(Script::new().outsider(Duration::from_secs(3600))).await;
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    played.exit(0).await;
    played.ended().await;
    let began = Instant::now();
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        played.stdout("late ").await;
    }
    yard.end(handle).await;
    assert_eq!(yard.text(handle).await, "late late late ");
    let took = began.elapsed();
    assert!((Duration::from_millis(280)..Duration::from_millis(300)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outsider_that_prints_for_ever_delays_the_end_by_the_cap_at_most() {
    let yard = Yard::new(Script::new().outsider(Duration::from_secs(3600))).await;
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    played.exit(0).await;
    played.ended().await;
    let began = Instant::now();
    let printing = async {
        loop {
            tokio::time::sleep(Duration::from_millis(60)).await;
            played.stdout("late ").await;
        }
    };
    tokio::select! {
        _ = yard.end(handle) => {}
        () = printing => {}
    }
    let took = began.elapsed();
    assert!((Duration::from_secs(2)..Duration::from_millis(2_100)).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_is_behind_costs_what_outlives_the_leader_no_time() {
    let behind_for = Duration::from_millis(2_900);
    for end_after in [Some(Duration::from_secs(3)), None] {
        let left = Leftover { count: 1, on_terminate: Reaction::Die, end_after, hold_output: true };
        let yard = Yard::new(Script::new().stdout(pattern(1000)).leaves(left).exit(0)).await;
        let (consumed, follows) = watch::channel(0);
        let pace = Some(Pace { consumed: follows, ahead: 10 });
        let handle = yard.start(StartOptions { pace, ..options() }).await;
        let played = yard.runner.last().unwrap();
        played.ended().await;
        let began = Instant::now();
        tokio::time::sleep(behind_for).await;
        assert!(played.signals().is_empty() && yard.state(handle) == State::Running);
        consumed.send_replace(1000);
        let leftovers = yard.end(handle).await.outcome.unwrap().leftovers;
        if end_after.is_some() {
            assert_eq!((leftovers, played.signals()), (None, Vec::new()), "it was about to end");
        } else {
            let quiet = Duration::from_millis(100);
            assert_eq!(leftovers.map(|left| left.count), Some(1));
            let took = began.elapsed();
            assert!(took >= behind_for + quiet && took < behind_for + quiet * 2, "{took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn output_runs_ahead_of_a_slow_reader_by_what_it_may_and_stops_beyond() {
    let second = Duration::from_secs(1);
    let script = Script::new().stdout(pattern(10)).pause(second).stdout(pattern(10)).pause(second);
    let yard = Yard::new(script.stdout(pattern(10))).await;
    let (consumed, follows) = watch::channel(0);
    let pace = Some(Pace { consumed: follows, ahead: 10 });
    let handle = yard.start(StartOptions { pace, ..options() }).await;
    let total = || yard.supervisor.snapshot(yard.owner, &handle).unwrap().total_bytes;
    tokio::time::sleep(second * 3).await;
    assert_eq!(total(), 20, "at 10 bytes ahead it was read on, at 20 no more");
    consumed.send_replace(10);
    yard.output_to(handle, 30).await;
}

#[tokio::test(start_paused = true)]
async fn half_a_character_on_a_terminal_is_there_at_once() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(on_terminal()).await;
    let began = Instant::now();
    yard.runner.last().unwrap().stdout(b"\xe6").await;
    yard.output_to(handle, 1).await;
    assert_eq!(began.elapsed(), Duration::ZERO, "it is the only stream");
}

#[tokio::test(start_paused = true)]
async fn each_stream_has_its_own_time_to_complete_a_character() {
    let yard = Yard::new(Script::new()).await;
    let handle = yard.start(options()).await;
    let played = yard.runner.last().unwrap();
    let millis = |count| tokio::time::sleep(Duration::from_millis(count));
    played.stdout(b"\xe6").await;
    millis(3).await;
    played.stderr(&"日".as_bytes()[..2]).await;
    // The first half is given up after 5 ms; the second has 2 ms left when the other stream goes on.
    millis(3).await;
    played.stdout("x").await;
    millis(1).await;
    played.stderr(&"日".as_bytes()[2..]).await;
    yard.output_to(handle, 5).await;
    let (page, _) = yard.supervisor.read(yard.owner, &handle, read_from(0)).await.unwrap();
    assert_eq!(page.bytes, [b"\xe6x", "日".as_bytes()].concat());
}
