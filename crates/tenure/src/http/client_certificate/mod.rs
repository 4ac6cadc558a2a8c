//! The certificate that proves the identity of a client to a store.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The files with the certificate of a client and its key.
///
/// A store over TLS asks for the certificate if its access file names the authorities of clients.
/// The files are read again every 10 s, and at once if the store refuses the certificate; a new
/// certificate is used for new connections. While the files are wrong, the previous certificate
/// stays in use. The certificate is sent to https addresses only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientCertificate {
    certificate: PathBuf,
    key: PathBuf,
}

/// The content of the files.
#[derive(Clone)]
pub(crate) struct Identity {
    certificate: Arc<[u8]>,
    secret: Arc<[u8]>,
    /// The certificates and the key as TLS uses them.
    #[cfg(feature = "tls")]
    pub(crate) key: Arc<rustls::sign::CertifiedKey>,
}

/// A client certificate or its key is wrong. The message describes a correct value, and contains no
/// part of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
#[non_exhaustive]
pub struct ClientCertificateError {
    /// The setting that names the file: `client_certificate` or `client_key`.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl ClientCertificate {
    /// Reads a certificate and its key, both PEM: the client's own certificate first, then the
    /// intermediate certificates; one key, not encrypted. One file may contain both.
    ///
    /// The function blocks.
    ///
    /// # Errors
    ///
    /// [`ClientCertificateError`].
    #[cfg(feature = "tls")]
    pub fn from_files(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, ClientCertificateError> {
        let files = Self {
            certificate: certificate.into(),
            key: key.into(),
        };
        files.load(None)?;
        Ok(files)
    }

    /// Returns the path of the certificate.
    #[must_use]
    pub fn certificate(&self) -> &Path {
        &self.certificate
    }

    /// Returns the path of the key.
    #[must_use]
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Returns the content of the files, if it differs from `known`.
    pub(crate) fn load(
        &self,
        known: Option<&Identity>,
    ) -> Result<Option<Identity>, ClientCertificateError> {
        let read = |path: &Path| std::fs::read(path).map_err(|error| error.to_string());
        let certificate = read(&self.certificate).map_err(|reason| self.of_certificate(reason))?;
        let secret = read(&self.key).map_err(|reason| self.of_key(reason))?;
        if known.is_some_and(|known| known.is_of(&certificate, &secret)) {
            return Ok(None);
        }
        Ok(Some(Identity {
            #[cfg(feature = "tls")]
            key: self.parse(&certificate, &secret)?,
            certificate: certificate.into(),
            secret: secret.into(),
        }))
    }

    #[cfg(feature = "tls")]
    fn parse(
        &self,
        certificate: &[u8],
        secret: &[u8],
    ) -> Result<Arc<rustls::sign::CertifiedKey>, ClientCertificateError> {
        use rustls::pki_types::PrivateKeyDer;
        use tenure_core::pem;

        let chain = pem::chain(certificate).map_err(|it| self.of_certificate(it.to_string()))?;
        let chain = chain.into_iter().map(|block| block.der.into()).collect();
        let key = pem::key(secret).map_err(|error| self.of_key(error.to_string()))?;
        let unusable = |cause: String| {
            let certificate = self.certificate.display();
            self.of_key(format!(
                "it can't be used with the first certificate in {certificate} ({cause}); name the key \
                 that belongs to the certificate"
            ))
        };
        let key = PrivateKeyDer::try_from(key.der).map_err(|cause| unusable(cause.into()))?;
        let provider = provider();
        let certified = rustls::sign::CertifiedKey::from_der(chain, key, &provider);
        certified.map(Arc::new).map_err(|error| match error {
            rustls::Error::InvalidCertificate(_) => {
                self.of_certificate("its first certificate can't be read".into())
            }
            error => unusable(error.to_string()),
        })
    }

    fn of_certificate(&self, reason: String) -> ClientCertificateError {
        self.wrong("client_certificate", &self.certificate, reason)
    }

    fn of_key(&self, reason: String) -> ClientCertificateError {
        self.wrong("client_key", &self.key, reason)
    }

    fn wrong(&self, setting: &'static str, path: &Path, reason: String) -> ClientCertificateError {
        ClientCertificateError {
            setting,
            path: path.into(),
            reason,
        }
    }
}

impl Identity {
    fn is_of(&self, certificate: &[u8], secret: &[u8]) -> bool {
        *self.certificate == *certificate && *self.secret == *secret
    }
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.is_of(&other.certificate, &other.secret)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity(..)")
    }
}

/// Returns the cryptography of the application, or that of this library.
#[cfg(feature = "tls")]
pub(crate) fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    let provider = rustls::crypto::CryptoProvider::get_default().cloned();
    provider.unwrap_or_else(|| Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
}

#[cfg(all(test, feature = "tls"))]
pub(crate) mod tests;
