//! A certificate authority for one store, and the certificates that it issues.

use chrono::{Datelike, Days, Months, NaiveDate, Utc};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};

/// Clients identify the authority by its file, so any name will do. It must stay the same, because
/// certificates that the authority issues later have it as their issuer.
const NAME: &str = "tenure store CA";

const AUTHORITY_MONTHS: u32 = 120;
/// Two years: a new certificate is one command, and clients notice nothing.
const CERTIFICATE_MONTHS: u32 = 24;

/// A certificate authority.
pub(super) struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
    ends: NaiveDate,
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
        let ends = today() + Months::new(AUTHORITY_MONTHS);
        let mut params = params(Vec::new(), ends)?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let pem = params.self_signed(&key)?.pem();
        Ok(Self {
            pem,
            ends,
            key_pem: key.serialize_pem(),
            issuer: Issuer::new(params, key),
        })
    }

    /// The authority of these files.
    pub(super) fn open(pem: String, key_pem: &str) -> anyhow::Result<Self> {
        let key = KeyPair::from_pem(key_pem)?;
        let mut params = params(Vec::new(), today())?;
        params.distinguished_name.push(DnType::CommonName, NAME);
        Ok(Self {
            pem,
            ends: today(),
            key_pem: key_pem.into(),
            issuer: Issuer::new(params, key),
        })
    }

    /// A certificate for these names and addresses.
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

    pub(super) const fn ends(&self) -> NaiveDate {
        self.ends
    }
}

fn params(names: Vec<String>, ends: NaiveDate) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    // The type of the result is of a crate that this one does not depend on.
    let start_of = |date: NaiveDate| {
        let part = |number: u32| u8::try_from(number).unwrap_or(1);
        date_time_ymd(date.year(), part(date.month()), part(date.day()))
    };
    // Clocks of clients may be behind.
    params.not_before = start_of(today() - Days::new(1));
    params.not_after = start_of(ends);
    Ok(params)
}

fn today() -> NaiveDate {
    Utc::now().date_naive()
}
