//! Requests to the service that has the blob, one attempt each.

use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{
    CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
};
use reqwest::{Client, Method, Url};
use tenure_core::ElectionName;
use tenure_core::lease::LeaseId;

use super::blob::AzureBlob;
use super::properties::Properties;
use crate::store::{
    LeaseView, Pong, REQUEST_TIMEOUT, Roots, StoreError, causes, http_client, read,
};

/// The version of the protocol that is spoken: new enough for all that is used, old enough for emulators.
const VERSION: &str = "2021-12-02";

const ACTION: HeaderName = HeaderName::from_static("x-ms-lease-action");
const DURATION: HeaderName = HeaderName::from_static("x-ms-lease-duration");
const LEASE_ID: HeaderName = HeaderName::from_static("x-ms-lease-id");
const PROPOSED_ID: HeaderName = HeaderName::from_static("x-ms-proposed-lease-id");
const BLOB_TYPE: HeaderName = HeaderName::from_static("x-ms-blob-type");
const VERSION_HEADER: HeaderName = HeaderName::from_static("x-ms-version");
const CLIENT_REQUEST_ID: HeaderName = HeaderName::from_static("x-ms-client-request-id");
const ERROR_CODE: &str = "x-ms-error-code";
const REQUEST_ID: &str = "x-ms-request-id";

/// Most characters of a message that are told on.
const MAX_MESSAGE: usize = 300;

const LEASE: &[(&str, &str)] = &[("comp", "lease")];
const METADATA: &[(&str, &str)] = &[("comp", "metadata")];
const CONTAINER: &[(&str, &str)] = &[("restype", "container")];

/// A client of one blob. Clones are cheap and share connections.
#[derive(Clone, Debug)]
pub struct AzureBlobClient {
    http: Client,
    blob: Arc<AzureBlob>,
    /// By what name this client's requests are found in the service's logs.
    name: Option<HeaderValue>,
}

/// What the service that has a blob refused, in its words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{endpoint}: {what} was refused with {status} {code}{message}{hint} (request id {request_id})",
    message = said(.message), hint = self.hint())]
#[non_exhaustive]
pub struct AzureRefusal {
    /// What was asked of it.
    pub endpoint: Url,
    /// What was to be done.
    pub what: &'static str,
    /// The HTTP status.
    pub status: u16,
    /// The error code.
    pub code: String,
    /// What the service says to people; empty if it says nothing.
    pub message: String,
    /// The number of the request in the service's logs.
    pub request_id: String,
}

fn said(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

impl AzureRefusal {
    /// Whether it may pass by itself.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..=599)
            || matches!(
                self.code.as_str(),
                "ContainerBeingDeleted" | "ConditionNotMet"
            )
    }

    /// What whoever set the candidate up should look at.
    fn hint(&self) -> &'static str {
        match self.code.as_str() {
            "AuthenticationFailed" => {
                "; is the key or the signature right, has it expired, is this machine's clock right?"
            }
            "AuthorizationFailure"
            | "AuthorizationPermissionMismatch"
            | "AuthorizationResourceTypeMismatch" => {
                "; a shared access signature must allow to read and to write the blob, and to create it \
                 where it is not there; a container must be there, or it takes an account's signature"
            }
            _ => "",
        }
    }
}

/// A request, but for what all have.
struct Asked<'a> {
    what: &'static str,
    method: Method,
    resource: &'a Url,
    query: &'a [(&'a str, &'a str)],
    headers: HeaderMap,
}

impl AzureBlobClient {
    /// A client of this blob.
    ///
    /// # Errors
    ///
    /// The HTTP client can't be set up, for example because the system's TLS roots can't be read.
    pub fn new(blob: &AzureBlob) -> Result<Self, reqwest::Error> {
        Self::trusting(blob, &Roots::of_system())
    }

    /// The same, that believes a service at an https address by these certificates.
    ///
    /// # Errors
    ///
    /// As of [`AzureBlobClient::new`].
    pub fn trusting(blob: &AzureBlob, roots: &Roots) -> Result<Self, reqwest::Error> {
        Ok(Self {
            http: http_client(roots)?,
            blob: blob.clone().into(),
            name: None,
        })
    }

    /// Has this name in the service's logs.
    pub(super) fn named(self, name: &str) -> Self {
        let name = HeaderValue::try_from(name).ok();
        Self { name, ..self }
    }

    /// The blob's lease in the words of a store, for an election, or `None` if there is no blob. What blobs
    /// don't tell is null or 0: the time left, who waits, the revision. Who holds it is told by the blob's
    /// metadata: right after the lease was granted, still the last one.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn lease(&self, election: &ElectionName) -> Result<Option<LeaseView>, StoreError> {
        match self.properties(None, REQUEST_TIMEOUT).await {
            Ok(properties) => Ok(Some(properties.view(election))),
            Err(StoreError::Azure(refusal)) if refusal.status == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Asks for a sign of life: reads the blob's properties. A blob that is not there is one, too.
    ///
    /// # Errors
    ///
    /// [`StoreError`].
    pub async fn ping(&self) -> Result<Pong, StoreError> {
        let sent = std::time::Instant::now();
        let date = match self.properties(None, REQUEST_TIMEOUT).await {
            Ok(properties) => properties.date().map(Into::into),
            Err(StoreError::Azure(refusal)) if refusal.status == 404 => None,
            Err(error) => return Err(error),
        };
        Ok(Pong {
            round_trip: sent.elapsed(),
            date,
        })
    }

    /// "Lease Blob", acquire.
    pub(super) async fn acquire(
        &self,
        lease_id: LeaseId,
        duration: Duration,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let headers = HeaderMap::from_iter([
            (ACTION, HeaderValue::from_static("acquire")),
            (DURATION, HeaderValue::from(duration.as_secs())),
            (PROPOSED_ID, secret(lease_id)),
        ]);
        let answer = self.put("acquiring the lease", LEASE, headers, timeout);
        self.check_held(lease_id, &answer.await?)
    }

    /// "Lease Blob", renew.
    pub(super) async fn renew(
        &self,
        lease_id: LeaseId,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let headers = HeaderMap::from_iter([
            (ACTION, HeaderValue::from_static("renew")),
            (LEASE_ID, secret(lease_id)),
        ]);
        let answer = self.put("renewing the lease", LEASE, headers, timeout);
        self.check_held(lease_id, &answer.await?)
    }

    /// "Lease Blob", release.
    pub(super) async fn release(
        &self,
        lease_id: LeaseId,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        let headers = HeaderMap::from_iter([
            (ACTION, HeaderValue::from_static("release")),
            (LEASE_ID, secret(lease_id)),
        ]);
        let answer = self.put("releasing the lease", LEASE, headers, timeout);
        answer.await.map(|_| ())
    }

    /// "Get Blob Properties"; with a lease id it is refused unless that holds the lease.
    pub(super) async fn properties(
        &self,
        lease_id: Option<LeaseId>,
        timeout: Duration,
    ) -> Result<Properties, StoreError> {
        let id = lease_id.map(|lease_id| (LEASE_ID, secret(lease_id)));
        let asked = Asked {
            what: "reading the blob's properties",
            method: Method::HEAD,
            resource: self.blob.url(),
            query: &[],
            headers: id.into_iter().collect(),
        };
        self.ask(asked, timeout).await.map(Properties::new)
    }

    /// "Set Blob Metadata": all of it, if this id holds the lease, and the blob is still as it was when it
    /// had this ETag.
    pub(super) async fn set_metadata(
        &self,
        mut headers: HeaderMap,
        lease_id: LeaseId,
        etag: &HeaderValue,
        timeout: Duration,
    ) -> Result<(), StoreError> {
        headers.insert(LEASE_ID, secret(lease_id));
        headers.insert(IF_MATCH, etag.clone());
        let answer = self.put("writing the blob's metadata", METADATA, headers, timeout);
        answer.await.map(|_| ())
    }

    /// "Put Blob", without content, if it is not there.
    pub(super) async fn create(&self, timeout: Duration) -> Result<(), StoreError> {
        let headers = HeaderMap::from_iter([
            (BLOB_TYPE, HeaderValue::from_static("BlockBlob")),
            (IF_NONE_MATCH, HeaderValue::from_static("*")),
        ]);
        let answer = self.put(
            "creating the blob, which is not there,",
            &[],
            headers,
            timeout,
        );
        match answer.await {
            // Somebody else was faster, and may hold its lease already.
            Err(StoreError::Azure(refusal)) if is_there(&refusal) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    /// "Create Container", if it is not there.
    pub(super) async fn create_container(&self, timeout: Duration) -> Result<(), StoreError> {
        let asked = Asked {
            what: "creating the container, which is not there,",
            method: Method::PUT,
            resource: self.blob.container(),
            query: CONTAINER,
            headers: HeaderMap::new(),
        };
        match self.ask(asked, timeout).await {
            Err(StoreError::Azure(refusal)) if is_there(&refusal) => Ok(()),
            answer => answer.map(|_| ()),
        }
    }

    pub(super) fn malformed(&self, reason: impl Into<String>) -> StoreError {
        StoreError::Malformed {
            endpoint: self.blob.url().clone().into(),
            reason: reason.into(),
        }
    }

    /// Not everything that answers 200 is the service: it must have said whose lease it is.
    fn check_held(&self, lease_id: LeaseId, answer: &HeaderMap) -> Result<(), StoreError> {
        let said = answer.get(LEASE_ID).and_then(|id| id.to_str().ok());
        if said.and_then(|id| id.parse().ok()) == Some(lease_id) {
            return Ok(());
        }
        Err(self.malformed("it granted the lease and named no id, or another one"))
    }

    async fn put(
        &self,
        what: &'static str,
        query: &[(&str, &str)],
        headers: HeaderMap,
        timeout: Duration,
    ) -> Result<HeaderMap, StoreError> {
        let asked = Asked {
            what,
            method: Method::PUT,
            resource: self.blob.url(),
            query,
            headers,
        };
        self.ask(asked, timeout).await
    }

    /// Asks once, and gives the headers of a success.
    async fn ask(&self, asked: Asked<'_>, timeout: Duration) -> Result<HeaderMap, StoreError> {
        let account = self.blob.account();
        let unreachable = |error: reqwest::Error| StoreError::Unreachable {
            endpoint: asked.resource.clone().into(),
            reason: causes(&error),
        };
        let mut headers = asked.headers;
        headers.insert(VERSION_HEADER, HeaderValue::from_static(VERSION));
        if let Some(name) = &self.name {
            headers.insert(CLIENT_REQUEST_ID, name.clone());
        }
        if asked.method == Method::PUT {
            // Without it the service answers 411.
            headers.insert(CONTENT_LENGTH, HeaderValue::from(0));
        }
        let url = account.url_of(asked.resource, asked.query);
        let request = self.http.request(asked.method, url).headers(headers);
        let mut request = request.timeout(timeout).build().map_err(unreachable)?;
        account.sign(&mut request, asked.query);
        let mut response = self.http.execute(request).await.map_err(unreachable)?;
        let status = response.status();
        let headers = std::mem::take(response.headers_mut());
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = text(REQUEST_ID);
        if status.is_success() && request_id.is_some() {
            return Ok(headers);
        }
        let Some(code) = text(ERROR_CODE).filter(|_| !status.is_success()) else {
            return Err(StoreError::NotAStore {
                endpoint: asked.resource.clone().into(),
                status: status.as_u16(),
            });
        };
        let body = read(response).await.map_err(unreachable)?;
        let refusal = AzureRefusal {
            endpoint: asked.resource.clone(),
            what: asked.what,
            status: status.as_u16(),
            code: code.into(),
            message: message(&body.unwrap_or_default()),
            request_id: request_id.unwrap_or("none").into(),
        };
        Err(StoreError::Azure(refusal.into()))
    }
}

/// Whether what was to be created is there already.
fn is_there(refusal: &AzureRefusal) -> bool {
    let codes = [
        "BlobAlreadyExists",
        "ContainerAlreadyExists",
        "LeaseIdMissing",
        "ConditionNotMet",
    ];
    codes.contains(&refusal.code.as_str())
}

/// What an error's XML says to people: the first line, without what follows about the request.
fn message(body: &[u8]) -> String {
    let body = String::from_utf8_lossy(body);
    let text = body.split_once("<Message>").map_or("", |(_, rest)| rest);
    let text = text.split("</Message>").next().unwrap_or_default();
    let text = text.lines().next().unwrap_or_default().trim();
    let text = text.trim_end_matches('.');
    let text = text.chars().filter(|c| !c.is_control());
    text.take(MAX_MESSAGE).collect()
}

/// A lease id is its holder's secret.
fn secret(lease_id: LeaseId) -> HeaderValue {
    let text = lease_id.to_wire().to_string();
    let mut value = HeaderValue::try_from(text).expect("digits and hyphens");
    value.set_sensitive(true);
    value
}
