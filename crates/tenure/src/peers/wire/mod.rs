//! Messages between members: their format, age and authentication.

pub(super) mod age;
pub(super) mod envelope;
mod fingerprint;
pub(super) mod mac;
pub(super) mod problem;
mod status;

pub(crate) use envelope::{LeaderMetadata, MAX_ANSWER_BYTES, Payload};
pub(crate) use fingerprint::Fingerprint;
pub(crate) use mac::Mac;
pub(crate) use problem::PeerProblem;
pub use status::{CarriedBy, Counters, PeerMetrics, PeerView, Status};
