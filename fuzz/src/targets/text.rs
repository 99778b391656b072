//! Safe text of any stream, read whole, in portions, in pages and from its end.

use procyard_text::{PageRequest, Renderer, page, safe_text, tail_page};

/// The first byte says how the rest is divided.
pub(crate) fn text(data: &[u8]) {
    let Some((&division, stream)) = data.split_first() else { return };
    let whole = safe_text(stream);
    assert!(whole.chars().all(is_safe), "{whole:?}");
    assert_eq!(safe_text(whole.as_bytes()), whole, "safe text is a fixed point");

    let portion = usize::from(division % 16) + 1;
    let mut renderer = Renderer::new();
    let mut streamed = String::new();
    for part in stream.chunks(portion) {
        renderer.push(part, &mut streamed);
    }
    renderer.finish(&mut streamed);
    assert_eq!(streamed, whole, "portions of {portion} make no difference");

    let limit = usize::from(division / 16) + 1;
    let mut joined = String::new();
    let mut cursor = 0;
    loop {
        let request = PageRequest { ended: true, ..PageRequest::new(limit) };
        let part = page(&stream[cursor..], &request);
        assert!(part.consumed > 0 || cursor == stream.len(), "no progress at {cursor}");
        joined.push_str(&part.text);
        cursor += part.consumed;
        if !part.full {
            break;
        }
    }
    assert_eq!((joined.as_str(), cursor), (whole.as_str(), stream.len()), "pages of {limit} compose");

    for collapse in [false, true] {
        let request = PageRequest { ended: true, collapse, ..PageRequest::new(usize::MAX) };
        let collapsed = page(stream, &request);
        assert!(collapsed.text.chars().all(is_safe), "{:?}", collapsed.text);
        assert_eq!(collapsed.consumed, stream.len());
    }
    let end = tail_page(stream, &PageRequest { ended: true, ..PageRequest::new(limit) });
    assert!(whole.ends_with(&end.text), "{:?} is not the end of {whole:?}", end.text);
}

fn is_safe(ch: char) -> bool {
    matches!(ch, '\t' | '\n' | '\r')
        || !(ch.is_control() || matches!(ch, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}'))
}
