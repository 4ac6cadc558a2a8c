//! Executes a request: its operation, its permissions and its response.

use std::error::Error as _;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_RANGE, SERVER, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use chrono::SecondsFormat;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http_body_util::LengthLimitError;
use tenure_core::lease::Owner;
use uuid::Builder;

use crate::protocol::{CLIENT_REQUEST_ID, ERROR_CODE, REQUEST_ID, VERSION};

use super::Service;
use super::auth::{Grant, Kind};
use super::blobs::Item;
use super::calls::{batch, blobs, containers, lease, list};
use super::clock;
use super::error::{
    BLOB_NOT_FOUND, BODY_TIMED_OUT, CONTAINER_NOT_FOUND, Error, INTERNAL_ERROR, INVALID_INPUT,
    INVALID_QUERY_PARAMETER_VALUE, MISSING_CONTENT_LENGTH_HEADER, OPERATION_TIMED_OUT, Result,
    UNSUPPORTED_HTTP_VERB,
};
use super::headers::check_supported;
use super::target::{Level, Query, Target, account_of};
use super::xml::Xml;

/// The version in the response to a request without a version. This program was written for that
/// version.
const USUAL_VERSION: HeaderValue = HeaderValue::from_static("2026-10-06");

/// The length of the longest client request id in responses, which is the service's limit.
const MAX_CLIENT_REQUEST_ID: usize = 1024;

/// The parts of a response that depend on the request.
pub(super) struct ResponseContext {
    request_id: HeaderValue,
    client_request_id: Option<HeaderValue>,
    version: HeaderValue,
    has_body: bool,
}

/// An authenticated request.
pub(super) struct Call {
    pub(super) service: Arc<Service>,
    pub(super) target: Target,
    pub(super) query: Query,
    pub(super) head: Parts,
    pub(super) grant: Grant,
    /// The address of the client, if it is known.
    pub(super) client: Option<IpAddr>,
    /// The body until [`Call::body`] reads it.
    unread: Mutex<Option<Body>>,
}

/// The operation of a request.
struct Operation {
    /// The permission that a shared access signature needs, which is one of these letters on this
    /// kind of resource.
    kind: Kind,
    one_of: &'static str,
    /// Whether the answer may be large: the number of these at a time is limited, as of requests with
    /// large bodies. A blob's content is in memory once, however many clients read it.
    is_large: bool,
    run: Run,
}

type Run = Box<dyn FnOnce(Call) -> BoxFuture<'static, Result<Response>> + Send>;

/// Executes the request if it is permitted.
pub(super) async fn serve(
    service: Arc<Service>,
    request: Request,
    client: Option<IpAddr>,
) -> Result<Response> {
    let (head, body) = request.into_parts();
    let account = account_of(head.uri.path());
    let query = Query::parse(head.uri.query())?;
    let target = Target::of_path(head.uri.path());
    let grant = service
        .guard
        .admit(&head, account, target.as_ref().ok(), &query, client)?;
    // The client is authenticated now, so errors may contain the reason.
    let target = target?;
    query.check_unique()?;
    check_supported(&head.headers)?;
    let operation = Operation::of(&head.method, target.level(), &query)?;
    grant.check(operation.kind, operation.one_of)?;
    let is_of_lease = query.get("comp") == Some("lease");
    let is_renewal = is_of_lease && lease::is_renewal(&head.headers);
    let changes_blobs = !is_of_lease && !matches!(head.method, Method::GET | Method::HEAD);
    let most = service.store.limits().request_time;
    let body_bytes = body.size_hint().lower();
    let limits = service.store.limits();
    let permit = match operation.is_large || body_bytes > limits.max_body_bytes as u64 {
        true => Some(
            service
                .store
                .begin_large_answer(service.guard.owner(account))?,
        ),
        false => None,
    };
    let call = Call {
        target,
        query,
        head,
        client,
        grant,
        service,
        unread: Mutex::new(Some(body)),
    };
    let running = async move {
        let response = (operation.run)(call).await?;
        Ok(match permit {
            Some(permit) => permit.hold(response).await,
            None => response,
        })
    };
    if changes_blobs {
        // The change continues when the client disconnects, because it must not stop halfway.
        let done = tokio::spawn(running).await;
        return done.unwrap_or_else(|_| Err(INTERNAL_ERROR.into()));
    }
    if is_renewal {
        // There is no time limit here, so that a holder keeps its lease even if the disk is slow.
        return running.await;
    }
    match tokio::time::timeout(most, running).await {
        Ok(result) => result,
        Err(_) => Err(OPERATION_TIMED_OUT.into()),
    }
}

impl Operation {
    fn of(method: &Method, level: Level, query: &Query) -> Result<Self> {
        use Level::{Account, Blob, Container};
        for absent in ["snapshot", "versionid"] {
            if let Some(value) = query.get(absent) {
                let reason = "there are no snapshots and versions";
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter(absent, value, reason));
            }
        }
        let (restype, comp) = (query.text("restype"), query.text("comp"));
        let method = method.as_str();
        let operation = match (level, restype, comp, method) {
            (Account, "", "list", "GET") => Self::large(Kind::Service, "l", list::containers),
            (Container, "container", "", "PUT") => {
                Self::new(Kind::Container, "cw", containers::create)
            }
            (Container, "container", "" | "metadata", "GET" | "HEAD") => {
                Self::new(Kind::Container, "r", containers::properties)
            }
            (Container, "container", "metadata", "PUT") => {
                Self::new(Kind::Container, "w", containers::set_metadata)
            }
            (Container, "container", "", "DELETE") => {
                Self::new(Kind::Container, "d", containers::delete)
            }
            (Container, "container", "lease", "PUT") => {
                Self::new(Kind::Container, "w", lease::lease)
            }
            (Container, "container", "list", "GET") => Self::large(Kind::Listing, "l", list::blobs),
            (Blob, "", "", "PUT") => Self::new(Kind::Object, "cw", blobs::put),
            (Blob, "", "", "GET") => Self::new(Kind::Object, "r", blobs::get),
            (Blob, "", "", "HEAD") | (Blob, "", "metadata", "GET" | "HEAD") => {
                Self::new(Kind::Object, "r", blobs::properties)
            }
            (Blob, "", "metadata", "PUT") => Self::new(Kind::Object, "w", blobs::set_metadata),
            (Blob, "", "properties", "PUT") => Self::new(Kind::Object, "w", blobs::set_properties),
            (Blob, "", "", "DELETE") => Self::new(Kind::Object, "d", blobs::delete),
            (Blob, "", "lease", "PUT") => Self::new(Kind::Object, "w", lease::lease),
            (Blob, "", "block", "PUT") => Self::new(Kind::Object, "cw", blobs::put_block),
            (Blob, "", "blocklist", "PUT") => Self::new(Kind::Object, "cw", blobs::put_block_list),
            (Blob, "", "blocklist", "GET") => Self::large(Kind::Object, "r", blobs::block_list),
            // The SDK for JavaScript mistakes an account in the path for a container. Each deletion
            // in a batch has its own credential.
            (Account, "" | "container", "batch", "POST")
            | (Container, "container", "batch", "POST") => {
                Self::large(Kind::Object, "d", batch::batch)
            }
            (_, _, _, "GET" | "HEAD" | "PUT" | "DELETE") => {
                let reason = format!("{method} with restype={restype:.40} does not take it here");
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter("comp", comp, reason));
            }
            _ => return Err(UNSUPPORTED_HTTP_VERB.into()),
        };
        Ok(operation)
    }

    /// Creates an operation whose answer may be large.
    fn large<F>(kind: Kind, one_of: &'static str, run: fn(Call) -> F) -> Self
    where
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        Self {
            is_large: true,
            ..Self::new(kind, one_of, run)
        }
    }

    /// Creates an operation.
    fn new<F>(kind: Kind, one_of: &'static str, run: fn(Call) -> F) -> Self
    where
        F: Future<Output = Result<Response>> + Send + 'static,
    {
        Self {
            kind,
            one_of,
            is_large: false,
            run: Box::new(move |call| Box::pin(run(call))),
        }
    }
}

impl Call {
    /// Reads the body, which may have at most `most` bytes. Nothing else reads bodies.
    ///
    /// The body may arrive long after the head, and the credential may have expired meanwhile. So
    /// the credential is checked again after the last byte.
    pub(super) async fn body(&self, most: usize) -> Result<Bytes> {
        let body = self
            .unread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let body = body.unwrap_or_default();
        let size = body.size_hint();
        if size.exact().is_none() {
            return Err(MISSING_CONTENT_LENGTH_HEADER.into());
        }
        if size.lower() > most as u64 {
            return Err(blobs::too_large(size.lower(), most));
        }
        let mut reading = pin!(to_bytes(body, most));
        let read = match reading.as_mut().now_or_never() {
            Some(read) => read,
            None => {
                let time = self.service.store.limits().request_time;
                let read = tokio::time::timeout(time, reading).await;
                let read = read.map_err(|_| BODY_TIMED_OUT)?;
                let (account, target) = (&self.target.account, Some(&self.target));
                let guard = &self.service.guard;
                guard.admit(&self.head, account, target, &self.query, self.client)?;
                read
            }
        };
        match read {
            // A slice would keep the whole buffer of the connection in memory.
            Ok(body) => Ok(Bytes::copy_from_slice(&body)),
            Err(error)
                if error
                    .source()
                    .is_some_and(|error| error.is::<LengthLimitError>()) =>
            {
                Err(blobs::too_large(format!("more than {most}"), most))
            }
            Err(_) => Err(INVALID_INPUT.because("the body ends before its last byte")),
        }
    }

    /// Returns the container or the blob if it exists. The container of a blob must exist.
    pub(super) fn known(&self) -> Result<Option<Arc<Item>>> {
        let catalog = self.service.blobs.catalog();
        let is_blob = self.target.level() == Level::Blob;
        if is_blob && catalog.get(&self.target.of_container()).is_none() {
            return Err(CONTAINER_NOT_FOUND.into());
        }
        Ok(catalog.get(&self.target).cloned())
    }

    /// Returns the container or the blob, which must exist.
    pub(super) fn existing(&self) -> Result<Arc<Item>> {
        let missing = match self.target.level() {
            Level::Blob => BLOB_NOT_FOUND,
            Level::Container | Level::Account => CONTAINER_NOT_FOUND,
        };
        Ok(self.known()?.ok_or(missing)?)
    }

    /// Returns the owner of the leases that this request acquires.
    pub(super) fn owner(&self) -> Option<&Owner> {
        self.service.guard.owner(&self.target.account)
    }

    /// Returns the id that the client gave to this request.
    pub(super) fn client_request_id(&self) -> Option<&str> {
        self.head.headers.get(CLIENT_REQUEST_ID)?.to_str().ok()
    }
}

impl ResponseContext {
    pub(super) fn of(method: &Method, headers: &HeaderMap) -> Self {
        let version = headers.get(VERSION).cloned();
        let client_request_id = headers.get(CLIENT_REQUEST_ID);
        Self {
            client_request_id: client_request_id
                .filter(|id| id.len() <= MAX_CLIENT_REQUEST_ID)
                .cloned(),
            version: version.unwrap_or(USUAL_VERSION),
            has_body: method != Method::HEAD,
            ..Self::unknown()
        }
    }

    /// Creates the context of a request that can't be parsed.
    pub(super) fn unknown() -> Self {
        let mut bytes = [0; 16];
        // The id only identifies the request. Without random bits, all requests have the same id.
        let _ = getrandom::fill(&mut bytes);
        let id = Builder::from_random_bytes(bytes).into_uuid();
        let mut text = [0; uuid::fmt::Hyphenated::LENGTH];
        let text = id.hyphenated().encode_lower(&mut text);
        Self {
            request_id: HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static("")),
            client_request_id: None,
            version: USUAL_VERSION,
            has_body: true,
        }
    }

    pub(super) fn respond(self, result: Result<Response>) -> Response {
        let mut response = match result {
            Ok(response) => response,
            Err(error) => self.refusal(&error),
        };
        let headers = response.headers_mut();
        headers.insert(REQUEST_ID, self.request_id);
        headers.insert(VERSION, self.version);
        // Some clients fail without this header.
        headers.insert(SERVER, HeaderValue::from_static("tenure"));
        if let Some(id) = self.client_request_id {
            headers.insert(CLIENT_REQUEST_ID, id);
        }
        response
    }

    fn refusal(&self, error: &Error) -> Response {
        let code = error.code;
        let mut response = if self.has_body && code.status != StatusCode::NOT_MODIFIED {
            let id = self.request_id.to_str().unwrap_or_default();
            let time = clock::utc().to_rfc3339_opts(SecondsFormat::Micros, true);
            let message = format!("{}\nRequestId:{id}\nTime:{time}", code.message);
            let mut xml = Xml::new();
            xml.element("Error", |xml| {
                xml.text("Code", code.text);
                xml.text("Message", &message);
                for (name, text) in &error.details {
                    xml.name(name, text);
                }
            });
            xml.into_response(code.status)
        } else {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = code.status;
            response
        };
        let headers = response.headers_mut();
        headers.insert(ERROR_CODE, HeaderValue::from_static(code.text));
        let range = error.size.map(|size| format!("bytes */{size}"));
        if let Some(Ok(range)) = range.map(HeaderValue::try_from) {
            headers.insert(CONTENT_RANGE, range);
        }
        if code.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("SharedKey");
            headers.insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}
