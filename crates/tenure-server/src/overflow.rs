//! Connections over the limit: a few, each for one request and for a short time.
//!
//! Silent connections can take all of these permits, so a new connection takes the permit of the
//! oldest one whose request has not come yet. A renewal over a new connection is therefore
//! answered, however many others connect.

use std::collections::BTreeMap;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
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
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    next: u64,
    /// By number, so the oldest first. One whose request has come has no token any more.
    permits: BTreeMap<u64, Option<CancellationToken>>,
}

/// The right to a connection over the limit. It is free again when this is dropped.
#[derive(Debug)]
pub(crate) struct OverflowPermit {
    overflow: Arc<Overflow>,
    number: u64,
    closed: CancellationToken,
}

impl Overflow {
    pub(crate) fn new(capacity: usize) -> Arc<Self> {
        let taken = Mutex::default();
        Arc::new(Self { capacity, taken })
    }

    /// A permit for a new connection. If all are taken, this closes the oldest connection whose
    /// request has not come; `None` if there is no such connection.
    pub(crate) fn enter(self: &Arc<Self>) -> Option<Arc<OverflowPermit>> {
        let mut taken = self.lock();
        if taken.permits.len() >= self.capacity {
            let mut permits = taken.permits.iter();
            let silent = permits.find_map(|(number, closed)| Some((*number, closed.clone()?)));
            let (number, closed) = silent?;
            taken.permits.remove(&number);
            closed.cancel();
        }
        let (number, closed) = (taken.next, CancellationToken::new());
        taken.next += 1;
        taken.permits.insert(number, Some(closed.clone()));
        drop(taken);
        Some(Arc::new(OverflowPermit {
            overflow: Arc::clone(self),
            number,
            closed,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OverflowPermit {
    /// The whole request has come: the connection stays until it is answered.
    pub(crate) fn request_received(&self) {
        if let Some(closed) = self.overflow.lock().permits.get_mut(&self.number) {
            *closed = None;
        }
    }

    /// Completes when the connection must be closed: its request has not come in time, or a new
    /// connection has taken the permit.
    pub(crate) async fn expired(&self) {
        let _ = timeout(REQUEST_TIME, self.closed.cancelled()).await;
        let has_request = matches!(self.overflow.lock().permits.get(&self.number), Some(None));
        if has_request {
            future::pending::<()>().await;
        }
    }
}

impl Drop for OverflowPermit {
    fn drop(&mut self) {
        self.overflow.lock().permits.remove(&self.number);
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
