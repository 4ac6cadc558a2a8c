//! The inputs and outputs of an [`Ownership`](super::Ownership).

use super::{EngineId, Head, Sighting};

/// The result of a read of the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    /// The service answered. The answer may be stale.
    Found(Sighting),
    /// There was no answer, or it was an error.
    Failed,
}

/// The result of one attempt of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The append was applied and is durable.
    Done,
    /// Another head than the expected one stands in the log, so this attempt was not applied. The
    /// head that it shows must be current and durable.
    Refused(Sighting),
    /// This attempt was definitely not applied and never will be, for another reason.
    NotApplied,
    /// This attempt may have been applied, or may be applied later. Every outcome that is not
    /// definite is unknown: timeouts, closed connections, unexpected errors.
    Unknown,
}

/// What is known of an append, after one attempt of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fate {
    /// The append was applied.
    Applied,
    /// The outcome is unknown. The machine asks for the same append again.
    Repeated,
    /// The append was not applied and never will be. The owner may undo its batch and go on.
    Undone,
    /// The append belongs to an ownership that is over, or there was no such append. It may have
    /// been applied before that. The batch must be neither acknowledged nor undone: the content in
    /// memory is to be dropped.
    Lost,
}

/// An action or an event for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipOutput {
    /// Read the head, then call [`handle_head`](super::Ownership::handle_head).
    Look,
    /// Append this head, then call [`handle_appended`](super::Ownership::handle_appended). The
    /// append replaces the head that [`known`](super::Ownership::known) returns.
    ///
    /// If the head equals that of the append before, this is another attempt of that append: send
    /// exactly the same bytes, with the same batch. Otherwise it has no batch.
    Append(Head),
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
    /// The server takes nothing over while this lasts. The machine goes on to read the head, and
    /// follows again once the log is in order; after [`Refusal::WentBack`] it never does.
    Refuses(Refusal),
}

/// The role of a server at a given time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OwnershipRole {
    /// It reads the head, and would take over.
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
    /// The head was written in another service: a restored snapshot, or a wrong address.
    #[error("the head was written in engine {written} and this is {answering}")]
    OtherEngine {
        /// The identity of the service in which the head was written.
        written: EngineId,
        /// The identity of the service that answered.
        answering: EngineId,
    },
    /// The log contained a head, and now contains one that is not a successor of it. This is final:
    /// only a new start of the server follows the log again.
    #[error(
        "generation {}, sequence {} was here and now it is {}: the engine lost what it acknowledged",
        .known.generation, .known.sequence, Position(.found)
    )]
    WentBack {
        /// The newest head that the server has seen.
        known: Head,
        /// The head that was found later; `None` if the log is empty.
        found: Option<Head>,
    },
    /// A newer version of tenure has written the head.
    #[error("the head has format {found}, which this version does not know")]
    NewerFormat {
        /// The format of the head.
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

/// Shows the place of a head in the chain.
struct Position<'a>(&'a Option<Head>);

impl core::fmt::Display for Position<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            Some(head) => write!(
                f,
                "generation {}, sequence {}",
                head.generation, head.sequence
            ),
            None => f.write_str("empty"),
        }
    }
}
