//! A certificate authority for one store, and the certificates that it issues.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Context;
use chrono::{Datelike, Days, Months, NaiveDate, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use x509_parser::extensions::GeneralName;
use x509_parser::pem::parse_x509_pem;

/// The common name of the authority. Clients identify the authority by its file, so any name is
/// allowed. The name must not change, because it is the issuer of all certificates that the
/// authority issues later.
const NAME: &str = "tenure store CA";

const AUTHORITY_MONTHS: u32 = 120;
/// The validity of a certificate: two years. One command creates a new certificate, and clients
/// need no change for it.
const CERTIFICATE_MONTHS: u32 = 24;

/// A certificate authority.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    key_pem: String,
}

/// A certificate with its key.
pub(super) struct Issued {
    pub(super) pem: String,
    pub(super) key_pem: String,
    pub(super) ends: NaiveDate,
}

impl Authority {
    pub(super) fn new() -> anyhow::Result<Self> {
        let key = KeyPair::generate()?;
        let mut params = params(Vec::new(), Self::ends())?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            key_pem: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Opens the authority in these files.
    pub(super) fn open(pem: String, key_pem: &str) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key_pem)?;
        let mut params = params(Vec::new(), today())?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        Ok(Self {
            pem,
            key_pem: key_pem.into(),
            issuer: Issuer::new(params, key),
        })
    }

    /// Issues a certificate for these names and addresses.
    pub(super) fn issue(&self, names: &[String]) -> anyhow::Result<Issued> {
        let key = KeyPair::generate()?;
        let ends = today() + Months::new(CERTIFICATE_MONTHS);
        let mut params = params(names.to_vec(), ends)?;
        params
            .distinguished_name
            .push(DnType::CommonName, &names[0]);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Issued {
            pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            ends,
        })
    }

    pub(super) fn pem(&self) -> &str {
        &self.pem
    }

    pub(super) fn key_pem(&self) -> String {
        self.key_pem.clone()
    }

    /// Returns the expiry date of an authority that is created today.
    pub(super) fn ends() -> NaiveDate {
        today() + Months::new(AUTHORITY_MONTHS)
    }
}

/// Returns the names and addresses in a certificate (PEM).
pub(super) fn names(pem: &str) -> anyhow::Result<Vec<String>> {
    let unreadable = "the certificate can't be read; give its names with --name";
    let (_, pem) = parse_x509_pem(pem.as_bytes()).context(unreadable)?;
    let certificate = pem.parse_x509().context(unreadable)?;
    let names = certificate.subject_alternative_name().context(unreadable)?;
    let names = names.iter().flat_map(|names| &names.value.general_names);
    let names: Vec<String> = names
        .filter_map(|name| match name {
            GeneralName::DNSName(name) => Some((*name).to_owned()),
            GeneralName::IPAddress(bytes) => Some(address(bytes)?.to_string()),
            _ => None,
        })
        .collect();
    anyhow::ensure!(!names.is_empty(), unreadable);
    Ok(names)
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| Ipv4Addr::from(bytes).into());
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| Ipv6Addr::from(bytes).into()))
        .ok()
}

fn params(names: Vec<String>, ends: NaiveDate) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // The type of the result belongs to a crate that this crate does not depend on.
    let start_of = |date: NaiveDate| {
        let part = |number: u32| u8::try_from(number).unwrap_or(1);
        date_time_ymd(date.year(), part(date.month()), part(date.day()))
    };
    // The clocks of clients may be behind.
    params.not_before = start_of(today() - Days::new(1));
    params.not_after = start_of(ends);
    Ok(params)
}

fn today() -> NaiveDate {
    Utc::now().date_naive()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_tells_its_names_and_addresses() {
        let names = ["store.lan", "10.0.0.5", "localhost", "::1"].map(String::from);
        let issued = Authority::new().unwrap().issue(&names).unwrap();
        assert_eq!(super::names(&issued.pem).unwrap(), names);
        let error = super::names("no certificate").unwrap_err();
        assert!(error.to_string().contains("--name"), "{error}");
    }
}
