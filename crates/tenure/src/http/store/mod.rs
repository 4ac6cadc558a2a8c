//! A client of the lease store's HTTP API, for tools and for watching.
//!
//! Candidates do not need it. [`StoreClient`] lists leases, breaks them and hands them over, shows
//! their history, and streams events.

mod client;
mod error;
mod events;
mod round;
mod send;

pub use super::endpoint::{Endpoint, EndpointError};
pub use client::{Pong, StoreClient};
pub use error::StoreError;
pub use events::{EventStream, StoreEvent, Watched};
pub use tenure_core::lease::{State, TermEnd};
pub use tenure_core::wire::{
    ActiveServer, BreakRequest, ClusterView, Code, DurationMs, EventKind, HandOverRequest, History,
    LeaseEvent, LeaseList, LeaseView, PastTerm, Problem, ResignRequest, ServerRole, SessionCode,
    TermView, WaiterList, WaiterView, WithoutStoreView,
};

pub(crate) use client::{Call, CheckStore, path};
pub(crate) use tenure_core::wire::MAX_RENEWALS;

#[cfg(test)]
mod tests;
