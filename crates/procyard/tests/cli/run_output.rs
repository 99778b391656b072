//! `procyard run` as part of a pipeline: every byte, in order, at the pace of the slower side.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;

use crate::running::{Running, dawdle, read_exactly, read_until, within};
use crate::scene::{PROCYARD, Scene, eventually};

const MIB: usize = 1024 * 1024;

/// Bytes without a pattern that a lost, doubled or moved block could hide in.
struct Noise(u64);

impl Noise {
    fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    fn fill(&mut self, block: &mut [u8]) {
        for word in block.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_ne_bytes()[..word.len()]);
        }
    }
}

#[test]
fn output_is_passed_on_as_it_comes_in_the_order_of_both_streams() {
    let scene = Scene::new();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = scene
        .procyard(["run", "printf 1; read x; printf 2 >&2; read x; printf 3; read x; printf 4 >&2; read x"]);
    command.stdin(Stdio::piped()).stdout(writer.try_clone().unwrap()).stderr(writer);
    let mut running = Running::spawn_as_is(&mut command);
    drop(command);
    let mut reader = reader;
    for expected in b"1234" {
        let (back, got) = read_exactly(reader, 1);
        assert_eq!(got, [*expected]);
        reader = back;
        running.write(b"\n");
    }
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn input_is_passed_through_whole_also_to_a_slow_reader() {
    let scene = Scene::new();
    let mut sent = vec![0; 8 * MIB + 4321];
    Noise::new().fill(&mut sent);
    let mut running = Running::spawn(&mut scene.procyard(["run", "--", "cat"]));
    let (mut stdin, mut stdout) = (running.stdin.take().unwrap(), running.take_stdout());
    let input = sent.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let got = within(move || {
        let mut got = Vec::new();
        let mut block = vec![0; 256 * 1024];
        loop {
            let count = stdout.read(&mut block).unwrap();
            if count == 0 {
                return got;
            }
            got.extend_from_slice(&block[..count]);
            dawdle();
        }
    });
    writer.join().unwrap();
    assert!(got == sent, "{} bytes of {} came back as they were", got.len(), sent.len());
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn a_slow_reader_slows_the_command_down_and_loses_nothing() {
    const TOTAL: usize = 200 * MIB;
    const BURST: usize = 10 * MIB;
    /// What may be under way: in pipes, in pages and as far as the command may run ahead.
    const UNDER_WAY: usize = 16 * MIB;
    let scene = Scene::new();
    let path = scene.path().join("noise");
    let mut file = File::create(&path).unwrap();
    let (mut noise, mut block) = (Noise::new(), vec![0; MIB]);
    for _ in 0..TOTAL / MIB {
        noise.fill(&mut block);
        file.write_all(&block).unwrap();
    }
    drop(file);

    let mut running = Running::spawn(&mut scene.procyard(["run", "eval \"$RECORD\"; exec cat <noise"]));
    let mut stdout = running.take_stdout();
    let command = scene.wait_for_records(1)[0];
    let position = || -> usize {
        let info = std::fs::read_to_string(format!("/proc/{}/fdinfo/0", command.pid)).unwrap_or_default();
        let line = info.lines().find_map(|line| line.strip_prefix("pos:"));
        line.map_or(0, |line| line.trim().parse().unwrap())
    };
    let mut noise = Noise::new();
    let (mut read, mut memory) = (0, 0);
    while read < TOTAL {
        // Before the rest is read: it lives as long as there is more.
        memory = memory.max(running.peak_memory());
        let (back, got) = read_exactly(stdout, BURST);
        stdout = back;
        for got in got.chunks(MIB) {
            noise.fill(&mut block);
            assert!(got == block, "bytes differ after {read}");
            read += MIB;
        }
        // The command gets as far ahead as it is let, and no further.
        let mut before = position();
        for _ in 0..10 {
            dawdle();
            before = before.max(position());
        }
        assert!(before <= read + UNDER_WAY, "{before} after {read} were read");
    }
    assert!(memory < 64 * MIB as u64, "{} MiB", memory >> 20);
    let rest = within(move || {
        let mut rest = Vec::new();
        stdout.read_to_end(&mut rest).unwrap();
        rest
    });
    assert!(rest.is_empty());
    assert_eq!(running.end().code(), Some(0));
}

#[test]
fn output_still_unread_when_the_command_has_ended_is_not_lost() {
    let scene = Scene::new();
    let mut running =
        Running::spawn(&mut scene.procyard(["run", "eval \"$RECORD\"; head -c 3000000 /dev/zero; echo end"]));
    let command = scene.wait_for_records(1)[0];
    eventually("the command ends", || (!command.is_alive()).then_some(()));
    let ended = running_to_its_end(&mut running);
    assert_eq!(ended.len(), 3_000_004);
    assert!(ended.ends_with(b"end\n"));
    assert_eq!(running.end().code(), Some(0));
}

fn running_to_its_end(running: &mut Running) -> Vec<u8> {
    let mut stdout = running.take_stdout();
    within(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        bytes
    })
}

#[test]
fn a_reader_that_goes_away_ends_the_command() {
    let scene = Scene::new();
    let mut running = Running::spawn(&mut scene.procyard(["run", "eval \"$RECORD\"; exec yes"]));
    let mut stdout = BufReader::new(running.take_stdout());
    let first = within(move || {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        line
    });
    assert_eq!(first, "y\n");
    let ended = running.wait();
    assert_eq!(ended.code(), 128 + 13, "as a shell says it of a broken pipe: {ended:?}");
    assert_eq!(ended.stderr(), "", "as quiet as any other writer to a pipe");
    scene.assert_no_survivor();
    assert!(scene.sessions().is_empty());
}

#[test]
fn a_pipeline_that_has_seen_enough_ends_with_its_code_and_without_a_word() {
    let scene = Scene::new();
    for (line, expect, says) in [
        ("\"$PROCYARD\" run yes | head -n 1; echo ${PIPESTATUS[*]}", "y\n141 0\n", ""),
        // A command that printed no more than was read ends as itself.
        (
            "\"$PROCYARD\" run 'echo y; exit 3' | head -n 1; echo ${PIPESTATUS[*]}",
            "y\n3 0\n",
            "procyard: exited 3",
        ),
    ] {
        let ended = Running::spawn(scene.command("bash").args(["-c", line])).wait();
        assert_eq!(ended.stdout(), expect, "{line}");
        assert!(
            ended.stderr().starts_with(says) && ended.stderr().is_empty() == says.is_empty(),
            "{ended:?}"
        );
    }
}

#[test]
fn output_that_cannot_be_written_is_a_failure_that_is_told() {
    let scene = Scene::new();
    let mut command = scene.procyard(["run", "eval \"$RECORD\"; exec yes"]);
    command.stdin(Stdio::null()).stdout(File::create("/dev/full").unwrap()).stderr(Stdio::piped());
    let ended = Running::spawn_as_is(&mut command).wait();
    assert_eq!(ended.code(), 125, "{ended:?}");
    assert!(ended.stderr().contains("No space left"), "{}", ended.stderr());
    scene.assert_no_survivor();
}

#[test]
fn descriptors_that_do_not_block_lose_nothing() {
    let scene = Scene::new();
    let mut sent = vec![0; 2 * MIB];
    Noise::new().fill(&mut sent);
    let (input, mut input_end) = std::io::pipe().unwrap();
    let (mut output_end, output) = std::io::pipe().unwrap();
    let (input, output) = (OwnedFd::from(input), OwnedFd::from(output));
    for descriptor in [&input, &output] {
        use nix::fcntl::{FcntlArg, OFlag, fcntl};
        fcntl(descriptor.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    }
    let mut command = scene.procyard(["run", "--", "cat"]);
    command.stdin(input).stdout(output).stderr(Stdio::piped());
    let running = Running::spawn_as_is(&mut command);
    drop(command);
    let expected = sent.clone();
    let writer = std::thread::spawn(move || {
        // Late and in pieces, so that the other side finds nothing to read.
        for piece in sent.chunks(300_000) {
            dawdle();
            input_end.write_all(piece).unwrap();
        }
    });
    let got = within(move || {
        let mut got = Vec::new();
        dawdle();
        output_end.read_to_end(&mut got).unwrap();
        got
    });
    writer.join().unwrap();
    assert!(got == expected, "{} of {} bytes", got.len(), expected.len());
    assert_eq!(running.wait().code(), 0);
}

#[test]
fn no_stdin_gives_an_empty_input() {
    let scene = Scene::new();
    let mut command = scene.procyard(["run", "--no-stdin", "--", "cat"]);
    let mut running = Running::spawn(&mut command);
    running.write(b"not for the command\n");
    let ended = running.wait_with_input_open();
    assert_eq!((ended.code(), ended.stdout().as_str()), (0, ""));
}

#[test]
fn an_input_that_stays_open_does_not_keep_a_run_that_is_over() {
    let scene = Scene::new();
    let mut running = Running::spawn(&mut scene.procyard(["run", "read x; echo \"got $x\""]));
    running.write(b"one\n");
    let mut stdout = read_until(running.take_stdout(), "got one\n");
    assert_eq!(running.end().code(), Some(0));
    let mut rest = Vec::new();
    stdout.read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_file_size_limit_ends_neither_the_program_nor_the_command() {
    let scene = Scene::new();
    // 300 KiB; the output is a mebibyte. The command itself has the default back, and is ended by its own write.
    let line = r#"ulimit -f 300; exec "$0" run 'head -c 1048576 /dev/zero; head -c 1048576 /dev/zero >"$PIDS.large"'"#;
    let mut command = scene.command("bash");
    command.args(["-c", line, PROCYARD]).env("PROCYARD_DATA_DIR", scene.data_dir());
    let ended = Running::spawn(&mut command).wait();
    assert_eq!(ended.code(), 128 + nix::libc::SIGXFSZ, "{}", ended.stderr());
    assert_eq!(ended.stdout.len(), MIB);
}
