//! Requests to the blob service, each sent once.

use std::time::Duration;

use reqwest::header::{CONTENT_LENGTH, HeaderMap, HeaderValue, IF_MATCH, IF_NONE_MATCH};
use reqwest::{Client, Method, Response, Url};
use tenure_core::lease::LeaseId;
use tenure_core::text::is_unprintable;

use super::blob::AzureBlob;
use super::properties::Properties;
use crate::protocol::{
    BLOB_TYPE, CLIENT_REQUEST_ID, ERROR_CODE, LEASE_ACTION, LEASE_DURATION, LEASE_ID,
    PROPOSED_LEASE_ID, REQUEST_ID, VERSION as VERSION_HEADER,
};

/// The timeout of one request, unless its caller has less time.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The size of the largest error body that is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The protocol version. It supports every operation in this module, and emulators support it.
const VERSION: &str = "2021-12-02";

/// The length of the longest message of the service that is passed on, in characters.
const MAX_MESSAGE: usize = 300;

const LEASE: &[(&str, &str)] = &[("comp", "lease")];
const METADATA: &[(&str, &str)] = &[("comp", "metadata")];
const CONTAINER: &[(&str, &str)] = &[("restype", "container")];

/// A client for one blob.
#[derive(Debug)]
pub(super) struct BlobClient {
    http: Client,
    blob: AzureBlob,
    /// The name under which the service's logs show this client's requests.
    name: Option<HeaderValue>,
}

/// The reason why a request to the service failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BlobClientError {
    /// The service did not answer. The service may have executed the request.
    #[error("can't reach the blob service at {url}: {reason}")]
    Unreachable {
        /// The URL of the request, without any credential.
        url: String,
        /// The innermost cause.
        reason: String,
    },
    /// The service refused the request.
    #[error(transparent)]
    Refused(#[from] Box<AzureRefusal>),
    /// The answer contradicts the protocol, or the blob's metadata contain an invalid epoch.
    #[error("{url}: {reason}")]
    Malformed {
        /// The URL of the request, without any credential.
        url: String,
        /// The contradiction.
        reason: String,
    },
    /// The answer is not one of a blob service.
    #[error("{url} answered {status}, which is not an answer of a blob service")]
    NotABlobService {
        /// The URL of the request, without any credential.
        url: String,
        /// The HTTP status of the answer.
        status: u16,
    },
}

impl BlobClientError {
    /// Returns whether the same request may succeed later without a change by the operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(refusal) => refusal.is_transient(),
            Self::Unreachable { .. } | Self::NotABlobService { .. } => true,
            Self::Malformed { .. } => false,
        }
    }
}

/// A refusal of the blob service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url}: {operation} was refused with {status} {code}{message}{hint} (request id {request_id})",
    message = after_colon(.message), hint = self.hint())]
#[non_exhaustive]
pub struct AzureRefusal {
    /// The URL of the request, without any credential.
    pub url: String,
    /// The operation, such as "renewing the lease".
    pub operation: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The error code.
    pub code: String,
    /// The service's message; empty if there is none.
    pub message: String,
    /// The id of the request in the service's logs.
    pub request_id: String,
}

fn after_colon(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

impl AzureRefusal {
    /// Returns whether the same request may succeed later without a change by the operator.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..=599)
            || matches!(
                self.code.as_str(),
                "ContainerBeingDeleted" | "ConditionNotMet"
            )
    }

    /// Returns advice for the operator.
    fn hint(&self) -> &'static str {
        match self.code.as_str() {
            "AuthenticationFailed" => {
                "; is the key or the signature right, has it expired, is this machine's clock right?"
            }
            "AuthorizationFailure"
            | "AuthorizationPermissionMismatch"
            | "AuthorizationResourceTypeMismatch" => {
                "; a shared access signature must grant read and write on the blob, and create if it \
                 does not exist; the container must exist, or the signature must be an account's"
            }
            _ => "",
        }
    }
}

impl BlobClient {
    /// Creates a client that sends its requests with `http`. The service's logs show `name` for
    /// these requests.
    pub(super) fn new(http: Client, blob: AzureBlob, name: &str) -> Self {
        Self {
            http,
            blob,
            name: HeaderValue::try_from(name).ok(),
        }
    }

    /// Returns the properties of the blob, or `None` if the blob does not exist.
    pub(super) async fn properties_if_present(
        &self,
    ) -> Result<Option<Properties>, BlobClientError> {
        match self.properties(None, REQUEST_TIMEOUT).await {
            Err(BlobClientError::Refused(refusal)) if refusal.status == 404 => Ok(None),
            properties => properties.map(Some),
        }
    }

    /// "Lease Blob", acquire.
    pub(super) async fn acquire(
        &self,
        lease_id: LeaseId,
        duration: Duration,
        timeout: Duration,
    ) -> Result<(), BlobClientError> {
        let mut headers = headers_of_lease("acquire", PROPOSED_LEASE_ID, lease_id);
        headers.insert(LEASE_DURATION, duration.as_secs().into());
        let answer = self.put("acquiring the lease", LEASE, headers, timeout);
        self.check_held(lease_id, &answer.await?)
    }

    /// "Lease Blob", renew.
    pub(super) async fn renew(
        &self,
        lease_id: LeaseId,
        timeout: Duration,
    ) -> Result<(), BlobClientError> {
        let headers = headers_of_lease("renew", LEASE_ID, lease_id);
        let answer = self.put("renewing the lease", LEASE, headers, timeout);
        self.check_held(lease_id, &answer.await?)
    }

    /// "Lease Blob", release.
    pub(super) async fn release(
        &self,
        lease_id: LeaseId,
        timeout: Duration,
    ) -> Result<(), BlobClientError> {
        let headers = headers_of_lease("release", LEASE_ID, lease_id);
        let answer = self.put("releasing the lease", LEASE, headers, timeout);
        answer.await.map(|_| ())
    }

    /// "Get Blob Properties". With a lease id, the service refuses the request unless that id holds
    /// the lease.
    pub(super) async fn properties(
        &self,
        lease_id: Option<LeaseId>,
        timeout: Duration,
    ) -> Result<Properties, BlobClientError> {
        let mut headers = HeaderMap::new();
        if let Some(lease_id) = lease_id {
            headers.insert(LEASE_ID, secret(lease_id));
        }
        let (name, url) = ("reading the blob's properties", &self.blob.blob);
        let answer = self.send(name, Method::HEAD, url, &[], headers, timeout);
        answer.await.map(Properties)
    }

    /// "Set Blob Metadata": replaces all metadata if this id holds the lease and the blob still has
    /// this ETag.
    pub(super) async fn set_metadata(
        &self,
        mut headers: HeaderMap,
        lease_id: LeaseId,
        etag: &HeaderValue,
        timeout: Duration,
    ) -> Result<(), BlobClientError> {
        headers.insert(LEASE_ID, secret(lease_id));
        headers.insert(IF_MATCH, etag.clone());
        let answer = self.put("writing the blob's metadata", METADATA, headers, timeout);
        answer.await.map(|_| ())
    }

    /// "Put Blob" without content, if the blob does not exist.
    pub(super) async fn create(&self, timeout: Duration) -> Result<(), BlobClientError> {
        let mut headers = HeaderMap::new();
        headers.insert(BLOB_TYPE, HeaderValue::from_static("BlockBlob"));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        let name = "creating the blob, which does not exist,";
        unless_it_exists(self.put(name, &[], headers, timeout).await)
    }

    /// "Create Container", if the container does not exist.
    pub(super) async fn create_container(&self, timeout: Duration) -> Result<(), BlobClientError> {
        let name = "creating the container, which does not exist,";
        let (url, headers) = (&self.blob.container, HeaderMap::new());
        let answer = self.send(name, Method::PUT, url, CONTAINER, headers, timeout);
        unless_it_exists(answer.await)
    }

    pub(super) fn malformed(&self, reason: impl Into<String>) -> BlobClientError {
        BlobClientError::Malformed {
            url: self.blob.url().into(),
            reason: reason.into(),
        }
    }

    /// Checks that the answer names the lease id, because other servers may also answer 200.
    fn check_held(&self, lease_id: LeaseId, answer: &HeaderMap) -> Result<(), BlobClientError> {
        let id = answer.get(LEASE_ID).and_then(|id| id.to_str().ok());
        if id.and_then(|id| id.parse().ok()) == Some(lease_id) {
            return Ok(());
        }
        Err(self.malformed("the answer to the grant has no lease id, or another one"))
    }

    async fn put(
        &self,
        name: &'static str,
        query: &[(&str, &str)],
        headers: HeaderMap,
        timeout: Duration,
    ) -> Result<HeaderMap, BlobClientError> {
        let url = &self.blob.blob;
        self.send(name, Method::PUT, url, query, headers, timeout)
            .await
    }

    /// Sends a request once. Returns the headers of a success.
    async fn send(
        &self,
        name: &'static str,
        method: Method,
        resource: &Url,
        query: &[(&str, &str)],
        mut headers: HeaderMap,
        timeout: Duration,
    ) -> Result<HeaderMap, BlobClientError> {
        let account = &self.blob.account;
        let url = resource.as_str();
        let unreachable = |error: reqwest::Error| BlobClientError::Unreachable {
            url: url.into(),
            reason: innermost_cause(&error),
        };
        headers.insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
        if let Some(name) = &self.name {
            headers.insert(CLIENT_REQUEST_ID, name.clone());
        }
        if method == Method::PUT {
            // Without this header the service answers 411.
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        let request = self.http.request(method, account.url_of(resource, query));
        let request = request.headers(headers).timeout(timeout);
        let mut request = request.build().map_err(unreachable)?;
        account.sign(&mut request, query);
        let mut response = self.http.execute(request).await.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = text(REQUEST_ID);
        if status.is_success() && request_id.is_some() {
            return Ok(headers);
        }
        let Some(code) = text(ERROR_CODE).filter(|_| !status.is_success()) else {
            return Err(BlobClientError::NotABlobService {
                url: url.into(),
                status: status.as_u16(),
            });
        };
        let body = read(response).await.map_err(unreachable)?;
        let refusal = AzureRefusal {
            url: url.into(),
            operation: name,
            status: status.as_u16(),
            code: code.into(),
            message: message(&body),
            request_id: request_id.unwrap_or("none").into(),
        };
        Err(BlobClientError::Refused(refusal.into()))
    }
}

/// Reads the beginning of a body.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < MAX_ERROR_BYTES
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn innermost_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// Treats an existing resource as a success. Another client has created it, and may already hold
/// its lease.
fn unless_it_exists(answer: Result<HeaderMap, BlobClientError>) -> Result<(), BlobClientError> {
    let codes = [
        "BlobAlreadyExists",
        "ContainerAlreadyExists",
        "LeaseIdMissing",
        "ConditionNotMet",
    ];
    match answer {
        Err(BlobClientError::Refused(refusal)) if codes.contains(&&*refusal.code) => Ok(()),
        answer => answer.map(|_| ()),
    }
}

/// Returns the message in an error's XML. This is its first line, without the request details in
/// the lines below.
fn message(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let text = body.split_once("<Message>").map_or("", |(_, rest)| rest);
    let text = text.split("</Message>").next().unwrap_or_default();
    let text = text.lines().next().unwrap_or_default().trim();
    let text = text.trim_end_matches('.');
    let text = text.chars().filter(|c| !is_unprintable(*c));
    text.take(MAX_MESSAGE).collect()
}

/// Returns the headers of an operation on a lease, with the lease id in the header `id`.
fn headers_of_lease(action: &'static str, id: &'static str, lease_id: LeaseId) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(LEASE_ACTION, HeaderValue::from_static(action));
    headers.insert(id, secret(lease_id));
    headers
}

/// Returns a lease id as a header that is not logged, because the id is the secret of its holder.
fn secret(lease_id: LeaseId) -> HeaderValue {
    let text = lease_id.to_wire().to_string();
    let mut value = HeaderValue::try_from(text).expect("digits and hyphens");
    value.set_sensitive(true);
    value
}
