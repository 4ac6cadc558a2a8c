//! The certificate that proves the identity of a client to a store.

use std::fmt;
use std::path::{Path, PathBuf};

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
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct IdentityPem(Vec<u8>);

impl fmt::Debug for IdentityPem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdentityPem(..)")
    }
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
        files.read(None)?;
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
    pub(crate) fn read(
        &self,
        known: Option<&IdentityPem>,
    ) -> Result<Option<IdentityPem>, ClientCertificateError> {
        let read = |path: &Path, wrong: &dyn Fn(String) -> ClientCertificateError| {
            std::fs::read(path).map_err(|error| wrong(error.to_string()))
        };
        let of_certificate = |reason| self.wrong("client_certificate", &self.certificate, reason);
        let of_key = |reason| self.wrong("client_key", &self.key, reason);
        let mut pem = read(&self.certificate, &of_certificate)?;
        let certificate_len = pem.len();
        if self.key != self.certificate {
            pem.push(b'\n');
            pem.extend(read(&self.key, &of_key)?);
        }
        let pem = IdentityPem(pem);
        if known == Some(&pem) {
            return Ok(None);
        }
        #[cfg(feature = "tls")]
        self.check(&pem, certificate_len)?;
        #[cfg(not(feature = "tls"))]
        let _ = certificate_len;
        Ok(Some(pem))
    }

    #[cfg(feature = "tls")]
    fn check(
        &self,
        pem: &IdentityPem,
        certificate_len: usize,
    ) -> Result<(), ClientCertificateError> {
        use crate::http::innermost_cause;

        let of_certificate = |reason| self.wrong("client_certificate", &self.certificate, reason);
        let of_key = |reason| self.wrong("client_key", &self.key, reason);
        let certificates = reqwest::Certificate::from_pem_bundle(&pem.0[..certificate_len]);
        let certificates = certificates.map_err(|error| {
            of_certificate(format!("it is not PEM ({})", innermost_cause(&error)))
        })?;
        if certificates.is_empty() {
            let reason = "there is no certificate in it; write PEM, which begins with -----BEGIN \
                          CERTIFICATE-----, the client's own first";
            return Err(of_certificate(reason.into()));
        }
        if String::from_utf8_lossy(&pem.0).contains("ENCRYPTED PRIVATE KEY") {
            let reason = "the key is encrypted; decrypt it (openssl pkey -in OLD -out NEW)";
            return Err(of_key(reason.into()));
        }
        let identity = pem.identity().map_err(|_| {
            let reason = "there is no private key in it; write PEM, which begins with -----BEGIN \
                          PRIVATE KEY-----, RSA PRIVATE KEY or EC PRIVATE KEY";
            of_key(reason.into())
        })?;
        // Building a client compares the key with the certificate.
        let client = reqwest::Client::builder().tls_certs_only([]);
        let built = client.identity(identity).build();
        built.map(drop).map_err(|error| {
            let cause = innermost_cause(&error);
            if cause.contains("invalid peer certificate") {
                return of_certificate("its first certificate can't be read".into());
            }
            let certificate = self.certificate.display();
            of_key(format!(
                "it can't be used with the first certificate in {certificate} ({cause}); name the key \
                 that belongs to the certificate"
            ))
        })
    }

    fn wrong(&self, setting: &'static str, path: &Path, reason: String) -> ClientCertificateError {
        ClientCertificateError {
            setting,
            path: path.into(),
            reason,
        }
    }
}

#[cfg(feature = "tls")]
impl IdentityPem {
    pub(crate) fn identity(&self) -> reqwest::Result<reqwest::Identity> {
        reqwest::Identity::from_pem(&self.0)
    }
}

#[cfg(all(test, feature = "tls"))]
pub(crate) mod tests;
