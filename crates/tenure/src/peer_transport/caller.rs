//! Who speaks on a connection.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::CONNECTION;
use tenure_core::NodeId;

/// The member that speaks on a connection, as far as its good requests have shown. When its process
/// ends, the operating system closes the connection, long before anything else shows that.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Arc<Mutex<Who>>);

#[derive(Clone, Copy, Debug, Default)]
enum Who {
    /// Nobody has shown that it has the members' key.
    #[default]
    Unauthenticated,
    Member(NodeId),
    /// A member that has said that this is its last request here.
    Leaving,
}

impl Caller {
    /// A good request has come from this member. One that says that it is the last one on this
    /// connection leaves nothing to conclude from its end.
    pub(super) fn spoke(&self, from: NodeId, headers: &HeaderMap) {
        let is_last = headers
            .get(CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        *self.lock() = if is_last {
            Who::Leaving
        } else {
            Who::Member(from)
        };
    }

    /// Whether no good request has come yet. A recorded one that is sent again is none.
    pub(super) fn is_stranger(&self) -> bool {
        matches!(*self.lock(), Who::Unauthenticated)
    }

    /// Whose connection it was, if it has ended without notice.
    pub(super) fn gone(&self) -> Option<NodeId> {
        match *self.lock() {
            Who::Member(node) => Some(node),
            Who::Unauthenticated | Who::Leaving => None,
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Who> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
