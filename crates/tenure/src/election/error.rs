//! The errors of campaigns and terms.

use tenure_core::Epoch;

use crate::service::BackendError;

/// The reason why a candidate stopped campaigning by itself.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The lease service refuses this candidate permanently: for instance, it does not allow the
    /// lease duration, or a signature has expired. The operator must change something.
    #[error("this candidate is refused: {0}")]
    Refused(String),
    /// The lease service does not accept this candidate's credential, or the credential does not
    /// allow this election. The text names the source of the credential, and what is missing.
    #[error("the credential of this candidate is refused: {0}")]
    Denied(String),
    /// This member must not take part in the election among peers any more: another process uses
    /// its node id, or the epochs are used up. The text names the member that noticed, and the
    /// remedy.
    #[error("this member takes no part in the election: {0}")]
    Barred(String),
    /// The candidate's thread has died, which is a bug in this library. The term, if any, has
    /// ended.
    #[error("the candidate's thread has died")]
    DriverGone,
}

/// The term is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the term of epoch {0} is over")]
pub struct NotLeading(pub Epoch);

/// The reason why metadata were not published.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProclaimError {
    /// The term is over; nothing was sent.
    #[error(transparent)]
    NotLeading(#[from] NotLeading),
    /// The metadata have more than 4 KiB, or, among peers, do not fit into a message as JSON.
    /// Nothing was sent; the earlier metadata remain. A store may have a lower limit
    /// (`max_metadata_bytes`) and refuse the metadata with
    /// [`Code::TooLarge`](crate::store::Code::TooLarge).
    #[error("{0}")]
    Metadata(String),
    /// The lease service refused the metadata, or did not answer.
    #[error(transparent)]
    Backend(#[from] BackendError),
}
