//! No input costs more than linear time.

use std::time::{Duration, Instant};

use procyard_text::{PageRequest, Renderer, page, safe_text, tail_page};

/// Pieces of streams that would be expensive if something were looked at again and again.
const PIECES: &[&str] = &[
    "a",
    "é",
    "日",
    "\u{FFFD}\x1b[m",
    "\r1%",
    "\rabc\x08",
    "\x1b[2Kx",
    "x\x1b[2K",
    "\x1b[999Gx\x1b[2K",
    "\x1b[4999Gx\x1b[1K",
    "\x1b[4999Cx\x1b[1K\ry",
    "abcdefgh\x1b[1K",
    "\x1b[K",
    "x\x1b[D\x1b[K",
    "e\u{301}\u{301}\x08",
    "\t\x08",
    "\r日\x08",
    "\x1b]",
    "\x1b]\x1b",
    "\x1b[\n",
    "\u{9B}",
    "\u{9D}\u{C2}",
    "\u{202E}",
    "\r\n",
    "\n",
];

const TIMES: usize = 32;

/// One long input must not cost much more than as many bytes in short ones. Were it quadratic, it would cost 32
/// times as much; other load on the machine is given three chances to go away.
fn check(name: &str, work: impl Fn(&[u8])) {
    let invalid: [&[u8]; 4] = [b"\xff", b"a\xff", b"\xe2\x82", b"\x80\x00"];
    for piece in PIECES.iter().map(|piece| piece.as_bytes()).chain(invalid) {
        let short = piece.repeat((2 << 10) / piece.len());
        let long = short.repeat(TIMES);
        let measure = || {
            let start = Instant::now();
            (0..TIMES).for_each(|_| work(&short));
            let of_short = start.elapsed();
            work(&long);
            (of_short, start.elapsed().saturating_sub(of_short))
        };
        let linear = || {
            let (of_short, of_long) = measure();
            of_long < of_short.max(Duration::from_millis(1)) * 8
        };
        assert!((0..3).any(|_| linear()), "{name} of {:?}", String::from_utf8_lossy(piece));
    }
}

#[test]
fn rendering_is_linear() {
    check("rendering", |bytes| {
        safe_text(bytes);
    });
    check("rendering bytewise", |bytes| {
        let mut renderer = Renderer::new();
        let mut out = String::new();
        for byte in bytes {
            renderer.push(&[*byte], &mut out);
        }
    });
}

#[test]
fn collapsing_is_linear() {
    let request = PageRequest { collapse: true, positions: true, ..PageRequest::new(1 << 20) };
    check("collapsing", |bytes| {
        page(bytes, &request);
    });
    // A long line first, so that whatever walks along the line walks far.
    check("collapsing a long line", |bytes| {
        let mut line = vec![b'x'; bytes.len()];
        line.extend(bytes);
        page(&line, &request);
    });
    check("collapsed tail", |bytes| {
        tail_page(bytes, &PageRequest { limit: 1000, ..request });
    });
}

#[test]
fn reading_in_small_pages_is_linear() {
    for collapse in [false, true] {
        check("small pages", |bytes| {
            let request = PageRequest { collapse, ended: true, positions: true, ..PageRequest::new(100) };
            let mut cursor = 0;
            loop {
                // As much as a unit can have, as a reader offers it.
                let page = page(&bytes[cursor..], &request);
                cursor += page.consumed;
                if !page.full {
                    break;
                }
            }
        });
    }
}
