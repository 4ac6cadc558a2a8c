//! Messages between the members of an election among peers, over HTTP, and the state that each of
//! them keeps on disk.
//!
//! [`tenure_core::bully`] has the rules of such an election. `docs/peers-protocol.md` has the wire
//! format, every refusal and the state directory.

mod transport;

mod inbox;
mod server;

mod client;

mod accepted_stream;
mod listener;
mod path_memory;
mod relay;
mod routes;
mod send_queue;
mod trouble;

mod caller;
mod endpoint;
mod replay_guard;

mod age;
mod envelope;
mod fingerprint;
mod mac;
mod path;
mod problem;
mod raw_answer;
mod status;

mod state_dir;
mod state_file;

#[cfg(feature = "config-file")]
pub use accepted_stream::AcceptedStream;
pub(crate) use endpoint::PeerEndpoint;
#[cfg(feature = "config-file")]
pub use listener::bind as listen;
pub use mac::{PeerKey, PeerKeyError};
pub use state_file::StateError;

pub(crate) use envelope::MAX_ANSWER_BYTES;
pub(crate) use envelope::{LeaderMetadata, Payload};
pub(crate) use fingerprint::Fingerprint;
#[cfg(test)]
pub(crate) use inbox::Inbox;
pub(crate) use inbox::{IncomingMessage, PeerEvent, Reply};
pub(crate) use mac::Mac;
pub(crate) use problem::PeerProblem;
pub use server::ListenError;
pub(crate) use server::{PeerServer, Setup};
pub(crate) use state_file::StateFile;
pub use status::{CarriedBy, Counters, PeerView, Status};
#[cfg(test)]
pub(crate) use transport::Network;
pub(crate) use transport::PeerTransport;

#[cfg(test)]
mod tests;
