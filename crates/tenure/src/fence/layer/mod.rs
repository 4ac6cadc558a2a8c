//! A fence in front of an HTTP service.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use pin_project_lite::pin_project;
use tenure_core::wire::{Code, Problem};
use tenure_core::{ElectionName, Epoch};
use tower_layer::Layer;
use tower_service::Service;

use super::{ELECTION_HEADER, EPOCH_HEADER, Gate, Stale};

/// Refuses requests of leaders that have been replaced, before the service behind it sees them.
///
/// A request must have the header [`EPOCH_HEADER`], once, and its epoch must pass the [`Gate`]. What
/// does not is answered with RFC 9457 problem details:
///
/// | request | answer |
/// |---|---|
/// | the epoch is smaller than one seen before | 409 `stale_epoch`, with the greatest seen as `epoch` |
/// | no epoch | 400 `malformed`, or it passes: [`Unmarked`] |
/// | an epoch that is no number up to 2^53 - 1, or two of them | 400 `malformed` |
/// | an election that this receiver has no gate for ([`by_election`](Self::by_election) only) | 400 `malformed` |
///
/// Put it before routes that write; those that only read need none. It works for every tower service
/// whose response body can be made from bytes, such as axum's, and goes after the layer that checks
/// who is asking.
///
/// **The fence is at the door.** A request that was admitted may still be at work when the first one
/// of a newer epoch comes in. A handler that must not be overtaken takes the [`Admission`] out of the
/// request's extensions and checks it again under the lock, or in the transaction, that its write
/// needs. The [module](super) says what else a fence does not do.
///
/// # Examples
///
/// ```
/// use std::sync::{Arc, Mutex};
/// use axum::extract::Extension;
/// use axum::http::StatusCode;
/// use axum::routing::post;
/// use tenure::fence::{Admission, FenceLayer, Gate};
///
/// let entries = Arc::new(Mutex::new(Vec::new()));
/// let append = move |Extension(admission): Extension<Admission>, entry: String| async move {
///     let mut entries = entries.lock().unwrap();
///     // Under the lock: whoever is admitted with a greater epoch writes after this.
///     if admission.check().is_err() {
///         return StatusCode::CONFLICT;
///     }
///     entries.push(entry);
///     StatusCode::NO_CONTENT
/// };
/// let app: axum::Router = axum::Router::new()
///     .route("/entries", post(append))
///     .layer(FenceLayer::new(Gate::new()));
/// ```
#[derive(Clone, Debug)]
pub struct FenceLayer {
    gates: Gates,
    unmarked: Unmarked,
}

#[derive(Clone, Debug)]
enum Gates {
    One(Arc<Gate>),
    ByElection(Arc<BTreeMap<ElectionName, Arc<Gate>>>),
}

/// What to do with a request that has no epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unmarked {
    /// Refuse it.
    #[default]
    Refuse,
    /// Let it pass, unfenced: while senders are being taught to send their epochs.
    Allow,
}

impl FenceLayer {
    /// A fence for one election: every epoch is checked at this gate, and the header
    /// [`ELECTION_HEADER`] is not looked at.
    #[must_use]
    pub fn new(gate: impl Into<Arc<Gate>>) -> Self {
        Self {
            gates: Gates::One(gate.into()),
            unmarked: Unmarked::default(),
        }
    }

    /// A fence for several elections, or for one whose name is to be checked: the header
    /// [`ELECTION_HEADER`] names the gate. Elections are told beforehand, so that nobody can fill
    /// the memory with names.
    #[must_use]
    pub fn by_election(gates: impl IntoIterator<Item = (ElectionName, Arc<Gate>)>) -> Self {
        Self {
            gates: Gates::ByElection(Arc::new(gates.into_iter().collect())),
            unmarked: Unmarked::default(),
        }
    }

    /// Does this with requests without an epoch; default [`Unmarked::Refuse`].
    #[must_use]
    pub fn with_unmarked(self, unmarked: Unmarked) -> Self {
        Self { unmarked, ..self }
    }

    /// The admission of a request with these headers, `None` if it passes without one.
    fn admit(&self, headers: &HeaderMap) -> Result<Option<Admission>, Problem> {
        let Some(epoch) = only(headers, EPOCH_HEADER)? else {
            return match self.unmarked {
                Unmarked::Allow => Ok(None),
                Unmarked::Refuse => Err(malformed(format!("the header {EPOCH_HEADER} is missing"))),
            };
        };
        let epoch = parse_epoch(epoch)?;
        let gate = match &self.gates {
            Gates::One(gate) => gate,
            Gates::ByElection(gates) => gate_of(gates, headers)?,
        };
        gate.admit(epoch).map_err(stale)?;
        Ok(Some(Admission {
            epoch,
            gate: gate.clone(),
        }))
    }
}

impl<S> Layer<S> for FenceLayer {
    type Service = Fence<S>;

    fn layer(&self, inner: S) -> Fence<S> {
        Fence {
            inner,
            layer: self.clone(),
        }
    }
}

/// That a request was admitted, and under which epoch: in the extensions of each request behind a
/// [`FenceLayer`] that had one.
#[derive(Clone, Debug)]
pub struct Admission {
    epoch: Epoch,
    gate: Arc<Gate>,
}

impl Admission {
    /// The request's epoch, to keep with what it writes.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// The epoch, if no greater one was admitted meanwhile. Ask while holding the lock that the
    /// write needs: then a newer leader's writes come after this one.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer leader was here; write nothing.
    pub fn check(&self) -> Result<Epoch, Stale> {
        self.gate.admit(self.epoch).map(|()| self.epoch)
    }
}

/// A service behind a fence; see [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct Fence<S> {
    inner: S,
    layer: FenceLayer,
}

impl<S, B, R> Service<Request<B>> for Fence<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    R: From<Vec<u8>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future, R>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let kind = match self.layer.admit(request.headers()) {
            Ok(admission) => {
                if let Some(admission) = admission {
                    request.extensions_mut().insert(admission);
                }
                Kind::Admitted {
                    answer: self.inner.call(request),
                }
            }
            Err(problem) => Kind::Refused {
                answer: Some(answer(&problem)),
            },
        };
        ResponseFuture { kind }
    }
}

pin_project! {
    /// The answer of a [`Fence`].
    #[derive(Debug)]
    pub struct ResponseFuture<F, R> {
        #[pin]
        kind: Kind<F, R>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = KindProjection]
    enum Kind<F, R> {
        Admitted { #[pin] answer: F },
        Refused { answer: Option<Response<R>> },
    }
}

impl<F, R, E> Future for ResponseFuture<F, R>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.project().kind.project() {
            KindProjection::Admitted { answer } => answer.poll(context),
            // Nobody asks again for an answer that was given.
            KindProjection::Refused { answer } => answer
                .take()
                .map_or(Poll::Pending, |answer| Poll::Ready(Ok(answer))),
        }
    }
}

/// The value of a header that may stand there once: of two, nobody knows which one counts.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(malformed(format!("the header {name} stands there twice")));
    }
    Ok(value)
}

fn parse_epoch(value: &HeaderValue) -> Result<Epoch, Problem> {
    let digits = value
        .to_str()
        .ok()
        // Parsing alone would take a sign, too.
        .filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
    let number = digits.and_then(|digits| digits.parse().ok());
    number.and_then(Epoch::new).ok_or_else(|| {
        let most = Epoch::MAX;
        malformed(format!(
            "{EPOCH_HEADER} is {value:?} and must be a whole number, 0 to {most}"
        ))
    })
}

fn gate_of<'a>(
    gates: &'a BTreeMap<ElectionName, Arc<Gate>>,
    headers: &HeaderMap,
) -> Result<&'a Arc<Gate>, Problem> {
    let value = only(headers, ELECTION_HEADER)?
        .ok_or_else(|| malformed(format!("the header {ELECTION_HEADER} is missing")))?;
    let election = value
        .to_str()
        .ok()
        .and_then(|text| text.parse::<ElectionName>().ok())
        .ok_or_else(|| malformed(format!("{ELECTION_HEADER} is {value:?}, which is no name")))?;
    gates.get(&election).ok_or_else(|| {
        malformed(format!(
            "{ELECTION_HEADER} is {election}, which may not write here"
        ))
    })
}

fn malformed(detail: String) -> Problem {
    Problem::new(Code::Malformed, detail)
}

fn stale(stale: Stale) -> Problem {
    tracing::warn!(epoch = %stale.refused, current = %stale.current, "a stale request was refused");
    Problem {
        epoch: Some(stale.current.get()),
        ..Problem::new(Code::StaleEpoch, stale.to_string())
    }
}

fn answer<R: From<Vec<u8>>>(problem: &Problem) -> Response<R> {
    // A problem is text and numbers, which always make JSON.
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = Response::new(body.into());
    *response.status_mut() =
        StatusCode::from_u16(problem.status).unwrap_or(StatusCode::BAD_REQUEST);
    let kind = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

#[cfg(test)]
mod tests;
