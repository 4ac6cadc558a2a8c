//! The lease protocol of Azure Blob storage, for clients and servers.
//!
//! [`protocol`] has the names and the signature on which client and server must agree. The feature
//! `client` adds an HTTP client that competes for the lease of a blob. The crate `tenure` uses this
//! client for elections. The feature `server` adds this protocol to a tenure store.

#[cfg(feature = "client")]
pub mod client;
pub mod protocol;

#[cfg(feature = "server")]
pub mod server;
