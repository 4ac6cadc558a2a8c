//! Settings: tables of the configuration file, the environment that overrides them, and flags that
//! override both.

mod flags;

pub(crate) mod azure;
pub(crate) mod limits;
pub(crate) mod serve;
pub(crate) mod tls;

pub(crate) use flags::{CandidateArgs, StoreArgs, with_any_election};
