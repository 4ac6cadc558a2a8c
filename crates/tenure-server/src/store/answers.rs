//! The limit of large answers: a client that reads none of its answers, or asks for many at once,
//! must not take the memory of the store.

use axum::body::{Body, Bytes, to_bytes};
use axum::response::Response;
use tenure_core::lease::Owner;
use tenure_core::wire::Problem;

use super::Store;
use crate::shares::{Share, Shares, Tenant};

/// The part of the total that requests with many renewals may use, as its divisor. Their answers may
/// be many times as large as a page of a list, because a renewal must not be refused.
const BATCHES: usize = 4;

/// The numbers of large answers.
#[derive(Debug)]
pub(super) struct Answers {
    pages: Shares<Tenant>,
    /// The answers to requests with many renewals.
    batches: Shares<Tenant>,
}

/// The right to build one large answer, which lasts until the client has taken the answer. Dropping
/// it ends the right.
#[derive(Debug)]
pub struct LargeAnswer {
    _share: Share<Tenant>,
}

/// The bytes of an answer. The connection drops them when they are written.
struct Held {
    bytes: Bytes,
    _permit: LargeAnswer,
}

impl Answers {
    pub(super) fn new(total: usize) -> Self {
        Self {
            pages: Shares::new(total),
            batches: Shares::new(total.div_ceil(BATCHES)),
        }
    }
}

impl Store {
    /// Begins a large answer for another protocol, to a client of this owner of leases.
    ///
    /// # Errors
    ///
    /// Too many large answers are built, or not taken by their clients.
    pub fn begin_large_answer(&self, owner: Option<&Owner>) -> Result<LargeAnswer, Problem> {
        self.large_answer(&Tenant::of(owner, None))
    }

    /// Begins a large answer.
    pub(crate) fn large_answer(&self, tenant: &Tenant) -> Result<LargeAnswer, Problem> {
        let permit = self.inner.answers.pages.admit(tenant, "large answers");
        permit.map(|share| LargeAnswer { _share: share })
    }

    /// Begins a request with many renewals. It waits while the tenant has too many of them. There is
    /// no time limit: renewals are not refused, and the tenants' shares do not affect each other.
    pub(crate) async fn large_renewal(&self, tenant: &Tenant) -> LargeAnswer {
        let share = self.inner.answers.batches.take_soon(tenant).await;
        LargeAnswer { _share: share }
    }
}

impl LargeAnswer {
    /// Returns the response, whose body is in memory. The response keeps this right until its last
    /// byte was written.
    pub async fn hold(self, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        // A body in memory can be read.
        let bytes = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let body = match bytes.is_empty() {
            true => Body::empty(),
            false => Body::from(Bytes::from_owner(Held {
                bytes,
                _permit: self,
            })),
        };
        Response::from_parts(parts, body)
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
