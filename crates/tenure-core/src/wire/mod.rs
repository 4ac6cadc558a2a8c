//! The store's HTTP API as types: the bodies of requests and responses, and the allowed values.
//!
//! A body is read in two steps. The types in this module accept any value of the right shape. The
//! `check` functions then create valid values of the core, or return a [`Problem`] that names the
//! field, the value and its range. So every API refuses a wrong value in the same way.

mod browser;
mod cluster;
mod event;
mod number;
mod object;
mod overview;
mod problem;
mod request;
#[cfg(feature = "schema")]
mod schema;
mod session;
mod view;

pub use browser::{check_host, check_json, check_page, host_name};
pub use cluster::{ActiveServer, ClusterView, ResignRequest, ServerRole};
pub use event::{EventKind, LeaseEvent, PastTerm, Reset};
pub use number::{DurationMs, Number};
pub use object::Object;
pub use overview::{
    LookReason, NamespaceList, NamespaceView, Overview, OverviewRow, StateCounts, WaiterList,
    WaiterView,
};
pub use problem::{Code, Problem};
pub use request::{
    AcquireRequest, BreakRequest, ChangeRequest, DEFAULT_PRIORITY, HandOverRequest,
    MAX_METADATA_BYTES, MAX_REASON_BYTES, MAX_RENEWALS, MAX_WAIT, MetadataRequest, Queued,
    ReleaseRequest, RenewManyReply, RenewManyRequest, RenewOne, RenewRequest, RenewResult,
    ResumeRequest, VerifyReply, VerifyRequest, check_metadata, check_wait,
};
pub use session::{SessionCode, SessionReply, SessionRequest};
pub use view::{History, LeaseList, LeaseView, TermView, WithoutStoreView};

/// The header of every answer of a store with the id of that store, 32 hexadecimal digits.
pub const STORE_HEADER: &str = "tenure-store";

/// The header of every answer of a server of a cluster with the ownership duration, in milliseconds.
pub const OWNERSHIP_HEADER: &str = "tenure-ownership-ms";

#[cfg(test)]
mod tests;
