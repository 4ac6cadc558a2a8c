//! TLS: a certificate and its key, in files that may change while the server runs.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tenure_core::pem;
use tokio_rustls::TlsAcceptor;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::access::ClientAuthorities;
use crate::metrics::ReloadStatus;

/// The certificate of a [`Server`](crate::Server), and its key. Clones are handles to the same one.
#[derive(Clone)]
pub struct Tls(Arc<Files>);

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    reload: ReloadStatus,
    loaded: Mutex<Loaded>,
}

/// The content of the files, and the configuration for new connections.
struct Loaded {
    pem: Pem,
    /// The earliest end of the certificates in the chain.
    expires: Option<SystemTime>,
    config: Arc<ServerConfig>,
    /// The configuration that asks clients for certificates of these authorities.
    for_clients: Option<(Arc<ClientAuthorities>, Arc<ServerConfig>)>,
}

#[derive(PartialEq, Eq)]
struct Pem {
    certificate: Vec<u8>,
    key: Vec<u8>,
}

/// A certificate or its key is not valid. The message says what a valid file contains. It never
/// contains any part of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {reason}", path.display())]
#[non_exhaustive]
pub struct TlsError {
    /// The setting that names the file: `certificate` or `key`.
    pub setting: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The reason.
    pub reason: String,
}

impl Tls {
    /// Reads a certificate and its key from PEM files. The certificate file has the server's own
    /// certificate first, followed by the intermediate ones. The key file has one key, which is not
    /// encrypted. Both may be in one file.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`TlsError`].
    pub fn open(
        certificate: impl Into<PathBuf>,
        key: impl Into<PathBuf>,
    ) -> Result<Self, TlsError> {
        let (certificate, key) = (certificate.into(), key.into());
        let loaded = Mutex::new(Loaded::read(&certificate, &key)?);
        Ok(Self(Arc::new(Files {
            certificate,
            key,
            reload: ReloadStatus::read_now(),
            loaded,
        })))
    }

    /// Reads both files again, and uses a changed certificate for new connections. Returns whether
    /// the certificate changed. Open connections are not affected.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`TlsError`]: the server continues with the old certificate.
    pub fn reload(&self) -> Result<bool, TlsError> {
        let read = Loaded::read(&self.0.certificate, &self.0.key);
        if read.is_err() || self.0.reload.has_failed() {
            self.0.reload.record(read.is_ok());
        }
        let read = read?;
        let mut loaded = self.loaded();
        let has_changed = read.pem != loaded.pem;
        if has_changed {
            *loaded = read;
            self.0.reload.record(true);
        }
        Ok(has_changed)
    }

    /// Returns the outcome of the last reload.
    pub(crate) fn reload_status(&self) -> ReloadStatus {
        self.0.reload.clone()
    }

    /// Returns the earliest end of the certificates in the chain.
    pub(crate) fn expires(&self) -> Option<SystemTime> {
        self.loaded().expires
    }

    /// Returns the acceptor for the handshakes of new connections, with the current certificate. It
    /// asks clients for a certificate of these authorities, if there are any.
    pub(crate) fn acceptor(&self, clients: Option<&Arc<ClientAuthorities>>) -> TlsAcceptor {
        let mut loaded = self.loaded();
        TlsAcceptor::from(match clients {
            None => Arc::clone(&loaded.config),
            Some(clients) => loaded.config_for(clients),
        })
    }

    fn loaded(&self) -> MutexGuard<'_, Loaded> {
        self.0.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls")
            .field("certificate", &self.0.certificate)
            .field("key", &self.0.key)
            .finish_non_exhaustive()
    }
}

impl Loaded {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let of_certificate = |reason| TlsError {
            setting: "certificate",
            path: certificate.to_owned(),
            reason,
        };
        let of_key = |reason| TlsError {
            setting: "key",
            path: key.to_owned(),
            reason,
        };
        let pem = Pem {
            certificate: fs::read(certificate)
                .map_err(|error| of_certificate(error.to_string()))?,
            key: fs::read(key).map_err(|error| of_key(error.to_string()))?,
        };
        let text = |error: pem::PemError| error.to_string();
        let chain = pem::chain(&pem.certificate).map_err(text);
        let chain = chain.map_err(of_certificate)?.into_iter();
        let chain: Vec<CertificateDer<'_>> = chain.map(|block| block.der.into()).collect();
        let secret = pem::key(&pem.key).map_err(text).map_err(of_key)?;
        let unusable = |cause: &str| {
            let known = "supported are RSA with at least 2048 bits, ECDSA and Ed25519";
            of_key(format!("it can't be used ({cause}); {known}"))
        };
        let secret = PrivateKeyDer::try_from(secret.der).map_err(unusable)?;
        let expires = chain.iter().filter_map(|one| end_of(one)).min();
        let config = ServerConfig::builder_with_provider(aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()
            .map(|builder| builder.with_no_client_auth())
            .and_then(|builder| builder.with_single_cert(chain, secret));
        let mut config = config.map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => of_key(format!(
                "it is not the key of the first certificate in {}; use the key of that certificate",
                certificate.display()
            )),
            rustls::Error::InvalidCertificate(error) => {
                of_certificate(format!("its first certificate cannot be read ({error:?})"))
            }
            error => unusable(&error.to_string()),
        })?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            pem,
            expires,
            config: Arc::new(config),
            for_clients: None,
        })
    }

    /// Returns the configuration that asks for certificates of these authorities. The request names
    /// the authorities, so a client with several certificates presents the matching certificate.
    fn config_for(&mut self, clients: &Arc<ClientAuthorities>) -> Arc<ServerConfig> {
        if let Some((known, config)) = &self.for_clients
            && Arc::ptr_eq(known, clients)
        {
            return Arc::clone(config);
        }
        let provider = Arc::clone(self.config.crypto_provider());
        let builder = ServerConfig::builder_with_provider(provider);
        let builder = builder.with_safe_default_protocol_versions();
        let mut config = builder
            .expect("the other configuration has the same provider")
            .with_client_cert_verifier(Arc::clone(clients) as _)
            .with_cert_resolver(Arc::clone(&self.config.cert_resolver));
        config
            .alpn_protocols
            .clone_from(&self.config.alpn_protocols);
        let config = Arc::new(config);
        self.for_clients = Some((Arc::clone(clients), Arc::clone(&config)));
        config
    }
}

/// Returns the end of a certificate.
fn end_of(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let end = u64::try_from(parsed.validity().not_after.timestamp()).ok()?;
    UNIX_EPOCH.checked_add(Duration::from_secs(end))
}
