//! Who calls: nobody in particular, the loop whose token it is, or the administrator.
//!
//! Authority comes from the token alone, or, on the Unix socket and without a token, from the peer's user. Never from
//! anything else in a request. Not for what a caller may see: that is asked of the owner's supervisor.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use procyard_core::Owner;
use procyard_tools::Toolbox;

use super::problem::Problem;
use super::service::Service;
use super::tokens::{Digest, digest};

/// A longer token is none of ours.
const TOKEN_MAX: usize = 512;

/// How long the service's own user may take nothing of what is sent to them.
const OWN_PATIENCE: Duration = Duration::from_secs(24 * 60 * 60);

/// Whom a route serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Everybody.
    Public,
    /// The loop of a token, for what is its own; the administrator, for everything.
    Any,
    /// The loop of a token.
    Loop,
    /// The administrator.
    Admin,
}

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Caller {
    Anybody,
    /// A loop, and the hash of the token by which it is known: it may be revoked while the request is under way.
    Loop(Owner, Digest),
    Admin,
}

/// Where a connection comes from.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    /// It is on the Unix socket, from the user that the service runs as.
    same_user: bool,
    /// A request on it has come from somebody who is known.
    known: Arc<AtomicBool>,
}

impl Peer {
    pub(crate) fn new(same_user: bool) -> Self {
        Self { same_user, known: Arc::new(AtomicBool::new(same_user)) }
    }

    /// How long it may take nothing of what is sent to it. A person who reads in a pager does so for hours, and the service's
    /// own user can do worse than hold a place.
    pub(crate) fn patience(&self, of_others: Duration) -> Duration {
        if self.same_user { OWN_PATIENCE.max(of_others) } else { of_others }
    }

    /// Whether it is known who is there.
    pub(crate) fn is_known(&self) -> bool {
        self.known.load(Ordering::Relaxed)
    }
}

/// The loop whose token a request below `/v1/mcp` carries, in the extensions of the request.
#[derive(Debug, Clone)]
pub(crate) struct LoopCaller {
    /// The tools of that loop.
    pub(crate) toolbox: Arc<Toolbox>,
}

impl Caller {
    /// Tells who calls, and refuses whom the route does not serve.
    pub(crate) fn authenticate(
        service: &Service,
        access: Access,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<Self, Problem> {
        if access == Access::Public {
            return Ok(Self::Anybody);
        }
        let mut given = headers.get_all(header::AUTHORIZATION).iter();
        let caller = match (given.next(), given.next()) {
            (None, _) if peer.is_some_and(|peer| peer.same_user) => Self::Admin,
            (None, _) => {
                return Err(Problem::unauthenticated(
                    "a token is missing; send `Authorization: Bearer <token>`",
                ));
            }
            (Some(value), None) => {
                let token = value.to_str().ok().and_then(bearer);
                token.and_then(|token| known(service, token)).ok_or_else(invalid)?
            }
            (Some(_), Some(_)) => return Err(invalid()),
        };
        if let Some(peer) = peer {
            peer.known.store(true, Ordering::Relaxed);
        }
        match (access, caller) {
            (Access::Admin, Self::Loop(..)) => {
                Err(Problem::unauthenticated("this is for the administrator; use the admin token"))
            }
            (Access::Loop, Self::Admin) => Err(Problem::unauthenticated(
                "this is for a loop; use the token of one, which `POST /v1/sessions` gives",
            )),
            _ => Ok(caller),
        }
    }

    /// The loop; of nobody else.
    pub(crate) fn owner(self) -> Option<Owner> {
        match self {
            Self::Loop(owner, _) => Some(owner),
            Self::Anybody | Self::Admin => None,
        }
    }

    /// The loop, as long as its token is valid: a body may come, and a session be restored, long after the head that had
    /// the token.
    pub(crate) fn valid_owner(self, service: &Service) -> Result<Owner, Problem> {
        match self {
            Self::Loop(owner, token) if service.tokens.owner(&token) == Some(owner) => Ok(owner),
            Self::Loop(..) | Self::Anybody | Self::Admin => Err(invalid()),
        }
    }
}

fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && token.len() <= TOKEN_MAX).then_some(token)
}

fn known(service: &Service, token: &str) -> Option<Caller> {
    let given = digest(token);
    if service.admin_token.is(&given) {
        return Some(Caller::Admin);
    }
    service.tokens.owner(&given).map(|owner| Caller::Loop(owner, given))
}

/// The same for a token that never was and for one that was revoked.
pub(crate) fn invalid() -> Problem {
    Problem::unauthenticated("the token is not valid")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{OWN_PATIENCE, Peer, bearer};

    #[test]
    fn the_services_own_user_may_take_longer_to_read() {
        let others = Duration::from_secs(30);
        assert_eq!(Peer::new(false).patience(others), others);
        assert_eq!(Peer::new(true).patience(others), OWN_PATIENCE);
    }

    #[test]
    fn a_token_is_read_from_a_bearer_header_only() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Bearer", None),
            ("Bearer ", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            assert_eq!(bearer(value), token, "{value:?}");
        }
        assert_eq!(bearer(&format!("Bearer {}", "x".repeat(513))), None);
    }
}
