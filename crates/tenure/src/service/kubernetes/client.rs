//! Requests to the API server, each sent once.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{CONTENT_TYPE, DATE, HeaderMap, RETRY_AFTER};
use reqwest::{Client, Method, StatusCode};
use serde::Deserialize;
use serde_json::{Map, Value};
use tenure_core::text::is_unprintable;

use super::object::{API_VERSION, LeaseObject};
use crate::config::KubernetesLease;
use crate::http::builder::{innermost_cause, read_body};
use crate::http::client::HttpClient;

/// The size of the largest answer that is read. etcd stores no object above 1.5 MiB.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// The length of the longest message of the API server that is passed on, in characters.
const MAX_MESSAGE: usize = 300;

/// The longest time for which the API server can keep a candidate from asking.
const MAX_WAIT: Duration = Duration::from_secs(60);

/// A client for one `Lease` object.
#[derive(Debug)]
pub(super) struct ApiClient {
    http: HttpClient,
    pub(super) lease: KubernetesLease,
    pub(super) server: String,
    collection: String,
    object: String,
    /// The time before which the API server wants no request, as it said in `Retry-After`.
    quiet_until: Mutex<Option<Instant>>,
}

/// The reason why a request to the API server failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ApiError {
    /// The API server did not answer. It may have executed the request.
    #[error("can't reach the API server at {url}: {reason}")]
    Unreachable { url: String, reason: String },
    /// The API server refused the request.
    #[error(transparent)]
    Refused(#[from] Box<ApiRefusal>),
    /// The review of rights says that this right is missing. The request was not sent.
    #[error("{0}")]
    MissingRight(String),
    /// The API server, or its own filter before it, has no capacity now. Such an answer is plain
    /// text.
    #[error("{url}: the API server refuses requests for now: {status}: {text}")]
    Busy {
        url: String,
        status: StatusCode,
        text: String,
    },
    /// The API server has asked for a pause, and the request was not sent.
    #[error("{url}: the API server has asked for a pause (Retry-After)")]
    AskedToWait { url: String },
    /// Other programs have changed the object between each read and the write after it.
    #[error("{url}: other programs have changed the object {attempts} times before it was written")]
    Conflicts { url: String, attempts: u32 },
    /// The answer contradicts the protocol, or the object has an invalid epoch.
    #[error("{url}: {reason}")]
    Malformed { url: String, reason: String },
    /// The answer is not one of an API server.
    #[error("{url} answered {status}, which is not an answer of a Kubernetes API server")]
    NotAnApiServer { url: String, status: u16 },
}

/// A refusal of the API server, which is a `Status` object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{method} {url} was refused with {status} {reason}: {message}{hint}",
    status = .status.as_u16(), hint = self.hint())]
pub(super) struct ApiRefusal {
    method: Method,
    url: String,
    status: StatusCode,
    reason: String,
    message: String,
    /// The name of the object that the refusal is about.
    about: String,
}

impl ApiRefusal {
    /// Returns whether the API server does not know the token. Policies and webhooks may refuse a
    /// write with 401, but no read, and each acquire begins with a read.
    pub(super) fn is_of_token(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED && self.method == Method::GET
    }

    /// Returns whether the token or a missing right is the likely reason.
    pub(super) fn is_of_credential(&self) -> bool {
        self.status == StatusCode::UNAUTHORIZED || self.is_of_rights()
    }

    /// Returns whether a webhook has refused a write. It chooses the status, and may choose that of a
    /// conflict or of a missing object.
    fn is_of_webhook(&self) -> bool {
        self.message.starts_with("admission webhook ")
    }

    /// Returns whether the refusal has the status of a missing right. Quotas, policies, webhooks and
    /// namespaces that end have the same status.
    pub(super) fn is_forbidden(&self) -> bool {
        self.status == StatusCode::FORBIDDEN
    }

    /// Returns whether a right is missing: `... cannot update resource "leases" in API group ...`.
    fn is_of_rights(&self) -> bool {
        let message = self.message.to_ascii_lowercase();
        let after = message.split_once(" cannot ").map(|(_, after)| after);
        self.is_forbidden() && after.is_some_and(|it| it.split(' ').nth(1) == Some("resource"))
    }

    /// Returns whether the same request may succeed later without a change by the operator.
    pub(super) fn is_transient(&self) -> bool {
        let status = self.status;
        status.is_server_error()
            || [
                StatusCode::REQUEST_TIMEOUT,
                StatusCode::CONFLICT,
                StatusCode::GONE,
                StatusCode::TOO_MANY_REQUESTS,
            ]
            .contains(&status)
    }

    fn hint(&self) -> &'static str {
        match self.is_of_rights() {
            true => ROLE,
            false if self.is_of_token() => "; is the token of this cluster, and has it expired?",
            false => "",
        }
    }
}

/// The advice if a right is missing.
pub(super) const ROLE: &str = "; a Role must allow get, create and update of leases in the API group \
                    coordination.k8s.io, and a RoleBinding must give it to the service account";

/// The body of a refusal.
#[derive(Deserialize)]
struct Status {
    kind: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    details: Details,
}

#[derive(Default, Deserialize)]
struct Details {
    #[serde(default)]
    name: String,
}

/// An answer with the object, or without if there is none.
#[derive(Debug)]
pub(super) struct Read<T> {
    pub(super) object: T,
    status: StatusCode,
    /// The clock of the API server, as an HTTP date.
    pub(super) date: Option<String>,
}

impl<T> Read<T> {
    fn map<U>(self, map: impl FnOnce(T) -> U) -> Read<U> {
        Read {
            object: map(self.object),
            status: self.status,
            date: self.date,
        }
    }
}

/// The outcome of a write that the API server has decided.
#[derive(Debug)]
pub(super) enum Written {
    Done(LeaseObject),
    /// The object has changed since it was read, or it exists already.
    Conflict,
    /// The object does not exist any more.
    Missing,
}

impl ApiClient {
    pub(super) fn new(http: HttpClient, lease: KubernetesLease) -> Self {
        let server = lease.server.url().as_str().trim_end_matches('/').to_owned();
        let namespace = lease.namespace();
        let collection = format!("{server}/apis/{API_VERSION}/namespaces/{namespace}/leases");
        Self {
            object: format!("{collection}/{}", lease.name()),
            http,
            lease,
            server,
            collection,
            quiet_until: Mutex::default(),
        }
    }

    /// Returns the URL of the object, without secrets.
    pub(super) fn url(&self) -> &str {
        &self.object
    }

    pub(super) fn origin(&self) -> String {
        match self.lease.credentials.is_some() {
            true => self.lease.credentials.origin(),
            false => "no token is set: set token_file in [kubernetes]".into(),
        }
    }

    /// Fails if the API server has asked for a pause. A leader does not ask: its renewals are few,
    /// and a lost term costs more.
    pub(super) fn check_pause(&self) -> Result<(), ApiError> {
        let quiet_until = *self
            .quiet_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        match quiet_until.is_some_and(|until| Instant::now() < until) {
            false => Ok(()),
            true => Err(ApiError::AskedToWait {
                url: self.object.clone(),
            }),
        }
    }

    /// Returns an object to create.
    pub(super) fn new_object(&self) -> LeaseObject {
        LeaseObject::new(self.lease.namespace(), self.lease.name())
    }

    /// Reads the newest version of the object.
    pub(super) async fn read(&self, until: Instant) -> Result<Read<Option<LeaseObject>>, ApiError> {
        let asked = self.send(Method::GET, &self.object, None, until).await;
        match asked.and_then(|read| self.lease_of(read)) {
            Ok(read) => Ok(read.map(Some)),
            Err((ApiError::Refused(refusal), date)) if self.is_missing(&refusal) => Ok(Read {
                object: None,
                status: refusal.status,
                date,
            }),
            Err((error, _)) => Err(error),
        }
    }

    /// Writes the object, if its version is still the newest one. Creates an object without a
    /// version.
    pub(super) async fn write(
        &self,
        object: &LeaseObject,
        until: Instant,
    ) -> Result<Written, ApiError> {
        let (method, url) = match object.has_version() {
            true => (Method::PUT, &self.object),
            false => (Method::POST, &self.collection),
        };
        let sent = self.send(method, url, Some(object.body()), until).await;
        match sent.and_then(|read| self.lease_of(read)) {
            Ok(written) => Ok(Written::Done(written.object)),
            Err((ApiError::Refused(refusal), _))
                if refusal.status == StatusCode::CONFLICT && !refusal.is_of_webhook() =>
            {
                Ok(Written::Conflict)
            }
            Err((ApiError::Refused(refusal), _)) if self.is_missing(&refusal) => {
                Ok(Written::Missing)
            }
            Err((error, _)) => Err(error),
        }
    }

    pub(super) fn conflicts(&self, attempts: u32) -> ApiError {
        ApiError::Conflicts {
            url: self.object.clone(),
            attempts,
        }
    }

    pub(super) fn malformed(&self, reason: impl Into<String>) -> ApiError {
        ApiError::Malformed {
            url: self.object.clone(),
            reason: reason.into(),
        }
    }

    /// Returns whether the object itself is missing, and not the namespace or the API group.
    fn is_missing(&self, refusal: &ApiRefusal) -> bool {
        refusal.status == StatusCode::NOT_FOUND
            && !refusal.is_of_webhook()
            && refusal.reason == "NotFound"
            && refusal.about == self.lease.name()
    }

    /// Sends an object that is not stored, and returns the answer of the API server to it.
    pub(super) async fn post(
        &self,
        url: &str,
        body: &Value,
        until: Instant,
    ) -> Result<Value, ApiError> {
        let body = body.as_object();
        let sent = self.send(Method::POST, url, body, until).await;
        let answered = sent.map_err(|(error, _)| error)?;
        let parsed = serde_json::from_slice(&answered.object);
        parsed.map_err(|_| not_an_api_server(url, answered.status))
    }

    fn lease_of(&self, read: Read<Vec<u8>>) -> Result<Read<LeaseObject>, DatedError> {
        match LeaseObject::parse(&read.object, self.lease.name()) {
            Some(object) => Ok(read.map(|_| object)),
            None => Err((not_an_api_server(&self.object, read.status), read.date)),
        }
    }

    /// Sends a request once, and again only if the token was replaced meanwhile. Returns the body of
    /// a success.
    async fn send(
        &self,
        method: Method,
        url: &str,
        body: Option<&Map<String, Value>>,
        until: Instant,
    ) -> Result<Read<Vec<u8>>, DatedError> {
        let unreachable = |error: reqwest::Error| {
            let (url, reason) = (url.to_owned(), innermost_cause(&error));
            (ApiError::Unreachable { url, reason }, None::<String>)
        };
        let body = body.map(|body| serde_json::to_vec(body).expect("an object of JSON"));
        let request = |client: &Client| {
            let request = client.request(method.clone(), url);
            let request = request.timeout(until.saturating_duration_since(Instant::now()));
            match &body {
                Some(body) => request
                    .header(CONTENT_TYPE, "application/json")
                    .body(body.clone()),
                None => request,
            }
        };
        let sent = self.http.send(&self.lease.credentials, request).await;
        let mut response = sent.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let date = text(&headers, DATE.as_str()).map(str::to_owned);
        let body = read_body(response, MAX_ANSWER_BYTES).await;
        let body = body.map_err(unreachable)?.unwrap_or_default();
        if status.is_success() {
            return Ok(Read {
                object: body,
                status,
                date,
            });
        }
        let is_busy = BUSY.contains(&status);
        if is_busy {
            self.note_pause(&headers);
        }
        let refused = serde_json::from_slice(&body).ok();
        let refused = refused.filter(|it: &Status| it.kind == "Status");
        let is_plain =
            text(&headers, CONTENT_TYPE.as_str()).is_some_and(|it| it.starts_with("text/plain"));
        let error = match refused {
            Some(said) => ApiError::Refused(Box::new(ApiRefusal {
                method,
                url: url.into(),
                status,
                reason: said.reason,
                message: shortened(&said.message),
                about: said.details.name,
            })),
            None if is_busy && is_plain => ApiError::Busy {
                url: url.into(),
                status,
                text: shortened(&String::from_utf8_lossy(&body)),
            },
            None => not_an_api_server(url, status),
        };
        Err((error, date))
    }

    fn note_pause(&self, headers: &HeaderMap) {
        let seconds = text(headers, RETRY_AFTER.as_str()).and_then(|text| text.parse().ok());
        if let Some(seconds) = seconds {
            let pause = Duration::from_secs(seconds).min(MAX_WAIT);
            let mut quiet_until = self
                .quiet_until
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            *quiet_until = Some(Instant::now() + pause);
        }
    }
}

/// An error with the date of the answer.
type DatedError = (ApiError, Option<String>);

/// The statuses that the filters of an API server answer in plain text.
const BUSY: [StatusCode; 3] = [
    StatusCode::TOO_MANY_REQUESTS,
    StatusCode::SERVICE_UNAVAILABLE,
    StatusCode::GATEWAY_TIMEOUT,
];

fn not_an_api_server(url: &str, status: StatusCode) -> ApiError {
    ApiError::NotAnApiServer {
        url: url.into(),
        status: status.as_u16(),
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns a message of the API server as one line of limited length.
pub(super) fn shortened(message: &str) -> String {
    let visible = message.chars().filter(|c| !is_unprintable(*c));
    let line: String = visible.take(MAX_MESSAGE).collect();
    line.trim().to_owned()
}
