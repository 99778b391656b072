//! What is shown, what is replaced and what is removed.

use procyard_text::{Renderer, SEQUENCE_LIMIT, safe_text};

fn check(input: impl AsRef<[u8]>, expect: &str) {
    let input = input.as_ref();
    let shown: String = input.iter().take(80).map(|byte| char::from(*byte)).collect();
    assert_eq!(safe_text(input), expect, "{shown:?}");
    let mut bytewise = String::new();
    let mut renderer = Renderer::new();
    for byte in input {
        renderer.push(&[*byte], &mut bytewise);
    }
    renderer.finish(&mut bytewise);
    assert_eq!(bytewise, expect, "bytewise: {shown:?}");
    assert_eq!(renderer.normalized(), input != expect.as_bytes(), "normalized: {shown:?}");
}

#[test]
fn text_stays_as_it_is() {
    check("", "");
    check(
        "plain ASCII ~ text\n\twith tabs\r\nand lone\rreturns\n",
        "plain ASCII ~ text\n\twith tabs\r\nand lone\rreturns\n",
    );
    check("grüße 日本語 🚀 ﷽", "grüße 日本語 🚀 ﷽");
    check(
        "e\u{301} 👩\u{200D}💻 \u{200B}\u{200E}\u{200F}\u{FEFF}\u{AD}\u{61C}",
        "e\u{301} 👩\u{200D}💻 \u{200B}\u{200E}\u{200F}\u{FEFF}\u{AD}\u{61C}",
    );
    check("\u{A0}\u{FFFD}\u{10FFFF}\u{E000}\u{2028}", "\u{A0}\u{FFFD}\u{10FFFF}\u{E000}\u{2028}");
}

#[test]
fn each_maximal_invalid_part_is_one_replacement() {
    check(b"\xff", "\u{FFFD}");
    check(b"a\x80b", "a\u{FFFD}b");
    check(b"\x9b31m", "\u{FFFD}31m");
    check(b"\xc0\xaf", "\u{FFFD}\u{FFFD}");
    check(b"\xe2\x82", "\u{FFFD}");
    check(b"\xe2\x82A", "\u{FFFD}A");
    check(b"\xe2\x82\xe2\x82\xac", "\u{FFFD}€");
    check(b"\xed\xa0\x80", "\u{FFFD}\u{FFFD}\u{FFFD}");
    check(b"\xf0\x9f\x98", "\u{FFFD}");
    check(b"\xf0\x9f\x98\x1b[m!", "\u{FFFD}!");
    check(b"\xf4\x90\x80\x80", "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}");
    check(b"\xf8\x88\x80\x80\x80", "\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}\u{FFFD}");
    check(b"na\xefve caf\xe9", "na\u{FFFD}ve caf\u{FFFD}");
}

#[test]
fn controls_are_removed() {
    check(b"a\x00b\x07c\x08d\x0be\x0cf\x0e\x0fg\x7fh\x18i\x1aj", "abcdefghij");
    check("a\u{80}b\u{85}c\u{84}d\u{8D}e\u{99}f\u{9C}g", "abcdefg");
}

#[test]
fn bidirectional_controls_are_made_visible() {
    check("\u{202A}\u{202B}\u{202C}\u{202D}\u{202E}", "<U+202A><U+202B><U+202C><U+202D><U+202E>");
    check("\u{2066}\u{2067}\u{2068}\u{2069}", "<U+2066><U+2067><U+2068><U+2069>");
    check("if x \u{202E}} {\u{2066}// ok", "if x <U+202E>} {<U+2066>// ok");
    check("\u{2029}\u{202F}\u{2065}\u{206A}", "\u{2029}\u{202F}\u{2065}\u{206A}");
}

#[test]
fn control_sequences_are_removed_whole() {
    check("\x1b[31mred\x1b[0m", "red");
    check("\x1b[38;2;1;2;3mrgb\x1b[38:5:9mx\x1b[m", "rgbx");
    check("\x1b[?25l\x1b[2J\x1b[1;1Hx\x1b[>c\x1b[!p\x1b[2 q\x1b[?2004h", "x");
    check("\u{9B}31mred\u{9B}0m", "red");
    check("\x1b[31", "");
    check("a\x1b", "a");
    check("a\x1b[", "a");
    check("\x1b[3~x\x1b[@y\x1b[1`z", "xyz");
    // What no terminal prints, malformed as it is.
    check("\x1b[3é1日mx", "x");
    check(b"\x1b[3\xff1mx", "x");
    check("\x1b[3\u{202E}1mx", "x");
    check("\x1b[1;2\x7f;3mx", "x");
}

#[test]
fn controls_inside_a_sequence_act_as_a_terminal_lets_them() {
    check("a\x1b[3\n1mb", "a\nb");
    check("a\x1b[3\r\n\t\x07\x081mb", "a\r\n\tb");
    check("a\x1b\n[31mb", "a\nb");
    check("a\x1b[31\nb", "a\n");
    check("a\x1b[3\x18b", "ab");
    check("a\x1b[3\x1ab", "ab");
    check("a\x1b[3\x1b[32mb", "ab");
    check("a\x1b\x1b\x1b[32mb", "ab");
    check("a\x1b[3\u{9B}32mb", "ab");
    check("a\x1b[3\u{85}2mb", "a2mb");
    check("a\x1b[3\u{9C}2mb", "a2mb");
    check("a\x1b[3\u{9D}0;title\x07b", "ab");
}

#[test]
fn other_escape_sequences_are_removed_whole() {
    check("\x1b(Ba\x1b)0b\x1b#8c\x1b%Gd\x1b=e\x1b>f\x1b7g\x1b8h\x1bci\x1bMj", "abcdefghij");
    check("\x1b $<~x", "~x");
    check("\x1bNa\x1bOb", "ab");
    check("\x1b\\x", "x");
    check("\x1b\x7f[mx", "x");
    check("\x1bé[31mx", "x");
}

#[test]
fn strings_are_removed_whole() {
    for introducer in
        ["\x1b]", "\x1bP", "\x1bX", "\x1b^", "\x1b_", "\u{9D}", "\u{90}", "\u{98}", "\u{9E}", "\u{9F}"]
    {
        for end in ["\x1b\\", "\u{9C}", "\x18", "\x1a"] {
            check(format!("a{introducer}0;title é日\n\r\t\u{85}\u{9B}\u{202E}{end}b"), "ab");
            check(format!("a{introducer}{end}b"), "ab");
        }
        check(format!("a{introducer}never ends\n"), "a");
        check(format!("a{introducer}cut \x1b[31mb"), "ab");
        check(format!("a{introducer}cut \x1b\x1b[31mb"), "ab");
        check(format!("a{introducer}cut \x1b"), "a");
    }
    check("\x1b]8;;https://example.com\x1b\\link\x1b]8;;\x07", "link");
    check("\x1bPa bell\x07 is content\x1b\\b", "b");
    check(b"\x1b]0;\xc2\x9cb", "b");
    check(b"\x1b]0;\xe2\xc2\x9cb", "b");
    check(b"\x1b]0;\xc2\x1b\\b", "b");
    check(b"\x1b]0;\xc2\xbf\xc2\xc2\x07b", "b");
    check("\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\b", "b");
    check("\x1b]0;\x1b]0;x\x07b", "b");
}

#[test]
fn long_strings_are_removed_too() {
    let image = "A".repeat(SEQUENCE_LIMIT - 2);
    check(format!("a\x1b_{image}\x1b\\b"), "ab");
    check(format!("a\x1b]{image}\x07b"), "ab");
    check(format!("a\x1bP{image}\u{9C}b"), "ab");
    check(format!("a\x1b[{}mb", "1".repeat(SEQUENCE_LIMIT - 3)), "ab");
}

#[test]
fn a_sequence_that_does_not_end_is_given_up_after_the_limit() {
    let content = "A".repeat(SEQUENCE_LIMIT - 2);
    check(format!("a\x1b_{content}b"), "ab");
    check(format!("a\x1b]{content}b\x07c"), "abc");
    check(format!("a\x1b[{}mb", "1".repeat(SEQUENCE_LIMIT - 2)), "amb");
    // A character that the limit cuts goes with it.
    let cut = &content[1..];
    check(format!("a\x1b_{cut}日b"), "ab");
    check(format!("a\x1b_{cut}éb"), "ab");
    check(format!("a\x1b[{cut}éb").replace('A', "1"), "ab");
    check(format!("a\x1b_{content}日b"), "a日b");
    // Each sequence counts for itself.
    check(format!("a\x1b_{cut}\x1b_{content}b"), "ab");
}

#[test]
fn resynchronising_skips_a_cut_character_only() {
    let check = |input: &[u8], expect: &str| {
        let mut renderer = Renderer::resynchronising();
        let mut out = String::new();
        for byte in input {
            renderer.push(&[*byte], &mut out);
        }
        renderer.finish(&mut out);
        assert_eq!(out, expect, "{input:?}");
    };
    check(b"abc", "abc");
    check(b"\x80abc", "abc");
    check(b"\x80\x80abc\x80", "abc\u{FFFD}");
    check(b"\x80\x80\x80abc", "abc");
    check(b"\x80\x80\x80\x80abc", "\u{FFFD}abc");
    check(b"\x80\x1b[m\x80", "\u{FFFD}");
    check(b"\x80\x80", "");
    check("é".as_bytes(), "é");
}

#[test]
fn the_ground_state_is_between_units() {
    let check = |input: &[u8], expect: bool| {
        let mut renderer = Renderer::new();
        renderer.push(input, &mut String::new());
        assert_eq!(renderer.in_ground(), expect, "{input:?}");
    };
    check(b"", true);
    check(b"a", true);
    check(b"\xe2\x82", false);
    check("€".as_bytes(), true);
    check(b"\x1b", false);
    check(b"\x1b[3", false);
    check(b"\x1b[3m", true);
    check(b"\x1b]0;x\x1b", false);
    check(b"\x1b]0;x\x1b\\", true);
}

#[test]
fn nul_and_many_controls_look_binary() {
    let check = |input: &[u8], expect: bool| {
        let mut renderer = Renderer::new();
        let mut out = String::new();
        renderer.push(input, &mut out);
        renderer.finish(&mut out);
        assert_eq!(renderer.binary(), expect, "{input:?}");
    };
    check(b"", false);
    check(b"text\n", false);
    check(b"a NUL \x00", true);
    check(b"\x7fELF\x02\x01\x01\x03\x0e\x04", true);
    check(b"\xff\xd8\xff\xe0", true);
    check("日本語\u{FFFD}".as_bytes(), false);
    check(b"caf\xe9", false);
    check(b"un caf\xe9 cr\xe8me et un th\xe9 glac\xe9, s'il vous pla\xeet, dans le jardin d'en face", false);
    check(b"\x1b[31m\x1b[1m\x1b[0m\x07\x07\x08\x08", false);
}
