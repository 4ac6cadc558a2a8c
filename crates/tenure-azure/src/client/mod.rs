//! An HTTP client for the leases of blobs: on an Azure storage account, on an emulator, or on a
//! lease store that serves this protocol.
//!
//! [`BlobLease`] translates the requests of a
//! [`LeaseCandidate`](tenure_core::lease::candidate::LeaseCandidate) into the service's operations.
//!
//! | lease candidate | Azure Blob storage |
//! |---|---|
//! | acquire | "Lease Blob" acquire, then "Get Blob Properties" and "Set Blob Metadata" with the epoch |
//! | renew, release | "Lease Blob" renew, release |
//! | proclaim, observe | "Set Blob Metadata", "Get Blob Properties" |
//!
//! **Why no two candidates lead at once.** The service grants a blob's lease to another id only
//! after a release, a break, or the full duration since it accepted the last acquire or renewal.
//! The candidate counts from before it sent the acquire. The epoch is written later, and writing it
//! prolongs nothing. So the whole argument of [`lease::candidate`](tenure_core::lease::candidate)
//! holds here too. The service may accept a renewal after the lease has expired if no other id
//! acquired it. The candidate does not lead by such a renewal, because its renew deadline has
//! passed before.
//!
//! **Why epochs grow and no two terms share one.** The service has no fencing token, so the epoch
//! is part of the blob's metadata, and a term begins when the service has acknowledged its epoch.
//! The write has two conditions: the lease id holds the lease at that instant, and the blob is
//! unchanged since the last epoch was read (`If-Match`: each change makes a new ETag). Because of
//! the second condition each epoch is greater than the one it replaces, whatever was late, lost or
//! repeated. (A leader's metadata are written the same way, with its own epoch again.) Because of
//! the first condition epochs are written in the order in which the lease was held, as leases do
//! not overlap. If the blob is deleted, the wall clock of the service keeps epochs growing, from
//! its next second on.
//!
//! **If the epoch can't be written**, or the outcome is unknown, there is no term. The candidate
//! releases the lease so that others may try, and never uses its id again: the release may arrive
//! late, and must not end a later term. An epoch that was written without a term is skipped.

mod account;
mod blob;
mod lease;
mod properties;
mod requests;

#[cfg(test)]
mod tests;

pub use account::AzureAccount;
pub use blob::{AzureBlob, AzureBlobError};
pub use lease::{BlobCandidacy, BlobLease};
pub use requests::{AzureRefusal, BlobClientError};
