//! What goes between the members of an election among peers, and what each of them keeps on disk.
//!
//! The rules of such an election are [`tenure_core::bully`]; this is the room that carries its
//! messages, and those of the failure detectors, over HTTP. `docs/peers-protocol.md` has the wire
//! format, every refusal and the state folder.
//!
//! # For the driver
//!
//! 1. [`StateFile::open`] gives the record of the last start. The node's first output is a record to
//!    persist: [`StateFile::write`] it before anything is sent.
//! 2. [`Carrier::start`], on the driver's runtime, with the incarnation of that record. All that the
//!    carrier does of itself (listening, sending) runs there, so an application that blocks its own
//!    runtime stops no election.
//! 3. [`Inbox::recv`] next to the driver's timers. For a message: hand it in, write what is to be
//!    persisted, and give everything that comes out for the sender to [`Incoming::reply`]: it rides in
//!    the HTTP response. Everything else goes to [`Carrier::send`].
//! 4. On [`Event::Impostor`] lead no more, and say why.
//!
//! Messages may be lost, and none is handed out after its lifetime, or twice. The driver is never told
//! that a message arrived: the machines send again what matters.

mod age;
mod counters;
mod envelope;
mod fingerprint;
mod refusal;
mod seal;
mod visitors;

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

pub use carrier::StartError;
pub(crate) use carrier::{Carrier, Setup};
pub(crate) use envelope::Payload;
pub(crate) use fingerprint::Fingerprint;
pub(crate) use inbox::{Event, Inbox, Reply};
#[cfg(test)]
use inbox::{Impostor, Incoming};
pub(crate) use routes::Status;
pub(crate) use seal::Seal;
pub(crate) use state::{Opened, StateFile};

#[cfg(test)]
mod tests;
