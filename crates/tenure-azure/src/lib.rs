//! The lease protocol of Azure Blob storage, for both ends.
//!
//! [`protocol`] has the names and the signature on which client and server must agree.
#![cfg_attr(
    feature = "server",
    doc = "[`server`] speaks the protocol for a tenure store."
)]

pub mod protocol;

#[cfg(feature = "server")]
pub mod server;
