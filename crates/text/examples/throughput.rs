//! Prints how fast safe text of some kinds of output is made, beside a copy of the same bytes.
//!
//! `cargo run --release -p procyard-text --example throughput [PART-OF-NAME]`

use std::hint::black_box;
use std::time::Instant;

use procyard_text::{PageBuilder, PageRequest, Renderer};

const SIZE: usize = 32 << 20;
/// Portions in which output is read.
const PORTION: usize = 64 << 10;

fn main() {
    println!("{:<22} {:>10} {:>10} {:>10} {:>10}   MiB/s", "", "memcpy", "render", "pages", "collapse");
    let wanted = std::env::args().nth(1).unwrap_or_default();
    let mut seed = 0x9E37_79B9_7F4A_7C15_u64;
    let random: Vec<u8> = (0..SIZE).map(|_| next(&mut seed)).collect();
    for (name, input) in [
        ("ASCII", repeat(b"2026-01-05 12:00:00 INFO server: request 4711 took 12 ms, 200 OK\n")),
        ("ASCII, one line", repeat(b"all work and no play ")),
        ("UTF-8, Latin", repeat("Grüße aus Köln — die Prüfung läuft über mehrere Tage.\n".as_bytes())),
        ("UTF-8, CJK", repeat("テストは成功しました。警告が二件あります。\n".as_bytes())),
        (
            "ANSI colour",
            repeat(b"\x1b[2m12:00:00\x1b[0m \x1b[32m INFO\x1b[0m \x1b[1mserver\x1b[0m: took \x1b[36m12\x1b[0m ms\n"),
        ),
        ("ANSI colour, dense", repeat(b"\x1b[38;5;196m#\x1b[0m")),
        ("progress", repeat(b"\r 10% [=>        ]\r\x1b[K 20% [==>       ]")),
        ("CRLF", repeat(b"drwxr-xr-x 2 root root 4096 Jan  5 12:00 src\r\n")),
        ("image", repeat(&[b"\x1b]1337;File=:".as_slice(), &b"iVBORw0KGgo".repeat(9000), b"\x07"].concat())),
        ("binary", random),
        ("invalid", repeat(b"\xff")),
    ] {
        if !name.contains(&wanted) {
            continue;
        }
        let mut copy = Vec::with_capacity(SIZE);
        let mut out = String::with_capacity(SIZE * 4);
        let copied = rate(&input, || {
            copy.clear();
            copy.extend_from_slice(black_box(&input));
            black_box(&copy);
        });
        let rendered = rate(&input, || {
            out.clear();
            let mut renderer = Renderer::new();
            for portion in input.chunks(PORTION) {
                renderer.push(portion, &mut out);
            }
            black_box(&out);
        });
        let paged = rate(&input, || pages(&input, false));
        let collapsed = rate(&input, || pages(&input, true));
        println!("{name:<22} {copied:>10.0} {rendered:>10.0} {paged:>10.0} {collapsed:>10.0}");
    }
}

/// Reads all of `input` in pages of 32 KiB.
fn pages(input: &[u8], collapse: bool) {
    let request = PageRequest { collapse, ..PageRequest::new(32 << 10) };
    let mut cursor = 0;
    loop {
        let mut builder = PageBuilder::new(&request);
        let mut portions = input[cursor..].chunks(PORTION);
        while !builder.is_full() {
            let Some(portion) = portions.next() else { break };
            builder.feed(portion);
        }
        let page = builder.finish(true);
        cursor += page.consumed;
        let full = page.full;
        black_box(page);
        if !full {
            return;
        }
    }
}

fn rate(input: &[u8], mut work: impl FnMut()) -> f64 {
    let best = (0..5).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    input.len() as f64 / best.fold(f64::INFINITY, f64::min) / f64::from(1 << 20)
}

fn repeat(piece: &[u8]) -> Vec<u8> {
    piece.repeat(SIZE / piece.len())
}

/// The next byte of a xorshift generator.
fn next(seed: &mut u64) -> u8 {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    seed.to_be_bytes()[0]
}
