//! The rules of a lease: its [`Record`], one function, [`apply`], that changes it, and [`Lease`], a record with
//! the acquires that wait for it. Every store, test and simulation uses these.
//!
//! The states and operations are those of Azure Blob leases, as the service documents them, with
//! differences that [`Rules`] names:
//!
//! ```text
//!               acquire                 break                  time
//!  available ------------> leased ---------------> breaking ---------> broken
//!      ^                    |  |                                         |
//!      |      release       |  | time                  acquire           |
//!      +--------------------+  +------> expired ----------------> leased <
//! ```
//!
//! *Expired* and *broken after breaking* are computed from `now` whenever a record is looked at
//! ([`Record::settle`]), never by a timer: a timer that is late can't make two holders.
//!
//! Every duration is counted on the authority's own forward-only clock. Wall-clock time only numbers
//! epochs.

mod duration;
mod id;
mod operation;
mod record;
mod rules;
mod stored;
mod term_end;

mod apply;
#[allow(clippy::module_inception)] // The file is named after its type.
mod lease;
mod queue;

pub mod candidate;

pub use apply::{Applied, Change, Rejection, apply, deletable};
pub use duration::LeaseDuration;
pub use id::{LeaseId, LeaseIdError};
pub use lease::{Due, Lease, RequestNumber};
pub use operation::{Acquire, Metadata, Operation};
pub use queue::{Priority, Waiting};
pub use record::{Grant, Lapse, RETIRED_LIMIT, Record, Remaining, Reservation, State};
pub use rules::Rules;
pub use stored::{Stored, StoredState};
pub use term_end::{Running, TermEnd};
