//! An HTTP client whose certificates may be replaced while the client is in use.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use reqwest::header::{AUTHORIZATION, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url};
use tracing::warn;

use crate::base::http_error::HttpClientError;
use crate::http::builder::{build, lease_client, uses_tls};
use crate::http::client_certificate::{ClientCertificate, Identity};
use crate::http::credentials::Credentials;
use crate::http::file_value::FileValue;
use crate::http::root_certificates::RootCertificates;

/// The clients of the candidates that share a thread, one for each set of root certificates and
/// each client certificate, both with https and without.
///
/// A connection lives on the runtime that opened it, so a client belongs to one runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct HttpClients(Arc<Mutex<HashMap<Key, HttpClient>>>);

type Key = (RootCertificates, bool, Option<ClientCertificate>);

impl HttpClients {
    /// Returns the client for these URLs.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`].
    pub(crate) fn get<'a>(
        &self,
        roots: &RootCertificates,
        certificate: Option<&ClientCertificate>,
        urls: impl IntoIterator<Item = &'a Url>,
    ) -> Result<HttpClient, HttpClientError> {
        let uses_tls = uses_tls(urls);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (roots.clone(), uses_tls, certificate.cloned());
        if let Some(client) = known.get(&key) {
            return Ok(client.clone());
        }
        let client = HttpClient::new(roots, uses_tls, certificate)?;
        known.insert(key, client.clone());
        Ok(client)
    }
}

/// A client whose answers decide about leadership. Clones share connections.
#[derive(Clone)]
pub(crate) struct HttpClient(Arc<Shared>);

struct Shared {
    roots: RootCertificates,
    uses_tls: bool,
    identity: Option<FileValue<Identity>>,
    current: Mutex<ClientWithIdentity>,
}

/// A client, and the certificate with which it opens connections.
#[derive(Clone, Debug)]
pub(crate) struct ClientWithIdentity {
    pub(crate) client: Client,
    identity: Option<Identity>,
}

impl HttpClient {
    pub(crate) fn new(
        roots: &RootCertificates,
        uses_tls: bool,
        certificate: Option<&ClientCertificate>,
    ) -> Result<Self, HttpClientError> {
        let read = |certificate: &ClientCertificate| {
            let files = certificate.clone();
            let origin = certificate.certificate().display().to_string();
            FileValue::read("client certificate", origin, move |known| {
                files.load(known).map_err(|error| error.to_string())
            })
        };
        let identity = certificate.map(read).transpose().map_err(HttpClientError)?;
        let known = identity.as_ref().map(FileValue::get);
        let client = build(lease_client(), roots, uses_tls, known.as_ref())?;
        Ok(Self(Arc::new(Shared {
            roots: roots.clone(),
            uses_tls,
            identity,
            current: Mutex::new(ClientWithIdentity {
                client,
                identity: known,
            }),
        })))
    }

    /// Returns the client for the next request.
    pub(crate) fn current(&self) -> ClientWithIdentity {
        #[cfg(feature = "tls")]
        self.0.roots.refresh();
        self.with(self.0.identity.as_ref().map(FileValue::get))
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
        let send = |http: &ClientWithIdentity, header: Option<&HeaderValue>| {
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
    pub(crate) async fn after(&self, refused: &ClientWithIdentity) -> Option<ClientWithIdentity> {
        let read = self.0.identity.as_ref()?.read_now().await;
        let client = self.with(read);
        (client.identity != refused.identity).then_some(client)
    }

    /// Returns the client with this certificate. Another certificate needs another client, because
    /// open connections have the certificate before it.
    fn with(&self, identity: Option<Identity>) -> ClientWithIdentity {
        let shared = &self.0;
        let mut current = shared
            .current
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if identity.is_some() && identity != current.identity {
            match build(
                lease_client(),
                &shared.roots,
                shared.uses_tls,
                identity.as_ref(),
            ) {
                Ok(client) => *current = ClientWithIdentity { client, identity },
                Err(error) => warn!(%error, "can't use another client certificate"),
            }
        }
        current.clone()
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient")
            .field("identity", &self.0.identity)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, feature = "tls"))]
mod tests {
    use super::*;
    use crate::http::client_certificate::tests::{Files, make};

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
        assert_eq!(http.current().identity, second.identity);
        assert!(http.after(&second).await.is_none());
        // Another request that used the old certificate gets the new one.
        assert!(http.after(&first).await.is_some());
    }
}
