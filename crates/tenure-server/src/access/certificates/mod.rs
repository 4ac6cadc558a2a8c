//! Client certificates: the accepted authorities, and the identities in the certificates.
//!
//! The store asks each client for a certificate in the TLS handshake. The handshake succeeds with
//! any certificate whose key the client has, and without a certificate. The first request decides
//! whether the certificate is accepted, and so does the first request after each change of the
//! rules. A wrong certificate therefore gets the same answer as a wrong token, and not a TLS alert,
//! which clients report as a broken connection. A changed rule also applies to open connections.

mod identity;

use std::borrow::Cow;
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
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;

pub(super) use self::identity::{CERTIFICATE, SPIFFE};

use super::caller::Admission;
use super::failures::{AuthFailure, Refusal};
use super::jwt::Identity;
use super::refusal_log::CredentialNames;
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
    decided: Mutex<Option<Decided>>,
}

/// The caller with a certificate, or the reason for its refusal, by the rules with one number.
#[derive(Debug)]
struct Decided {
    rules: u64,
    admission: Result<Arc<Admission>, Refusal>,
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
            // Certificates of clients come from an authority. The store's own certificate is not an
            // authority.
            if let Ok((_, parsed)) = X509Certificate::from_der(&der) {
                let reason = if !parsed.is_ca() {
                    "is not that of an authority (CA)"
                } else if !may_sign(&parsed) {
                    "must not sign certificates: its key usage is without keyCertSign"
                } else {
                    ""
                };
                if !reason.is_empty() {
                    return Err(format!(
                        "line {line}: the certificate {reason}; write the certificates of the \
                         authorities that issue those of the clients"
                    ));
                }
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
    ) -> Result<VerifiedCertificate, Refusal> {
        let unreadable = || AuthFailure::Unknown.because("it can't be read");
        let (own, between) = chain.split_first().ok_or_else(unreadable)?;
        let since = now.duration_since(UNIX_EPOCH);
        let time = UnixTime::since_unix_epoch(since.unwrap_or_default());
        // The verifier does not read the key usage of authorities, so they are left out here.
        let signers = between.iter().filter(|certificate| {
            X509Certificate::from_der(certificate).is_ok_and(|(_, parsed)| may_sign(&parsed))
        });
        let signers: Vec<_> = signers.cloned().collect();
        if let Err(error) = self.verifier.verify_client_cert(own, &signers, time) {
            let mut check: Cow<'static, str> = error.to_string().into();
            if signers.len() < between.len() {
                check += "; an intermediate certificate without keyCertSign does not count";
            }
            return Err(AuthFailure::Unknown.because(check));
        }
        let (_, own) = X509Certificate::from_der(own).map_err(|_| unreadable())?;
        let Some(identity) = identity::of(&own) else {
            return Err(AuthFailure::Unknown.because("it has no identity"));
        };
        let end = u64::try_from(own.validity().not_after.timestamp());
        let end = end.ok().map(Duration::from_secs);
        let end = end.and_then(|end| UNIX_EPOCH.checked_add(end));
        Ok(VerifiedCertificate {
            identity,
            expires: end.ok_or_else(unreadable)?,
            chain: Arc::clone(chain),
            authorities: Arc::clone(self),
        })
    }
}

/// Returns whether the certificate allows its key to sign certificates (RFC 5280, section 4.2.1.3).
/// A certificate without a key usage allows it.
fn may_sign(certificate: &X509Certificate<'_>) -> bool {
    let usage = certificate.key_usage();
    usage.is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()))
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
        authorities.verify(&self.chain, now).ok().map(Arc::new)
    }
}

impl PresentedCertificate {
    pub(crate) fn new(chain: &[CertificateDer<'static>]) -> Self {
        Self(Arc::new(Presented {
            chain: chain.into(),
            decided: Mutex::default(),
        }))
    }

    /// Returns the caller by the rules with this number. `decide` is called once for each number, with
    /// the caller by the previous rules.
    pub(super) fn admission(
        &self,
        rules: u64,
        decide: impl FnOnce(&Chain, Option<&Admission>) -> Result<Arc<Admission>, Refusal>,
    ) -> Result<Arc<Admission>, Refusal> {
        let presented = &*self.0;
        let decided = presented.decided.lock();
        let mut decided = decided.unwrap_or_else(PoisonError::into_inner);
        if let Some(decided) = &*decided
            && decided.rules == rules
        {
            return decided.admission.clone();
        }
        let before = decided.as_ref();
        let before = before.and_then(|before| before.admission.as_deref().ok());
        let admission = decide(&presented.chain, before);
        let now_decided = Decided { rules, admission };
        decided.insert(now_decided).admission.clone()
    }

    /// Returns the names in the certificate, whether it is valid or not.
    pub(super) fn names(&self) -> CredentialNames {
        let own = self.0.chain.first();
        let Some(Ok((_, own))) = own.map(|own| X509Certificate::from_der(own)) else {
            return CredentialNames::default();
        };
        CredentialNames {
            iss: Some(own.issuer().to_string()),
            sub: Some(own.subject().to_string()),
            kid: None,
            id: Some(own.raw_serial_as_string()),
        }
    }
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
