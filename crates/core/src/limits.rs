//! The bounds that a session works within.
//!
//! Not for counting against them: that is [`QuotaLedger`](crate::QuotaLedger).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{ErrorCode, PublicError};

const KIB: i64 = 1024;
const MIB: i64 = 1024 * KIB;

/// A setting that is negative, out of range or contradicts another explicit one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("setting `{field}` {problem}")]
pub struct InvalidSetting {
    /// The setting.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: String,
}

impl InvalidSetting {
    /// The code that whoever configured it gets.
    pub const fn code(&self) -> ErrorCode {
        ErrorCode::InvalidSettings
    }

    /// The form that a client sees, which names the setting.
    pub fn public(&self) -> PublicError {
        PublicError::new(self.code(), self.to_string()).field(self.field)
    }
}

macro_rules! limit_settings {
    ($($(#[$doc:meta])* $field:ident = $default:expr,)+) => {
        /// Limits as configuration gives them: zero means the default, negative values are refused by
        /// [`LimitSettings::resolve`]. The zero value is valid.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct LimitSettings {
            $($(#[$doc])* pub $field: i64,)+
        }

        impl LimitSettings {
            const DEFAULTS: LimitSettings = LimitSettings { $($field: $default,)+ };

            fn refuse_negative(&self) -> Result<(), InvalidSetting> {
                $(if self.$field < 0 {
                    return Err(InvalidSetting {
                        field: stringify!($field),
                        problem: "must not be negative; 0 means the default".to_owned(),
                    });
                })+
                Ok(())
            }

            fn with_defaults(&self) -> LimitSettings {
                LimitSettings { $($field: if self.$field == 0 { Self::DEFAULTS.$field } else { self.$field },)+ }
            }
        }
    };
}

limit_settings! {
    /// Running processes of one loop. Default 8.
    running_per_loop = 8,
    /// Running processes of the session. Default 32.
    running_per_session = 32,
    /// Completed processes kept for reading. Default 100.
    retained_per_session = 100,
    /// Bytes of the in-memory window of one process. Default 1 MiB.
    window_bytes = MIB,
    /// Bytes of all windows together. Default 32 MiB.
    window_bytes_total = 32 * MIB,
    /// Bytes of output kept on disk for one process. Default 64 MiB.
    spool_bytes = 64 * MIB,
    /// Bytes of output kept on disk altogether. Default 2 GiB.
    spool_bytes_total = 2048 * MIB,
    /// Bytes of output inside one result. Default 32 KiB.
    inline_bytes = 32 * KIB,
    /// Calls waiting at the same time. Default 64.
    waiters = 64,
    /// Bytes of input accepted and not yet taken, per process. Default 1 MiB.
    pending_input_bytes = MIB,
    /// Milliseconds between terminate and kill. Default 5 s.
    graceful_shutdown_ms = 5_000,
    /// Milliseconds without output after which a settling stream counts as drained. Default 100 ms.
    drain_quiet_ms = 100,
    /// Milliseconds after which draining ends however much is still written. Default 2 s.
    drain_cap_ms = 2_000,
    /// Milliseconds that leftover descendants get between terminate and kill. Default 500 ms.
    leftover_grace_ms = 500,
    /// Milliseconds within which a killed tree must be proven empty. Default 10 s.
    proof_bound_ms = 10_000,
    /// Seconds that a foreground process may run when its call says nothing. Default 120 s.
    foreground_default_secs = 120,
    /// Seconds that a foreground call may ask for. Default 600 s.
    foreground_maximum_secs = 600,
}

/// Picks one setting, so that pairs of settings can be compared by one loop.
type Field = fn(&mut LimitSettings) -> &mut i64;

/// Effective limits: positive, consistent. Made by [`LimitSettings::resolve`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Running processes of one loop.
    pub running_per_loop: u32,
    /// Running processes of the session.
    pub running_per_session: u32,
    /// Completed processes kept for reading.
    pub retained_per_session: u32,
    /// Bytes of the in-memory window of one process.
    pub window_bytes: u64,
    /// Bytes of all windows together.
    pub window_bytes_total: u64,
    /// Bytes of output kept on disk for one process.
    pub spool_bytes: u64,
    /// Bytes of output kept on disk altogether.
    pub spool_bytes_total: u64,
    /// Bytes of output inside one result.
    pub inline_bytes: u64,
    /// Calls waiting at the same time.
    pub waiters: u32,
    /// Bytes of input accepted and not yet taken, per process.
    pub pending_input_bytes: u64,
    /// Between terminate and kill.
    pub graceful_shutdown: Duration,
    /// Without output, after which a settling stream counts as drained.
    pub drain_quiet: Duration,
    /// After which draining ends however much is still written.
    pub drain_cap: Duration,
    /// What leftover descendants get between terminate and kill.
    pub leftover_grace: Duration,
    /// Within which a killed tree must be proven empty.
    pub proof_bound: Duration,
    /// How long a foreground process may run when its call says nothing.
    pub foreground_default: Duration,
    /// The longest that a foreground call may ask for.
    pub foreground_maximum: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        build(&LimitSettings::DEFAULTS)
    }
}

impl LimitSettings {
    /// Fills in defaults and checks that explicit values do not contradict each other. A default is clamped to a
    /// smaller explicit counterpart, so that it never contradicts one.
    ///
    /// ```
    /// use procyard_core::{LimitSettings, Limits};
    ///
    /// assert_eq!(LimitSettings::default().resolve().unwrap(), Limits::default());
    /// let narrow = LimitSettings { running_per_session: 2, ..Default::default() }.resolve().unwrap();
    /// assert_eq!(narrow.running_per_loop, 2, "the default of 8 gives way");
    /// let wrong = LimitSettings { running_per_session: 2, running_per_loop: 3, ..Default::default() };
    /// assert_eq!(wrong.resolve().unwrap_err().field, "running_per_loop");
    /// ```
    pub fn resolve(&self) -> Result<Limits, InvalidSetting> {
        self.refuse_negative()?;
        let mut full = self.with_defaults();
        let pairs: [(&'static str, Field, &'static str, Field); 5] = [
            (
                "running_per_loop",
                |s| &mut s.running_per_loop,
                "running_per_session",
                |s| &mut s.running_per_session,
            ),
            ("window_bytes", |s| &mut s.window_bytes, "window_bytes_total", |s| &mut s.window_bytes_total),
            ("spool_bytes", |s| &mut s.spool_bytes, "spool_bytes_total", |s| &mut s.spool_bytes_total),
            ("drain_quiet_ms", |s| &mut s.drain_quiet_ms, "drain_cap_ms", |s| &mut s.drain_cap_ms),
            (
                "foreground_default_secs",
                |s| &mut s.foreground_default_secs,
                "foreground_maximum_secs",
                |s| &mut s.foreground_maximum_secs,
            ),
        ];
        let mut given = self.clone();
        for (small_name, small, large_name, large) in pairs {
            let (part, whole) = (*small(&mut full), *large(&mut full));
            if part <= whole {
                continue;
            }
            match (*small(&mut given) != 0, *large(&mut given) != 0) {
                (true, true) => {
                    return Err(InvalidSetting {
                        field: small_name,
                        problem: format!("is {part}, more than `{large_name}`, which is {whole}"),
                    });
                }
                (true, false) => *large(&mut full) = part,
                (false, _) => *small(&mut full) = whole,
            }
        }
        for (field, value) in [
            ("running_per_loop", full.running_per_loop),
            ("running_per_session", full.running_per_session),
            ("retained_per_session", full.retained_per_session),
            ("waiters", full.waiters),
        ] {
            if u32::try_from(value).is_err() {
                return Err(InvalidSetting { field, problem: format!("must be at most {}", u32::MAX) });
            }
        }
        Ok(build(&full))
    }
}

fn build(full: &LimitSettings) -> Limits {
    let count = |value: i64| u32::try_from(value).unwrap_or(u32::MAX);
    let bytes = |value: i64| value.unsigned_abs();
    let millis = |value: i64| Duration::from_millis(value.unsigned_abs());
    let seconds = |value: i64| Duration::from_secs(value.unsigned_abs());
    Limits {
        running_per_loop: count(full.running_per_loop),
        running_per_session: count(full.running_per_session),
        retained_per_session: count(full.retained_per_session),
        window_bytes: bytes(full.window_bytes),
        window_bytes_total: bytes(full.window_bytes_total),
        spool_bytes: bytes(full.spool_bytes),
        spool_bytes_total: bytes(full.spool_bytes_total),
        inline_bytes: bytes(full.inline_bytes),
        waiters: count(full.waiters),
        pending_input_bytes: bytes(full.pending_input_bytes),
        graceful_shutdown: millis(full.graceful_shutdown_ms),
        drain_quiet: millis(full.drain_quiet_ms),
        drain_cap: millis(full.drain_cap_ms),
        leftover_grace: millis(full.leftover_grace_ms),
        proof_bound: millis(full.proof_bound_ms),
        foreground_default: seconds(full.foreground_default_secs),
        foreground_maximum: seconds(full.foreground_maximum_secs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_setting_is_refused_by_name() {
        let settings = LimitSettings { waiters: -1, ..Default::default() };
        let refused = settings.resolve().unwrap_err().public();
        assert_eq!((refused.code, refused.field.as_deref()), (ErrorCode::InvalidSettings, Some("waiters")));
    }

    #[test]
    fn a_default_gives_way_to_an_explicit_counterpart_on_either_side() {
        let small = LimitSettings { spool_bytes_total: 1000, ..Default::default() }.resolve().unwrap();
        assert_eq!((small.spool_bytes, small.spool_bytes_total), (1000, 1000));
        let large = LimitSettings { foreground_default_secs: 900, ..Default::default() }.resolve().unwrap();
        assert_eq!(large.foreground_maximum, Duration::from_mins(15));
    }

    #[test]
    fn two_explicit_values_that_contradict_are_refused() {
        let settings = LimitSettings { drain_quiet_ms: 30, drain_cap_ms: 20, ..Default::default() };
        let error = settings.resolve().unwrap_err();
        assert_eq!(error.field, "drain_quiet_ms");
        assert!(error.to_string().contains("drain_cap_ms"), "{error}");
    }

    #[test]
    fn the_defaults_are_these() {
        let (kib, mib, gib) = (1 << 10, 1 << 20, 1 << 30);
        let (millis, secs) = (Duration::from_millis, Duration::from_secs);
        let expected = Limits {
            running_per_loop: 8,
            running_per_session: 32,
            retained_per_session: 100,
            window_bytes: mib,
            window_bytes_total: 32 * mib,
            spool_bytes: 64 * mib,
            spool_bytes_total: 2 * gib,
            inline_bytes: 32 * kib,
            waiters: 64,
            pending_input_bytes: mib,
            graceful_shutdown: secs(5),
            drain_quiet: millis(100),
            drain_cap: secs(2),
            leftover_grace: millis(500),
            proof_bound: secs(10),
            foreground_default: secs(120),
            foreground_maximum: secs(600),
        };
        assert_eq!(Limits::default(), expected);
    }
}
