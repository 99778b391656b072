//! `text`: safe text of what commands print, beside a copy of the same bytes.
//!
//! Not for every kind of output: the crate's own example has more.

use std::hint::black_box;
use std::time::Instant;

use procyard_text::Renderer;

use crate::report::{Figure, Must, Report, Unit};

const SIZE: usize = 32 << 20;
/// Portions in which output is read.
const PORTION: usize = 64 << 10;
const ROUNDS: usize = 7;

const ASCII: &[u8] = b"2026-01-05 12:00:00 INFO server: request 4711 took 12 ms, 200 OK\n";
const UTF_8: &str = "Grüße aus Köln — die Prüfung läuft über mehrere Tage. テストは成功しました。\n";
const COLOUR: &[u8] =
    b"\x1b[2m12:00:00\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mserver\x1b[0m: took \x1b[36m12\x1b[0m ms\n";

const MIB: f64 = 1024.0 * 1024.0;

pub(crate) fn measure() -> Report {
    let random: Vec<u8> = (0..SIZE).map(|_| rand::random()).collect();
    let kinds = [
        ("ASCII", repeat(ASCII), Some(500.0 * MIB)),
        ("UTF-8", repeat(UTF_8.as_bytes()), None),
        ("ANSI colour", repeat(COLOUR), Some(150.0 * MIB)),
        ("binary", random, None),
    ];
    let mut figures = Vec::new();
    for (kind, input, least) in kinds {
        let (mut renderings, mut copies) = (Vec::new(), Vec::new());
        let mut copy = Vec::with_capacity(SIZE);
        // What cannot be shown is written out, with several bytes for one.
        let mut text = String::with_capacity(SIZE * 4);
        for _ in 0..ROUNDS {
            copies.push(rate(&input, || {
                copy.clear();
                copy.extend_from_slice(black_box(&input));
                black_box(&copy);
            }));
            renderings.push(rate(&input, || {
                text.clear();
                let mut renderer = Renderer::new();
                for portion in input.chunks(PORTION) {
                    renderer.push(portion, &mut text);
                }
                black_box(&text);
            }));
        }
        figures.push(Figure::ratio(kind, Unit::BytesPerSecond, &renderings, "memcpy", &copies));
        if let Some(least) = least {
            let spread = crate::spread::Spread::of(&renderings);
            figures.push(Figure::plain(kind, Unit::BytesPerSecond, spread).must(Must::AtLeast(least)));
        }
    }
    Report::new("text", format!("{} MiB of each kind, {ROUNDS} rounds", SIZE >> 20), figures)
}

fn rate(input: &[u8], mut work: impl FnMut()) -> f64 {
    let began = Instant::now();
    work();
    input.len() as f64 / began.elapsed().as_secs_f64()
}

fn repeat(piece: &[u8]) -> Vec<u8> {
    piece.repeat(SIZE / piece.len())
}
