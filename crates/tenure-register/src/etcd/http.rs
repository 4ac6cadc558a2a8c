//! The HTTP client of a connection, with the certificates in its files.

use std::fmt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use reqwest::header::DATE;
use reqwest::redirect::Policy;
use reqwest::{Certificate, Client, Identity};
use tenure_core::pem::{self, PemError};

use super::EtcdAccess;
use crate::Failure;
use crate::certificates::CertificateNames;

/// The largest answer that is read. The largest answers are pages of batches.
const MOST_ANSWER_BYTES: usize = 64 * 1024 * 1024;

/// The contents of the files with certificates.
#[derive(Clone, Default, PartialEq, Eq)]
pub(super) struct Certificates {
    authorities: Option<Vec<Vec<u8>>>,
    /// The certificate of this client and its key, one after the other, as PEM.
    identity: Option<Vec<u8>>,
}

impl Certificates {
    pub(super) fn read(config: &EtcdAccess) -> Result<Self, Failure> {
        let authorities = read_pem("ca_file", config.ca_file.as_deref(), |text| {
            let authorities = pem::authorities(text)?;
            Ok(authorities.into_iter().map(|block| block.der).collect())
        })?;
        let certificate = read_pem("certificate", config.certificate.as_deref(), |text| {
            let chain = pem::chain(text)?;
            let texts: Vec<&[u8]> = chain.into_iter().map(|block| block.text).collect();
            Ok(texts.join(&b'\n'))
        })?;
        let key = read_pem("key", config.key.as_deref(), |text| {
            Ok(pem::key(text)?.text.to_owned())
        })?;
        let identity = match (certificate, key) {
            (Some(mut pem), Some(key)) => {
                pem.push(b'\n');
                pem.extend(key);
                Some(pem)
            }
            (None, None) => None,
            (Some(_), None) => return Err(misconfigured("certificate requires key")),
            (None, Some(_)) => return Err(misconfigured("key requires certificate")),
        };
        Ok(Self {
            authorities,
            identity,
        })
    }

    pub(super) const fn has_identity(&self) -> bool {
        self.identity.is_some()
    }

    /// Makes the client. `attempt` is the time of one request.
    pub(super) fn client(&self, uses_tls: bool, attempt: Duration) -> Result<Client, Failure> {
        let mut client = Client::builder()
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            // With HTTP/1.1, a request that times out closes its connection. An HTTP/2 connection
            // that failed silently would stay in use, and every later append would fail.
            .http1_only()
            .no_proxy()
            .redirect(Policy::none())
            // The caller must know each attempt.
            .retry(reqwest::retry::never())
            // The rest of the time is for another member.
            .connect_timeout(attempt / 2)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(5))
            .pool_idle_timeout(Duration::from_secs(60));
        if let Some(authorities) = &self.authorities {
            // The conversion can't fail: the client parses the certificates.
            let authorities = authorities
                .iter()
                .flat_map(|der| Certificate::from_der(der));
            client = client.tls_certs_only(authorities);
        } else if !uses_tls {
            // Plain http must work on a system without certificates of authorities.
            client = client.tls_certs_only([]);
        }
        if let Some(pem) = &self.identity {
            let identity = Identity::from_pem(pem).map_err(|_| {
                misconfigured("certificate and key must contain a certificate and its key in PEM")
            })?;
            client = client.identity(identity);
        }
        client.build().map_err(|error| {
            misconfigured(&format!(
                "can't set up the HTTP client for etcd: {}",
                innermost_cause(&error)
            ))
        })
    }
}

/// A key must not be in a log.
impl fmt::Debug for Certificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificates")
            .field("has_identity", &self.has_identity())
            .finish_non_exhaustive()
    }
}

/// Reads a file with certificates, if the key names one.
fn read_pem<T>(
    key: &str,
    path: Option<&Path>,
    parse: impl FnOnce(&[u8]) -> Result<T, PemError>,
) -> Result<Option<T>, Failure> {
    let Some(path) = path else {
        return Ok(None);
    };
    let parsed = parse(&read(key, path)?);
    parsed.map(Some).map_err(|error| {
        let path = path.display();
        misconfigured(&format!("can't use {path} ({key}): {error}"))
    })
}

pub(super) fn read(key: &str, path: &Path) -> Result<Vec<u8>, Failure> {
    let file = || format!("can't read {} ({key})", path.display());
    std::fs::read(path).map_err(|error| misconfigured(&format!("{}: {error}", file())))
}

pub(super) fn misconfigured(message: &str) -> Failure {
    Failure::Misconfigured(message.to_owned())
}

/// Sends a request. Returns the status, the date and the body of the answer.
pub(super) async fn send(
    request: reqwest::RequestBuilder,
) -> Result<(u16, Option<SystemTime>, Vec<u8>), reqwest::Error> {
    let mut answer = request.send().await?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await? {
        // The rest of a longer body is of no use: what was read is not JSON.
        if body.len() + chunk.len() > MOST_ANSWER_BYTES {
            break;
        }
        body.extend_from_slice(&chunk);
    }
    let date = answer
        .headers()
        .get(DATE)
        .and_then(|date| date.to_str().ok());
    let date = date.and_then(|date| httpdate::parse_http_date(date).ok());
    Ok((answer.status().as_u16(), date, body))
}

/// Returns the cause that says most, and what to do about it if that is known.
pub(super) fn innermost_cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    let cause = cause.to_string();
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    let remedy = if cause.contains("No CA certificates") {
        ": name the certificate of its authority in ca_file"
    } else if cause.contains("InvalidContentType") {
        ": it does not use TLS, write etcd:// in home"
    } else {
        ""
    };
    cause + remedy
}

/// The names in messages about certificates.
pub(super) const CERTIFICATES: CertificateNames = CertificateNames {
    service: "etcd",
    authorities: "ca_file",
    client: "certificate and key",
    client_authorities: "--trusted-ca-file of etcd",
};
