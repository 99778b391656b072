//! What a terminal sends for a key.
//!
//! The sequences are those of xterm (xterm control sequences, "PC-Style Function Keys"), whose cursor keys have another
//! form where a program asks for it, as programs on `ncurses` do. Not for knowing which form that is, and not for other
//! modes: who needs another sequence sends it as data.

/// Whether a key has two forms.
pub(crate) fn has_application_form(key: &str) -> bool {
    bytes_of(key, true) != bytes_of(key, false)
}

/// The bytes of a key by name, or `None` if there is no such key. `application`: in the application form of the cursor
/// keys.
pub(crate) fn bytes_of(key: &str, application: bool) -> Option<&'static [u8]> {
    Some(match key {
        "up" if application => b"\x1bOA",
        "down" if application => b"\x1bOB",
        "right" if application => b"\x1bOC",
        "left" if application => b"\x1bOD",
        "home" if application => b"\x1bOH",
        "end" if application => b"\x1bOF",
        "enter" => b"\r",
        "tab" => b"\t",
        "esc" => b"\x1b",
        "space" => b" ",
        "backspace" => b"\x7f",
        "up" => b"\x1b[A",
        "down" => b"\x1b[B",
        "right" => b"\x1b[C",
        "left" => b"\x1b[D",
        "home" => b"\x1b[H",
        "end" => b"\x1b[F",
        "pgup" => b"\x1b[5~",
        "pgdn" => b"\x1b[6~",
        "delete" => b"\x1b[3~",
        "f1" => b"\x1bOP",
        "f2" => b"\x1bOQ",
        "f3" => b"\x1bOR",
        "f4" => b"\x1bOS",
        "f5" => b"\x1b[15~",
        "f6" => b"\x1b[17~",
        "f7" => b"\x1b[18~",
        "f8" => b"\x1b[19~",
        "f9" => b"\x1b[20~",
        "f10" => b"\x1b[21~",
        "f11" => b"\x1b[23~",
        "f12" => b"\x1b[24~",
        _ => return control(key),
    })
}

/// `ctrl-a` to `ctrl-z`: the letter's place in the alphabet.
fn control(key: &str) -> Option<&'static [u8]> {
    static CONTROLS: [u8; 26] = *b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a";
    match key.strip_prefix("ctrl-")?.as_bytes() {
        [letter @ b'a'..=b'z'] => Some(std::slice::from_ref(&CONTROLS[usize::from(letter - b'a')])),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_sequence() {
        for (key, bytes) in [
            ("enter", &b"\r"[..]),
            ("backspace", b"\x7f"),
            ("left", b"\x1b[D"),
            ("pgdn", b"\x1b[6~"),
            ("ctrl-a", b"\x01"),
            ("ctrl-c", b"\x03"),
            ("ctrl-d", b"\x04"),
            ("ctrl-z", b"\x1a"),
            ("f1", b"\x1bOP"),
            ("f5", b"\x1b[15~"),
            ("f12", b"\x1b[24~"),
        ] {
            assert_eq!(bytes_of(key, false), Some(bytes), "{key}");
        }
    }

    #[test]
    fn cursor_keys_have_an_application_form_and_others_do_not() {
        for (key, bytes) in
            [("up", &b"\x1bOA"[..]), ("left", b"\x1bOD"), ("home", b"\x1bOH"), ("end", b"\x1bOF")]
        {
            assert_eq!(bytes_of(key, true), Some(bytes), "{key}");
            assert!(has_application_form(key));
        }
        for key in ["enter", "pgup", "delete", "f1", "ctrl-c", "hyper"] {
            assert!(!has_application_form(key), "{key}");
        }
    }

    #[test]
    fn what_is_no_key_has_none() {
        for key in ["", "Enter", "ctrl-", "ctrl-aa", "ctrl-A", "ctrl-1", "f0", "f13", "ctrl-ä"] {
            assert_eq!(bytes_of(key, false), None, "{key}");
        }
    }
}
