//! The caller on a connection.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::CONNECTION;
use tenure_core::NodeId;

/// The member that calls on a connection, as far as its good requests have shown. When its process
/// ends, the operating system closes the connection, long before anything else shows that.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Arc<Mutex<Identity>>);

#[derive(Clone, Copy, Debug, Default)]
enum Identity {
    /// No request with a good MAC has come yet.
    #[default]
    Unauthenticated,
    Member(NodeId),
    /// A member that has announced its last request here.
    Leaving,
}

impl Caller {
    /// A good request has come from this member. After a request that announces the end of the
    /// connection, the end tells nothing.
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

    /// Whether no good request has come yet. A recorded request that is sent again is not good.
    pub(super) fn is_unauthenticated(&self) -> bool {
        matches!(*self.lock(), Identity::Unauthenticated)
    }

    /// The member whose connection has ended without notice.
    pub(super) fn gone(&self) -> Option<NodeId> {
        match *self.lock() {
            Identity::Member(node) => Some(node),
            Identity::Unauthenticated | Identity::Leaving => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Identity> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
