//! The store's HTTP API as types: the bodies of requests and responses, and the allowed values.
//!
//! A body is read in two steps. The types here accept any value of the right shape; the `check`
//! functions make valid values of the core from them, or a [`Problem`] that names the field, the
//! value and its range. So a wrong value is refused in the same way wherever it comes from.

mod event;
mod number;
mod object;
mod problem;
mod request;
mod view;

pub use event::{EventKind, LeaseEvent, PastTerm, Reset};
pub use number::{DurationMs, Number};
pub use object::Object;
pub use problem::{Code, Problem};
pub use request::{
    AcquireRequest, BreakRequest, ChangeRequest, DEFAULT_PRIORITY, HandOverRequest,
    MAX_METADATA_BYTES, MAX_REASON_BYTES, MAX_RENEWALS, MAX_WAIT, MetadataRequest, Queued,
    ReleaseRequest, RenewManyReply, RenewManyRequest, RenewOne, RenewRequest, RenewResult,
    VerifyReply, VerifyRequest, check_metadata, check_wait,
};
pub use view::{History, LeaseList, LeaseView, TermView};

#[cfg(test)]
mod tests;
