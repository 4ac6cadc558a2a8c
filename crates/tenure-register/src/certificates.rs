//! Certificates that one side of a connection to the service of a log does not accept.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// The names of a service and its settings, for messages.
#[derive(Debug)]
pub(crate) struct CertificateNames {
    /// The service.
    pub(crate) service: &'static str,
    /// The setting with the authorities of the service's certificate.
    pub(crate) authorities: &'static str,
    /// The settings of the client certificate.
    pub(crate) client: &'static str,
    /// The service's own setting with the authorities of client certificates.
    pub(crate) client_authorities: &'static str,
}

impl CertificateNames {
    /// Returns what is wrong with a certificate, and what to do, if that is the cause of this
    /// error. The handshake has failed then, so the service has read no request of the connection.
    pub(crate) fn explain(
        &self,
        error: &(dyn Error + 'static),
        has_client_certificate: bool,
    ) -> Option<String> {
        match tls_error(error)? {
            rustls::Error::InvalidCertificate(error) => Some(self.of_service(error)),
            rustls::Error::AlertReceived(alert) => self.of_client(*alert, has_client_certificate),
            _ => None,
        }
    }

    /// The certificate of the service was not accepted here.
    fn of_service(&self, error: &CertificateError) -> String {
        let Self {
            service,
            authorities,
            ..
        } = self;
        match error {
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                format!("the certificate of {service} has expired: renew it there")
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => format!(
                "the certificate of {service} is not valid yet: compare the clocks of both machines"
            ),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!(
                    "the certificate of {service} is for another name: use a name in home \
                     that the certificate has"
                )
            }
            // An authority with the same name and another key.
            CertificateError::BadSignature | CertificateError::UnknownIssuer => format!(
                "the certificate of {service} is not signed by a known authority: name the \
                 certificate of its authority in {authorities}"
            ),
            other => format!("the certificate of {service} is not accepted: {other}"),
        }
    }

    /// The service did not accept the certificate of this client.
    fn of_client(&self, alert: AlertDescription, has_client_certificate: bool) -> Option<String> {
        let Self {
            service,
            client,
            client_authorities,
            ..
        } = self;
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
                 expired, or its authority is not in {client_authorities}"
            ),
            false => format!("{service} requires a client certificate: set {client}"),
        })
    }
}

/// Returns the error of TLS among the causes of an error.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        // An I/O error does not show the error in it as its source.
        let inner = error.downcast_ref().and_then(io::Error::get_ref);
        cause = match inner {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
