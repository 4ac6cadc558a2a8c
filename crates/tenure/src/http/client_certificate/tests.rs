//! Tests of the files of client certificates, valid and invalid.

use std::fs;

use rcgen::{CertifiedKey, KeyPair};
use tempfile::TempDir;

use super::*;

pub(crate) fn make() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["worker".to_owned()]).unwrap()
}

/// The files of a client.
pub(crate) struct Files(TempDir);

impl Files {
    pub(crate) fn of(made: &CertifiedKey<KeyPair>) -> Self {
        let files = Self(TempDir::new().unwrap());
        files.write("certificate", &made.cert.pem());
        files.write("key", &made.signing_key.serialize_pem());
        files
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn open(&self) -> Result<ClientCertificate, ClientCertificateError> {
        ClientCertificate::from_files(self.path("certificate"), self.path("key"))
    }
}

#[test]
fn a_wrong_file_is_named_with_its_setting_and_no_part_of_the_key() {
    let (made, other) = (make(), make());
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    Files::of(&made).open().unwrap();
    let encrypted = key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY");
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let of_other = other.signing_key.serialize_pem();
    let none = String::new();
    for (in_certificate, in_key, setting, part) in [
        (&none, &key, "certificate", "there is no certificate"),
        (&key, &key, "certificate", "there is no certificate"),
        (&no_der, &key, "certificate", "can't be read"),
        (&certificate, &none, "key", "there is no private key"),
        (&certificate, &certificate, "key", "there is no private key"),
        (&certificate, &encrypted, "key", "encrypted"),
        (
            &certificate,
            &of_other,
            "key",
            "can't be used with the first",
        ),
    ] {
        let files = Files::of(&made);
        files.write("certificate", in_certificate);
        files.write("key", in_key);
        let error = files.open().unwrap_err();
        let text = error.to_string();
        assert_eq!(error.setting, format!("client_{setting}"), "{text}");
        assert!(text.contains(part), "{part}: {text}");
        assert!(text.contains(&format!("/{setting}: ")), "{text}");
        assert!(!text.contains(&key[60..80]), "{text}");
    }
    let files = Files::of(&made);
    let missing = files.path("missing");
    let error = ClientCertificate::from_files(&missing, files.path("key")).unwrap_err();
    assert_eq!(error.setting, "client_certificate");
    let error = ClientCertificate::from_files(files.path("certificate"), &missing).unwrap_err();
    assert_eq!((error.setting, error.path), ("client_key", missing));
}

#[test]
fn both_may_be_in_one_file() {
    let made = make();
    let files = Files::of(&made);
    let both = made.cert.pem() + &made.signing_key.serialize_pem();
    files.write("both", &both);
    ClientCertificate::from_files(files.path("both"), files.path("both")).unwrap();
}
