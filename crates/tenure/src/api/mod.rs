//! The types that an application names: a candidate, its terms, observers and routes.

pub(crate) mod candidate;
pub(crate) mod candidate_runtime;
pub(crate) mod leadership;

pub mod fence;
pub mod observe;
#[cfg(feature = "router")]
pub mod router;
pub(crate) mod shutdown;
