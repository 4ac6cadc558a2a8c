//! The identity in a certificate.

use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;

use crate::access::jwt::{Identity, MAX_IDENTITY_LEN};

/// The scheme of SPIFFE ids, and therefore the beginning of an identity that is a SPIFFE id.
pub(in crate::access) const SPIFFE: &str = "spiffe";

/// The beginning of an identity that is another name in a certificate.
pub(in crate::access) const CERTIFICATE: &str = "cert";

/// Returns the SPIFFE id, or else `cert:` and the first DNS name, or else `cert:` and the common
/// name.
///
/// A certificate with a malformed name has no identity, and its other names are not used: a client
/// must not evade a `[[deny]]` of the first name.
pub(super) fn of(certificate: &X509Certificate<'_>) -> Option<Identity> {
    let extension = certificate.subject_alternative_name().ok()?;
    let names = extension.map_or(&[][..], |extension| &extension.value.general_names);
    let is_invalid = |name: &GeneralName<'_>| matches!(name, GeneralName::Invalid(..));
    if names.iter().any(is_invalid) {
        return None;
    }
    let uris = names.iter().filter_map(|name| match name {
        GeneralName::URI(uri) => Some(*uri),
        _ => None,
    });
    let uris: Vec<&str> = uris.collect();
    if uris.iter().any(|uri| has_spiffe_scheme(uri)) {
        return match uris[..] {
            [id] => of_spiffe_id(id),
            _ => None,
        };
    }
    let dns_name = names.iter().find_map(|name| match name {
        GeneralName::DNSName(name) => Some(name.to_ascii_lowercase()),
        _ => None,
    });
    let name = match dns_name {
        Some(name) => name,
        None => common_name(certificate)?.to_owned(),
    };
    // A wildcard name matches many hosts and identifies none of them.
    let is_one = !name.contains('*');
    is_one.then(|| Identity::of(CERTIFICATE, &name)).flatten()
}

/// Returns the common name, if the certificate has exactly one.
fn common_name<'a>(certificate: &'a X509Certificate<'_>) -> Option<&'a str> {
    let mut names = certificate.subject().iter_common_name();
    match (names.next(), names.next()) {
        (Some(name), None) => name.as_str().ok(),
        _ => None,
    }
}

fn has_spiffe_scheme(uri: &str) -> bool {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    scheme.eq_ignore_ascii_case(SPIFFE)
}

/// Parses an id in the form of the standard (SPIFFE-ID, section 2), with a path: the id of a trust
/// domain is not the id of a client.
fn of_spiffe_id(id: &str) -> Option<Identity> {
    let rest = id.strip_prefix("spiffe:")?;
    let (domain, path) = rest.strip_prefix("//")?.split_once('/')?;
    let is_common = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'_');
    let is_domain = |byte: u8| byte.is_ascii_lowercase() || is_common(byte);
    let is_path = |byte: u8| byte.is_ascii_alphabetic() || is_common(byte) || byte == b'/';
    let is_valid = !domain.is_empty() && domain.bytes().all(is_domain) && path.bytes().all(is_path);
    let has_steps = |part: &str| matches!(part, "" | "." | "..");
    let is_valid = is_valid && !path.split('/').any(has_steps);
    (is_valid && id.len() <= MAX_IDENTITY_LEN).then(|| Identity {
        text: id.into(),
        namespace: None,
    })
}
