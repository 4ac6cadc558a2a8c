//! Who speaks on a connection.

use std::sync::{Arc, Mutex, PoisonError};

use axum::http::HeaderMap;
use axum::http::header::CONNECTION;
use tenure_core::NodeId;

/// The member that speaks on a connection, as far as its good requests have shown. When its process
/// ends, the operating system closes the connection, long before anything else shows that.
#[derive(Clone, Debug, Default)]
pub(super) struct Caller(Arc<Mutex<Option<NodeId>>>);

impl Caller {
    /// A good request has come from this member. One that says that it is the last one on this
    /// connection leaves nothing to conclude from its end.
    pub(super) fn spoke(&self, from: NodeId, headers: &HeaderMap) {
        let is_last = headers
            .get(CONNECTION)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"close"));
        *self.lock() = (!is_last).then_some(from);
    }

    /// Whose connection it was, if it has ended without notice.
    pub(super) fn gone(&self) -> Option<NodeId> {
        *self.lock()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<NodeId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
