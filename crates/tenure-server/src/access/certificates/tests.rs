//! Tests of identities in certificates, and of files of authorities.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};

use super::*;

/// Returns the identity in a certificate with these names: `U` is a URI, `D` a DNS name, `C` a
/// common name.
fn identity(names: &[(char, &str)]) -> Option<String> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for (kind, name) in names {
        let names = &mut params.subject_alt_names;
        match kind {
            'U' => names.push(SanType::URI((*name).try_into().unwrap())),
            'D' => names.push(SanType::DnsName((*name).try_into().unwrap())),
            _ => params.distinguished_name.push(DnType::CommonName, *name),
        }
    }
    let certificate = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let (_, certificate) = X509Certificate::from_der(certificate.der()).unwrap();
    Some(identity::of(&certificate)?.text.to_string())
}

#[test]
fn a_certificate_has_one_identity() {
    let id = "spiffe://example.org/ns/billing/sa/Worker_1.x-y";
    for (names, expected) in [
        (&[('U', id)][..], id),
        (&[('U', id), ('D', "worker"), ('C', "ada")], id),
        (&[('D', "Worker-7.LAN"), ('C', "ada")], "cert:worker-7.lan"),
        (&[('D', "a.lan"), ('D', "b.lan")], "cert:a.lan"),
        (&[('U', "https://example.org/x"), ('D', "a")], "cert:a"),
        (&[('C', "ada")], "cert:ada"),
    ] {
        assert_eq!(identity(names).as_deref(), Some(expected), "{names:?}");
    }
}

#[test]
fn a_name_that_is_not_well_formed_is_no_identity_and_no_other_name_replaces_it() {
    let long = format!("spiffe://example.org/{}", "x".repeat(300));
    let long_name = "x".repeat(300);
    for id in [
        "spiffe://example.org",
        "spiffe://example.org/",
        "spiffe://example.org/a/",
        "spiffe://example.org/a//b",
        "spiffe://example.org/a/../b",
        "spiffe://example.org/./b",
        "spiffe://Example.org/a",
        "spiffe://user@example.org/a",
        "spiffe://example.org:8080/a",
        "spiffe://example.org/a?b",
        "spiffe://example.org/a#b",
        "spiffe://example.org/%61",
        "spiffe://example.org/*",
        "spiffe:///a",
        "spiffe:example.org/a",
        "SPIFFE://example.org/a",
        &long,
    ] {
        assert_eq!(identity(&[('U', id), ('D', "worker")]), None, "{id}");
    }
    let two = [
        ('U', "spiffe://example.org/a"),
        ('U', "spiffe://example.org/b"),
    ];
    let with_other = [
        ('U', "spiffe://example.org/a"),
        ('U', "https://example.org/b"),
    ];
    for names in [
        &two[..],
        &with_other,
        &[('D', "*.example.org"), ('C', "ada")],
        &[('D', "")],
        &[('C', "a b")],
        &[('C', "")],
        &[('C', "team/../ada")],
        &[('C', &long_name)],
        &[],
    ] {
        assert_eq!(identity(names), None, "{names:?}");
    }
}

#[test]
fn a_handshake_takes_a_bounded_chain() {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
    let authorities = ClientAuthorities::parse(authority.pem()).unwrap();
    let takes = |count: usize, bytes: usize| {
        let chain = vec![CertificateDer::from(vec![0; bytes]); count];
        let now = UnixTime::since_unix_epoch(Duration::ZERO);
        let checked = authorities.verify_client_cert(&chain[0], &chain[1..], now);
        checked.is_ok()
    };
    assert!(takes(1, MAX_CHAIN_BYTES) && takes(MAX_CHAIN, 1000));
    assert!(!takes(1, MAX_CHAIN_BYTES + 1) && !takes(2, MAX_CHAIN_BYTES / 2 + 1));
    assert!(!takes(MAX_CHAIN + 1, 1));
}

#[test]
fn a_file_of_authorities_is_checked() {
    let key = KeyPair::generate().unwrap();
    let own = CertificateParams::new(["store.lan".to_owned()]).unwrap();
    let own = own.self_signed(&key).unwrap().pem();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let parse = |text: &str| ClientAuthorities::parse(text.to_owned());
    parse(&authority).unwrap();
    parse(&format!("\u{feff}{authority}\u{feff}{authority}")).unwrap();
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let signs = params.self_signed(&key).unwrap().pem();
    parse(&signs).unwrap();
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::CrlSign];
    let signs_not = params.self_signed(&key).unwrap().pem();
    let cut = authority.replace("-----END CERTIFICATE-----", "");
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let second = authority.lines().count() + 1;
    for (text, part) in [
        ("", "there is no certificate in it"),
        (&*key.serialize_pem(), "line 1: a block PRIVATE KEY"),
        (&*cut, "END"),
        (no_der, "line 1: the certificate can't be used"),
        (&*format!("# 1\n{no_der}"), "line 2: "),
        (
            &*format!("{authority} {authority}"),
            &*format!("line {second}: "),
        ),
        (
            &*format!("{authority}{own}"),
            &*format!("line {second}: the certificate is not"),
        ),
        (
            &*format!("{authority}{signs_not}"),
            "must not sign certificates: its key usage is without keyCertSign",
        ),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn an_intermediate_authority_counts_only_if_its_key_may_sign_certificates() {
    let key = || KeyPair::generate().unwrap();
    let authority = |name: &str, usages: &[KeyUsagePurpose]| {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = usages.to_vec();
        params
    };
    let (root, root_key) = (authority("root", &[]), key());
    let roots = root.self_signed(&root_key).unwrap().pem();
    let roots = Arc::new(ClientAuthorities::parse(roots).unwrap());
    let root = Issuer::new(root, root_key);
    for (usages, is_accepted) in [
        (&[][..], true),
        (&[KeyUsagePurpose::KeyCertSign], true),
        (
            &[KeyUsagePurpose::CrlSign, KeyUsagePurpose::KeyCertSign],
            true,
        ),
        (&[KeyUsagePurpose::CrlSign], false),
        (&[KeyUsagePurpose::DigitalSignature], false),
    ] {
        let (between, between_key) = (authority("between", usages), key());
        let between_der = between
            .signed_by(&between_key, &root)
            .unwrap()
            .der()
            .clone();
        let between = Issuer::new(between, between_key);
        let own = CertificateParams::new(["worker".to_owned()]).unwrap();
        let own = own.signed_by(&key(), &between).unwrap().der().clone();
        let verified = roots.verify(&[own, between_der].into(), SystemTime::now());
        match verified {
            Ok(verified) => assert!(is_accepted && &*verified.identity.text == "cert:worker"),
            Err(refusal) => {
                let check = refusal.check;
                assert!(
                    !is_accepted && check.contains("keyCertSign"),
                    "{usages:?}: {check}"
                );
            }
        }
    }
}
