//! One request, from what it asks for to its answer.

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

/// What is told to who names no version: the one that this was written for.
const USUAL_VERSION: HeaderValue = HeaderValue::from_static("2026-10-06");

/// Longest client request id that is echoed and remembered: the service's own limit is 1 KiB.
const MAX_CLIENT_REQUEST_ID: usize = 1024;

/// What every answer says of its request.
pub(super) struct ResponseContext {
    request_id: HeaderValue,
    client_request_id: Option<HeaderValue>,
    version: HeaderValue,
    has_body: bool,
}

/// An allowed request.
pub(super) struct Call {
    pub(super) service: Arc<Service>,
    pub(super) account: String,
    pub(super) resource: Resource,
    pub(super) query: Query,
    pub(super) method: Method,
    pub(super) headers: HeaderMap,
    pub(super) grant: Grant,
    /// Where the request comes from, if that is known.
    pub(super) client: Option<IpAddr>,
}

/// What can be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
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

/// Does what is asked for, if it may be.
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
    // From here on somebody asks who may; what is wrong is told.
    let resource = resource?;
    query.check_unique()?;
    check_supported(&parts.headers)?;
    let asked = Asked::of(&parts.method, &resource, &query)?;
    grant.check(asked.need())?;
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
    call.dispatch(asked, body).await
}

/// The same for a request that is a part of another.
pub(super) fn serve_boxed(
    service: Arc<Service>,
    request: Request,
    client: Option<IpAddr>,
) -> BoxFuture<'static, Result<Response>> {
    Box::pin(serve(service, request, client))
}

impl Asked {
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
        let asked = match (resource, restype, comp, method) {
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
            // JavaScript's SDK takes an account in the path for a container.
            (Resource::Account, "" | "container", "batch", "POST")
            | (Resource::Container(_), "container", "batch", "POST") => Self::Batch,
            (_, _, _, "GET" | "HEAD" | "PUT" | "DELETE") => {
                let reason = format!("{method} with restype={restype:.40} does not take it here");
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter("comp", comp, reason));
            }
            _ => return Err(UNSUPPORTED_HTTP_VERB.into()),
        };
        Ok(asked)
    }

    /// What a shared access signature must allow.
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
            // Each deletion of a batch shows its own credential, too.
            Self::DeleteBlob | Self::Batch => (Kind::Object, "d"),
        };
        Need { kind, one_of }
    }

    /// Whether it goes on to its end when the client goes away: what is half done can't be left so.
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
    async fn dispatch(self, asked: Asked, body: Body) -> Result<Response> {
        if asked.changes_blobs() {
            let doing = tokio::spawn(async move {
                match asked {
                    Asked::CreateContainer => calls::containers::create(self).await,
                    Asked::SetContainerMetadata => calls::containers::set_metadata(self).await,
                    Asked::DeleteContainer => calls::containers::delete(self).await,
                    Asked::PutBlob => calls::blobs::put(self, body).await,
                    Asked::PutBlock => calls::blobs::put_block(self, body).await,
                    Asked::PutBlockList => calls::blobs::put_block_list(self, body).await,
                    Asked::Batch => calls::batch::batch(self, body).await,
                    Asked::SetBlobMetadata => calls::blobs::set_metadata(self).await,
                    Asked::SetBlobProperties => calls::blobs::set_properties(self).await,
                    _ => calls::blobs::delete(self).await,
                }
            });
            return doing.await.unwrap_or_else(|_| Err(INTERNAL_ERROR.into()));
        }
        let is_lease = matches!(asked, Asked::LeaseBlob | Asked::LeaseContainer);
        if is_lease && calls::lease::is_renewal(&self.headers) {
            // Not in time: who holds a lease keeps it, however slow the disk is.
            return calls::lease::lease(self).await;
        }
        let most = self.service.store.limits().request_time;
        let doing = async move {
            match asked {
                Asked::ListContainers => calls::list::containers(self).await,
                Asked::ListBlobs => calls::list::blobs(self).await,
                Asked::ContainerProperties => calls::containers::properties(self).await,
                Asked::Blob => calls::blobs::get(self).await,
                Asked::BlobProperties => calls::blobs::properties(self).await,
                Asked::BlockList => calls::blobs::block_list(self).await,
                _ => calls::lease::lease(self).await,
            }
        };
        match tokio::time::timeout(most, doing).await {
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

    /// The client's own name for this request.
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

    /// Where it is not known what was asked for.
    pub(super) fn unknown() -> Self {
        let mut bytes = [0; 16];
        // It only names the request: without random bits all have one name.
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
        // Some clients fail without it.
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
