//! TLS to the service of a home.

use std::error::Error as StdError;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature,
    verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};
use tenure_core::pem::{self, Block};

use crate::causes;

/// The files and the rules of TLS to a service.
#[derive(Debug)]
pub(crate) struct Tls {
    pub(crate) names: &'static TlsNames,
    /// The authorities of the service's certificate; `None` for those of the operating system.
    pub(crate) authorities: Option<PathBuf>,
    pub(crate) certificate: Option<PathBuf>,
    pub(crate) key: Option<PathBuf>,
    pub(crate) check: TlsCheck,
}

/// The check of the service's certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsCheck {
    /// There is no TLS.
    Off,
    /// Any certificate is accepted.
    Nothing,
    /// It must be from one of the authorities.
    Authority,
    /// It must also be for the host.
    Host,
}

/// The names of a service and of its settings, for messages.
#[derive(Debug)]
pub(crate) struct TlsNames {
    /// The service.
    pub(crate) service: &'static str,
    /// The setting with the authorities of the service's certificate.
    pub(crate) authorities: &'static str,
    /// The settings of the client certificate and of its key.
    pub(crate) client: [&'static str; 2],
    /// The service's own setting with the authorities of client certificates.
    pub(crate) client_authorities: &'static str,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    ///
    /// A file can't be used. The message has its setting and its path.
    pub(crate) fn config(&self) -> Result<ClientConfig, String> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = self.verifier(&provider)?;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let [certificate_name, key_name] = self.names.client;
        match (&self.certificate, &self.key) {
            (None, None) => Ok(builder.with_no_client_auth()),
            (Some(certificate), Some(key)) => {
                let chain = read(certificate_name, certificate, |text| {
                    Ok(certificates(pem::chain(text)?))
                })?;
                let key = read(key_name, key, |text| {
                    Ok(PrivateKeyDer::try_from(pem::key(text)?.der)?)
                })?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| wrong(certificate_name, certificate, &error))
            }
            _ => Err(format!(
                "{certificate_name} and {key_name} must be set together"
            )),
        }
    }

    fn verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<dyn ServerCertVerifier>, String> {
        let mut any_name = AnyName {
            algorithms: provider.signature_verification_algorithms,
            authority: None,
        };
        if matches!(self.check, TlsCheck::Off | TlsCheck::Nothing) {
            return Ok(Arc::new(any_name));
        }
        let name = self.names.authorities;
        let mut roots = RootCertStore::empty();
        if let Some(path) = &self.authorities {
            for certificate in read(name, path, |text| Ok(certificates(pem::authorities(text)?)))? {
                let added = roots.add(certificate);
                added.map_err(|error| wrong(name, path, &error))?;
            }
        } else {
            // Reading them takes a good part of an attempt.
            static SYSTEM: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
            let system = SYSTEM.get_or_init(|| rustls_native_certs::load_native_certs().certs);
            roots.add_parsable_certificates(system.iter().cloned());
        }
        if roots.is_empty() {
            return Err(format!(
                "the operating system has no certificates of authorities: set {name} to a file with \
                 the certificate (PEM) of the authority that signed the certificate of {}",
                self.names.service
            ));
        }
        let builder =
            WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
        let verifier = builder.build().map_err(|error| error.to_string())?;
        if self.check == TlsCheck::Host {
            return Ok(verifier);
        }
        any_name.authority = Some(verifier);
        Ok(Arc::new(any_name))
    }
}

/// Reads the file that a setting names.
pub(crate) fn read<T>(
    name: &str,
    path: &Path,
    parse: impl FnOnce(&[u8]) -> Result<T, Box<dyn StdError>>,
) -> Result<T, String> {
    let text = fs::read(path);
    let text = text.map_err(|error| format!("can't read {} ({name}): {error}", path.display()))?;
    parse(&text).map_err(|error| wrong(name, path, &*error))
}

fn wrong(name: &str, path: &Path, error: &dyn StdError) -> String {
    format!("can't use {} ({name}): {error}", path.display())
}

fn certificates(blocks: Vec<Block<'_>>) -> Vec<CertificateDer<'static>> {
    blocks.into_iter().map(|block| block.der.into()).collect()
}

/// The rules that are weaker than [`TlsCheck::Host`].
#[derive(Debug)]
struct AnyName {
    algorithms: WebPkiSupportedAlgorithms,
    /// Checks that the certificate is from an authority.
    authority: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let checked = self.authority.as_ref().map(|verifier| {
            verifier.verify_server_cert(end_entity, intermediates, name, ocsp, now)
        });
        match checked {
            // The verifier checks the name last, after the chain and the validity.
            None
            | Some(Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ))) => Ok(ServerCertVerified::assertion()),
            Some(checked) => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl TlsNames {
    /// Returns what is wrong with a certificate, and what to do, if that is the cause of this
    /// error. The handshake has failed then, so the service has read no request of the connection.
    pub(crate) fn explain(
        &self,
        error: &(dyn StdError + 'static),
        has_client_certificate: bool,
    ) -> Option<String> {
        match causes(error).find_map(|error| error.downcast_ref())? {
            Error::InvalidCertificate(error) => Some(self.of_service(error)),
            Error::AlertReceived(alert) => self.of_client(*alert, has_client_certificate),
            _ => None,
        }
    }

    /// The certificate of the service was not accepted here.
    fn of_service(&self, error: &CertificateError) -> String {
        let reason = match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "has expired: renew it there"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "is not valid yet: compare the clocks of both machines"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "is for another name: use a name in home that the certificate has"
            }
            // An authority with the same name and another key.
            CertificateError::BadSignature | CertificateError::UnknownIssuer => &format!(
                "is not signed by a known authority: name the certificate of its authority in {}",
                self.authorities
            ),
            other => &format!("is not accepted: {other}"),
        };
        format!("the certificate of {} {reason}", self.service)
    }

    /// The service did not accept the certificate of this client.
    fn of_client(&self, alert: AlertDescription, has_client_certificate: bool) -> Option<String> {
        let (service, client) = (self.service, self.client.join(" and "));
        match alert {
            AlertDescription::BadCertificate
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateRequired
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateUnknown
            | AlertDescription::DecryptError
            | AlertDescription::UnknownCA
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::AccessDenied => {}
            _ => return None,
        }
        Some(match has_client_certificate {
            true => format!(
                "{service} does not accept the certificate in {client} ({alert:?}): it has \
                 expired, or its authority is not in {}",
                self.client_authorities
            ),
            false => format!("{service} requires a client certificate: set {client}"),
        })
    }
}
