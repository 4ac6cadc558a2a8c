//! The check in front of each route: it accepts a request if the caller has the right of the route.

use axum::body::Body;
use axum::extract::{FromRequestParts, RawPathParams, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use tenure_core::wire::{Code, Problem};

use super::problem::ProblemResponse;
use super::routes::Route;
use super::routes::description::Kind;
use crate::access::{Access, Caller, Right, Target};
use crate::store::{LargeAnswer, ServedStore};

/// The check of one route.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    stores: ServedStore,
    access: Access,
    right: Right,
    target: TargetOf,
    kind: Kind,
}

/// The object of a route's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetOf {
    Store,
    /// Leases of all namespaces.
    Anywhere,
    /// The `{namespace}` of the path.
    Namespace,
    /// The `{namespace}` and the `{lease}` of the path.
    Lease,
    /// Like `Lease`, but if the lease is named `events`, the request may be about the namespace.
    /// The handler decides, and checks the right to the lease itself.
    LeaseOrEvents,
}

/// The names in a path, decoded in the same manner as for handlers, so that rights are checked for
/// the names that handlers use.
#[derive(Debug, Default)]
struct Names {
    namespace: String,
    lease: String,
}

impl Gate {
    pub(super) const fn new(stores: ServedStore, access: Access, route: &Route) -> Self {
        Self {
            stores,
            access,
            right: route.right(),
            target: route.target(),
            kind: route.kind(),
        }
    }

    /// Answers the request if its caller has the right. A stream ends when the caller loses the
    /// right. A large answer needs a part of the caller's share.
    ///
    /// No other request is ended here: a change that has begun must not be answered with a refusal.
    /// Handlers that wait for a body or for a lease check the right again.
    pub(super) async fn pass(self, request: Request, next: Next) -> Response {
        let (mut parts, body) = request.into_parts();
        let checked = self.check(&mut parts).await;
        let (caller, names) = match checked {
            Ok(checked) => checked,
            Err(problem) => return ProblemResponse(problem).into_response(),
        };
        let permit = match self.permit(&caller).await {
            Ok(permit) => permit,
            Err(problem) => return ProblemResponse(problem).into_response(),
        };
        let response = next.run(Request::from_parts(parts, body)).await;
        if let Some(permit) = permit {
            return permit.hold(response).await;
        }
        match is_stream(&response) && matches!(caller, Caller::Admitted(_)) {
            true => self.until_refused(response, caller, names),
            false => response,
        }
    }

    /// Returns the permit for a large answer.
    async fn permit(&self, caller: &Caller) -> Result<Option<LargeAnswer>, Problem> {
        let store = self.stores.current();
        match self.kind {
            Kind::Large => store.large_answer(&caller.tenant()).map(Some),
            Kind::Renewals => Ok(Some(store.large_renewal(&caller.tenant()).await)),
            Kind::Immediate | Kind::LongPoll | Kind::Stream => Ok(None),
        }
    }

    async fn check(&self, parts: &mut Parts) -> Result<(Caller, Names), Problem> {
        let caller = Caller::from_request_parts(parts, &()).await;
        let caller = caller.map_err(|ProblemResponse(problem)| problem)?;
        let names = match self.target {
            TargetOf::Store | TargetOf::Anywhere => Names::default(),
            _ => Names::of(parts).await,
        };
        caller.check(self.right, self.target.of(&names))?;
        Ok((caller, names))
    }

    fn until_refused(self, response: Response, caller: Caller, names: Names) -> Response {
        response.map(|body| {
            let refused = async move {
                let target = self.target.of(&names);
                self.access.refused(&caller, self.right, target).await;
            };
            Body::from_stream(body.into_data_stream().take_until(Box::pin(refused)))
        })
    }
}

impl TargetOf {
    fn of(self, names: &Names) -> Target<'_> {
        match self {
            Self::Store => Target::Store,
            Self::Anywhere => Target::Anywhere,
            Self::Namespace => Target::Namespace(&names.namespace),
            Self::LeaseOrEvents if names.lease == "events" => Target::Namespace(&names.namespace),
            Self::Lease | Self::LeaseOrEvents => Target::Lease(&names.namespace, &names.lease),
        }
    }
}

impl Names {
    /// Extracts the names. A name that is not text is empty, and the handler refuses it.
    async fn of(parts: &mut Parts) -> Self {
        let mut names = Self::default();
        if let Ok(params) = RawPathParams::from_request_parts(parts, &()).await {
            for (key, value) in &params {
                match key {
                    "namespace" => value.clone_into(&mut names.namespace),
                    "lease" => value.clone_into(&mut names.lease),
                    _ => {}
                }
            }
        }
        names
    }
}

/// The guard of the service inserts the caller. A request without a caller is refused.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ProblemResponse;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ProblemResponse> {
        parts.extensions.get().cloned().ok_or_else(|| {
            ProblemResponse(Problem::new(Code::Internal, "the request has no caller"))
        })
    }
}

fn is_stream(response: &Response) -> bool {
    let content_type = response.headers().get(CONTENT_TYPE);
    content_type.is_some_and(|value| value == "text/event-stream")
}
