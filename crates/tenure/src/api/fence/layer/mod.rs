//! A fence in front of an HTTP service.

use std::collections::BTreeMap;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::header::{CONTENT_TYPE, HeaderMap};
use http::{HeaderValue, Request, Response, StatusCode};
use tenure_core::wire::{Code, Problem};
use tenure_core::{ElectionName, Epoch};
use tower_layer::Layer;
use tower_service::Service;

use super::{ELECTION_HEADER, EPOCH_HEADER, Gate, Stale};

/// Rejects the requests of stale leaders before the inner service sees them.
///
/// A request must have the header [`EPOCH_HEADER`] exactly once, and the [`Gate`] must admit its
/// epoch. All other requests get RFC 9457 problem details:
///
/// | request | answer |
/// |---|---|
/// | the epoch is smaller than one seen before | 409 `stale_epoch`, with the greatest seen as `epoch` |
/// | no epoch | 400 `malformed`, or it passes: [`Unmarked`] |
/// | an epoch that is not a number up to 2^53 - 1, or two epochs | 400 `malformed` |
/// | an election without a gate ([`by_election`](Self::by_election) only) | 400 `malformed` |
///
/// Put the layer in front of routes that write; routes that only read need no fence. It works for
/// every tower service whose response body can be created from bytes, such as axum's. Authenticate
/// requests before the fence.
///
/// **The check happens before the handler.** An admitted request may still be in progress when the
/// first request of a newer epoch arrives. A handler that must not write after that request takes
/// the [`Admission`] from the request's extensions and checks it again under the lock, or in the
/// transaction, of its write. The [module](super) describes the other limits of a fence.
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
///     // Under the lock: a request with a greater epoch writes after this one.
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

/// The action for a request without an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unmarked {
    /// Refuse it.
    #[default]
    Refuse,
    /// Pass it on without a check, while the senders migrate.
    Allow,
}

impl FenceLayer {
    /// Creates a fence for one election: this gate checks every epoch, and the header
    /// [`ELECTION_HEADER`] is ignored.
    #[must_use]
    pub fn new(gate: impl Into<Arc<Gate>>) -> Self {
        Self {
            gates: Gates::One(gate.into()),
            unmarked: Unmarked::default(),
        }
    }

    /// Creates a fence for several elections, or for one election whose name is checked. The header
    /// [`ELECTION_HEADER`] selects the gate. The set of elections is fixed, so requests can't fill
    /// the memory with names.
    #[must_use]
    pub fn by_election(gates: impl IntoIterator<Item = (ElectionName, Arc<Gate>)>) -> Self {
        Self {
            gates: Gates::ByElection(Arc::new(gates.into_iter().collect())),
            unmarked: Unmarked::default(),
        }
    }

    /// Sets the action for requests without an epoch; default [`Unmarked::Refuse`].
    #[must_use]
    pub fn with_unmarked(self, unmarked: Unmarked) -> Self {
        Self { unmarked, ..self }
    }

    /// Returns the admission of a request with these headers, or `None` if the request passes
    /// without an epoch.
    fn admit(&self, headers: &HeaderMap) -> Result<Option<Admission>, Problem> {
        let Some(epoch) = only(headers, EPOCH_HEADER)? else {
            return match self.unmarked {
                Unmarked::Allow => Ok(None),
                Unmarked::Refuse => Err(missing(EPOCH_HEADER)),
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

/// The admission of a request. A [`FenceLayer`] adds it to the extensions of each request that has
/// an epoch.
#[derive(Clone, Debug)]
pub struct Admission {
    epoch: Epoch,
    gate: Arc<Gate>,
}

impl Admission {
    /// Returns the request's epoch, which can be stored with the data.
    #[must_use]
    pub const fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Returns the epoch if no greater epoch was admitted meanwhile. Call this method while you
    /// hold the lock that the write needs; then the writes of a newer leader come after this write.
    ///
    /// # Errors
    ///
    /// [`Stale`] if a newer leader has sent a request. The caller must not write.
    pub fn check(&self) -> Result<Epoch, Stale> {
        self.gate.admit(self.epoch).map(|()| self.epoch)
    }
}

/// A service behind a fence. See [`FenceLayer`].
#[derive(Clone, Debug)]
pub struct Fence<S> {
    inner: S,
    layer: FenceLayer,
}

impl<S, B, R> Service<Request<B>> for Fence<S>
where
    S: Service<Request<B>, Response = Response<R>, Error: Send + 'static, Future: Send + 'static>,
    R: From<Vec<u8>> + Send + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    /// Returns the response of the inner service, or a refusal.
    type Future = Pin<Box<dyn Future<Output = Result<Response<R>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.layer.admit(request.headers()) {
            Ok(admission) => {
                if let Some(admission) = admission {
                    request.extensions_mut().insert(admission);
                }
                Box::pin(self.inner.call(request))
            }
            Err(problem) => Box::pin(ready(Ok(answer(&problem)))),
        }
    }
}

/// Returns the value of a header that must occur only once, because two values are ambiguous.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a HeaderValue>, Problem> {
    let mut values = headers.get_all(name).iter();
    let value = values.next();
    if values.next().is_some() {
        return Err(malformed(format!("the header {name} occurs twice")));
    }
    Ok(value)
}

fn parse_epoch(value: &HeaderValue) -> Result<Epoch, Problem> {
    // A check for digits, because the parser also accepts a sign.
    let is_number = |text: &&str| text.bytes().all(|byte| byte.is_ascii_digit());
    let digits = value.to_str().ok().filter(is_number);
    let epoch = digits.and_then(|digits| Epoch::new(digits.parse().ok()?));
    epoch.ok_or_else(|| {
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
    let fault = |what: String| malformed(format!("{ELECTION_HEADER} is {what}"));
    let Some(value) = only(headers, ELECTION_HEADER)? else {
        return Err(missing(ELECTION_HEADER));
    };
    let election: Option<ElectionName> = value.to_str().ok().and_then(|text| text.parse().ok());
    let election = election.ok_or_else(|| fault(format!("{value:?}, which is not a name")))?;
    let gate = gates.get(&election);
    gate.ok_or_else(|| fault(format!("{election}, which has no gate here")))
}

fn missing(name: &str) -> Problem {
    malformed(format!("the header {name} is missing"))
}

fn malformed(detail: String) -> Problem {
    Problem::new(Code::Malformed, detail)
}

fn stale(stale: Stale) -> Problem {
    tracing::warn!(
        epoch = stale.refused.get(),
        current = stale.current.get(),
        "rejected a stale request"
    );
    Problem {
        epoch: Some(stale.current.get()),
        ..Problem::new(Code::StaleEpoch, stale.to_string())
    }
}

fn answer<R: From<Vec<u8>>>(problem: &Problem) -> Response<R> {
    // A problem contains only text and numbers, so this can't fail.
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
