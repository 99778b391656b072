//! Handles: one text for each, no other text for any, and a bounded search for a free one.

use procyard_core::{GENERATE_RETRIES, GenerateError, HANDLE_TEXT_LEN, Handle, SignalNumber};
use proptest::prelude::*;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

proptest! {
    #[test]
    fn a_handle_reads_back_from_its_text(bytes: [u8; 16]) {
        let handle = Handle::from_bytes(bytes);
        let text = handle.reveal();
        prop_assert_eq!(text.len(), HANDLE_TEXT_LEN);
        prop_assert!(text.bytes().all(|byte| ALPHABET.contains(&byte)));
        prop_assert_eq!(text.parse(), Ok(handle));
        let json = serde_json::to_string(&handle)?;
        prop_assert_eq!(serde_json::from_str::<Handle>(&json)?, handle);
    }

    #[test]
    fn a_text_that_parses_is_the_one_text_of_its_handle(text in "[A-Za-z0-9_=+/-]{20,24}|.{0,30}") {
        if let Ok(handle) = text.parse::<Handle>() {
            prop_assert_eq!(handle.reveal(), text);
        }
    }

    #[test]
    fn of_all_last_characters_only_those_without_stray_bits_parse(bytes: [u8; 16]) {
        let text = Handle::from_bytes(bytes).reveal();
        let head = &text[..HANDLE_TEXT_LEN - 1];
        let parsed: Vec<usize> = (0..64)
            .filter(|last| format!("{head}{}", char::from(ALPHABET[*last])).parse::<Handle>().is_ok())
            .collect();
        prop_assert_eq!(parsed, [0, 16, 32, 48]);
    }

    #[test]
    fn what_is_added_to_or_taken_from_a_text_makes_it_no_handle(bytes: [u8; 16], at in 0..22_usize, put in ".") {
        let text = Handle::from_bytes(bytes).reveal();
        let mut longer = text.clone();
        longer.insert_str(at, &put);
        prop_assert!(longer.parse::<Handle>().is_err());
        let mut shorter = text;
        shorter.remove(at);
        prop_assert!(shorter.parse::<Handle>().is_err());
    }

    #[test]
    fn debug_shows_four_characters_and_no_more(bytes: [u8; 16]) {
        let handle = Handle::from_bytes(bytes);
        prop_assert_eq!(format!("{handle:?}"), format!("{}…", &handle.reveal()[..4]));
    }

    #[test]
    fn the_search_for_a_free_handle_is_bounded(taken in 0..20_usize) {
        let (mut drawn, mut asked) = (0_u8, 0);
        let found = Handle::generate(
            |bytes| {
                drawn += 1;
                *bytes = [drawn; 16];
                true
            },
            |_| {
                asked += 1;
                asked <= taken
            },
        );
        let draws = usize::from(drawn);
        if taken <= GENERATE_RETRIES {
            prop_assert_eq!(found, Ok(Handle::from_bytes([drawn; 16])));
            prop_assert_eq!(draws, taken + 1);
        } else {
            prop_assert_eq!(found, Err(GenerateError::Collision));
            prop_assert_eq!(draws, GENERATE_RETRIES + 1);
        }
    }

    #[test]
    fn a_failing_random_source_is_an_error_whenever_it_fails(good in 0..GENERATE_RETRIES) {
        let mut left = good;
        let found = Handle::generate(
            |_| {
                let works = left > 0;
                left = left.saturating_sub(1);
                works
            },
            |_| true,
        );
        prop_assert_eq!(found, Err(GenerateError::Random));
    }

    #[test]
    fn a_signal_has_one_name(text in "SIG[A-Z]{2,5}|SIGRT[+0-9]{1,4}|.{0,8}") {
        if let Ok(signal) = serde_json::from_value::<SignalNumber>(text.clone().into()) {
            prop_assert_eq!(signal.name(), text);
        }
    }
}

#[test]
fn every_signal_reads_back_from_its_name() {
    for number in 0..=u8::MAX {
        let Some(signal) = SignalNumber::new(number) else {
            assert!(number == 0 || number > 64);
            continue;
        };
        assert_eq!((signal.number(), signal.to_string()), (number, signal.name()));
        let name = serde_json::to_value(signal).expect("a name is a string");
        assert_eq!(serde_json::from_value::<SignalNumber>(name).expect("its own name"), signal);
    }
    let odd = serde_json::from_str::<SignalNumber>("\"SIGRT9\"");
    assert!(odd.is_err(), "SIGKILL is not a real-time signal");
}
