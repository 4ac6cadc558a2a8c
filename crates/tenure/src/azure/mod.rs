//! Electing by the lease of a blob: on an Azure storage account, on an emulator, or on a lease store that
//! speaks this protocol.
//!
//! The keeper is that of the lease strategy; only its requests are put into other words.
//!
//! | keeper | Azure Blob storage |
//! |---|---|
//! | acquire | "Lease Blob" acquire, then "Get Blob Properties" and "Set Blob Metadata" with the epoch |
//! | renew, release | "Lease Blob" renew, release |
//! | proclaim, observe | "Set Blob Metadata", "Get Blob Properties" |
//!
//! **Why no two leaders lead at once.** The service grants a blob's lease to another id only after a
//! release, a break, or the full duration since it took the last acquire or renewal. The keeper counts
//! from before the acquire was sent, and not from the writing of the epoch after it, which prolongs nothing.
//! So all that [`keeper`](tenure_core::lease::candidate) says holds here too. A renewal that comes to the
//! service after the lease has expired may succeed there, where nobody else was granted it; the keeper does
//! not lead by it, because its renew deadline has passed before.
//!
//! **Why epochs grow, and no two terms have one.** The service has no fencing token, so the epoch is in the
//! blob's metadata, and a term begins when its epoch is written there and acknowledged. It is written on
//! two conditions: the lease id holds the lease at that instant, and the blob is as it was when the last
//! epoch was read (`If-Match`: each change makes a new ETag). By the second, each epoch that was ever
//! written is greater than the one that it replaced, whatever was late, lost or repeated. (What a leader says
//! about itself is written in the same way, with its own epoch again.) By the first, they are written in the
//! order in which the lease was held, as leases do not overlap. If the blob is deleted the wall clock of the
//! service keeps them growing, from its next second on.
//!
//! **What if the epoch can't be written**, or nobody knows whether it was? Then there is no term. The lease is
//! released, so that others may try, and its id is never used again: that release may come late, and must
//! not end a later term. An epoch that was written without a term is skipped.

mod account;
mod blob;
mod client;
mod properties;
mod transport;

#[cfg(test)]
mod tests;

pub use account::AzureAccount;
pub use blob::{AzureBlob, AzureBlobError};
pub use client::{AzureBlobClient, AzureRefusal};

pub(crate) use transport::BlobTransport;
