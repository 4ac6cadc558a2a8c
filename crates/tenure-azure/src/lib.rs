//! The lease protocol of Azure Blob storage, for both ends.
//!
//! [`protocol`] has the names and the signature on which client and server must agree.

pub mod protocol;
