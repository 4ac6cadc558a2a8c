//! The exchange of messages between the members of an election among peers, over HTTP.
//!
//! [`tenure_core::bully`] has the rules of such an election. `docs/peers-protocol.md` has the wire
//! format, every refusal and the state directory.

mod peer_transport;

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

mod path;
mod raw_answer;

#[cfg(feature = "config-file")]
pub use accepted_stream::AcceptedStream;
pub(crate) use endpoint::PeerEndpoint;
#[cfg(test)]
pub(crate) use inbox::Inbox;
pub(crate) use inbox::{IncomingMessage, PeerEvent, Reply};
#[cfg(feature = "config-file")]
pub use listener::bind as listen;
#[cfg(test)]
pub(crate) use peer_transport::Network;
pub(crate) use peer_transport::PeerTransport;
pub(crate) use server::{PeerServer, Setup};

#[cfg(test)]
mod tests;
