//! The host runner where there is no containment tier: it says so, and starts nothing.

use async_trait::async_trait;
use procyard_runner::{Capabilities, PreparedProcess, ProcessRequest, Runner, RunnerError, RunnerErrorKind};

use crate::{ContainmentReport, HostError, HostOptions};

const REASON: &str = "there is no containment for this operating system";

/// A runner that cannot be had on this operating system.
#[derive(Debug, Clone)]
pub struct HostRunner {
    never: std::convert::Infallible,
}

impl HostRunner {
    /// Always [`HostError::LifetimeEnforcementUnavailable`].
    pub async fn start(_options: HostOptions) -> Result<Self, HostError> {
        Err(HostError::LifetimeEnforcementUnavailable(REASON.to_owned()))
    }

    /// What was found on this machine.
    pub fn report(&self) -> ContainmentReport {
        match self.never {}
    }

    /// Ends the guardian.
    pub async fn shutdown(&self) {
        match self.never {}
    }
}

#[async_trait]
impl Runner for HostRunner {
    fn capabilities(&self) -> Capabilities {
        Capabilities { tier: None, terminals: false }
    }

    async fn prepare(&self, _request: ProcessRequest) -> Result<Box<dyn PreparedProcess>, RunnerError> {
        Err(RunnerError::new(RunnerErrorKind::LifetimeEnforcementUnavailable, REASON))
    }
}
