//! A person at a terminal, from outside: `procyard attach`, `run` and `ps` in windows of tmux.
//!
//! Each test is reported as ignored where a program that it needs is missing, which the default test harness cannot do. Not
//! for what needs no terminal: that is `cli`.

#![cfg(target_os = "linux")]
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "what a test builds on is there, or the test fails"
)]

mod attach;
mod modes;
mod ps;
#[allow(dead_code, reason = "the tests without a terminal use all of it")]
#[path = "../cli/recorded.rs"]
mod recorded;
mod run;
#[allow(dead_code, reason = "the tests without a terminal use all of it")]
#[path = "../cli/running.rs"]
mod running;
#[allow(dead_code, reason = "the tests without a terminal use all of it")]
#[path = "../cli/scene.rs"]
mod scene;
#[allow(dead_code, reason = "the tests without a terminal use all of it")]
#[path = "../cli/served.rs"]
mod served;
mod tmux;

use libtest_mimic::{Arguments, Trial};

fn main() {
    let trials = [attach::trials(), modes::trials(), ps::trials(), run::trials()];
    libtest_mimic::run(&Arguments::from_args(), trials.into_iter().flatten().collect()).exit();
}

/// A test that needs tmux and these programs.
fn trial(name: &'static str, needs: &[&str], test: fn()) -> Trial {
    let missing = std::iter::once(&"tmux").chain(needs).any(|program| !tmux::has(program));
    Trial::test(name, move || {
        test();
        Ok(())
    })
    .with_ignored_flag(missing)
}

/// The tests of a module under their own names.
macro_rules! trials {
    ($($test:ident $(needs $($program:literal),+)?;)+) => {
        pub(crate) fn trials() -> Vec<libtest_mimic::Trial> {
            vec![$(crate::trial(
                concat!(module_path!(), "::", stringify!($test)),
                &[$($($program),+)?],
                $test,
            )),+]
        }
    };
}
pub(crate) use trials;
