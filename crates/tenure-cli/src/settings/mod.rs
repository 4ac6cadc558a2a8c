//! Settings: tables of the configuration file, the environment that overrides them, and flags that
//! override both.

mod candidate;
mod flags;

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod azure;
pub(crate) mod checked_store;
pub(crate) mod cluster;
pub(crate) mod contexts;
pub(crate) mod limits;
pub(crate) mod metrics;
pub(crate) mod serve;
pub(crate) mod start_rules;
pub(crate) mod status;
pub(crate) mod stop_signal;
pub(crate) mod tls;

pub(crate) use candidate::{CheckedCandidate, address_without_key};
pub(crate) use contexts::ClientArgs;
pub(crate) use flags::{CandidateArgs, with_any_election};
