//! Tests of candidates and people with client certificates.

use std::fs;
use std::thread;
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;

use crate::{Place, read};

/// An authority of clients.
struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params
            .distinguished_name
            .push(DnType::CommonName, "clients");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        Self {
            pem: params.self_signed(&key).expect("a certificate").pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// Writes a certificate for this SPIFFE id and its key, each in one step.
    fn issue(&self, place: &Place, name: &str, id: &str) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        let id = id.try_into().expect("ASCII");
        params.subject_alt_names = vec![SanType::URI(id)];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        replace(place, &format!("{name}.pem"), &certificate.pem());
        replace(place, &format!("{name}.key"), &key.serialize_pem());
    }
}

const WORKER: &str = "spiffe://example.org/worker";

const RULES: &str = "\n[[match]]\nidentity = \"spiffe://example.org/*\"\n\
                     grants = [{ role = \"candidate\", namespace = \"tests\" }]\n";

fn replace(place: &Place, name: &str, text: &str) {
    let new = place.path("new");
    fs::write(&new, text).expect("a file");
    fs::rename(new, place.path(name)).expect("its place");
}

/// Starts a store that asks for certificates of this authority.
fn serve(place: &Place, authority: &Authority) -> Process {
    place.init();
    replace(place, "clients.pem", &authority.pem);
    set_rules(place, RULES);
    place.serve()
}

fn set_rules(place: &Place, rules: &str) {
    let access = place.path("etc/access.toml");
    let text = read(&access);
    let own = text.split("\n[certificates]").next().expect("a text");
    let ca_file = place.text("clients.pem");
    let table = format!("\n[certificates]\nca_file = {ca_file:?}\n{rules}");
    fs::write(&access, format!("{own}{table}")).expect("the access file");
}

/// Returns the arguments of a command that asks the store with this certificate.
fn with(place: &Place, name: &str) -> Vec<String> {
    let pairs = [
        ("--server", place.url()),
        ("--ca-file", place.text("etc/tls/ca.pem")),
        ("--client-certificate", place.text(&format!("{name}.pem"))),
        ("--client-key", place.text(&format!("{name}.key"))),
    ];
    let pairs = pairs.map(|(flag, value)| [flag.to_owned(), value]);
    pairs.into_iter().flatten().collect()
}

fn arguments<'a>(first: &[&'a str], with: &'a [String], last: &[&'a str]) -> Vec<&'a str> {
    let with: Vec<&str> = with.iter().map(String::as_str).collect();
    [first, &with, last].concat()
}

#[test]
fn a_candidate_leads_and_people_look_by_certificate() {
    let place = Place::new();
    let authority = Authority::new();
    let _store = serve(&place, &authority);
    authority.issue(&place, "worker", WORKER);
    let by_flags = with(&place, "worker");
    let run = ["run", "--once", "--election", "tests/job"];
    place.succeed(&arguments(&run, &by_flags, &["--", "true"]));
    let doctor = |arguments: &[&str]| {
        let mut doctor = place.command(&[&["doctor"], arguments].concat());
        let output = output(doctor.env("TENURE_ELECTION", "tests/job"));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = format!("let in as     {WORKER} with candidate on tests, until ");
        assert!(text.contains(&expected), "{text}");
    };
    doctor(&arguments(&[], &by_flags, &[]));
    let history = ["history", "tests/job", "--json"];
    let history = place.succeed(&arguments(&history, &by_flags, &[]));
    assert!(history.contains(WORKER), "{history}");

    // The environment, a file, and a context of that file set the same certificate.
    let [url, ca] = [place.url(), place.text("etc/tls/ca.pem")];
    let (certificate, key) = (place.text("worker.pem"), place.text("worker.key"));
    let list = ["list", "--namespace", "tests"];
    let mut by_environment = place.command(&list);
    by_environment
        .env("TENURE_SERVERS", &url)
        .env("TENURE_CA_FILE", &ca)
        .env("TENURE_CLIENT_CERTIFICATE", &certificate)
        .env("TENURE_CLIENT_KEY", &key);
    let by_environment = output(&mut by_environment);
    assert!(by_environment.status.success(), "{by_environment:?}");
    let text = format!(
        "servers = [{url:?}]\nca_file = {ca:?}\nclient_certificate = {certificate:?}\nclient_key = {key:?}\n"
    );
    replace(&place, "worker.toml", &text);
    let config = place.text("worker.toml");
    place.succeed(&[&list[..], &["--config", &config]].concat());
    place.succeed(&["context", "add", "as-worker", &config]);
    doctor(&["--context", "as-worker"]);
    // A certificate for another store is not sent to the store of a context.
    let mut by_token = place.command(&list);
    by_token
        .env("TENURE_CLIENT_CERTIFICATE", "/nonexistent")
        .env("TENURE_CLIENT_KEY", "/nonexistent");
    let by_token = output(&mut by_token);
    assert!(by_token.status.success(), "{by_token:?}");
}

#[test]
fn a_certificate_is_rotated_under_a_leader() {
    let place = Place::new();
    let (authority, next) = (Authority::new(), Authority::new());
    let store = serve(&place, &authority);
    authority.issue(&place, "worker", WORKER);
    let with = with(&place, "worker");
    let script = "echo leads; while true; do sleep 0.1; done";
    let run = ["run", "--election", "tests/job", "--lease-duration", "3s"];
    let run = arguments(&run, &with, &["--", "sh", "-c", script]);
    let leader = Process::spawn(&mut place.command(&run));
    wait_for("a leader", || {
        leader.stdout().contains("leads").then_some(())
    });
    let reloads = |count: usize| {
        wait_for("a reload", || {
            let reloads = store.stderr().matches("access file reloaded").count();
            (reloads >= count).then_some(())
        });
    };
    // The file contains both authorities; then the next one issues a certificate; then the file
    // contains only the next one.
    replace(&place, "clients.pem", &(authority.pem.clone() + &next.pem));
    reloads(1);
    next.issue(&place, "worker", WORKER);
    replace(&place, "clients.pem", &next.pem);
    reloads(2);
    wait_for("the new certificate", || {
        let log = leader.stderr();
        log.contains("another client certificate").then_some(())
    });
    // A term without renewals would end within the lease duration.
    thread::sleep(Duration::from_secs(4));
    let history = place.succeed(&["history", "tests/job", "--json"]);
    let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
    let terms = history["terms"].as_array().or_else(|| history.as_array());
    assert_eq!(terms.expect("terms").len(), 1, "{history}");
}

#[test]
fn a_candidate_whose_certificate_is_never_accepted_ends_with_77() {
    let place = Place::new();
    let authority = Authority::new();
    let _store = serve(&place, &authority);
    Authority::new().issue(&place, "stranger", WORKER);
    authority.issue(&place, "denied", "spiffe://example.org/denied");
    let denied = "[[deny]]\nidentity = \"spiffe://example.org/denied\"\n";
    set_rules(&place, &format!("{RULES}{denied}"));
    authority.issue(&place, "other", "spiffe://example.com/other");
    for (name, part) in [
        ("stranger", "unauthenticated"),
        ("denied", "unauthenticated"),
        ("other", "forbidden"),
    ] {
        let with = with(&place, name);
        let run = ["run", "--election", "tests/job"];
        let error = place.fail(77, &arguments(&run, &with, &["--", "true"]));
        assert!(error.contains(part), "{error}");
        let origin = format!("the client certificate is from {}", place.text(name));
        assert!(error.contains(&origin), "{error}");
    }
}

#[test]
fn wrong_files_of_a_client_end_its_start_and_are_named() {
    let place = Place::new();
    let authority = Authority::new();
    authority.issue(&place, "worker", WORKER);
    authority.issue(&place, "other", WORKER);
    let (certificate, key) = (place.text("worker.pem"), place.text("worker.key"));
    let other = place.text("other.key");
    let run = |arguments: &[&str]| {
        let run = ["run", "--election", "tests/job", "--server"];
        let rest = ["--", "true"];
        place.fail(2, &[&run[..], arguments, &rest].concat())
    };
    let https = "https://127.0.0.1:1";
    let both = |certificate, key| ["--client-certificate", certificate, "--client-key", key];
    for (arguments, parts) in [
        (
            &both("/nonexistent", &key)[..],
            ["--client-certificate", "/nonexistent", "No such file"],
        ),
        (
            &both(&certificate, &other),
            ["--client-key", "other.key", "belongs to the certificate"],
        ),
        (
            &["--client-certificate", &certificate],
            ["client_key", "client_certificate is set", "needs the other"],
        ),
    ] {
        let error = run(&[&[https][..], arguments].concat());
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    let plain = run(&[&["http://127.0.0.1:1"][..], &both(&certificate, &key)].concat());
    assert!(plain.contains("not an https address"), "{plain}");
}

#[test]
fn a_store_keeps_its_authorities_while_their_file_is_wrong_and_reports_it() {
    let place = Place::new();
    let authority = Authority::new();
    let store = serve(&place, &authority);
    authority.issue(&place, "worker", WORKER);
    let with = with(&place, "worker");
    let list = arguments(&["list", "--namespace", "tests"], &with, &[]);
    place.succeed(&list);
    replace(&place, "clients.pem", "half of a file");
    wait_for("the report", || {
        let log = store.stderr();
        let is_there =
            log.contains("can't reload the authorities of clients, keeping those before");
        is_there.then_some(())
    });
    assert!(store.stderr().contains("there is no certificate in it"));
    place.succeed(&list);
    let access = place.text("etc/access.toml");
    let error = place.fail(2, &["access", "check", &access]);
    assert!(
        error.contains("ca_file = ") && error.contains("clients.pem"),
        "{error}"
    );
}
