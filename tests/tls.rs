//! `tenure serve` over TLS, and its clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use nix::sys::signal::Signal;
use rcgen::{CertifiedKey, KeyPair};
use tempfile::TempDir;
use tenure_tests::process::{Process, command, output, run, stderr};
use tenure_tests::wait_for;

fn make() -> CertifiedKey<KeyPair> {
    rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate")
}

/// The key of the development account.
const KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

struct Files(TempDir);

impl Files {
    fn of(made: &CertifiedKey<KeyPair>) -> Self {
        let files = Self(tempfile::tempdir().expect("a folder"));
        files.write("certificate", &made.cert.pem());
        files.write("key", &made.signing_key.serialize_pem());
        files
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.0.path().join(name), text).expect("a file");
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().expect("a path of text").to_owned()
    }

    fn serve(&self) -> (Process, String) {
        let process = Process::start(&[
            "serve",
            "--azure-dev",
            "--engine",
            "memory",
            "--listen",
            "127.0.0.1:0",
            "--tls-certificate",
            &self.path("certificate"),
            "--tls-key",
            &self.path("key"),
        ]);
        let url = wait_for("the store", || {
            let stdout = process.stdout();
            let line = stdout.lines().next()?;
            Some(line.strip_prefix("listening on ")?.to_owned())
        });
        assert!(url.starts_with("https://"), "{url}");
        (process, url)
    }
}

fn list(url: &str, ca_file: &str) -> Output {
    run(&["list", "--server", url, "--ca-file", ca_file])
}

#[test]
fn a_leader_is_elected_and_shown_over_tls() {
    let files = Files::of(&make());
    let (_store, url) = files.serve();
    let certificate = files.path("certificate");
    let server = ["--server", &url, "--ca-file", &certificate];
    let election = ["run", "--once", "--election", "tests/job"];
    let ran = run(&[&election[..], &server, &["--", "true"]].concat());
    assert!(ran.status.success(), "{ran:?}");
    let status = run(&[&["status", "tests/job"][..], &server].concat());
    assert!(status.status.success(), "{status:?}");
    // Only that the doctor reaches the store matters here.
    let doctor = run(&[&["doctor", "--json"][..], &server].concat());
    let text = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(text.contains("\"reachable\": true"), "{text}");

    // The same with the setting in a file or in the environment.
    files.write(
        "tenure.toml",
        &format!("servers = [{url:?}]\nca_file = {certificate:?}\n"),
    );
    let by_file = run(&["list", "--config", &files.path("tenure.toml")]);
    assert!(by_file.status.success(), "{by_file:?}");
    let mut by_variable = command(&["list", "--server", &url]);
    let by_variable = output(by_variable.env("TENURE_CA_FILE", &certificate));
    assert!(by_variable.status.success(), "{by_variable:?}");

    // The same with the lease of a blob.
    let mut by_blob =
        command(&[&election[..], &["--strategy", "azure-blob", "--", "true"]].concat());
    by_blob
        .env("TENURE_CA_FILE", &certificate)
        .env("TENURE_AZURE_BLOB_ACCOUNT", "devstoreaccount1")
        .env("TENURE_AZURE_BLOB_URL", format!("{url}/devstoreaccount1"))
        .env("TENURE_AZURE_BLOB_KEY", KEY);
    let by_blob = output(&mut by_blob);
    assert!(by_blob.status.success(), "{by_blob:?}");

    // The certificate is unknown to the system, and to a client that trusts another authority.
    let unknown = run(&["list", "--server", &url]);
    assert!(stderr(&unknown).contains("certificate"), "{unknown:?}");
    let other = Files::of(&make());
    let not_it = list(&url, &other.path("certificate"));
    assert!(stderr(&not_it).contains("certificate"), "{not_it:?}");
}

#[test]
fn a_key_file_that_is_readable_for_others_causes_a_warning() {
    let files = Files::of(&make());
    let key = files.path("key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let (store, _) = files.serve();
    wait_for("a warning", || {
        let log = store.stderr();
        let has_mode = log.contains(&format!("{key} has mode 0644"));
        (has_mode && log.contains(&format!("chmod o-rw {key}"))).then_some(())
    });
}

#[test]
fn a_sighup_reloads_the_certificate_files() {
    let (old, new) = (make(), make());
    let files = Files::of(&old);
    let trusted = Files::of(&new);
    let (store, url) = files.serve();
    assert!(list(&url, &files.path("certificate")).status.success());
    files.write("key", &new.signing_key.serialize_pem());
    store.signal(Signal::SIGHUP);
    wait_for("a warning", || {
        store
            .stderr()
            .contains("not the key of the first certificate")
            .then_some(())
    });
    files.write("certificate", &new.cert.pem());
    store.signal(Signal::SIGHUP);
    wait_for("the new certificate", || {
        list(&url, &trusted.path("certificate"))
            .status
            .success()
            .then_some(())
    });
}

#[test]
fn invalid_files_are_reported_with_their_setting() {
    let (made, other) = (make(), make());
    let files = Files::of(&made);
    files.write("other-key", &other.signing_key.serialize_pem());
    files.write("empty", "");
    let refused = |arguments: &[&str], parts: &[&str]| {
        let refused = run(&[&["serve", "--listen", "127.0.0.1:0"][..], arguments].concat());
        let output = stderr(&refused);
        assert_eq!(refused.status.code(), Some(2), "{output}");
        for part in parts {
            assert!(output.contains(part), "{part}: {output}");
        }
    };
    let path = |name: &str| files.path(name);
    let (certificate, key) = (path("certificate"), path("key"));
    let both = |certificate: &str, key: &str, parts: &[&str]| {
        refused(&["--tls-certificate", certificate, "--tls-key", key], parts);
    };
    let flag = "--tls-key";
    both(
        &path("none"),
        &key,
        &["--tls-certificate", "none", "No such file"],
    );
    both(
        &path("empty"),
        &key,
        &["--tls-certificate", "empty", "BEGIN CERTIFICATE"],
    );
    both(
        &certificate,
        &path("empty"),
        &[flag, "empty", "BEGIN PRIVATE KEY"],
    );
    both(
        &certificate,
        &path("other-key"),
        &[flag, "other-key", "not the key"],
    );
    refused(
        &["--tls-certificate", &certificate],
        &["tls.key is not set"],
    );
    refused(&["--tls-key", &key], &["tls.certificate is not set"]);

    // `config check` checks the files before the start.
    let config = path("tenure.toml");
    let check = |text: &str| {
        files.write("tenure.toml", text);
        let checked = run(&["config", "check", &config]);
        (checked.status.code(), stderr(&checked))
    };
    let right = format!("[tls]\ncertificate = {certificate:?}\nkey = {key:?}\n");
    assert_eq!(check(&right), (Some(0), String::new()));
    let (code, output) = check(&right.replace("key\"", "other-key\""));
    assert!(
        code == Some(2) && output.contains("tenure.toml:3"),
        "{output}"
    );
    let (code, output) = check("[tls]\ncertificat = \"x\"\n");
    assert!(code == Some(2) && output.contains("certificat"), "{output}");
    let (code, output) = check(&format!("ca_file = {:?}\n", path("key")));
    assert!(
        code == Some(2) && output.contains("line 1: a block PRIVATE KEY"),
        "{output}"
    );
    let none = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    files.write("garbled", none);
    let (code, output) = check(&format!("ca_file = {:?}\n", path("garbled")));
    assert!(
        code == Some(2) && output.contains("can't be used"),
        "{output}"
    );
}
