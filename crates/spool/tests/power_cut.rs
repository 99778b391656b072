//! The power is cut at every step of everything that a spool does: what was synced is there, and what is read was
//! printed.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use procyard_core::{Stream, Timestamp};
use procyard_spool::{Bounds, Page, Read, ReadError, Spool, SpoolOptions, SpoolReader, StreamFilter};
use procyard_store::Dir;
use procyard_testkit::{Cuts, Failure, Fault, Faults, FaultyDir, LosingStore, Loss, Operation, PowerCuts};

const NAME: &str = "p.spool";

/// One block a segment, rolled and recycled every few appends.
const SMALL: SpoolOptions = SpoolOptions { ceiling: 40_000, window: 0, head: 0 };
/// Four blocks a segment.
const LARGE: SpoolOptions = SpoolOptions { ceiling: 400_000, window: 0, head: 0 };

/// Something that is done with a spool.
#[derive(Debug, Clone)]
enum Act {
    /// Chunks of these sizes in one write.
    Append(Vec<usize>),
    Resize,
    Sync,
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

/// What a spool holds.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    bounds: Bounds,
    /// From `retained_from`: `None` where bytes are missing or damaged.
    bytes: Vec<Option<u8>>,
}

impl Found {
    fn at(&self, cursors: Range<u64>) -> &[Option<u8>] {
        let place = |cursor: u64| usize::try_from(cursor - self.bounds.retained_from).unwrap();
        &self.bytes[place(cursors.start)..place(cursors.end)]
    }
}

fn note(page: &Page, bounds: Bounds, bytes: &mut [Option<u8>]) {
    for span in &page.spans {
        let place = usize::try_from(span.cursor - bounds.retained_from).unwrap();
        for (to, &byte) in bytes[place..].iter_mut().zip(&page.bytes[span.offset..][..span.len]) {
            *to = Some(byte);
        }
    }
}

fn found(reader: &SpoolReader) -> Found {
    let bounds = reader.bounds();
    let mut bytes = vec![None; usize::try_from(bounds.total_bytes - bounds.retained_from).unwrap()];
    let mut cursor = bounds.retained_from;
    while cursor < bounds.total_bytes {
        cursor = match reader.read(&Read { cursor, max_bytes: 50_000, streams: StreamFilter::Both }) {
            Ok(page) => {
                assert!(page.next_cursor > cursor);
                note(&page, bounds, &mut bytes);
                page.next_cursor
            }
            Err(ReadError::Corrupt { from, until }) => {
                assert!(from == cursor && until > cursor && until <= bounds.total_bytes);
                until
            }
            Err(error) => panic!("{error:?}"),
        };
    }
    // A tail says the same as reads do.
    let mut by_tail = vec![None; bytes.len()];
    note(&reader.tail(3000, StreamFilter::Both).unwrap(), bounds, &mut by_tail);
    assert!(by_tail.iter().zip(&bytes).all(|(tail, read)| tail.is_none() || tail == read));
    Found { bounds, bytes }
}

fn open(store: &LosingStore, options: SpoolOptions) -> Found {
    found(&SpoolReader::open(store.root(), NAME, options).unwrap())
}

/// A byte of the stream. What generations print at the same cursor differs.
fn byte(cursor: u64, generation: u64) -> u8 {
    ((cursor ^ generation << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & 0xFF) as u8
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
        promise.printed = vec![0; usize::try_from(before.bounds.retained_from).unwrap()];
        promise.printed.extend(before.bytes.iter().map(|byte| byte.unwrap_or_default()));
        promise.retained_from = before.bounds.retained_from;
        let recover = |dir: &Arc<dyn Dir>| Spool::recover(Arc::clone(dir), NAME, self.options).map(|(spool, _)| spool);
        let Ok(mut spool) = recover(&dir) else { return promise };
        for act in &self.acts {
            match act {
                Act::Append(sizes) => {
                    let from = promise.printed.len() as u64;
                    let sum: usize = sizes.iter().sum();
                    let bytes: Vec<u8> =
                        (from..from + sum as u64).map(|cursor| byte(cursor, self.generation)).collect();
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
        let printed = promise.printed.len() as u64;
        assert!(first.bounds.total_bytes <= printed, "nothing is made up");
        let part = &promise.printed[usize::try_from(first.bounds.retained_from).unwrap()..];
        for (cursor, (found, printed)) in (first.bounds.retained_from..).zip(first.bytes.iter().zip(part)) {
            assert!(found.is_none_or(|found| found == *printed), "wrong byte at {cursor}");
        }
        if let Some(synced) = promise.synced.as_ref().filter(|_| !promise.removed) {
            assert!(first.bounds.total_bytes >= synced.bounds.total_bytes, "the end went back");
            assert!(first.bounds.retained_from >= synced.bounds.retained_from, "the beginning went back");
            // What was dropped since then may be gone.
            let from = promise.retained_from.max(first.bounds.retained_from);
            if from < synced.bounds.total_bytes {
                let kept = from..synced.bounds.total_bytes;
                let (had, has) = (synced.at(kept.clone()), first.at(kept));
                for (cursor, (had, has)) in (from..).zip(had.iter().zip(has)) {
                    assert!(had.is_none() || had == has, "the synced byte at {cursor} is lost");
                }
            }
        }
        assert_eq!(open(after, self.options), first, "opened twice, it is the same");

        // Another one goes on, and then it is as if nothing had been.
        let (spool, recovery) = Spool::recover(after.root(), NAME, self.options).unwrap();
        assert_eq!(recovery.total_bytes, first.bounds.total_bytes);
        assert_eq!(found(&spool.reader()), first, "repair changes nothing that can be read");
        drop(spool);
        assert_eq!(open(after, self.options), first);
        let next = again.play(after, &first);
        let synced = next.synced.unwrap();
        assert_eq!(synced.bounds.total_bytes, next.printed.len() as u64);
        assert_eq!(open(&after.after_cut(Loss::Everything), self.options), synced, "it is synced");
        let new = first.bounds.total_bytes.max(synced.bounds.retained_from)..synced.bounds.total_bytes;
        let expected = new.clone().map(|cursor| Some(byte(cursor, again.generation)));
        assert!(synced.at(new).iter().copied().eq(expected), "what is appended is read");
    }

    fn cut_everywhere(&self, random_losses: u64) -> Cuts {
        let again = Scene { generation: 99, options: self.options, acts: vec![append(&[3000, 100]), Act::Sync] };
        let nothing = Found { bounds: Bounds::default(), bytes: Vec::new() };
        PowerCuts { seed: 11, random_losses }.at_every_step(
            LosingStore::new,
            |store| self.play(store, &nothing),
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
    std::env::var("PROCYARD_TEST_LOSSES").ok().and_then(|losses| losses.parse().ok()).unwrap_or(12)
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
    let acts = [append(&[1]), append(&[10, 500, 0, 3]), Act::Resize, Act::Sync, append(&[700]), Act::Sync, Act::Finish];
    cut("appending and syncing", &scene(SMALL, &acts), 12);
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
    let mut acts = vec![append(&[29_000, 11]); 24];
    acts.insert(9, Act::Sync);
    acts.extend([Act::Finish]);
    cut("large segments", &scene(LARGE, &acts), 35);
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
    cut("holes", &scene(SMALL, &acts), 25);
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
    acts.extend([Act::Full(100), append(&[1000]), Act::Recover, append(&[5]), Act::Sync, Act::Recover, append(&[9])]);
    cut("recovering", &scene(SMALL, &acts), 30);
}

#[test]
fn removing() {
    let acts = [append(&[30_000]), Act::Sync, append(&[500]), Act::Remove];
    cut("removing", &scene(SMALL, &acts), 12);
    // What is left of a removed one is removed again, wherever the cut came.
    let nothing = Found { bounds: Bounds::default(), bytes: Vec::new() };
    let scene = scene(SMALL, &acts);
    let cuts = PowerCuts { seed: 5, random_losses: losses() }.at_every_step(
        LosingStore::new,
        |store| scene.play(store, &nothing),
        |_, after, _| {
            procyard_spool::remove(&*after.root(), NAME).unwrap();
            assert!(after.root().list().unwrap().is_empty());
        },
    );
    assert!(cuts.cuts > 100);
}

#[test]
fn a_sync_after_one_that_failed_promises_nothing_that_is_lost() {
    let acts =
        [append(&[900]), Act::SyncFails, Act::Sync, Act::Sync, append(&[30]), Act::Sync, append(&[40_000]), Act::Sync];
    cut("failed syncs", &scene(SMALL, &acts), 10);
}

/// The power goes, another process goes on and prints other bytes at the cursors that were lost, and it goes again.
#[test]
fn bytes_that_a_first_cut_took_never_come_back_as_others() {
    // Frames that begin at sectors, so that one that survives can follow on another one.
    let mut aligned = vec![append(&[456])];
    aligned.extend(vec![append(&[488]); 60]);
    let rolling = vec![append(&[5000]); 16];
    let total = Cell::new(Cuts::default());
    for acts in [aligned, rolling] {
        let options = SpoolOptions { ceiling: 20_000, ..SMALL };
        let (first, second) = (scene(options, &acts), Scene { options, generation: 2, acts: acts.clone() });
        let nothing = Found { bounds: Bounds::default(), bytes: Vec::new() };
        let steps = {
            let store = LosingStore::new();
            first.play(&store, &nothing);
            store.steps()
        };
        for number in 0..losses() {
            let store = LosingStore::new();
            store.cut_after(number * 7919 % steps);
            first.play(&store, &nothing);
            let cut = store.after_cut(Loss::Random(number));
            let before = open(&cut, options);
            let cuts = PowerCuts { seed: number, random_losses: 4 }.at_every_step(
                || cut.after_cut(Loss::Nothing),
                |store| second.play(store, &before),
                |promise, after, _| {
                    let found = open(after, options);
                    let printed = &promise.printed[usize::try_from(found.bounds.retained_from).unwrap()..];
                    assert!(found.bounds.total_bytes <= promise.printed.len() as u64);
                    for (cursor, (found, printed)) in (found.bounds.retained_from..).zip(found.bytes.iter().zip(printed)) {
                        assert!(found.is_none_or(|found| found == *printed), "first cut {number}: wrong byte at {cursor}");
                    }
                },
            );
            total.set(total.get().and(cuts));
        }
    }
    println!("two cuts: {} steps, {} cuts", total.get().steps, total.get().cuts);
    assert!(total.get().cuts > 2000);
}
