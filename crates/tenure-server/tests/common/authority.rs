//! An authority that issues certificates.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};

pub const HOUR: i64 = 3600;

pub struct Authority {
    pub pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub struct Issued {
    pub certificate: Certificate,
    pub key: KeyPair,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = params();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self {
            pem: params.self_signed(&key).unwrap().pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Issues a certificate for a client with this SPIFFE id.
    pub fn issue(&self, id: &str) -> Issued {
        self.issue_with(|params| params.subject_alt_names = vec![uri(id)])
    }

    /// Issues a certificate for a client, with this change of its parameters.
    pub fn issue_with(&self, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let key = KeyPair::generate().unwrap();
        let mut params = params();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        Issued {
            certificate: params.signed_by(&key, &self.issuer).unwrap(),
            key,
        }
    }
}

impl Issued {
    pub fn pem(&self) -> String {
        self.certificate.pem() + &self.key.serialize_pem()
    }
}

/// Returns parameters that are valid from an hour ago, for two hours.
fn params() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    set_validity(&mut params, -HOUR, HOUR);
    params
}

/// Sets the validity, in seconds from now.
pub fn set_validity(params: &mut CertificateParams, from: i64, to: i64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let at = |seconds: i64| {
        let seconds = now.as_secs().checked_add_signed(seconds).unwrap();
        rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    (params.not_before, params.not_after) = (at(from), at(to));
}

pub fn uri(text: &str) -> SanType {
    SanType::URI(text.try_into().unwrap())
}

pub fn dns(text: &str) -> SanType {
    SanType::DnsName(text.try_into().unwrap())
}
