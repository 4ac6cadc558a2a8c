//! An HTTP client for the leases of blobs in an Azure storage account, in an emulator, or in a
//! lease store that serves this protocol.
//!
//! [`BlobLease`] converts the requests of a
//! [`LeaseCandidate`](tenure_core::lease::candidate::LeaseCandidate) into the service's operations.
//!
//! | lease candidate | Azure Blob storage |
//! |---|---|
//! | acquire | "Lease Blob" acquire, then "Get Blob Properties" and "Set Blob Metadata" with the epoch |
//! | renew, release | "Lease Blob" renew, release |
//! | resume | "Lease Blob" renew, else acquire; then "Get Blob Properties", and "Set Blob Metadata" if the blob has a smaller epoch |
//! | proclaim, observe | "Set Blob Metadata", "Get Blob Properties" |
//!
//! **Why no two candidates lead at once.** The service grants a blob's lease to another id only
//! after a release, a break, or the full duration since it accepted the last acquire or renewal.
//! The candidate counts the duration from the time before it sent the acquire. It writes the epoch
//! later, and that does not extend the lease. So the complete safety argument of
//! [`lease::candidate`](tenure_core::lease::candidate) also applies here. The service may accept a
//! renewal after the lease has expired if no other id acquired it. The candidate does not lead
//! because of such a renewal, because its renew deadline has passed earlier.
//!
//! **Why epochs increase and no two terms have the same epoch.** The service has no fencing token,
//! so the blob's metadata contain the epoch, and a term begins when the service has acknowledged
//! its epoch. The write has two conditions: the lease id holds the lease at that time, and the blob
//! is unchanged since the candidate read the last epoch (`If-Match`: each change results in a new
//! ETag). Because of the second condition each epoch is greater than the one it replaces, even if
//! messages were late, lost or repeated. (A leader writes its metadata in the same way, with its
//! own epoch.) Because of the first condition epochs are written in the order in which the lease
//! was held, as leases do not overlap. If the blob is deleted, the wall clock of the service
//! ensures that epochs increase, from the clock's next second on.
//!
//! **A term that ran without the service** holds the lease again only if the blob has the epoch of this
//! very term, or a smaller epoch, which is replaced on the same two conditions. The blob cannot change
//! between the read and the answer, because the lease id holds the lease. If the blob has a greater
//! epoch, or this epoch from another term, the candidate releases the lease.
//!
//! **If the epoch can't be written**, or the outcome is unknown, there is no term. The candidate
//! releases the lease so that others may try, and never uses its id again, because the release may
//! arrive late and must not end a later term. An epoch that was written without a term is skipped.

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
