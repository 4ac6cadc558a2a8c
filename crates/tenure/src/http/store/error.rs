//! The reasons why a request to the store failed.

use tenure_core::wire::{Code, Problem};

use super::Endpoint;

/// The reason why a request to the store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store did not answer. The store may have executed the request.
    #[error("can't reach the store at {endpoint}: {reason}")]
    Unreachable {
        /// The address.
        endpoint: Endpoint,
        /// The innermost cause.
        reason: String,
    },
    /// The store refused the request.
    #[error("{} ({})", .0.detail, .0.code.as_str())]
    Problem(Problem),
    /// The group of the candidate uses another store. The answer does not count.
    #[error("the store at {endpoint} is not used: {reason}")]
    AnotherStore {
        /// The address.
        endpoint: Endpoint,
        /// The text names both stores, and the remedy.
        reason: String,
    },
    /// The server at this address is not a lease store.
    #[error("{endpoint} answered {status}, which is not an answer of a lease store")]
    NotAStore {
        /// The address.
        endpoint: Endpoint,
        /// The HTTP status of the answer.
        status: u16,
    },
}

impl StoreError {
    /// Returns whether the next request should go to another address of the same store.
    pub(super) const fn is_of_the_endpoint(&self) -> bool {
        match self {
            Self::Problem(problem) => problem.code.is_transient(),
            Self::Unreachable { .. } | Self::AnotherStore { .. } | Self::NotAStore { .. } => true,
        }
    }

    /// Returns whether another server of the store may execute this request now, although this one
    /// can't. Other refusals, for example that the store is overloaded, are for all addresses.
    pub(super) const fn is_of_the_server(&self) -> bool {
        match self {
            // The code may be one of a newer store.
            Self::Problem(problem) => problem.status == 503,
            Self::Unreachable { .. } | Self::AnotherStore { .. } | Self::NotAStore { .. } => true,
        }
    }

    /// Returns the problem of a server that is a standby.
    pub(super) fn of_standby(&self) -> Option<&Problem> {
        match self {
            Self::Problem(problem) if problem.code == Code::NotActive => Some(problem),
            _ => None,
        }
    }

    /// Returns how much this error tells about the failure of a request that several servers got: a
    /// standby only says that it is one.
    pub(super) fn weight(&self) -> u8 {
        match self {
            Self::Problem(_) if self.of_standby().is_some() => 0,
            Self::Unreachable { .. } | Self::NotAStore { .. } => 1,
            Self::Problem(_) => 2,
            Self::AnotherStore { .. } => 3,
        }
    }
}
