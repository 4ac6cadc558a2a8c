//! The inputs and outputs of an [`Ownership`](super::Ownership).

use super::{HomeId, Tail};

/// An answer of the service that keeps the log: to a read of the tail, or to an append that was
/// refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Observation {
    /// The identity of the service that answered.
    pub home: HomeId,
    /// The tail that stands in the log.
    pub found: Found,
}

/// The tail that stands in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// The log is empty.
    Empty,
    /// This tail.
    Tail(Tail),
    /// Something else, which no server takes over.
    Unusable(Refusal),
}

/// The result of a read of the tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// The service answered. The answer may be stale.
    Found(Observation),
    /// There was no answer, or it was an error.
    Failed,
}

/// The outcome of an append: of one attempt, as the service answers, or of all attempts together, as
/// the machine knows it then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AppendOutcome {
    /// The append was applied and is durable.
    Committed,
    /// The append was not applied and never will be, for another reason than another entry. The owner
    /// may undo its batch and go on.
    Refused,
    /// Another tail than the expected one stands in the log. The attempt was not applied. The ownership of
    /// the append is over, and an earlier attempt may have been applied. So its batch must be neither
    /// acknowledged nor undone: the content in memory is to be dropped. If the tail is an older one, the
    /// answer may be stale, so the server follows again, and refuses only if older tails are all that it
    /// sees for T.
    Superseded(Observation),
    /// The append may have been applied, or may be applied later. Every outcome that is not definite
    /// is unknown: timeouts, closed connections, unexpected errors. The machine asks for the same
    /// append again.
    Unknown,
}

/// An action or an event for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipOutput {
    /// Read the tail, then call [`handle_tail`](super::Ownership::handle_tail).
    Look,
    /// Append this tail, then call [`handle_appended`](super::Ownership::handle_appended). The
    /// append replaces the tail that [`known`](super::Ownership::known) returns.
    ///
    /// If the tail equals that of the append before, this is another attempt of that append: send
    /// exactly the same bytes, with the same batch. Otherwise it has no batch.
    Append(Tail),
    /// The server owns the log. Load the content of the log, and then call
    /// [`handle_loaded`](super::Ownership::handle_loaded). All leases count as renewed at an
    /// instant that was read after the answer to the append.
    Took {
        /// The number of the ownership.
        generation: u64,
    },
    /// No append has succeeded for too long: accept nothing until [`Resumed`](Self::Resumed).
    Lapsed,
    /// An append has succeeded again, and nobody has taken over meanwhile. The content in memory is
    /// still right, and leases need no grace, because nothing was accepted.
    Resumed,
    /// Another server owns the log, or the log is not the same. Drop the content in memory.
    Deposed,
    /// The server takes nothing over while this lasts. The machine goes on to read the tail, and
    /// follows again once the log is in order; after [`Refusal::WentBack`] it never does.
    Refuses(Refusal),
}

/// The role of a server at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipRole {
    /// It reads the tail, and would take over.
    Following,
    /// It tries to take over.
    Taking,
    /// It owns the log, and loads its content.
    Loading,
    /// It owns the log and accepts requests.
    Active,
    /// It owns the log as far as it knows, and accepts nothing until an append succeeds.
    Lapsed,
    /// It has resigned, and accepts nothing.
    Resigned,
    /// It takes nothing over, because the log is not in order.
    Refusing,
}

/// The reason why a server takes nothing over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum Refusal {
    /// The tail was written in another service: a restored snapshot, or a wrong address.
    #[error("the log was written in home {written} and this is {answering}")]
    OtherHome {
        /// The identity of the service in which the tail was written.
        written: HomeId,
        /// The identity of the service that answered.
        answering: HomeId,
    },
    /// The log contained a tail, and now contains one that is not a successor of it. This is final:
    /// only a new start of the server follows the log again.
    #[error(
        "generation {}, sequence {} was here and now it is {}: the home lost what it acknowledged",
        .known.generation, .known.sequence, Position(.found)
    )]
    WentBack {
        /// The newest tail that the server has seen.
        known: Tail,
        /// The tail that was found later; `None` if the log is empty.
        found: Option<Tail>,
    },
    /// A newer version of tenure has written the tail.
    #[error("the log has format {found}, which this version does not know")]
    NewerFormat {
        /// The format of the tail.
        found: u32,
    },
    /// A slot of a ring has no value, although one was written.
    #[error("slot {slot} was deleted")]
    SlotDeleted {
        /// The slot.
        slot: u64,
    },
    /// A slot of a ring has a value that is no entry of the log, or that does not follow the others.
    #[error("slot {slot} is damaged")]
    SlotDamaged {
        /// The slot.
        slot: u64,
    },
}

/// Shows the place of a tail in the chain.
struct Position<'a>(&'a Option<Tail>);

impl core::fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(tail) => write!(
                f,
                "generation {}, sequence {}",
                tail.generation, tail.sequence
            ),
            None => f.write_str("not"),
        }
    }
}
