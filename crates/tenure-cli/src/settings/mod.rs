//! Settings: tables of the configuration file, the environment that overrides them, and flags that
//! override both.

use std::sync::LazyLock;

use tenure_config::{Keys, Scope};

mod candidate;
mod flags;

pub(crate) mod access;
pub(crate) mod audit;
pub(crate) mod azure;
pub(crate) mod checked_store;
pub(crate) mod cluster;
pub(crate) mod contexts;
pub(crate) mod home;
mod limits;
pub(crate) mod metrics;
pub(crate) mod serve;
pub(crate) mod start_rules;
pub(crate) mod status;
pub(crate) mod stop_signal;
pub(crate) mod tls;

pub(crate) use candidate::{CheckedCandidate, address_without_key};
pub(crate) use contexts::ClientArgs;
pub(crate) use flags::{CandidateArgs, members_table, with_any_election};

#[cfg(test)]
mod tests;

/// The keys of the store.
static STORE_KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let keys = Keys::new(include_str!("keys.toml"), Some("serve"));
    keys.replacing(include_str!("replaced.txt"))
});

/// The keys of all programs, which may be in one file.
pub(crate) static ALL_KEYS: [&LazyLock<Keys>; 2] = [&tenure::config::KEYS, &STORE_KEYS];

pub(crate) static CANDIDATE: Scope = Scope::new(&ALL_KEYS, 0);
pub(crate) static STORE: Scope = Scope::new(&ALL_KEYS, 1);
