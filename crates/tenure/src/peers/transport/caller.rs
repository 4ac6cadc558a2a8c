//! The caller of a connection.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::CONNECTION;
use tenure_core::NodeId;

/// The member that opened a connection, as its valid requests show. When its process ends, the
/// operating system closes the connection. No other sign of the end arrives as early.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Arc<Mutex<Identity>>);

#[derive(Clone, Copy, Debug, Default)]
enum Identity {
    /// No request with a valid MAC has arrived yet.
    #[default]
    Unauthenticated,
    Member(NodeId),
    /// A member that passes requests of other members on. The end of such a connection says nothing
    /// about the process of any member, so there is no hint.
    Relay,
    /// A member that has announced its last request on this connection.
    Leaving,
}

impl Caller {
    /// Records a valid request from this member. If the request announces the end of the
    /// connection, that end is no sign of a crash.
    pub(super) fn authenticate(&self, from: NodeId, headers: &HeaderMap) {
        let is_last = headers
            .get(CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        *self.lock() = if is_last {
            Identity::Leaving
        } else {
            Identity::Member(from)
        };
    }

    /// Records a valid request that another member than its sender has passed on, or that is to be
    /// passed on. Its sender is not the caller.
    pub(super) fn authenticate_relay(&self) {
        let mut identity = self.lock();
        if matches!(*identity, Identity::Unauthenticated) {
            *identity = Identity::Relay;
        }
    }

    /// Returns whether no valid request has arrived yet. A recorded request that is sent again is
    /// not valid.
    pub(super) fn is_unauthenticated(&self) -> bool {
        matches!(*self.lock(), Identity::Unauthenticated)
    }

    /// Returns the member whose connection ended without notice.
    pub(super) fn gone(&self) -> Option<NodeId> {
        match *self.lock() {
            Identity::Member(node) => Some(node),
            Identity::Unauthenticated | Identity::Relay | Identity::Leaving => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
