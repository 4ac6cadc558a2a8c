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

    /// Writes a file that its owner alone can read, because it may be a key.
    fn write(&self, name: &str, text: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, text).expect("a file");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("a mode");
    }

    fn path(&self, name: &str) -> String {
        let path: PathBuf = self.0.path().join(name);
        path.to_str().expect("a path of text").to_owned()
    }

    fn serve(&self) -> (Process, String) {
        self.serve_at("127.0.0.1:0")
    }

    fn serve_at(&self, listen: &str) -> (Process, String) {
        let process = Process::start(&[
            "serve",
            "--azure-dev",
            "--home",
            "memory",
            "--listen",
            listen,
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
