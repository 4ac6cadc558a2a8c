//! The certificates with which https clients check servers.

use std::fmt;
use std::sync::Arc;

/// The root certificates of https addresses: one of them must have issued a server's certificate,
/// directly or indirectly. Clones are cheap.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RootCertificates(Option<Arc<[u8]>>);

impl RootCertificates {
    /// Returns the root certificates of the operating system, which are the default.
    #[must_use]
    pub const fn system() -> Self {
        Self(None)
    }

    /// Reads the root certificates from a PEM text. Clients then accept no others.
    ///
    /// # Errors
    ///
    /// [`RootCertificatesError`] if the text is not PEM, or has no usable certificate.
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
        // The conversion from PEM does not parse the certificates, but the creation of a client
        // does.
        let client = roots
            .apply_to(reqwest::Client::builder())
            .and_then(reqwest::ClientBuilder::build);
        client.map(|_| roots).map_err(|error| {
            let cause = innermost_cause(&error);
            RootCertificatesError(format!("a certificate in it can't be used ({cause})"))
        })
    }

    /// Configures a client to check servers with these certificates.
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

/// The reason why a text contains no root certificates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}; write PEM with the certificate of the authority, which begins with -----BEGIN CERTIFICATE-----"
)]
pub struct RootCertificatesError(String);
