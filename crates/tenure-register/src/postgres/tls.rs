//! TLS to PostgreSQL, by the rules of `sslmode`.

use std::fs;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tenure_core::pem::{self, Block, PemError};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::settings::{Encryption, Settings};

/// Returns the connector for these settings.
///
/// # Errors
///
/// A file can't be used. The message names it.
pub(super) fn connector(settings: &Settings) -> Result<MakeRustlsConnect, String> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = verifier(settings, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &settings.client_certificate {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, pem::chain)?;
            let wrong = |reason: String| format!("{}: {reason}", key.display());
            let secret = read(key)?;
            let secret = pem::key(&secret).map_err(|error| wrong(error.to_string()))?;
            let secret = PrivateKeyDer::try_from(secret.der);
            let secret = secret.map_err(|error| wrong(error.into()))?;
            let config = builder.with_client_auth_cert(chain, secret);
            config.map_err(|error| format!("{}: {error}", certificate.display()))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    settings: &Settings,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let file = settings.root_certificate.as_deref();
    let encryption = match (settings.encryption, file) {
        // As with libpq: a file with authorities turns `require` into `verify-ca`.
        (Encryption::Unverified, Some(_)) => Encryption::Authority,
        (encryption, _) => encryption,
    };
    if matches!(encryption, Encryption::None | Encryption::Unverified) {
        return Ok(Arc::new(AnyName {
            provider: Arc::clone(provider),
            authority: None,
        }));
    }
    let mut roots = RootCertStore::empty();
    match file {
        Some(path) => {
            for certificate in certificates(path, pem::authorities)? {
                let added = roots.add(certificate);
                added.map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        None => {
            // Reading them takes a good part of an attempt.
            static SYSTEM: OnceLock<Vec<CertificateDer<'static>>> = OnceLock::new();
            let system = SYSTEM.get_or_init(|| rustls_native_certs::load_native_certs().certs);
            roots.add_parsable_certificates(system.iter().cloned());
        }
    }
    if roots.is_empty() {
        let place = match file {
            Some(path) => path.display().to_string(),
            None => "the operating system".to_owned(),
        };
        return Err(format!(
            "{place} has no certificates of authorities: set sslrootcert to a file with the \
             certificate (PEM) of the authority that signed the certificate of PostgreSQL"
        ));
    }
    let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
    let verifier = verifier.build().map_err(|error| error.to_string())?;
    Ok(match encryption {
        Encryption::Full => verifier,
        _ => Arc::new(AnyName {
            provider: Arc::clone(provider),
            authority: Some(verifier),
        }),
    })
}

fn certificates(
    path: &Path,
    parse: fn(&[u8]) -> Result<Vec<Block<'_>>, PemError>,
) -> Result<Vec<CertificateDer<'static>>, String> {
    let text = read(path)?;
    let blocks = parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(blocks.into_iter().map(|block| block.der.into()).collect())
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("{}: {error}", path.display()))
}

/// The rules that are weaker than those of `verify-full`.
#[derive(Debug)]
struct AnyName {
    provider: Arc<CryptoProvider>,
    /// With `verify-ca`: checks that the certificate is from an authority. Without it the server may
    /// be any (`require`).
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
