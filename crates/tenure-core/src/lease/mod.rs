//! The rules of a lease. [`Record`] is its state, [`apply`] is the only function that changes it,
//! and [`Lease`] is a record with its waiting queue. All stores, tests and simulations use these
//! types.
//!
//! The states and operations are those of Azure Blob leases, as the service documents them.
//! [`Rules`] lists the differences:
//!
//! ```text
//!               acquire                 break                  time
//!  available ------------> leased ---------------> breaking ---------> broken
//!      ^                    |  |                                         |
//!      |      release       |  | time                  acquire           |
//!      +--------------------+  +------> expired ----------------> leased <
//! ```
//!
//! A leader among peers may lead on without the store while its lease expires. It then takes the
//! lease again under the same epoch ([`Operation::Resume`]), unless another grant, a release or a
//! break has ended the term in the store.
//!
//! *Expired*, and *broken* after *breaking*, are computed from `now` at every read of a record
//! ([`Record::settle`]), never by a timer: a late timer cannot create a second holder.
//!
//! The authority (the store) counts every duration on its own monotonic clock. Wall-clock time is
//! only the source of epochs.

mod duration;
mod id;
mod operation;
mod owner;
mod record;
mod rules;
mod stored;
mod term_end;
mod without_store;

mod apply;
#[allow(clippy::module_inception)] // The module has the name of its type.
mod lease;
mod queue;

pub mod candidate;
pub mod election_record;

pub use apply::{Applied, Change, Rejection, apply, apply_as, deletable};
pub use duration::LeaseDuration;
pub use id::{LeaseId, LeaseIdError};
pub use lease::{Due, Lease, RequestNumber};
pub use operation::{Acquire, Metadata, Operation, Resume};
pub use owner::Owner;
pub use queue::{PLACE_KEPT_FOR, Priority, Waiting};
pub use record::{Grant, Lapse, RETIRED_LIMIT, Record, Reservation, State};
pub use rules::Rules;
pub use stored::{Stored, StoredState};
pub use term_end::{Running, TermEnd};
pub use without_store::WithoutStore;
