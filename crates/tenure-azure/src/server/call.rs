//! One request: its operation, its permissions and its response.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_RANGE, SERVER, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use chrono::SecondsFormat;
use futures_util::future::BoxFuture;
use uuid::Builder;

use super::Service;
use super::auth::{Grant, Kind, Need};
use super::blobs::Target;
use super::calls;
use super::clock;
use super::error::{
    Error, INTERNAL_ERROR, INVALID_QUERY_PARAMETER_VALUE, OPERATION_TIMED_OUT, Result,
    UNSUPPORTED_HTTP_VERB,
};
use super::headers::check_supported;
use super::target::{Query, Resource, account_of};
use super::xml::Xml;

pub(super) const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const ERROR_CODE: HeaderName = HeaderName::from_static("x-ms-error-code");
const REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-request-id");
const VERSION: HeaderName = HeaderName::from_static("x-ms-version");

/// The version in responses to requests without one: the one that this was written for.
const USUAL_VERSION: HeaderValue = HeaderValue::from_static("2026-10-06");

/// Longest client request id in responses: the service's own limit is 1 KiB.
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
    pub(super) account: String,
    pub(super) resource: Resource,
    pub(super) query: Query,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) grant: Grant,
    /// The address of the client, if it is known.
    pub(super) client: Option<IpAddr>,
}

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    ListContainers,
    CreateContainer,
    ContainerProperties,
    SetContainerMetadata,
    DeleteContainer,
    LeaseContainer,
    ListBlobs,
    PutBlob,
    Blob,
    BlobProperties,
    SetBlobMetadata,
    SetBlobProperties,
    DeleteBlob,
    LeaseBlob,
    PutBlock,
    PutBlockList,
    BlockList,
    Batch,
}

/// Executes the request, if it is allowed.
pub(super) async fn serve(
    service: Arc<Service>,
    request: Request,
    client: Option<IpAddr>,
) -> Result<Response> {
    let (parts, body) = request.into_parts();
    let account = account_of(parts.uri.path());
    let query = Query::parse(parts.uri.query())?;
    let resource = Resource::of_path(parts.uri.path());
    let grant = service
        .guard
        .admit(&parts, account, resource.as_ref().ok(), &query, client)?;
    // From here on the client is authenticated: errors tell the reason.
    let resource = resource?;
    query.check_unique()?;
    check_supported(&parts.headers)?;
    let action = Action::of(&parts.method, &resource, &query)?;
    grant.check(action.need())?;
    let call = Call {
        account: account.to_owned(),
        resource,
        query,
        method: parts.method,
        client,
        headers: parts.headers,
        grant,
        service,
    };
    call.dispatch(action, body).await
}

/// The same for a request in a batch.
pub(super) fn serve_boxed(
    service: Arc<Service>,
    request: Request,
    client: Option<IpAddr>,
) -> BoxFuture<'static, Result<Response>> {
    Box::pin(serve(service, request, client))
}

impl Action {
    fn of(method: &Method, resource: &Resource, query: &Query) -> Result<Self> {
        for absent in ["snapshot", "versionid"] {
            if let Some(value) = query.get(absent) {
                let reason = "there are no snapshots and versions";
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter(absent, value, reason));
            }
        }
        let restype = query.get("restype").unwrap_or_default();
        let comp = query.get("comp").unwrap_or_default();
        let reads = matches!(*method, Method::GET | Method::HEAD);
        let method = method.as_str();
        let action = match (resource, restype, comp, method) {
            (Resource::Account, "", "list", "GET") => Self::ListContainers,
            (Resource::Container(_), "container", "" | "metadata", _) if reads => {
                Self::ContainerProperties
            }
            (Resource::Container(_), "container", "", "PUT") => Self::CreateContainer,
            (Resource::Container(_), "container", "", "DELETE") => Self::DeleteContainer,
            (Resource::Container(_), "container", "metadata", "PUT") => Self::SetContainerMetadata,
            (Resource::Container(_), "container", "lease", "PUT") => Self::LeaseContainer,
            (Resource::Container(_), "container", "list", "GET") => Self::ListBlobs,
            (Resource::Blob { .. }, "", "", "GET") => Self::Blob,
            (Resource::Blob { .. }, "", "", "HEAD") => Self::BlobProperties,
            (Resource::Blob { .. }, "", "metadata", _) if reads => Self::BlobProperties,
            (Resource::Blob { .. }, "", "", "PUT") => Self::PutBlob,
            (Resource::Blob { .. }, "", "", "DELETE") => Self::DeleteBlob,
            (Resource::Blob { .. }, "", "metadata", "PUT") => Self::SetBlobMetadata,
            (Resource::Blob { .. }, "", "properties", "PUT") => Self::SetBlobProperties,
            (Resource::Blob { .. }, "", "lease", "PUT") => Self::LeaseBlob,
            (Resource::Blob { .. }, "", "block", "PUT") => Self::PutBlock,
            (Resource::Blob { .. }, "", "blocklist", "PUT") => Self::PutBlockList,
            (Resource::Blob { .. }, "", "blocklist", "GET") => Self::BlockList,
            // The SDK for JavaScript takes an account in the path for a container.
            (Resource::Account, "" | "container", "batch", "POST")
            | (Resource::Container(_), "container", "batch", "POST") => Self::Batch,
            (_, _, _, "GET" | "HEAD" | "PUT" | "DELETE") => {
                let reason = format!("{method} with restype={restype:.40} does not take it here");
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter("comp", comp, reason));
            }
            _ => return Err(UNSUPPORTED_HTTP_VERB.into()),
        };
        Ok(action)
    }

    /// The permission that a shared access signature needs.
    const fn need(self) -> Need {
        let (kind, one_of) = match self {
            Self::ListContainers => (Kind::Service, "l"),
            Self::CreateContainer => (Kind::Container, "cw"),
            Self::ContainerProperties => (Kind::Container, "r"),
            Self::SetContainerMetadata | Self::LeaseContainer => (Kind::Container, "w"),
            Self::DeleteContainer => (Kind::Container, "d"),
            Self::ListBlobs => (Kind::Listing, "l"),
            Self::PutBlob | Self::PutBlock | Self::PutBlockList => (Kind::Object, "cw"),
            Self::Blob | Self::BlobProperties | Self::BlockList => (Kind::Object, "r"),
            Self::SetBlobMetadata | Self::SetBlobProperties | Self::LeaseBlob => {
                (Kind::Object, "w")
            }
            // Each deletion of a batch has its own credential, too.
            Self::DeleteBlob | Self::Batch => (Kind::Object, "d"),
        };
        Need { kind, one_of }
    }

    /// Whether it runs to its end when the client disconnects: it must not stop halfway.
    const fn changes_blobs(self) -> bool {
        matches!(
            self,
            Self::CreateContainer
                | Self::SetContainerMetadata
                | Self::DeleteContainer
                | Self::PutBlob
                | Self::PutBlock
                | Self::PutBlockList
                | Self::Batch
                | Self::SetBlobMetadata
                | Self::SetBlobProperties
                | Self::DeleteBlob
        )
    }
}

impl Call {
    async fn dispatch(self, action: Action, body: Body) -> Result<Response> {
        if action.changes_blobs() {
            let running = tokio::spawn(async move {
                match action {
                    Action::CreateContainer => calls::containers::create(self).await,
                    Action::SetContainerMetadata => calls::containers::set_metadata(self).await,
                    Action::DeleteContainer => calls::containers::delete(self).await,
                    Action::PutBlob => calls::blobs::put(self, body).await,
                    Action::PutBlock => calls::blobs::put_block(self, body).await,
                    Action::PutBlockList => calls::blobs::put_block_list(self, body).await,
                    Action::Batch => calls::batch::batch(self, body).await,
                    Action::SetBlobMetadata => calls::blobs::set_metadata(self).await,
                    Action::SetBlobProperties => calls::blobs::set_properties(self).await,
                    _ => calls::blobs::delete(self).await,
                }
            });
            return running.await.unwrap_or_else(|_| Err(INTERNAL_ERROR.into()));
        }
        let is_lease = matches!(action, Action::LeaseBlob | Action::LeaseContainer);
        if is_lease && calls::lease::is_renewal(&self.headers) {
            // Without a time limit: a holder keeps its lease, however slow the disk is.
            return calls::lease::lease(self).await;
        }
        let most = self.service.store.limits().request_time;
        let running = async move {
            match action {
                Action::ListContainers => calls::list::containers(self).await,
                Action::ListBlobs => calls::list::blobs(self).await,
                Action::ContainerProperties => calls::containers::properties(self).await,
                Action::Blob => calls::blobs::get(self).await,
                Action::BlobProperties => calls::blobs::properties(self).await,
                Action::BlockList => calls::blobs::block_list(self).await,
                _ => calls::lease::lease(self).await,
            }
        };
        match tokio::time::timeout(most, running).await {
            Ok(result) => result,
            Err(_) => Err(OPERATION_TIMED_OUT.into()),
        }
    }

    /// The name of the container.
    pub(super) fn container(&self) -> &str {
        match &self.resource {
            Resource::Account => "",
            Resource::Container(container) | Resource::Blob { container, .. } => container,
        }
    }

    /// The name of the blob.
    pub(super) fn blob(&self) -> &str {
        match &self.resource {
            Resource::Blob { blob, .. } => blob,
            Resource::Account | Resource::Container(_) => "",
        }
    }

    /// The account, the container and the blob.
    pub(super) fn target(&self) -> Target {
        [&*self.account, self.container(), self.blob()].map(str::to_owned)
    }

    /// The client's id of this request.
    pub(super) fn client_request_id(&self) -> Option<&str> {
        self.headers.get(CLIENT_REQUEST_ID)?.to_str().ok()
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

    /// The context if the request is unknown.
    pub(super) fn unknown() -> Self {
        let mut bytes = [0; 16];
        // It only names the request: without random bits all have the same name.
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
