//! What holds for every stream and every way to read it.

mod common;

use common::{Op, divide, ops, reference, screen, soup};
use procyard_text::{
    Page, PageBuilder, PageRequest, Progress, Renderer, continuation_len, page, safe_text, tail_page,
};
use proptest::prelude::*;

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    proptest::collection::vec(prop_oneof![1usize..8, 1usize..200], 1..6)
}

/// Reads page after page with limits from `limits`, to the end, and checks each.
fn read_all(stream: &[u8], limits: &[usize], request: PageRequest) -> Vec<Page> {
    let mut cursor = 0;
    let mut pages = Vec::new();
    for &limit in limits.iter().cycle() {
        let page = page(&stream[cursor..], &PageRequest { limit, ended: true, ..request });
        assert!(page.consumed > 0 || cursor == stream.len(), "no progress at {cursor}");
        let bytes = &stream[cursor..cursor + page.consumed];
        // In a collapsed page, blanks in front belong to the unit.
        let one = if request.collapse {
            page.text.trim().len() <= "<U+202E>".len()
        } else {
            page.text.len() <= limit || one_unit(bytes, &page.text)
        };
        assert!(page.text.len() <= limit || one, "{:?} exceeds {limit} with more than one unit", page.text);
        cursor += page.consumed;
        assert_eq!(continuation_len(&stream[..cursor], &stream[cursor..]), 0);
        let done = !page.full;
        pages.push(page);
        if done {
            assert_eq!(cursor, stream.len());
            return pages;
        }
    }
    unreachable!("limits are not empty")
}

/// Whether all of `text` comes with one unit.
fn one_unit(bytes: &[u8], text: &str) -> bool {
    let mut builder = PageBuilder::new(&PageRequest::new(usize::MAX));
    for byte in bytes {
        builder.feed(&[*byte]);
        let so_far = builder.clone().finish(false).text;
        if !so_far.is_empty() {
            return so_far == text;
        }
    }
    builder.finish(true).text == text
}

fn join(pages: &[Page]) -> String {
    pages.iter().map(|page| page.text.as_str()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 1000 } else { 20_000 }))]

    #[test]
    fn text_is_what_the_plain_reference_says(stream in soup()) {
        prop_assert_eq!(safe_text(&stream), reference(&stream));
    }

    #[test]
    fn portions_do_not_matter(stream in soup(), sizes in sizes()) {
        let mut renderer = Renderer::new();
        let mut out = String::new();
        for part in divide(&stream, &sizes) {
            renderer.push(part, &mut out);
        }
        renderer.finish(&mut out);
        prop_assert_eq!(&out, &safe_text(&stream));
        prop_assert_eq!(renderer.normalized(), out.as_bytes() != stream);
    }

    #[test]
    fn nothing_unsafe_comes_out_and_safe_text_is_a_fixed_point(stream in soup()) {
        let text = safe_text(&stream);
        for ch in text.chars() {
            prop_assert!(!ch.is_control() || matches!(ch, '\t' | '\n' | '\r'), "{:?}", ch);
            prop_assert!(!matches!(ch, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'), "{:?}", ch);
        }
        prop_assert_eq!(safe_text(text.as_bytes()), text);
    }

    #[test]
    fn pages_compose(stream in soup(), limits in sizes()) {
        let pages = read_all(&stream, &limits, PageRequest::new(1));
        prop_assert_eq!(join(&pages), safe_text(&stream));
        let mut start = 0;
        for page in &pages {
            let bytes = &stream[start..start + page.consumed];
            prop_assert_eq!(page.normalized, page.text.as_bytes() != bytes);
            start += page.consumed;
        }
    }

    #[test]
    fn pages_compose_while_the_stream_grows(stream in soup(), limits in sizes(), growth in sizes()) {
        let mut cursor = 0;
        let mut available = 0;
        let mut text = String::new();
        let mut limits = limits.iter().cycle();
        for part in divide(&stream, &growth) {
            available += part.len();
            loop {
                let page = page(&stream[cursor..available], &PageRequest::new(*limits.next().unwrap()));
                cursor += page.consumed;
                text.push_str(&page.text);
                if !page.full {
                    prop_assert_eq!(cursor + page.held_back, available);
                    break;
                }
                prop_assert!(page.consumed > 0);
            }
        }
        let last = page(&stream[cursor..], &PageRequest { ended: true, ..PageRequest::new(usize::MAX) });
        text.push_str(&last.text);
        prop_assert_eq!(text, safe_text(&stream));
    }

    #[test]
    fn a_page_does_not_depend_on_portions(
        stream in soup(), sizes in sizes(), limit in 1usize..300, collapse: bool, resync: bool, ended: bool,
    ) {
        let request = PageRequest { limit, collapse, resync, ended, positions: true };
        let mut builder = PageBuilder::new(&request);
        for part in divide(&stream, &sizes) {
            if builder.feed(part) == Progress::Full {
                break;
            }
        }
        prop_assert_eq!(builder.finish(ended), page(&stream, &request));
    }

    #[test]
    fn gaps_lose_nothing_else(parts in proptest::collection::vec(soup(), 1..4), limits in sizes()) {
        let mut expect = String::new();
        for (index, part) in parts.iter().enumerate() {
            let mut renderer = if index == 0 { Renderer::new() } else { Renderer::resynchronising() };
            renderer.push(part, &mut expect);
            renderer.finish(&mut expect);
        }
        let starts: Vec<usize> =
            parts.iter().scan(0, |at, part| Some(std::mem::replace(at, *at + part.len()))).collect();
        let stream = parts.concat();
        let mut cursor = 0;
        let mut text = String::new();
        for &limit in limits.iter().cycle() {
            // A cursor that is the start of a part is read as behind the gap.
            let resync = starts[1..].contains(&cursor);
            let mut builder = PageBuilder::new(&PageRequest { limit, resync, ..PageRequest::new(1) });
            let mut at = cursor;
            while at < stream.len() {
                if at != cursor && starts.contains(&at) {
                    builder.gap();
                }
                let end = starts.iter().copied().find(|&start| start > at).unwrap_or(stream.len());
                builder.feed(&stream[at..end]);
                at = end;
            }
            let page = builder.finish(true);
            text.push_str(&page.text);
            cursor += page.consumed;
            if !page.full {
                break;
            }
            prop_assert!(page.consumed > 0);
        }
        prop_assert_eq!(text, expect);
    }

    #[test]
    fn text_offsets_lead_back_to_the_input(stream in soup(), limit in 1usize..300) {
        let request = PageRequest { limit, positions: true, ..PageRequest::new(1) };
        let page = page(&stream, &request);
        for (at, _) in page.text.char_indices() {
            let input = page.input_offset(at).unwrap();
            let rest = safe_text(&stream[input..page.consumed]);
            prop_assert!(page.text.ends_with(&rest), "{} gives {}: {:?}", at, input, rest);
            prop_assert!(rest.ends_with(&page.text[at..]), "{} gives {}: {:?}", at, input, rest);
        }
    }

    #[test]
    fn a_tail_is_the_end(stream in soup(), limit in 1usize..300) {
        let all = safe_text(&stream);
        let request = PageRequest { ended: true, positions: true, ..PageRequest::new(limit) };
        let tail = tail_page(&stream, &request);
        prop_assert!(all.ends_with(&tail.text));
        prop_assert_eq!(tail.text.is_empty(), all.is_empty());
        prop_assert_eq!(safe_text(&stream[tail.start..]), tail.text.as_str());
        prop_assert_eq!(tail.consumed, stream.len());
        if tail.text.len() > limit {
            prop_assert!(one_unit(&stream[tail.start..], &tail.text));
        }
        if !tail.text.is_empty() && tail.start > 0 {
            prop_assert_eq!(tail.input_offset(0), Some(tail.start));
        }
        let running = tail_page(&stream, &PageRequest { ended: false, ..request });
        prop_assert_eq!(running.consumed + running.held_back, stream.len());
    }

    #[test]
    fn collapsed_lines_end_as_a_screen_shows_them(ops in ops()) {
        let bytes: String = ops.iter().copied().map(Op::bytes).collect();
        let request = PageRequest { collapse: true, ended: true, ..PageRequest::new(usize::MAX) };
        prop_assert_eq!(page(bytes.as_bytes(), &request).text, screen(&ops));
    }

    #[test]
    fn collapsed_pages_cover_the_stream(stream in soup(), limits in sizes()) {
        let request = PageRequest { collapse: true, ..PageRequest::new(1) };
        for page in read_all(&stream, &limits, request) {
            for ch in page.text.chars() {
                prop_assert!(!ch.is_control() || matches!(ch, '\t' | '\n'), "{:?}", ch);
            }
        }
    }

    #[test]
    fn a_collapsed_tail_is_the_end(stream in soup(), limit in 1usize..300) {
        let request = PageRequest { collapse: true, ended: true, ..PageRequest::new(usize::MAX) };
        let all = page(&stream, &request).text;
        let tail = tail_page(&stream, &PageRequest { limit, positions: true, ..request });
        prop_assert!(all.ends_with(&tail.text));
        if !tail.text.is_empty() && tail.start > 0 {
            prop_assert_eq!(tail.input_offset(0), Some(tail.start));
        }
    }
}
