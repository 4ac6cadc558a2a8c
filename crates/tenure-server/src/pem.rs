//! The text of PEM files.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject};

/// Returns the certificates in a text, which may contain none.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let certificates: Result<_, _> = CertificateDer::pem_slice_iter(text).collect();
    certificates.map_err(|error| garbled(&error))
}

/// Describes the error without any part of a key.
pub(crate) fn garbled(error: &pem::Error) -> String {
    let what = match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no line -----END ...-----",
        pem::Error::IllegalSectionStart { .. } => "a line -----BEGIN ...----- is malformed",
        pem::Error::Base64Decode(_) => "the text between BEGIN and END is not base64",
        _ => "it is not PEM",
    };
    format!("{what}; copy the file again")
}
