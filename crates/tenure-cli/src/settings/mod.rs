//! Settings: tables of the configuration file, the environment that overrides them, and flags that
//! override both.

mod flags;
mod table;

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod azure;
pub(crate) mod contexts;
pub(crate) mod serve;
pub(crate) mod tls;

pub(crate) use contexts::ClientArgs;
pub(crate) use flags::{CandidateArgs, set_flag, with_any_election};
pub(crate) use table::{SettingsTable, lossy};

/// The tables of the store; all other settings belong to candidates.
pub(crate) const TABLES: [SettingsTable; 5] = [
    serve::TABLE,
    access::TABLE,
    audit::TABLE,
    tls::TABLE,
    azure::TABLE,
];
