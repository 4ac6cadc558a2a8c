//! Connections over the limit: a few, each for one request and for a short time.
//!
//! Silent connections can take all of these permits, so a new connection takes the permit of the
//! oldest one whose request has not come yet. A renewal over a new connection is therefore
//! answered, however many others connect.

use std::future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

/// How long a connection over the limit may take for its request, with the body and a TLS
/// handshake. Clients send at once, so this is for slow networks.
const REQUEST_TIME: Duration = Duration::from_secs(2);

/// The permits over the limit.
#[derive(Debug)]
pub(crate) struct Overflow {
    capacity: usize,
    /// The permits that are taken, the oldest first.
    permits: Mutex<Vec<Weak<OverflowPermit>>>,
}

/// The right to a connection over the limit. It is free again when this is dropped.
#[derive(Debug, Default)]
pub(crate) struct OverflowPermit {
    /// The first of two events: the whole request, or a new connection that took the permit.
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

    /// A permit for a new connection. If all are taken, this closes the oldest connection whose
    /// request has not come; `None` if there is no such connection.
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
    /// The whole request has come: the connection stays until it is answered.
    pub(crate) fn request_received(&self) {
        let _ = self.first.set(First::Request);
    }

    /// Closes the connection if its request has not come. Returns whether it is closed.
    fn close(&self) -> bool {
        let is_silent = self.first.set(First::NewConnection).is_ok();
        if is_silent {
            self.closed.cancel();
        }
        is_silent
    }

    /// Completes when the connection must be closed: its request has not come in time, or a new
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
        // A request that comes too late does not take the permit back.
        silent.request_received();
        new.request_received();
        assert!(overflow.enter().is_none());
        drop(silent);
        assert!(overflow.enter().is_none());
        drop(answered);
        assert!(overflow.enter().is_some());
    }
}
