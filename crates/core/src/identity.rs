//! Who owns a process and where it came from.
//!
//! Not for authentication: whoever builds an [`Owner`] has already decided that the caller is that owner.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::Handle;

/// A zero UUID was given where an identity is needed, or the text is no UUID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdError {
    /// The nil UUID names nobody.
    #[error("the zero uuid is not an identity")]
    Nil,
    /// Not a UUID at all.
    #[error("not a uuid")]
    Malformed,
}

macro_rules! uuid_identity {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "Uuid", into = "Uuid")]
        pub struct $name(Uuid);

        impl $name {
            /// Takes a UUID; the zero UUID is refused.
            pub const fn new(uuid: Uuid) -> Result<Self, IdError> {
                if uuid.is_nil() { Err(IdError::Nil) } else { Ok(Self(uuid)) }
            }

            /// A random (version 4) identity from 16 random bytes.
            pub const fn from_random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            /// The UUID.
            pub const fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl TryFrom<Uuid> for $name {
            type Error = IdError;
            fn try_from(uuid: Uuid) -> Result<Self, IdError> {
                Self::new(uuid)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(text: &str) -> Result<Self, IdError> {
                Self::new(Uuid::parse_str(text).map_err(|_| IdError::Malformed)?)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

uuid_identity! {
    /// One conversation's or one job's life: owns resources, is shut down and restored as a unit.
    SessionId
}
uuid_identity! {
    /// One agent loop inside a session: the main agent, a sub-agent.
    LoopId
}
uuid_identity! {
    /// One tool call. Provenance for audit, never authority.
    ExecutionId
}
uuid_identity! {
    /// One lifecycle event; minted and recorded before it can be published, reused on every retry.
    EventId
}
uuid_identity! {
    /// One completion notice; minted and recorded before it can be delivered, reused on every retry.
    NotificationId
}

/// The authority over a process. Every follow-up call is authorised through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The loop inside the session.
    #[serde(rename = "loop")]
    pub loop_id: LoopId,
}

/// Where a process came from: the tool call that created it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// The tool call.
    pub execution: ExecutionId,
}

/// What is fixed about a process when it is admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Identity {
    /// The capability.
    pub handle: Handle,
    /// The authority.
    pub owner: Owner,
    /// The provenance.
    pub origin: Origin,
}
