//! Types that all layers share: time, randomness, terms and errors.

pub(crate) mod clock;
pub(crate) mod guarantee;
pub(crate) mod health;
pub(crate) mod http_error;
#[cfg(any(feature = "peers", feature = "config-file"))]
pub(crate) mod link_free_path;
#[cfg(feature = "peers")]
pub(crate) mod member_error;
pub(crate) mod metadata;
pub(crate) mod observed;
#[cfg(feature = "peers")]
pub(crate) mod peer_key;
pub(crate) mod random;
pub(crate) mod task;
pub(crate) mod term;
pub mod trace;
