//! Layer `text`: raw process output to model-safe text, page by page.

use procyard_text::{PageRequest, page};

fn main() {
    let raw = "\x1b[31merror\x1b[0m: \u{65e5}\u{672c}\u{8a9e}\x1b]0;title\x07 and so on\n".as_bytes();
    let first = page(raw, &PageRequest::new(12));
    let rest = page(&raw[first.consumed..], &PageRequest { ended: true, ..PageRequest::new(4096) });
    // No character is cut, no escape sequence leaks, and the pages join to the whole.
    println!("{:?} + {:?}", first.text, rest.text);
    assert_eq!(format!("{}{}", first.text, rest.text), "error: \u{65e5}\u{672c}\u{8a9e} and so on\n");
}
