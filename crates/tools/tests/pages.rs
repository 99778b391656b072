//! Pages of what real sessions keep: printed in chunks on both streams, kept on disk, the beginning of it let go.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod common;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use common::{Yard, id};
use procyard_testkit::Script;
use procyard_text::Renderer;
use proptest::prelude::*;
use serde_json::{Value, json};

fn chunks() -> impl Strategy<Value = Vec<(bool, Vec<u8>)>> {
    let known: Vec<&[u8]> = vec![
        b"text\n",
        b"\r 50%",
        b"\x1b[2K\x1b[G|",
        b"\x1b[3",
        b"1mred\x1b[0m",
        "日本語".as_bytes(),
        b"\xe6\x97",
        b"\xa5",
        b"\0",
        b"\xff",
        "\u{202e}".as_bytes(),
        b"\x1b]0;title\x07",
    ];
    let bytes = prop_oneof![
        8 => proptest::sample::select(known).prop_map(<[u8]>::to_vec),
        2 => (1_usize..6000).prop_map(|len| b"0123456789".repeat(len / 10 + 1)),
        1 => proptest::collection::vec(any::<u8>(), 1..40),
    ];
    proptest::collection::vec((any::<bool>(), bytes), 1..40)
}

/// Reads page after page; gives what they show, and where the first one began.
async fn read(yard: &Yard, process: &str, limits: &[u64], how: &Value) -> (Vec<u8>, u64) {
    let (mut all, mut cursor, mut began) = (Vec::new(), 0, None);
    for limit in limits.iter().cycle() {
        let arguments = common::with(json!({"cursor": cursor, "limit_bytes": limit}), how.clone());
        let page = yard.output(process, arguments).await;
        let output = page["output"].as_str().unwrap();
        if how.get("encoding").is_some() {
            all.extend(STANDARD.decode(output).unwrap());
        } else {
            all.extend(output.as_bytes());
        }
        began.get_or_insert(page["start_cursor"].as_u64().unwrap());
        let next = page["next_cursor"].as_u64().unwrap();
        if next == cursor {
            break;
        }
        cursor = next;
    }
    (all, began.unwrap())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn pages_of_a_kept_stream_join_to_what_was_printed(
        chunks in chunks(), limits in proptest::collection::vec(300_u64..6000, 1..4), ceiling in 4_096_u64..40_000,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let script = chunks.iter().fold(Script::new(), |script, (err, bytes)| {
                if *err { script.stderr(bytes) } else { script.stdout(bytes) }
            });
            let yard = Yard::new(script.exit(0)).await;
            let result = yard.bash(json!({"max_output_bytes": ceiling})).await;
            let process = id(&result);
            for stream in ["both", "stdout", "stderr"] {
                let exact = json!({"stream": stream, "encoding": "base64"});
                let (bytes, began) = read(&yard, &process, &limits, &exact).await;
                let printed: Vec<u8> = chunks
                    .iter()
                    .filter(|(err, _)| stream == "both" || *err == (stream == "stderr"))
                    .flat_map(|(_, bytes)| bytes.clone())
                    .collect();
                // The two streams are read in an order of their own, each of them in the order it was printed.
                if stream != "both" {
                    assert!(printed.ends_with(&bytes), "{stream} is not an end of what was printed");
                    assert!(began > 0 || bytes == printed);
                }
                let mut text = String::new();
                let mut renderer = if began > 0 { Renderer::resynchronising() } else { Renderer::new() };
                renderer.push(&bytes, &mut text);
                renderer.finish(&mut text);
                let shown = read(&yard, &process, &limits, &json!({"stream": stream, "collapse": false})).await.0;
                assert_eq!(String::from_utf8(shown).unwrap(), text);
            }
        });
    }
}
