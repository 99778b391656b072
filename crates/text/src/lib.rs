//! Raw process output to text that is safe for a model and for a terminal to read, resumable at any cursor.
//!
//! What a command prints is bytes: broken characters, colours, cursor movements, window titles, images, progress
//! bars, text that poses as other text. *Safe text* is what remains:
//!
//! - valid UTF-8 as it is; each maximal invalid part is one U+FFFD;
//! - no C0 and C1 controls but tab, newline and carriage return, and no DEL;
//! - no escape sequences: they are parsed as a terminal parses them and removed whole, however long they are and
//!   however they are torn; one that does not end is given up after [`SEQUENCE_LIMIT`];
//! - bidirectional embeddings, overrides and isolates made visible, as `<U+202E>`.
//!
//! [`Renderer`] renders a stream, [`PageBuilder`] and [`page`] a part of one within a budget, so that the parts
//! compose; [`tail_page`] the end. A page can show what repainted lines ended as. Labels for lists and tags are
//! made by [`shorten`] and [`escape_tag_text`].
//!
//! Each function costs time linear in its input and does nothing else: no input or output, no clock, no runtime.
//! It is no terminal emulator: it keeps no screen, and it filters no streams and knows no cursors; offsets are
//! those of the bytes it is given.
//!
//! ```
//! use procyard_text::{PageRequest, page, safe_text};
//!
//! let output = b"\x1b[1;32m   Compiling\x1b[0m app\n 10%\r 55%\r100%\n";
//! assert_eq!(safe_text(output), "   Compiling app\n 10%\r 55%\r100%\n");
//!
//! let request = PageRequest { collapse: true, ended: true, ..PageRequest::new(32 << 10) };
//! let page = page(output, &request);
//! assert_eq!(page.text, "   Compiling app\n100%\n");
//! assert_eq!(page.consumed, output.len());
//! assert!(page.normalized && !page.binary);
//! ```

mod binary;
mod builder;
mod collapse;
mod label;
mod line;
mod page;
mod parser;
mod positions;
mod renderer;
mod scan;
mod tail;
mod width;

pub use binary::Counts;
pub use builder::{PageBuilder, Progress};
pub use label::{escape_tag_text, shorten};
pub use page::{Page, PageRequest, page};
pub use parser::SEQUENCE_LIMIT;
pub use renderer::{Renderer, safe_text};
pub use scan::{continuation_len, tail_start};
pub use tail::tail_page;
