//! Connections over the limit: a few, each for one request and for a short time.
//!
//! Silent connections can take all of these permits. A new connection therefore takes the permit of
//! the oldest connection whose request has not arrived yet. So a renewal on a new connection is
//! answered, however many other clients connect.

use std::future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// The time in which the request of a connection over the limit must arrive, including the body and
/// a TLS handshake. Clients send at once, so this only allows for slow networks.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The permits over the limit.
#[derive(Debug)]
pub(crate) struct Overflow {
    capacity: usize,
    /// The permits in use, oldest first.
    permits: Mutex<Vec<Weak<OverflowPermit>>>,
}

/// The right to a connection over the limit. Dropping it frees the permit.
#[derive(Debug, Default)]
pub(crate) struct OverflowPermit {
    /// The first of two events: the arrival of the whole request, or a new connection that takes
    /// the permit.
    first: OnceLock<First>,
    closed: CancellationToken,
}

#[derive(Debug, PartialEq, Eq)]
enum First {
    Request,
    NewConnection,
}

impl Overflow {
    pub(crate) fn new(capacity: usize) -> Self {
        let permits = Mutex::default();
        Self { capacity, permits }
    }

    /// Returns a permit for a new connection. If all permits are in use, this closes the oldest
    /// connection whose request has not arrived; `None` if there is no such connection.
    pub(crate) fn enter(&self) -> Option<Arc<OverflowPermit>> {
        let mut permits = self.permits.lock().unwrap_or_else(PoisonError::into_inner);
        permits.retain(|permit| permit.strong_count() > 0);
        if permits.len() >= self.capacity {
            let silent = permits
                .iter()
                .position(|permit| permit.upgrade().is_none_or(|permit| permit.close()))?;
            permits.remove(silent);
        }
        let permit = Arc::default();
        permits.push(Arc::downgrade(&permit));
        Some(permit)
    }
}

impl OverflowPermit {
    /// Records that the whole request has arrived. The connection then stays open until it is
    /// answered.
    pub(crate) fn request_received(&self) {
        let _ = self.first.set(First::Request);
    }

    /// Closes the connection if its request has not arrived. Returns whether it is closed.
    fn close(&self) -> bool {
        let is_silent = self.first.set(First::NewConnection).is_ok();
        if is_silent {
            self.closed.cancel();
        }
        is_silent
    }

    /// Completes when the connection must be closed: its request has not arrived in time, or a new
    /// connection has taken the permit.
    pub(crate) async fn expired(&self) {
        let _ = timeout(REQUEST_TIME, self.closed.cancelled()).await;
        if self.first.get() == Some(&First::Request) {
            future::pending::<()>().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_takes_the_permit_of_the_oldest_without_a_request() {
        let overflow = Overflow::new(2);
        let answered = overflow.enter().unwrap();
        answered.request_received();
        let silent = overflow.enter().unwrap();
        let new = overflow.enter().unwrap();
        assert!(silent.closed.is_cancelled() && !answered.closed.is_cancelled());
        // A request that arrives too late does not get the permit back.
        silent.request_received();
        new.request_received();
        assert!(overflow.enter().is_none());
        drop(silent);
        assert!(overflow.enter().is_none());
        drop(answered);
        assert!(overflow.enter().is_some());
    }
}
