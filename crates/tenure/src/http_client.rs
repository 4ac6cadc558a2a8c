//! An HTTP client whose client certificate may be replaced while the client is in use.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use tracing::{info, warn};

use crate::client_certificate::{ClientCertificate, IdentityPem};
use crate::credentials::Credentials;
use crate::http::{HttpClientError, build, lease_client};
use crate::root_certificates::RootCertificates;

/// The interval at which the files of a client certificate are read again.
const INTERVAL: Duration = Duration::from_secs(10);

/// A client whose answers decide about leadership. Clones share connections.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Shared>);

struct Shared {
    roots: RootCertificates,
    uses_tls: bool,
    certificate: Option<ClientCertificate>,
    current: Mutex<Current>,
}

struct Current {
    client: Client,
    /// The version of the certificate. It grows with each certificate.
    version: u64,
    pem: Option<IdentityPem>,
    read_at: Instant,
    is_reading: bool,
}

/// The client with the certificate of a version.
#[derive(Debug)]
pub(crate) struct VersionedClient {
    pub(crate) client: Client,
    version: u64,
}

impl HttpClient {
    pub(crate) fn new(
        roots: &RootCertificates,
        uses_tls: bool,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Self, HttpClientError> {
        let pem = match certificate {
            Some(certificate) => certificate.read(None)?,
            None => None,
        };
        let current = Current {
            client: client(roots, uses_tls, pem.as_ref())?,
            version: 0,
            pem,
            read_at: Instant::now(),
            is_reading: false,
        };
        Ok(Self(Arc::new(Shared {
            roots: roots.clone(),
            uses_tls,
            certificate: certificate.cloned(),
            current: Mutex::new(current),
        })))
    }

    /// Returns the client for the next request. If the files were read long ago, another task reads
    /// them again: a slow file system must not delay a renewal.
    pub(crate) fn current(&self) -> VersionedClient {
        let shared = &self.0;
        let mut current = shared.lock();
        let is_stale = shared.certificate.is_some() && current.read_at.elapsed() >= INTERVAL;
        if is_stale && !current.is_reading {
            current.is_reading = true;
            let shared = Arc::clone(shared);
            tokio::task::spawn_blocking(move || shared.read_again());
        }
        current.versioned()
    }

    /// Sends the request with the credential. If the service refuses the credential, and the files
    /// now contain another one, the request is sent again with that one. After a number of refusals
    /// of one address a store answers 429 instead of 401. An answer of 429 is handled in the same
    /// manner, because many leaders may share that address, and all of their credentials may be
    /// replaced at once.
    pub(crate) async fn send(
        &self,
        credentials: &Credentials,
        request: impl Fn(&Client) -> RequestBuilder,
    ) -> Result<Response, reqwest::Error> {
        let send = |http: &VersionedClient, header: Option<&HeaderValue>| {
            let request = request(&http.client);
            match header {
                Some(header) => request.header(AUTHORIZATION, header).send(),
                None => request.send(),
            }
        };
        let (http, header) = (self.current(), credentials.header());
        let response = send(&http, header.as_ref()).await?;
        let refusals = [StatusCode::UNAUTHORIZED, StatusCode::TOO_MANY_REQUESTS];
        if !refusals.contains(&response.status()) {
            return Ok(response);
        }
        let next_http = self.after(&http).await;
        let next_header = match &header {
            Some(header) => credentials.header_after(header).await,
            None => None,
        };
        if next_http.is_none() && next_header.is_none() {
            return Ok(response);
        }
        let http = next_http.unwrap_or(http);
        send(&http, next_header.or(header).as_ref()).await
    }

    /// Reads the files again, and returns the client if its certificate differs from `refused`.
    pub(crate) async fn after(&self, refused: &VersionedClient) -> Option<VersionedClient> {
        self.0.certificate.as_ref()?;
        let shared = Arc::clone(&self.0);
        let read = move || {
            shared.read_again();
            shared.lock().versioned()
        };
        let current = tokio::task::spawn_blocking(read).await.ok()?;
        (current.version != refused.version).then_some(current)
    }
}

impl Shared {
    fn read_again(&self) {
        let known = self.lock().pem.clone();
        let replaced = self.replaced(known.as_ref());
        let mut current = self.lock();
        current.is_reading = false;
        current.read_at = Instant::now();
        match replaced {
            Ok(None) => {}
            Ok(Some((client, pem))) => {
                current.client = client;
                current.pem = Some(pem);
                current.version += 1;
                info!("another client certificate is used from now on");
            }
            Err(error) => warn!(%error, "can't use the client certificate, keeping the one before"),
        }
    }

    /// Returns the client with the certificate in the files, if that differs from the previous
    /// certificate.
    fn replaced(
        &self,
        known: Option<&IdentityPem>,
    ) -> Result<Option<(Client, IdentityPem)>, HttpClientError> {
        let Some(certificate) = &self.certificate else {
            return Ok(None);
        };
        let Some(pem) = certificate.read(known)? else {
            return Ok(None);
        };
        let client = client(&self.roots, self.uses_tls, Some(&pem))?;
        Ok(Some((client, pem)))
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Current {
    fn versioned(&self) -> VersionedClient {
        VersionedClient {
            client: self.client.clone(),
            version: self.version,
        }
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("certificate", &self.0.certificate)
            .finish_non_exhaustive()
    }
}

fn client(
    roots: &RootCertificates,
    uses_tls: bool,
    pem: Option<&IdentityPem>,
) -> Result<Client, HttpClientError> {
    let client = lease_client();
    #[cfg(feature = "tls")]
    let client = match pem {
        Some(pem) => client.identity(pem.identity()?),
        None => client,
    };
    #[cfg(not(feature = "tls"))]
    let _ = pem;
    build(client, roots, uses_tls)
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::client_certificate::tests::{Files, make};

    #[tokio::test]
    async fn a_certificate_is_replaced_when_both_files_are_right_again() {
        let (old, new) = (make(), make());
        let files = Files::of(&old);
        let certificate = files.open().unwrap();
        let roots = RootCertificates::from_pem(old.cert.pem().into_bytes()).unwrap();
        let http = HttpClient::new(&roots, true, Some(&certificate)).unwrap();
        let first = http.current();
        assert!(http.after(&first).await.is_none());
        // Only one of the two files has changed.
        files.write("key", &new.signing_key.serialize_pem());
        assert!(http.after(&first).await.is_none());
        files.write("certificate", &new.cert.pem());
        let second = http.after(&first).await.unwrap();
        assert_eq!(http.current().version, second.version);
        assert!(http.after(&second).await.is_none());
        // Another request that used the old certificate gets the new one.
        assert!(http.after(&first).await.is_some());
    }

    #[tokio::test]
    async fn files_are_read_again_after_a_while_without_a_refusal() {
        let (old, new) = (make(), make());
        let files = Files::of(&old);
        let certificate = files.open().unwrap();
        let roots = RootCertificates::from_pem(old.cert.pem().into_bytes()).unwrap();
        let http = HttpClient::new(&roots, true, Some(&certificate)).unwrap();
        let first = http.current();
        files.write("certificate", &new.cert.pem());
        files.write("key", &new.signing_key.serialize_pem());
        assert_eq!(http.current().version, first.version);
        http.0.lock().read_at = Instant::now().checked_sub(INTERVAL).unwrap();
        let wait = async {
            while http.current().version == first.version {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
        waited.expect("the new certificate");
    }
}
