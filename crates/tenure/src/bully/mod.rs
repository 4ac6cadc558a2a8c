//! What goes between the members of an election among peers, and what each of them keeps on disk.
//!
//! The rules of such an election are [`tenure_core::bully`]; this is the room that carries its
//! messages, and those of the failure detectors, over HTTP. `docs/peers-protocol.md` has the wire
//! format, every refusal and the state folder.

mod age;
mod counters;
mod envelope;
mod fingerprint;
mod refusal;
mod seal;
mod visitors;

mod caller;
mod carrier;
mod client;
mod inbox;
mod link;
mod local;
mod routes;
mod serve;

mod folder;
mod state;

pub use seal::{Key, KeyError};
pub use state::StateError;

pub use carrier::ListenError;
pub(crate) use carrier::{Carrier, Setup};
pub use counters::Counters;
pub(crate) use envelope::MAX_ANSWER_BYTES;
pub(crate) use envelope::{About, Payload};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use inbox::{Event, Inbox, Reply};
#[cfg(test)]
use inbox::{Impostor, Incoming};
pub(crate) use refusal::Problem;
pub use routes::{PeerView, Status};
pub(crate) use seal::Seal;
pub(crate) use state::{Opened, StateFile};

#[cfg(test)]
mod tests;
