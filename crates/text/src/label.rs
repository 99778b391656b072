//! Outside text inside other text: in a tag, in a list.
//!
//! For short labels such as command lines and descriptions; output goes through the renderer.

use crate::renderer::safe_text;
use crate::scan::is_bidi;

/// Escapes text so that, inside an XML-like tag or one of its attributes, it can neither close nor forge a tag
/// nor begin a line: `&`, `<`, `>` and quotes become entities; controls, line and paragraph separators and
/// bidirectional controls become numeric character references.
///
/// ```
/// use procyard_text::escape_tag_text;
///
/// assert_eq!(escape_tag_text("a && b </status>\n"), "a &amp;&amp; b &lt;/status&gt;&#10;");
/// ```
pub fn escape_tag_text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for ch in text.chars() {
        match ch {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ if ch.is_control() || is_bidi(ch) || matches!(ch, '\u{2028}' | '\u{2029}') => {
                out.push_str("&#");
                out.push_str(&u32::from(ch).to_string());
                out.push(';');
            }
            _ => out.push(ch),
        }
    }
    out
}

/// A label of one line and at most `max_chars` characters: safe text, each run of white space one space, none at
/// the ends, and an ellipsis as the last character where something was cut off.
///
/// ```
/// use procyard_text::shorten;
///
/// assert_eq!(shorten("npm  run\n\tbuild", 80), "npm run build");
/// assert_eq!(shorten("npm run build", 8), "npm run…");
/// ```
pub fn shorten(text: &str, max_chars: usize) -> String {
    let safe = safe_text(text.as_bytes());
    let mut label = String::new();
    let mut chars = 0;
    for word in safe.split_whitespace() {
        let space = usize::from(!label.is_empty());
        let length = word.chars().count();
        if chars + space + length <= max_chars {
            label.extend(std::iter::repeat_n(' ', space));
            label.push_str(word);
            chars += space + length;
            continue;
        }
        let Some(room) = max_chars.checked_sub(chars + space + 1) else {
            // Not even the ellipsis fits behind what is there.
            return ellipsis(&label, max_chars);
        };
        if room > 0 {
            label.extend(std::iter::repeat_n(' ', space));
            label.extend(word.chars().take(room));
        }
        label.push('…');
        return label;
    }
    label
}

/// `label`, which has more than `max_chars - 1` characters, cut so that an ellipsis fits.
fn ellipsis(label: &str, max_chars: usize) -> String {
    let Some(room) = max_chars.checked_sub(1) else { return String::new() };
    let kept: String = label.chars().take(room).collect();
    let mut cut = kept.trim_end().to_owned();
    cut.push('…');
    cut
}

#[cfg(test)]
mod tests {
    use super::{escape_tag_text, shorten};

    #[test]
    fn no_text_closes_or_forges_a_tag() {
        let check = |text, expect: &str| assert_eq!(escape_tag_text(text), expect, "{text:?}");
        check("", "");
        check("plain ünïcode 日本", "plain ünïcode 日本");
        check("</task-id>", "&lt;/task-id&gt;");
        check("\"'&amp;", "&quot;&#39;&amp;amp;");
        check("a\r\n\tb", "a&#13;&#10;&#9;b");
        check("\x1b[0m\u{9b}\u{7f}", "&#27;[0m&#155;&#127;");
        check("\u{202e}gpj\u{2028}", "&#8238;gpj&#8232;");
    }

    #[test]
    fn a_label_is_one_line_of_bounded_length() {
        let check =
            |text, max, expect: &str| assert_eq!(shorten(text, max), expect, "{text:?} at most {max}");
        check("", 5, "");
        check("   ", 5, "");
        check("abc", 3, "abc");
        check("abcd", 3, "ab…");
        check("abcd", 1, "…");
        check("abcd", 0, "");
        check("ab cd", 5, "ab cd");
        check("ab cd", 4, "ab…");
        check("ab cd", 3, "ab…");
        check("ab cd", 2, "a…");
        check("ab cde", 5, "ab c…");
        check("日本語テキスト", 4, "日本語…");
        check("\x1b[31mred\x1b[0m\u{0}\r\n  end", 20, "red end");
        check("a\u{a0}\u{2003}b", 20, "a b");
        check("\u{202e}x", 20, "<U+202E>x");
    }
}
