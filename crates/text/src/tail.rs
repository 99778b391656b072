//! The end of an output within a budget.
//!
//! It keeps the end of what it is given; which bytes those are is the reader's affair.

use crate::page::{Page, PageRequest, page};

/// Renders the end of `input`, to which the page's budget applies from its end.
///
/// All of `input` is rendered, so the caller bounds it. [`Page::start`] says where in `input` the text begins: at a
/// unit, or, in a line that was repainted, at that line.
///
/// ```
/// use procyard_text::{PageRequest, tail_page};
///
/// let tail = tail_page("one\ntwo\nthree\n".as_bytes(), &PageRequest::new(10));
/// assert_eq!((tail.text.as_str(), tail.start), ("two\nthree\n", 4));
/// ```
pub fn tail_page(input: &[u8], request: &PageRequest) -> Page {
    let all = PageRequest { limit: usize::MAX, positions: true, ..*request };
    let mut whole = page(input, &all);
    let Some(positions) = whole.positions.take_if(|_| whole.text.len() > request.limit.max(1)) else {
        whole.positions = whole.positions.filter(|_| request.positions);
        return whole;
    };
    let end = whole.text.len();
    let mut cut = positions.border(whole.text.ceil_char_boundary(end - request.limit.max(1)), end);
    if cut == end {
        // One unit exceeds the budget: it is returned whole.
        let last = whole.text.floor_char_boundary(end - 1);
        cut = positions.unit_start(last);
    }
    let start = positions.input(cut);
    if request.collapse {
        whole.text.drain(..cut);
        whole.start = start;
        if request.positions {
            let mut kept = positions;
            kept.cut_front(cut);
            whole.positions = Some(kept);
        }
        return whole;
    }
    // Rendered again from there, so that the flags speak of these bytes alone.
    let shown = PageRequest { resync: false, positions: request.positions, ..all };
    let mut tail = page(&input[start..], &shown);
    tail.start = start;
    tail.consumed += start;
    if let Some(positions) = &mut tail.positions {
        positions.shift(start);
    }
    tail
}
