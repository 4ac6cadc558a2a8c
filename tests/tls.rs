//! `tenure serve` over TLS, and its clients.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Output;

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, CertifiedKey, IsCa, KeyPair};
use tempfile::TempDir;
use tenure::observe::{Observed, Observer};
use tenure::{Candidate, Config, EndReason, Epoch, OnOverrun};
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command, output, run, stderr};
use tenure_tests::{Limit, wait_for};
use tokio::runtime::Runtime;

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
            "--engine",
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

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().expect("a key");
    CertifiedIssuer::self_signed(params, key).expect("an authority")
}

/// A certificate of the store that this authority has issued.
fn issued(by: &Authority) -> CertifiedKey<KeyPair> {
    let signing_key = KeyPair::generate().expect("a key");
    let params = CertificateParams::new(["127.0.0.1".to_owned()]).expect("a name");
    let cert = params.signed_by(&signing_key, by).expect("a certificate");
    CertifiedKey { cert, signing_key }
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

/// Waits for the next leader with an epoch above this one.
async fn next_leader(observer: &mut Observer, after: Option<Epoch>) -> Epoch {
    loop {
        if let Observed::Leader { epoch, .. } = observer.next().await
            && Some(epoch) > after
        {
            return epoch;
        }
    }
}

/// The steps are those of docs/operations.md: both authorities to the clients first, then the other
/// certificate of the store.
#[test]
fn running_candidates_and_observers_follow_when_the_authority_of_the_store_is_replaced() {
    let _limit = Limit::start();
    let (old, new) = (authority(), authority());
    let files = Files::of(&issued(&old));
    let listen = free_address().to_string();
    let (store, url) = files.serve_at(&listen);
    let by_file = files.path("ca.pem");
    let bundle = files.path("worker.toml");
    let by_config = files.path("library.toml");
    let of_system = files.path("system.pem");
    let trust = |pem: &str| {
        files.write("ca.pem", pem);
        files.write("system.pem", pem);
        let ca = format!("servers = [{url:?}]\nca = \"\"\"\n{pem}\"\"\"\n");
        files.write("worker.toml", &ca);
        files.write(
            "library.toml",
            &format!("election = \"tests/library\"\nlease_duration = \"3s\"\n{ca}"),
        );
    };
    trust(&old.pem());
    let candidate = |name: &str| {
        let mut command = command(&["run", "--election", name]);
        command.env("TENURE_LEASE_DURATION", "3s");
        command
    };
    let start = |mut command: std::process::Command| {
        command.args(["--", "sh", "-c", "echo led; exec sleep 1000"]);
        Process::spawn(&mut command)
    };
    let mut of_file = candidate("tests/file");
    of_file.args(["--server", &url, "--ca-file", &by_file]);
    let mut of_bundle = candidate("tests/bundle");
    of_bundle.args(["--config", &bundle]);
    let mut by_system = candidate("tests/system");
    by_system
        .args(["--server", &url])
        .env("SSL_CERT_FILE", &of_system);
    let mut of_blob = candidate("tests/blob");
    of_blob
        .args(["--strategy", "azure-blob"])
        .env("TENURE_CA_FILE", &by_file)
        .env("TENURE_LEASE_DURATION", "15s")
        .env("TENURE_AZURE_BLOB_ACCOUNT", "devstoreaccount1")
        .env("TENURE_AZURE_BLOB_URL", format!("{url}/devstoreaccount1"))
        .env("TENURE_AZURE_BLOB_KEY", KEY);
    let runs = [of_file, of_bundle, by_system, of_blob].map(start);
    let wait_for_terms = |count: usize| {
        for run in &runs {
            wait_for(&format!("term {count}: {}", run.stderr()), || {
                (run.stdout().lines().count() == count).then_some(())
            });
        }
    };
    wait_for_terms(1);
    let watch = ["watch", "tests/file", "--json", "--server", &url];
    let watch = Process::start(&[&watch[..], &["--ca-file", &by_file]].concat());
    Runtime::new().expect("a runtime").block_on(async {
        let config = Config::load(&by_config).expect("a configuration");
        // The guard outlives its term here, for which `exit` would end this process.
        let config = config.with_on_overrun(OnOverrun::Report);
        let mut observer = Observer::from_config(&config).expect("an observer");
        let candidate = Candidate::start(config).await.expect("a candidate");
        let leader = candidate.campaign().await.expect("leadership");
        let first = next_leader(&mut observer, None).await;

        // Half of a file keeps what was trusted before, with one line.
        let both = old.pem() + &new.pem();
        files.write("ca.pem", &both[..both.len() - 40]);
        let warning = "keeping the one before";
        wait_for("a warning", || {
            runs[0].stderr().contains(warning).then_some(())
        });
        trust(&both);
        let replaced = "another set of root certificates is used from now on";
        for run in &runs[..2] {
            wait_for("the other authority", || {
                run.stderr().contains(replaced).then_some(())
            });
        }
        let log = runs[0].stderr();
        let warnings: Vec<&str> = log.lines().filter(|line| line.contains(warning)).collect();
        assert_eq!(warnings.len(), 1, "{log}");
        assert!(
            warnings[0].contains(&by_file) && warnings[0].contains("line "),
            "{log}"
        );
        assert!(leader.is_valid(), "open connections go on");
        wait_for_terms(1);

        let seen = watch.stdout().len();
        drop(store);
        let made = issued(&new);
        files.write("certificate", &made.cert.pem());
        files.write("key", &made.signing_key.serialize_pem());
        let (_store, _) = files.serve_at(&listen);
        wait_for_terms(2);
        assert_ne!(leader.lost().await, EndReason::Resigned);
        drop(leader);
        let leader = candidate.campaign().await.expect("leadership");
        assert_eq!(
            next_leader(&mut observer, Some(first)).await,
            leader.epoch()
        );
        wait_for("the event of the next term", || {
            watch.stdout()[seen..].contains("granted").then_some(())
        });
    });
}
