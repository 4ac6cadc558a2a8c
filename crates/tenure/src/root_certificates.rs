//! The certificates that the peers of https connections are checked against.

use std::fmt;
use std::sync::Arc;

/// The root certificates of https addresses: a server's own certificate must come from one of them.
/// Clones are cheap.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RootCertificates(Option<Arc<[u8]>>);

impl RootCertificates {
    /// Those of the operating system; the default.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// Those in this PEM text, and no others.
    ///
    /// # Errors
    ///
    /// [`RootCertificatesError`] if this is not PEM, or has no usable certificate.
    #[cfg(feature = "tls")]
    pub fn from_pem(pem: impl Into<Arc<[u8]>>) -> Result<Self, RootCertificatesError> {
        use crate::http::innermost_cause;
        let roots = Self(Some(pem.into()));
        let certificates = roots.certificates().map_err(|error| {
            RootCertificatesError(format!("it is not PEM ({})", innermost_cause(&error)))
        })?;
        if certificates.is_empty() {
            return Err(RootCertificatesError("it has no certificate".into()));
        }
        // Reading PEM does not parse the certificates. Building a client does.
        let client = roots
            .apply_to(reqwest::Client::builder())
            .and_then(reqwest::ClientBuilder::build);
        client.map(|_| roots).map_err(|error| {
            let cause = innermost_cause(&error);
            RootCertificatesError(format!("a certificate in it can't be used ({cause})"))
        })
    }

    /// Makes a client check servers against these.
    #[cfg(feature = "tls")]
    pub(crate) fn apply_to(
        &self,
        client: reqwest::ClientBuilder,
    ) -> reqwest::Result<reqwest::ClientBuilder> {
        if self.0.is_none() {
            return Ok(client);
        }
        Ok(client.tls_certs_only(self.certificates()?))
    }

    #[cfg(feature = "tls")]
    fn certificates(&self) -> reqwest::Result<Vec<reqwest::Certificate>> {
        reqwest::Certificate::from_pem_bundle(self.0.as_deref().unwrap_or_default())
    }
}

impl fmt::Debug for RootCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Some(_) => "RootCertificates(PEM)",
            None => "RootCertificates(system)",
        })
    }
}

/// Why a text has no root certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; write PEM with the certificate of the authority, which begins with -----BEGIN CERTIFICATE-----"
)]
pub struct RootCertificatesError(String);
