//! Client certificates: the accepted authorities, and the identities in the certificates.
//!
//! The store asks each client for a certificate in the TLS handshake. The handshake succeeds with
//! any certificate whose key the client has, and without a certificate. The first request decides
//! whether the certificate is accepted, and so does the first request after each change of the
//! rules. A wrong certificate therefore gets the same answer as a wrong token, and not a TLS alert,
//! which clients report as a broken connection. A changed rule also applies to open connections.

mod identity;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use tenure_core::pem::{self, Block};
use tracing::debug;
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

pub(super) use self::identity::{CERTIFICATE, SPIFFE};

use super::caller::Admission;
use super::jwt::Identity;
use super::secret::SecretHash;
use super::source::{AccessSource, Version};

/// The maximum number of certificates in a client's chain, and the maximum number of their bytes.
/// Clients without rights can send them, too: each connection keeps the certificates, and the
/// search for a path of signatures through them takes time.
const MAX_CHAIN: usize = 8;
const MAX_CHAIN_BYTES: usize = 16 * 1024;

type Chain = Arc<[CertificateDer<'static>]>;

/// The authorities whose certificates prove the identities of clients.
#[derive(Debug)]
pub(crate) struct ClientAuthorities {
    pem: String,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The certificate that a client presented in its handshake, valid or not. Clones share the
/// certificate.
#[derive(Clone, Debug)]
pub(crate) struct PresentedCertificate(Arc<Presented>);

#[derive(Debug)]
struct Presented {
    /// The client's own certificate, and the certificates between it and an authority.
    chain: Chain,
    decided: Mutex<Decided>,
}

/// The caller with a certificate, by the rules of one generation.
#[derive(Debug, Default)]
struct Decided {
    generation: Option<u64>,
    admission: Option<Arc<Admission>>,
}

/// A certificate that one of the authorities issued.
#[derive(Debug)]
pub(crate) struct VerifiedCertificate {
    pub(super) identity: Identity,
    /// The field `notAfter` of the certificate.
    pub(super) expires: SystemTime,
    chain: Chain,
    pub(super) authorities: Arc<ClientAuthorities>,
}

impl ClientAuthorities {
    /// Reads the authorities from a PEM file.
    pub(super) fn read(path: &Path) -> Result<(Self, Version), String> {
        let read = AccessSource::public(path.into()).read();
        let (text, version) = read.map_err(|error| error.to_string())?;
        Ok((Self::parse(text)?, version))
    }

    fn parse(pem: String) -> Result<Self, String> {
        let certificates = pem::authorities(pem.as_bytes()).map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        for Block { line, der, .. } in certificates {
            let parsed = X509Certificate::from_der(&der);
            // Certificates of clients come from an authority. The store's own certificate is not an
            // authority.
            if parsed.is_ok_and(|(_, parsed)| !parsed.is_ca()) {
                let reason = "is not that of an authority (CA); write the certificates of the \
                              authorities that issue those of the clients";
                return Err(format!("line {line}: the certificate {reason}"));
            }
            let added = roots.add(der.into());
            added
                .map_err(|error| format!("line {line}: the certificate can't be used ({error})"))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider).build();
        Ok(Self {
            pem,
            verifier: verifier.map_err(|error| error.to_string())?,
        })
    }

    /// Returns a text that other authorities do not have.
    pub(super) fn fingerprint(&self) -> String {
        SecretHash::of(&self.pem).to_string()
    }

    /// Returns a handle to the authorities. If the authorities are equal to `before`, the handle is
    /// `before`, so that verified certificates remain verified.
    pub(super) fn following(self, before: Option<&Arc<Self>>) -> Arc<Self> {
        match before {
            Some(before) if before.pem == self.pem => Arc::clone(before),
            _ => Arc::new(self),
        }
    }

    /// Returns the certificate at the head of the chain, if one of the authorities issued it for
    /// clients, it is valid now, and it has an identity.
    pub(super) fn verify(
        self: &Arc<Self>,
        chain: &Chain,
        now: SystemTime,
    ) -> Option<VerifiedCertificate> {
        let (own, between) = chain.split_first()?;
        let since = now.duration_since(UNIX_EPOCH).ok()?;
        let time = UnixTime::since_unix_epoch(since);
        if let Err(error) = self.verifier.verify_client_cert(own, between, time) {
            debug!(%error, "a client certificate is refused");
            return None;
        }
        // The verifier checks that an intermediate certificate is that of an authority, but not for
        // what its key may be used (RFC 5280, section 6.1.4, step n).
        if between
            .iter()
            .any(|one| is_authority_without_signatures(one))
        {
            debug!("an authority of a client certificate may not sign certificates");
            return None;
        }
        let (_, own) = X509Certificate::from_der(own).ok()?;
        let Some(identity) = identity::of(&own) else {
            debug!(subject = %own.subject(), "a client certificate has no identity");
            return None;
        };
        let end = u64::try_from(own.validity().not_after.timestamp()).ok()?;
        Some(VerifiedCertificate {
            identity,
            expires: UNIX_EPOCH.checked_add(Duration::from_secs(end))?,
            chain: Arc::clone(chain),
            authorities: Arc::clone(self),
        })
    }
}

impl VerifiedCertificate {
    /// Returns this certificate, if one of these authorities issued it, too.
    pub(super) fn of(
        self: &Arc<Self>,
        authorities: &Arc<ClientAuthorities>,
        now: SystemTime,
    ) -> Option<Arc<Self>> {
        if Arc::ptr_eq(authorities, &self.authorities) {
            return Some(Arc::clone(self));
        }
        authorities.verify(&self.chain, now).map(Arc::new)
    }
}

impl PresentedCertificate {
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> Self {
        Self(Arc::new(Presented {
            chain: chain.into(),
            decided: Mutex::default(),
        }))
    }

    /// Returns the caller by the rules of this generation. `decide` is called once for each
    /// generation, with the caller by the previous rules.
    pub(super) fn admission(
        &self,
        generation: u64,
        decide: impl FnOnce(&Chain, Option<&Admission>) -> Option<Arc<Admission>>,
    ) -> Option<Arc<Admission>> {
        let presented = &*self.0;
        let decided = presented.decided.lock();
        let mut decided = decided.unwrap_or_else(PoisonError::into_inner);
        if decided.generation != Some(generation) {
            decided.admission = decide(&presented.chain, decided.admission.as_deref());
            decided.generation = Some(generation);
        }
        decided.admission.clone()
    }
}

/// Returns whether a certificate is that of an authority whose key may not sign certificates.
fn is_authority_without_signatures(certificate: &[u8]) -> bool {
    let Ok((_, parsed)) = X509Certificate::from_der(certificate) else {
        return false;
    };
    let may_sign = match parsed.key_usage() {
        Ok(Some(usage)) => usage.value.key_cert_sign(),
        Ok(None) => true,
        Err(_) => false,
    };
    parsed.is_ca() && !may_sign
}

/// The verifier of the handshake: it asks for a certificate, and checks only the size of the
/// certificates that the client sends, and that the client has the key of its certificate.
impl ClientCertVerifier for ClientAuthorities {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        own: &CertificateDer<'_>,
        between: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let bytes = own.len() + between.iter().map(|one| one.len()).sum::<usize>();
        if between.len() >= MAX_CHAIN || bytes > MAX_CHAIN_BYTES {
            let reason = "the client has sent too many or too large certificates";
            return Err(rustls::Error::General(reason.into()));
        }
        // The store accepts no request with this certificate before `ClientAuthorities::verify`.
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = &self.verifier;
        verifier.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let verifier = &self.verifier;
        verifier.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests;
