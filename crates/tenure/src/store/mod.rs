//! The lease store as a client sees it.
//!
//! [`StoreClient`] speaks the store's HTTP API, for tools and for watching. A candidate's own
//! requests go the same way, with their answers put into the keeper's words. Where the lease is that of a
//! blob, [`AzureBlobClient`] shows it.

mod client;
mod endpoint;
mod events;
mod link;
mod roots;
mod transport;

pub use crate::azure::{AzureBlobClient, AzureRefusal};
pub use client::{Pong, StoreClient, StoreError};
pub use endpoint::Endpoint;
pub use events::{EventStream, StoreEvent, Watched};
pub use roots::Roots;
pub use tenure_core::lease::{State, TermEnd};
pub use tenure_core::wire::{
    BreakRequest, Code, DurationMs, EventKind, HandOverRequest, History, LeaseEvent, LeaseList,
    LeaseView, PastTerm, Problem, TermView,
};

pub(crate) use client::{REQUEST_TIMEOUT, causes, http_client, read};
pub(crate) use link::{Link, Watcher};
pub(crate) use tenure_core::wire::MAX_RENEWALS;
pub(crate) use transport::Transport;
