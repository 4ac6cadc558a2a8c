//! The lease protocol of Azure Blob storage, for both ends.
//!
//! [`protocol`] has the names and the signature on which client and server must agree. Feature
//! `client` adds an HTTP client that competes for the lease of a blob; the crate `tenure` elects by
//! it. Feature `server` serves the leases of a tenure store by this protocol.

#[cfg(feature = "client")]
pub mod client;
pub mod protocol;

#[cfg(feature = "server")]
pub mod server;
