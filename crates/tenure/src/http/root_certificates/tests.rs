//! Tests of root certificates, wrong ones and those that are replaced.

use std::fs;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tempfile::TempDir;

use super::RootCertificates;
use super::tls::{CurrentVerifier, Trusted};

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    CertifiedIssuer::self_signed(params, key).unwrap()
}

/// Returns the certificate of a server that this authority has issued.
fn issued(by: &Authority) -> CertificateDer<'static> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(["store.lan".to_owned()]).unwrap();
    params.signed_by(&key, by).unwrap().into()
}

/// A file with root certificates, and the verifier of a client that uses it.
struct Trust {
    folder: TempDir,
    roots: RootCertificates,
    verifier: CurrentVerifier,
}

impl Trust {
    fn new(pem: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ca.pem");
        fs::write(&path, pem).unwrap();
        let roots = RootCertificates::from_file(path).unwrap();
        let trusted = roots.anchors.as_ref().unwrap().trusted.clone();
        Self {
            folder,
            roots,
            verifier: CurrentVerifier(trusted),
        }
    }

    fn write(&self, pem: impl AsRef<[u8]>) {
        fs::write(self.folder.path().join("ca.pem"), pem).unwrap();
    }

    /// Returns whether a new connection to this server succeeds.
    fn accepts(&self, server: &CertificateDer<'_>) -> bool {
        let name = ServerName::try_from("store.lan").unwrap();
        let verifier = &self.verifier;
        let verified = verifier.verify_server_cert(server, &[], &name, &[], UnixTime::now());
        verified.is_ok()
    }

    async fn wait_until(&self, condition: impl Fn() -> bool) {
        let wait = async {
            while !condition() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), wait).await;
        waited.expect("the condition");
    }
}

#[tokio::test]
async fn a_refused_server_lets_the_file_be_read_again_and_the_next_connection_succeeds() {
    let (a, b) = (authority(), authority());
    let (of_a, of_b) = (issued(&a), issued(&b));
    let trust = Trust::new(&a.pem());
    assert!(trust.accepts(&of_a) && !trust.accepts(&of_b));
    trust.write(a.pem() + &b.pem());
    trust.wait_until(|| trust.accepts(&of_b)).await;
    assert!(trust.accepts(&of_a));
}

#[tokio::test]
async fn an_authority_that_left_the_file_is_not_trusted_after_a_while() {
    let (a, b) = (authority(), authority());
    let of_a = issued(&a);
    let trust = Trust::new(&(a.pem() + &b.pem()));
    trust.write(b.pem());
    assert!(trust.accepts(&of_a), "the file was read just now");
    trust.verifier.0.outdate();
    // A request is enough, without a new connection.
    trust.roots.refresh();
    trust.wait_until(|| !trust.accepts(&of_a)).await;
}

#[tokio::test]
async fn a_wrong_file_keeps_the_authorities_before_it() {
    let (a, b) = (authority(), authority());
    let of_a = issued(&a);
    let trust = Trust::new(&a.pem());
    let both = a.pem() + &b.pem();
    let half = &both[..both.len() - 40];
    let no_certificate = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for wrong in [
        "",
        "garbled",
        half,
        no_certificate,
        &format!("{} {}", b.pem(), a.pem()),
    ] {
        trust.write(wrong);
        trust.verifier.0.read_now().await;
        assert!(trust.accepts(&of_a), "{wrong}");
    }
    fs::remove_file(trust.folder.path().join("ca.pem")).unwrap();
    trust.verifier.0.read_now().await;
    assert!(trust.accepts(&of_a));
}

#[test]
fn a_wrong_text_or_file_is_refused_with_its_line() {
    let pem = authority().pem();
    let lines = pem.lines().count();
    let second = lines + 1;
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (text, part) in [
        (String::new(), "there is no certificate".to_owned()),
        (format!("{pem} {pem}"), format!("line {second}: ")),
        (
            format!("{pem}{no_der}"),
            format!("line {second}: the certificate can't be used"),
        ),
        (
            pem.replace("CERTIFICATE", "TRUSTED CERTIFICATE"),
            "line 1: ".into(),
        ),
    ] {
        let error = RootCertificates::from_pem(text.as_bytes()).unwrap_err();
        assert!(error.to_string().contains(&part), "{part}: {error}");
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ca.pem");
        fs::write(&path, text).unwrap();
        let error = RootCertificates::from_file(&path).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("{}: ", path.display())),
            "{error}"
        );
        assert!(error.contains(&part), "{part}: {error}");
    }
    let marked = format!("\u{feff}{pem}\u{feff}{pem}");
    let roots = RootCertificates::from_pem(marked.as_bytes()).unwrap();
    assert_ne!(roots, RootCertificates::system());
}

#[test]
fn a_block_that_can_not_be_used_is_named_also_in_the_files_of_the_system() {
    let folder = TempDir::new().unwrap();
    let written = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let pem = authority().pem();
    let good = written("good.pem", &pem);
    let other = written("README", "These are authorities.\n");
    let second = pem.lines().count() + 1;
    for (wrong, line) in [
        (format!("{pem} {pem}"), second),
        (format!("{pem}x\u{feff}{pem}"), second),
        (pem.replace("-----END CERTIFICATE-----", ""), 1),
        (pem.replace("CERTIFICATE", "X509 CERTIFICATE"), 1),
        (pem.replace("BEGIN CERTIFICATE", "begin certificate"), 1),
        (pem.replacen("-----\nMI", "-----\n*I", 1), 1),
    ] {
        let wrong = written("wrong.pem", &wrong);
        let files = [good.clone(), other.clone(), wrong.clone()];
        let error = Trusted::of_files(&files, None).err().expect("an error");
        let place = format!("{}: line {line}: ", wrong.display());
        assert!(error.starts_with(&place), "{place}: {error}");
    }
    let found = Trusted::of_files(&[good.clone(), other.clone()], None).unwrap();
    assert!(found.is_some());
    let again = Trusted::of_files(&[good, other.clone()], found.as_ref());
    assert!(again.unwrap().is_none(), "nothing has changed");
    assert!(Trusted::of_files(&[other], None).is_err());
}
