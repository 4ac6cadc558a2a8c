//! Settings: tables of the configuration file, the environment that overrides them, and flags that
//! override both.

mod flags;
mod table;

pub(crate) mod azure;
pub(crate) mod serve;
pub(crate) mod tls;

pub(crate) use flags::{CandidateArgs, StoreArgs, set_flag, with_any_election};
pub(crate) use table::{SettingsTable, lossy};

/// The tables of the store; all other settings belong to candidates.
pub(crate) const TABLES: [SettingsTable; 3] = [serve::TABLE, tls::TABLE, azure::TABLE];
