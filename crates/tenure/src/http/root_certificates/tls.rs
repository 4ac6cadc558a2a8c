//! Checks the certificates of servers with the root certificates that are known now.

use std::fmt;
use std::fs;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tenure_core::pem::{self, Block, PemError};

use super::RootCertificates;
use crate::http::client_certificate::{Identity, provider};
use crate::http::file_value::FileValue;

/// Root certificates that do not come from the operating system.
pub(super) struct Anchors {
    pub(super) origin: Origin,
    pub(super) trusted: FileValue<Trusted>,
}

/// The place of root certificates. Two sets from one place are the same set.
#[derive(PartialEq, Eq, Hash)]
pub(super) enum Origin {
    Text(Arc<[u8]>),
    File(String),
}

/// A set of root certificates as it was read.
#[derive(Clone)]
pub(super) struct Trusted {
    content: Arc<[u8]>,
    /// Files of the operating system that can't be used.
    faults: Arc<[String]>,
    verifier: Arc<WebPkiServerVerifier>,
}

impl RootCertificates {
    /// Returns the settings of TLS for clients that check servers with the root certificates of the
    /// time of each handshake, and present this identity.
    pub(crate) fn tls_config(&self, identity: Option<&Identity>) -> Result<ClientConfig, String> {
        let trusted = match &self.anchors {
            Some(anchors) => anchors.trusted.clone(),
            None => system()?,
        };
        let builder = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(CurrentVerifier(trusted)));
        let mut config = match identity {
            Some(identity) => builder
                .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(identity.key.clone()))),
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        // A resumed session is not verified, so a server would stay trusted after its authority was
        // removed.
        config.resumption = Resumption::disabled();
        Ok(config)
    }
}

/// Returns the files that `SSL_CERT_FILE` and the directories of `SSL_CERT_DIR` contain; `None` if
/// neither variable is set. A link and its target are one file.
fn files_of_environment() -> Result<Option<Vec<PathBuf>>, String> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (file, folders) = (set("SSL_CERT_FILE"), set("SSL_CERT_DIR"));
    if file.is_none() && folders.is_none() {
        return Ok(None);
    }
    let mut files: Vec<PathBuf> = file.into_iter().map(PathBuf::from).collect();
    let folders = folders.unwrap_or_default();
    for folder in std::env::split_paths(&folders).filter(|it| !it.as_os_str().is_empty()) {
        let wrong = |error: io::Error| format!("{}: {error}", folder.display());
        for entry in fs::read_dir(&folder).map_err(wrong)? {
            // A link without a target is no file.
            let target = fs::canonicalize(entry.map_err(wrong)?.path());
            files.extend(target.ok().filter(|path| path.is_file()));
        }
    }
    files.sort();
    files.dedup();
    Ok(Some(files))
}

/// Adds certificates, all of which must be usable.
fn add(roots: &mut RootCertStore, blocks: Result<Vec<Block<'_>>, PemError>) -> Result<(), String> {
    for block in blocks.map_err(|error| error.to_string())? {
        let added = roots.add(block.der.into());
        added.map_err(|error| {
            let line = block.line;
            format!("line {line}: the certificate can't be used ({error})")
        })?;
    }
    Ok(())
}

/// Returns the root certificates of the operating system, which are read once for all clients of the
/// process: parsing them takes some 20 ms.
fn system() -> Result<FileValue<Trusted>, String> {
    static SYSTEM: Mutex<Option<FileValue<Trusted>>> = Mutex::new(None);
    let mut system = SYSTEM.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = &*system {
        return Ok(known.clone());
    }
    let origin = "the operating system (SSL_CERT_FILE, SSL_CERT_DIR)".into();
    let read = FileValue::read("set of root certificates", origin, Trusted::of_system)?;
    Ok(system.insert(read).clone())
}

impl Trusted {
    pub(super) fn of_pem(pem: &[u8]) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        add(&mut roots, pem::authorities(pem))?;
        Self::new(pem.into(), Arc::default(), roots)
    }

    /// Reads files of the environment as strictly as the file of a setting.
    pub(super) fn of_files(
        files: &[PathBuf],
        known: Option<&Self>,
    ) -> Result<Option<Self>, String> {
        let mut roots = RootCertStore::empty();
        let mut content = Vec::new();
        for path in files {
            let wrong = |reason| format!("{}: {reason}", path.display());
            let pem = fs::read(path).map_err(|error| wrong(error.to_string()))?;
            add(&mut roots, pem::certificates(&pem)).map_err(wrong)?;
            content.extend(pem);
        }
        if roots.is_empty() {
            return Err("there is no certificate in these files".into());
        }
        if known.is_some_and(|known| known.is_of(&content)) {
            return Ok(None);
        }
        Self::new(content.into(), Arc::default(), roots).map(Some)
    }

    /// Reads the certificates of the operating system. After the start a file that can't be used any
    /// more is an error: another program may be writing it.
    fn of_system(known: Option<&Self>) -> Result<Option<Self>, String> {
        let wrong =
            |why| format!("can't use the certificates of SSL_CERT_FILE and SSL_CERT_DIR: {why}");
        if let Some(files) = files_of_environment().map_err(wrong)? {
            return Self::of_files(&files, known).map_err(wrong);
        }
        let read = rustls_native_certs::load_native_certs();
        let faults: Arc<[String]> = read.errors.iter().map(ToString::to_string).collect();
        let is_new = |fault: &&String| known.is_none_or(|known| !known.faults.contains(fault));
        match faults.iter().find(is_new) {
            Some(fault) if known.is_some() => return Err(fault.clone()),
            _ => {}
        }
        let content: Vec<u8> = read
            .certs
            .iter()
            .flat_map(|it| it.iter().copied())
            .collect();
        if known.is_some_and(|known| known.is_of(&content)) {
            return Ok(None);
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(read.certs);
        if roots.is_empty() {
            let fault = faults
                .first()
                .map_or_else(String::new, |it| format!(" ({it})"));
            return Err(format!(
                "No CA certificates were loaded from the system{fault}"
            ));
        }
        Self::new(content.into(), faults, roots).map(Some)
    }

    fn new(
        content: Arc<[u8]>,
        faults: Arc<[String]>,
        roots: RootCertStore,
    ) -> Result<Self, String> {
        let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider());
        Ok(Self {
            content,
            faults,
            verifier: verifier.build().map_err(|error| error.to_string())?,
        })
    }

    pub(super) fn is_of(&self, content: &[u8]) -> bool {
        *self.content == *content
    }
}

/// Checks servers with the root certificates that are known at the time of a handshake. If these
/// refuse a server, they are read again: the next attempt uses the new ones.
#[derive(Debug)]
pub(super) struct CurrentVerifier(pub(super) FileValue<Trusted>);

impl ServerCertVerifier for CurrentVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.0.get().verifier;
        let verified = verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now);
        if verified.is_err() {
            self.0.start_reading();
        }
        verified
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.0.get().verifier;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let verifier = self.0.get().verifier;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.get().verifier.supported_verify_schemes()
    }
}

impl PartialEq for Anchors {
    fn eq(&self, other: &Self) -> bool {
        self.origin == other.origin
    }
}

impl Eq for Anchors {}

impl Hash for Anchors {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.hash(state);
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("PEM"),
            Self::File(place) => f.write_str(place),
        }
    }
}
