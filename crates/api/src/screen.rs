//! What a terminal shows.
//!
//! Not for drawing it: the tool has an emulator for that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person would see in a terminal. Rows and columns count from 1, the top left corner; a wide character takes two
/// columns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Screen {
    /// The text of each row from the top, without the blanks at its end. Blank rows at the bottom are left out.
    pub rows: Vec<String>,
    /// How many rows at the bottom are left out because all of them would exceed `limit_bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omitted_rows: Option<u64>,
    /// Text in reverse video, from the top: such as the selected entry of a menu. At most 32 pieces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub highlighted: Vec<Highlight>,
    /// Where the cursor is.
    pub cursor: ScreenCursor,
    /// The size of the terminal.
    pub size: ScreenSize,
    /// The title that the program gave its window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Whether it is the alternate screen, which full-screen programs use and leave without a trace.
    pub alternate: bool,
    /// Only output from this cursor on was drawn: what was painted before, and not since, is missing. Absent when all of the
    /// output was drawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_from: Option<u64>,
}

/// A piece of text in reverse video.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Highlight {
    /// Its row.
    pub row: u16,
    /// Its text.
    pub text: String,
}

/// The cursor of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenCursor {
    /// Its row.
    pub row: u16,
    /// Its column. A wide character takes two, an accent or another mark none.
    pub col: u16,
    /// Whether the program shows it.
    pub visible: bool,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScreenSize {
    /// Its rows.
    pub rows: u16,
    /// Its columns.
    pub cols: u16,
}
