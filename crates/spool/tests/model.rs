//! Any sequence of operations, against a plain vector of what was printed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, in its helpers too")]

mod support;

use std::sync::Arc;

use procyard_core::Stream;
use procyard_spool::{Spool, SpoolOptions, SpoolReader, StreamFilter};
use proptest::prelude::*;
use proptest::sample::select;
use support::{Model, NAME, at, check_tails, disk_bound, disk_use, options, pattern, place, read_all};

#[derive(Debug, Clone)]
enum Op {
    /// Chunks by stream and size, in one write.
    Append(Vec<(Stream, usize)>),
    /// Many chunks of one byte, alternating between two streams.
    Drip(usize),
    Resize,
    Sync,
    /// From a place in the stream (in 1/1000 of it) to the end, by pages.
    Read {
        from: u64,
        max: usize,
        streams: StreamFilter,
    },
    Tail {
        size: u64,
        streams: StreamFilter,
    },
    /// The process dies; another one goes on.
    Reopen,
    /// The process dies in the middle of a write: the newest file loses some bytes.
    Tear(u64),
    /// The process ends, and is read by another one.
    ReadFinished {
        max: usize,
        streams: StreamFilter,
    },
}

fn streams() -> impl Strategy<Value = StreamFilter> {
    select(vec![
        StreamFilter::Both,
        StreamFilter::Only(Stream::Stdout),
        StreamFilter::Only(Stream::Stderr),
        StreamFilter::Only(Stream::Terminal),
    ])
}

fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0..20usize, 3 => 20..2000usize, 1 => 16_000..17_000usize, 1 => 30_000..120_000usize]
}

fn op() -> impl Strategy<Value = Op> {
    let chunk = (select(vec![Stream::Stdout, Stream::Stderr]), size());
    let max = || prop_oneof![1..50usize, 1000..40_000usize];
    prop_oneof![
        8 => prop::collection::vec(chunk, 0..6).prop_map(Op::Append),
        2 => (1..2000usize).prop_map(Op::Drip),
        1 => Just(Op::Resize),
        1 => Just(Op::Sync),
        3 => (0..=1000u64, 1000..40_000usize, streams())
            .prop_map(|(from, max, streams)| Op::Read { from, max, streams }),
        1 => (999..=1000u64, max(), streams()).prop_map(|(from, max, streams)| Op::Read { from, max, streams }),
        2 => (0..5000u64, streams()).prop_map(|(size, streams)| Op::Tail { size, streams }),
        1 => Just(Op::Reopen),
        1 => (1..100u64).prop_map(Op::Tear),
        1 => (1000..40_000usize, streams()).prop_map(|(max, streams)| Op::ReadFinished { max, streams }),
    ]
}

struct Run {
    place: tempfile::TempDir,
    dir: Arc<dyn procyard_store::Dir>,
    options: SpoolOptions,
    spool: Option<Spool>,
    model: Model,
    printed: u64,
    retained_from: u64,
}

impl Run {
    fn new(options: SpoolOptions) -> Self {
        let (place, dir) = place();
        let spool = Some(Spool::create(Arc::clone(&dir), NAME, options));
        Self { place, dir, options, spool, model: Vec::new(), printed: 0, retained_from: 0 }
    }

    fn append(&mut self, chunks: &[(Stream, usize)]) {
        let mut payloads = Vec::new();
        for &(stream, size) in chunks {
            let bytes: Vec<u8> = (self.printed..self.printed + size as u64).map(pattern).collect();
            self.printed += size as u64;
            self.model.extend(bytes.iter().map(|&byte| (byte, stream)));
            payloads.push((stream, bytes));
        }
        let time = at(self.printed.cast_signed());
        let chunks: Vec<_> =
            payloads.iter().map(|(stream, bytes)| (*stream, time, bytes.as_slice())).collect();
        let appended = self.spool.as_mut().unwrap().append_all(&chunks);
        assert_eq!(appended.total_bytes, self.model.len() as u64);
        assert!(!appended.degraded);
    }

    fn recover(&mut self) {
        self.spool = None;
        let before = self.model.len() as u64;
        let (spool, recovery) = Spool::recover(Arc::clone(&self.dir), NAME, self.options).unwrap();
        assert_eq!((recovery.damaged, recovery.holes), (false, false));
        assert_eq!(recovery.total_bytes, spool.total_bytes());
        assert!(recovery.total_bytes <= before);
        self.model.truncate(usize::try_from(recovery.total_bytes).unwrap());
        self.retained_from = recovery.retained_from;
        self.spool = Some(spool);
    }

    /// Cuts the newest file; at most as many bytes of output go.
    fn tear(&mut self, bytes: u64) {
        self.spool = None;
        let Ok(entries) = std::fs::read_dir(self.place.path().join(NAME)) else { return self.recover() };
        let newest = entries.map(|entry| entry.unwrap().path()).max();
        if let Some(newest) = newest {
            let file = std::fs::OpenOptions::new().write(true).open(newest).unwrap();
            let len = file.metadata().unwrap().len();
            file.set_len(len.saturating_sub(bytes)).unwrap();
        }
        let before = self.model.len();
        self.recover();
        // The frame that was torn goes whole; its payload is at most a block.
        assert!(before - self.model.len() <= 16 << 10);
    }

    fn apply(&mut self, op: Op) {
        match op {
            Op::Append(chunks) => self.append(&chunks),
            Op::Drip(count) => {
                for index in 0..count {
                    self.append(&[(if index % 3 == 0 { Stream::Stderr } else { Stream::Stdout }, 1)]);
                }
            }
            Op::Resize => {
                self.spool.as_mut().unwrap().mark_resize(at(0), 24, 80);
            }
            Op::Sync => self.spool.as_mut().unwrap().sync().unwrap(),
            Op::Read { from, max, streams } => {
                let from = self.model.len() as u64 * from / 1000;
                read_all(&self.spool.as_ref().unwrap().reader(), &self.model, from, max, streams);
            }
            Op::Tail { size, streams } => {
                check_tails(&self.spool.as_ref().unwrap().reader(), &self.model, size, streams);
            }
            Op::Reopen => {
                let before = self.model.len();
                self.recover();
                assert_eq!(self.model.len(), before, "what was appended is there");
            }
            Op::Tear(bytes) => self.tear(bytes),
            Op::ReadFinished { max, streams } => {
                let reader = SpoolReader::open(Arc::clone(&self.dir), NAME, self.options).unwrap();
                read_all(&reader, &self.model, 0, max, streams);
                check_tails(&reader, &self.model, 100, streams);
            }
        }
        let bounds = self.spool.as_ref().unwrap().reader().bounds();
        assert_eq!(bounds.total_bytes, self.model.len() as u64);
        assert!(bounds.retained_from >= bounds.total_bytes.saturating_sub(self.options.ceiling));
        assert!(bounds.retained_from >= self.retained_from, "never backward");
        let disk = self.spool.as_ref().unwrap().reader().disk_bytes();
        let (used, bound) = (disk_use(self.place.path()), disk_bound(self.options.ceiling));
        assert!(used < bound, "{used} of {bound}, known {disk}");
        assert_eq!(used, disk);
        self.retained_from = bounds.retained_from;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_spool_says_what_a_vector_says(
        ceiling in prop_oneof![1..100u64, 100..20_000u64, 20_000..500_000u64, Just(4 << 20)],
        window in prop_oneof![Just(0usize), 1..200usize, 200..10_000usize, 10_000..300_000usize],
        ops in prop::collection::vec(op(), 1..30),
    ) {
        let mut run = Run::new(options(ceiling, window));
        for op in ops {
            run.apply(op);
        }
        for streams in [StreamFilter::Both, StreamFilter::Only(Stream::Stderr)] {
            read_all(&run.spool.as_ref().unwrap().reader(), &run.model, 0, 10_000, streams);
        }
    }
}
