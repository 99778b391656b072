//! Tests of the host runner against real processes, with a `main` of their own: a guardian is this program entered
//! again, and some tests need a supervisor that they can kill.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test without the harness is not known as one")]

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
mod conformance;
#[cfg(target_os = "linux")]
mod deaths;
#[cfg(target_os = "linux")]
mod gallery;
#[cfg(target_os = "linux")]
mod gallery_deaths;
#[cfg(target_os = "linux")]
mod leaks;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod ordinary_user;
#[cfg(target_os = "linux")]
mod privileges;
#[cfg(target_os = "linux")]
mod scene;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod starting;
#[cfg(target_os = "linux")]
mod terminals;

#[cfg(target_os = "linux")]
fn main() {
    procyard_host::enter();
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("as-supervisor") => return deaths::be_supervisor(&arguments.next().unwrap()),
        Some("as-adopter") => return deaths::be_adopter(&arguments.next().unwrap()),
        Some("as-leaderless") => gallery::be_leaderless(),
        Some("as-listener") => return signals::be_listener(),
        Some("as-subreaper") => return gallery::be_subreaper(),
        Some("as-asker") => return namespaces::be_asker(),
        Some("as-root") => return ordinary_user::be_root(&arguments.next().unwrap()),
        Some("as-eater") => return limits::be_eater(&arguments.next().unwrap()),
        Some("as-forker") => return limits::be_forker(&arguments.next().unwrap()),
        Some("as-limited") => return limits::be_limited_supervisor(&arguments.next().unwrap()),
        Some("as-unscoped") => return privileges::be_without_scopes(),
        Some("as-user") => return privileges::be_user(),
        Some("as-starter") => return leaks::be_starter(&arguments.next().unwrap()),
        _ => {}
    }
    let mut trials = Vec::new();
    trials.extend(conformance::trials());
    trials.extend(starting::trials());
    trials.extend(signals::trials());
    trials.extend(terminals::trials());
    trials.extend(gallery::trials());
    trials.extend(deaths::trials());
    trials.extend(gallery_deaths::trials());
    trials.extend(namespaces::trials());
    trials.extend(leaks::trials());
    trials.extend(limits::trials());
    trials.extend(privileges::trials());
    trials.extend(ordinary_user::trials());
    libtest_mimic::run(&libtest_mimic::Arguments::from_args(), trials).exit();
}
