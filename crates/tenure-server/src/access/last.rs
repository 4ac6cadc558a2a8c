//! The credential that a connection has sent last.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use axum::http::HeaderValue;

use super::caller::Admission;

/// The maximum length of a header that is remembered: enough for a token of Kubernetes.
const MAX_LEN: usize = 2048;

/// The header `Authorization` that a connection has sent last, and its caller. A client sends the
/// same header with each request, and its check costs a hash and look-ups.
#[derive(Default)]
pub(crate) struct LastCredential(Mutex<Option<Last>>);

struct Last {
    header: Box<[u8]>,
    /// The number of the rules by which the header was checked.
    rules: u64,
    admission: Arc<Admission>,
}

impl LastCredential {
    /// Returns the caller with this header, if the connection has sent it last, and if it was
    /// checked by these rules. The caller may have expired.
    pub(super) fn find(&self, header: &HeaderValue, rules: u64) -> Option<Arc<Admission>> {
        let last = self.lock();
        let last = last.as_ref().filter(|last| last.rules == rules)?;
        // A proxy may send the requests of several clients on one connection, so the time must not
        // reveal how much of a header is right.
        verify_slices_are_equal(&last.header, header.as_bytes()).ok()?;
        Some(Arc::clone(&last.admission))
    }

    /// Remembers the caller with this header.
    pub(super) fn remember(&self, header: &HeaderValue, rules: u64, admission: &Arc<Admission>) {
        if header.len() <= MAX_LEN {
            *self.lock() = Some(Last {
                header: header.as_bytes().into(),
                rules,
                admission: Arc::clone(admission),
            });
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LastCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LastCredential(..)")
    }
}
