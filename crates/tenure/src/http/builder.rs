//! HTTP clients, shared by the candidates of one runtime.

use std::error::Error;
use std::time::Duration;

use reqwest::{Client, ClientBuilder, Response, Url};

use crate::base::http_error::HttpClientError;
use crate::http::client_certificate::Identity;
use crate::http::last_addresses::LastAddresses;
use crate::http::root_certificates::RootCertificates;

/// The timeout of a request that does not wait in the lease service.
pub(crate) const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);

/// The part of the request's time that connecting may take. A request that waits for a lease has a
/// long timeout. A connection attempt to an address without a machine must fail sooner, so that the
/// candidate can try the next address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

impl From<reqwest::Error> for HttpClientError {
    fn from(error: reqwest::Error) -> Self {
        Self(innermost_cause(&error))
    }
}

/// Configures a client whose answers decide about leadership.
pub(crate) fn lease_client() -> ClientBuilder {
    plain_client()
        // With HTTP/1.1, a request that times out closes its connection. An HTTP/2 connection that
        // failed silently would stay in the pool, and every later renewal would fail.
        .http1_only()
        // The lease candidate must know each attempt, because it counts the lease from the sending
        // of the request.
        .retry(reqwest::retry::never())
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(5))
        .pool_idle_timeout(Duration::from_secs(60))
}

/// Configures the settings that all clients of this library share.
pub(crate) fn plain_client() -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .dns_resolver(LastAddresses::of_process())
        // A proxy from the environment would see lease ids, and its refusals would look like those
        // of the store. Users can set a proxy as the store's address.
        .no_proxy()
}

/// Returns whether one of these URLs needs TLS.
pub(crate) fn uses_tls<'a>(urls: impl IntoIterator<Item = &'a Url>) -> bool {
    urls.into_iter().any(|url| url.scheme() == "https")
}

/// Builds a client with these root certificates, which presents this identity. Without https URLs
/// the client has no certificates, so that plain http works on a system without CA certificates.
///
/// # Errors
///
/// [`HttpClientError`].
pub(crate) fn build(
    client: ClientBuilder,
    roots: &RootCertificates,
    uses_tls: bool,
    identity: Option<&Identity>,
) -> Result<Client, HttpClientError> {
    #[cfg(feature = "tls")]
    let client = if uses_tls {
        let config = roots.tls_config(identity).map_err(|error| {
            let remedy = if error.contains("No CA certificates") {
                "; install them, or name the certificates of the server in ca_file"
            } else if error.contains("SSL_CERT_FILE") {
                "; mend them, or name the certificates of the server in ca_file"
            } else {
                ""
            };
            HttpClientError(format!("{error}{remedy}"))
        })?;
        client.tls_backend_preconfigured(config)
    } else {
        client.tls_certs_only([])
    };
    #[cfg(not(feature = "tls"))]
    if uses_tls {
        let _ = (roots, identity);
        let why = "https addresses need the feature \"tls\" of the crate tenure";
        return Err(HttpClientError(why.into()));
    }
    Ok(client.build()?)
}

/// Returns the innermost cause of an error, which describes the failure. The outer causes repeat
/// the URL.
pub(crate) fn innermost_cause(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    last_of_causes(error).to_string()
}

/// Returns a URL with this path appended to the path of `base`.
#[cfg(feature = "peers")]
pub(crate) fn url_below(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(&(base.path().trim_end_matches('/').to_owned() + path));
    url
}

/// Returns the last error of a chain of causes.
pub(crate) fn last_of_causes<'a>(
    mut error: &'a (dyn Error + 'static),
) -> &'a (dyn Error + 'static) {
    while let Some(source) = error.source() {
        error = source;
    }
    error
}

/// Reads the body of a response. Returns `None` if the body has more than `max_bytes` bytes.
pub(crate) async fn read_body(
    mut response: Response,
    max_bytes: usize,
) -> reqwest::Result<Option<Vec<u8>>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        body.extend_from_slice(&chunk);
        if body.len() > max_bytes {
            return Ok(None);
        }
    }
    Ok(Some(body))
}
