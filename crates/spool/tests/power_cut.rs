//! The power is cut at every step of everything that a spool does: what was synced is there, and what is read was
//! printed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::sync::Arc;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Bounds, Page, Read, ReadError, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::Dir;
use procyard_testkit::{Cuts, Failure, Fault, Faults, FaultyDir, LosingStore, Loss, Operation, PowerCuts};

const NAME: &str = "p.spool";

/// One block a segment, rolled and recycled every few appends.
const SMALL: SpoolOptions = SpoolOptions { ceiling: 40_000, window: 0, head: 0 };
/// Two blocks a segment.
const LARGE: SpoolOptions = SpoolOptions { ceiling: 140_000, window: 0, head: 0 };

/// Something that is done with a spool.
#[derive(Debug, Clone)]
enum Act {
    /// Chunks of these sizes in one write.
    Append(Vec<usize>),
    Resize,
    Sync,
    /// Syncs while the disk is full, which fails.
    SyncFull,
    /// The process dies, and another one goes on.
    Recover,
    /// The disk is full for the next append, but for so many bytes.
    Full(u64),
    /// The next calls of this kind are refused.
    Refuse(Operation),
    /// A sync fails, and the kernel gives up what was to be synced.
    SyncFails,
    Finish,
    Remove,
}

/// What was promised before the power went.
#[derive(Debug, Clone, Default)]
struct Promise {
    /// What was printed, from the beginning of the stream.
    printed: Vec<u8>,
    /// What the last sync made durable.
    synced: Option<Found>,
    /// The oldest cursor that could be read when the power went.
    retained_from: u64,
    removed: bool,
}

/// What a spool holds: runs of bytes that follow on each other, from a cursor each.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    bounds: Bounds,
    runs: Vec<(u64, Vec<u8>)>,
}

impl Found {
    const NOTHING: Self = Self { bounds: Bounds { total_bytes: 0, retained_from: 0 }, runs: Vec::new() };

    /// For messages: the bounds, and the cursors of the runs.
    fn summary(&self) -> (Bounds, Vec<(u64, u64)>) {
        (self.bounds, self.runs.iter().map(|(from, run)| (*from, from + run.len() as u64)).collect())
    }

    fn note(&mut self, page: &Page) {
        for span in &page.spans {
            let bytes = &page.bytes[span.offset..][..span.len];
            match self.runs.last_mut() {
                Some((from, run)) if *from + run.len() as u64 == span.cursor => run.extend_from_slice(bytes),
                _ => self.runs.push((span.cursor, bytes.to_vec())),
            }
        }
    }

    /// Whether every byte that is here from `cursor` on is there, too.
    #[track_caller]
    fn is_in(&self, other: &Self, cursor: u64) {
        for (from, run) in &self.runs {
            let skipped = run.len().min(usize::try_from(cursor.saturating_sub(*from)).unwrap());
            let (from, run) = (from + skipped as u64, &run[skipped..]);
            let holds = |(start, other): &&(u64, Vec<u8>)| {
                let end = start + other.len() as u64;
                *start <= from && from + run.len() as u64 <= end
            };
            let Some((start, other)) = other.runs.iter().find(holds) else {
                assert!(run.is_empty(), "{} bytes at {from} are missing", run.len());
                continue;
            };
            let place = usize::try_from(from - start).unwrap();
            assert!(other[place..][..run.len()] == *run, "the {} bytes at {from} differ", run.len());
        }
    }

    /// Checks that nothing here is anything but what was printed.
    #[track_caller]
    fn was_printed(&self, printed: &[u8]) {
        assert!(self.bounds.total_bytes <= printed.len() as u64, "more than was printed");
        self.is_in(&Self { runs: vec![(0, printed.to_vec())], ..Self::NOTHING }, 0);
    }
}

fn found(reader: &SpoolReader) -> Found {
    let mut found = Found { bounds: reader.bounds(), ..Found::NOTHING };
    let Bounds { total_bytes, retained_from } = found.bounds;
    let mut cursor = retained_from;
    while cursor < total_bytes {
        cursor = match reader.read(&Read { cursor, max_bytes: 50_000, streams: StreamFilter::Both }) {
            Ok(page) => {
                assert!(page.next_cursor > cursor);
                found.note(&page);
                page.next_cursor
            }
            Err(ReadError::Corrupt { from, until }) => {
                assert!(from == cursor && until > cursor && until <= total_bytes);
                until
            }
            Err(error) => panic!("{error:?}"),
        };
    }
    // A tail says the same as reads do.
    let mut tail = Found { bounds: found.bounds, ..Found::NOTHING };
    tail.note(&reader.tail(3000, StreamFilter::Both).unwrap());
    tail.is_in(&found, 0);
    found
}

fn open(store: &LosingStore, options: SpoolOptions) -> Found {
    found(&SpoolReader::open(store.root(), NAME, options).unwrap())
}

/// A part of the stream. What generations print at the same cursor differs.
fn stream(from: u64, until: u64, generation: u64) -> Vec<u8> {
    let byte = |cursor: u64| (cursor + generation * 101).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[3];
    (from..until).map(byte).collect()
}

struct Scene {
    options: SpoolOptions,
    generation: u64,
    acts: Vec<Act>,
}

impl Scene {
    /// Does it all, or what there is power for. `before` is what the stream holds already.
    fn play(&self, store: &LosingStore, before: &Found) -> Promise {
        let faults = Faults::none();
        let dir = FaultyDir::over(store.root(), &faults);
        let mut promise = Promise { synced: None, ..Promise::default() };
        // What cannot be read is nothing that may come back.
        promise.printed = vec![0; usize::try_from(before.bounds.total_bytes).unwrap()];
        for (from, run) in &before.runs {
            promise.printed[usize::try_from(*from).unwrap()..][..run.len()].copy_from_slice(run);
        }
        promise.retained_from = before.bounds.retained_from;
        let recover =
            |dir: &Arc<dyn Dir>| Spool::recover(Arc::clone(dir), NAME, self.options).map(|(spool, _)| spool);
        let Ok(mut spool) = recover(&dir) else { return promise };
        for act in &self.acts {
            match act {
                Act::Append(sizes) => {
                    let from = promise.printed.len() as u64;
                    let sum: usize = sizes.iter().sum();
                    let bytes = stream(from, from + sum as u64, self.generation);
                    promise.printed.extend_from_slice(&bytes);
                    let mut rest = bytes.as_slice();
                    let at = Timestamp::from_unix_micros(from.cast_signed());
                    let chunks: Vec<_> = sizes
                        .iter()
                        .map(|size| {
                            let chunk;
                            (chunk, rest) = rest.split_at(*size);
                            (Stream::Stdout, at, chunk)
                        })
                        .collect();
                    spool.append_all(&chunks);
                    faults.heal();
                }
                Act::Resize => drop(spool.mark_resize(Timestamp::from_unix_micros(1), 24, 80)),
                Act::Sync => {
                    if spool.sync().is_ok() && store.has_power() {
                        promise.synced = Some(found(&spool.reader()));
                    }
                }
                Act::SyncFull => {
                    faults.set_room(0);
                    assert!(spool.sync().is_err());
                    faults.heal();
                }
                Act::Recover => {
                    drop(spool);
                    match recover(&dir) {
                        Ok(recovered) => spool = recovered,
                        Err(_) => return promise,
                    }
                    // What could not be written and was not recorded yet, a death forgets.
                    promise.printed.truncate(usize::try_from(spool.total_bytes()).unwrap());
                }
                Act::Full(room) => faults.set_room(*room),
                Act::Refuse(operation) => {
                    faults.fail(Fault::on(&[*operation]).with(Failure::NoSpace).times(1));
                }
                Act::SyncFails => store.fail_file_syncs(1),
                Act::Finish | Act::Remove => break,
            }
            promise.retained_from = spool.reader().bounds().retained_from;
            if !store.has_power() {
                return promise;
            }
        }
        match self.acts.last() {
            Some(Act::Finish) => drop(spool.finish()),
            Some(Act::Remove) => {
                promise.removed = true;
                let _ = spool.remove();
            }
            _ => {}
        }
        promise
    }

    /// Checks what a cut left.
    fn check(&self, promise: &Promise, after: &LosingStore, again: &Scene) {
        let first = open(after, self.options);
        first.was_printed(&promise.printed);
        if let Some(synced) = promise.synced.as_ref().filter(|_| !promise.removed) {
            let (was, is) = (synced.bounds, first.bounds);
            assert!(is.total_bytes >= was.total_bytes, "the end went back from {was:?} to {is:?}");
            assert!(is.retained_from >= was.retained_from, "the beginning went back from {was:?} to {is:?}");
            // What was dropped since then may be gone.
            synced.is_in(&first, promise.retained_from);
        }
        assert!(open(after, self.options) == first, "opened twice, it is the same");

        // Another one goes on, and then it is as if nothing had been.
        let (spool, recovery) = Spool::recover(after.root(), NAME, self.options).unwrap();
        assert_eq!(recovery.total_bytes, first.bounds.total_bytes);
        let repaired = found(&spool.reader());
        assert!(repaired == first, "{:?} in repair is {:?}", first.summary(), repaired.summary());
        drop(spool);
        let repaired = open(after, self.options);
        assert!(repaired == first, "{:?} repaired is {:?}", first.summary(), repaired.summary());
        let next = again.play(after, &first);
        let synced = next.synced.unwrap();
        let end = next.printed.len() as u64;
        assert_eq!(synced.bounds.total_bytes, end);
        let durable = open(&after.after_cut(Loss::Everything), self.options);
        assert!(durable == synced, "synced {:?}, found {:?}", synced.summary(), durable.summary());
        let from = first.bounds.total_bytes;
        let new = Found { runs: vec![(from, stream(from, end, again.generation))], ..Found::NOTHING };
        new.is_in(&synced, synced.bounds.retained_from);
    }

    fn cut_everywhere(&self, random_losses: u64) -> Cuts {
        let again =
            Scene { generation: 99, options: self.options, acts: vec![append(&[3000, 100]), Act::Sync] };
        PowerCuts { seed: 11, random_losses }.at_every_step(
            LosingStore::new,
            |store| self.play(store, &Found::NOTHING),
            |promise, after, _| self.check(promise, after, &again),
        )
    }
}

fn append(sizes: &[usize]) -> Act {
    Act::Append(sizes.to_vec())
}

fn scene(options: SpoolOptions, acts: &[Act]) -> Scene {
    Scene { options, generation: 1, acts: acts.to_vec() }
}

/// More of everything: `PROCYARD_TEST_LOSSES=500`, for instance.
fn losses() -> u64 {
    std::env::var("PROCYARD_TEST_LOSSES").ok().and_then(|losses| losses.parse().ok()).unwrap_or(8)
}

#[track_caller]
fn cut(what: &str, scene: &Scene, at_least: u64) {
    let cuts = scene.cut_everywhere(losses());
    println!("{what}: {} steps, {} cuts", cuts.steps, cuts.cuts);
    assert!(cuts.steps >= at_least, "{what} takes {} steps", cuts.steps);
    assert_eq!(cuts.cuts, (cuts.steps + 1) * (4 + losses()));
}

#[test]
fn appending_and_syncing() {
    let acts = [
        append(&[1]),
        append(&[10, 500, 0, 3]),
        Act::Resize,
        Act::Sync,
        append(&[700]),
        Act::Sync,
        Act::Finish,
    ];
    cut("appending and syncing", &scene(SMALL, &acts), 10);
}

#[test]
fn rolling_and_retiring_segments() {
    let mut acts = vec![append(&[5000]); 30];
    cut("rolling, nothing synced", &scene(SMALL, &acts), 40);
    for place in [3, 9, 17, 28] {
        acts.insert(place, Act::Sync);
    }
    acts.extend([Act::Sync, Act::Finish]);
    cut("rolling, synced at times", &scene(SMALL, &acts), 60);
    let acts = [append(&[30_000]), Act::Sync, append(&[90_000, 5]), append(&[200_000]), Act::Sync];
    cut("more than the ceiling at once", &scene(SMALL, &acts), 25);
}

#[test]
fn large_segments() {
    let mut acts = vec![append(&[29_000, 11]); 12];
    acts.insert(4, Act::Sync);
    acts.extend([Act::Finish]);
    cut("large segments", &scene(LARGE, &acts), 25);
}

#[test]
fn tiny_chunks_that_fill_the_disk_before_the_ceiling() {
    let mut acts = vec![Act::Append(vec![1; 400]); 8];
    acts.insert(4, Act::Sync);
    acts.push(Act::Sync);
    cut("tiny chunks", &scene(SpoolOptions { ceiling: 2000, ..SMALL }, &acts), 15);
}

#[test]
fn recording_holes() {
    let mut acts = vec![append(&[900]), Act::Full(0), append(&[300]), append(&[50]), Act::Sync];
    for room in [1, 30, 600, 1500] {
        acts.extend([Act::Full(room), append(&[1000, 400]), append(&[70])]);
    }
    acts.extend([Act::Sync, Act::Full(0), append(&[44]), Act::Sync, Act::Finish]);
    cut("holes", &scene(SMALL, &acts), 20);
    // The newest segment gets its name, and no frame before the stream has gone on without it.
    let mut acts = vec![append(&[16_000, 304]), Act::Sync, Act::Full(0), append(&[900]), Act::SyncFull];
    for size in [39_000, 39_000] {
        acts.extend([Act::Full(0), append(&[size])]);
    }
    acts.extend([append(&[10]), append(&[5]), Act::Sync]);
    cut("a segment without frames", &scene(SMALL, &acts), 15);
    let refused = [
        Operation::CreateDir,
        Operation::CreateFile,
        Operation::Rename,
        Operation::RemoveFile,
        Operation::OpenFile,
        Operation::SetLen,
    ];
    let mut acts = Vec::new();
    for operation in refused {
        acts.extend([Act::Refuse(operation), append(&[9000]), append(&[8000]), append(&[4000])]);
    }
    acts.extend([Act::Sync, append(&[20_000]), Act::Sync]);
    cut("refused calls", &scene(SMALL, &acts), 40);
}

#[test]
fn recovering_and_going_on() {
    let mut acts = Vec::new();
    for size in [300, 17_000, 6000, 6000, 6000, 30_000, 488] {
        acts.extend([append(&[size]), Act::Recover, append(&[size / 2])]);
    }
    acts.extend([
        Act::Full(100),
        append(&[1000]),
        Act::Recover,
        append(&[5]),
        Act::Sync,
        Act::Recover,
        append(&[9]),
    ]);
    cut("recovering", &scene(SMALL, &acts), 30);
}

#[test]
fn removing() {
    let acts = [append(&[30_000]), Act::Sync, append(&[500]), Act::Remove];
    cut("removing", &scene(SMALL, &acts), 12);
    // What is left of a removed one is removed again, wherever the cut came.
    let scene = scene(SMALL, &acts);
    let cuts = PowerCuts { seed: 5, random_losses: losses() }.at_every_step(
        LosingStore::new,
        |store| scene.play(store, &Found::NOTHING),
        |_, after, _| {
            procyard_spool::remove(&*after.root(), NAME).unwrap();
            assert!(after.root().list().unwrap().is_empty());
        },
    );
    assert!(cuts.cuts > 100);
}

#[test]
fn a_sync_after_one_that_failed_promises_nothing_that_is_lost() {
    let acts = [
        append(&[900]),
        Act::SyncFails,
        Act::Sync,
        Act::Sync,
        append(&[30]),
        Act::Sync,
        append(&[40_000]),
        Act::Sync,
    ];
    cut("failed syncs", &scene(SMALL, &acts), 10);
}

/// The power goes, another process goes on and prints other bytes at the cursors that were lost, and it goes again.
fn cut_twice(what: &str, first: &[Act], second: &[Act], first_cuts: impl Fn(u64) -> u64) {
    let options = SMALL;
    let first = scene(options, first);
    let second = Scene { options, generation: 2, acts: second.to_vec() };
    let whole = LosingStore::new();
    first.play(&whole, &Found::NOTHING);
    let mut total = Cuts::default();
    for number in 0..2 * losses() {
        let store = LosingStore::new();
        store.cut_after(first_cuts(whole.steps()).saturating_sub(number % 8));
        first.play(&store, &Found::NOTHING);
        let cut = store.after_cut(Loss::Random(number));
        let before = open(&cut, options);
        let cuts = PowerCuts { seed: number, random_losses: 4 }.at_every_step(
            || cut.after_cut(Loss::Nothing),
            |store| second.play(store, &before),
            |promise, after, _| open(after, options).was_printed(&promise.printed),
        );
        total = total.and(cuts);
    }
    println!("{what}, cut twice: {} steps, {} cuts", total.steps, total.cuts);
    assert!(total.cuts > 100 * losses(), "{total:?}");
}

#[test]
fn a_tail_that_a_cut_took_does_not_come_back_behind_another_one() {
    // Frames of one sector each, so that one that survives can follow on another one.
    let frames = vec![append(&[488]); 24];
    let first: Vec<Act> = [append(&[456])].into_iter().chain(frames.clone()).collect();
    cut_twice("one segment", &first, &frames[..12], |steps| steps);
}

#[test]
fn a_segment_file_that_a_cut_left_half_written_over_is_not_written_over_again() {
    // Behind the sync, the oldest file is renamed and written over; the cut may take the name back, and not the bytes.
    let mut first = vec![append(&[488]); 126];
    first.push(Act::Sync);
    first.extend(vec![append(&[488]); 14]);
    cut_twice("recycled segments", &first, &vec![append(&[488]); 12], |steps| steps);
}

#[test]
fn rolling_after_a_cut_anywhere() {
    let acts = vec![append(&[5000]); 14];
    cut_twice("rolling", &acts, &acts, |steps| steps * 3 / 4);
}
