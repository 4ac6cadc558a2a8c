//! Tests of candidates that another authority vouches for.

#[path = "../../crates/tenure-server/tests/common/signer.rs"]
pub(crate) mod signer;

use std::fs;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use nix::sys::signal::Signal;
use signer::{AUDIENCE, ISSUER, Signer, claims};
use tenure_tests::process::Process;
use tenure_tests::wait_for;

use crate::Place;

#[test]
fn a_check_of_the_access_file_reads_the_files_that_it_names() {
    let (place, signer) = (Place::new(), Signer::new());
    let [access, keys, ca] = ["access.toml", "keys.json", "ca.pem"].map(|name| place.path(name));
    let issuer = |name: &str, keys: String| {
        format!(
            "[[issuer]]\nname = {name:?}\nissuer = \"https://{name}\"\naudience = \"tenure\"\n{keys}\n"
        )
    };
    let rules = "version = 1\n".to_owned()
        + &issuer("ci", format!("key_set_file = {keys:?}"))
        + &issuer(
            "idp",
            format!("key_set_url = \"https://idp\"\nca_file = {ca:?}"),
        );
    let write = |path: &Path, text: &str| {
        fs::write(path, text).expect("a file");
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("a mode");
    };
    write(&access, &rules);
    let file = place.text("access.toml");
    let check = ["access", "check", file.as_str()];
    let fails = |parts: &[&str]| {
        let error = place.fail(2, &check);
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    };
    fails(&[&file, "\"ci\"", "keys.json"]);
    write(&keys, "{\"keys\": [7]}");
    fails(&[&file, "\"ci\"", "keys.json", "kty", "JSON Web Key Set"]);
    write(&keys, &signer.key_set("one"));
    fails(&[&file, "\"idp\"", "ca_file", "ca.pem"]);
    write(&ca, "-----BEGIN CERTIFICATE-----\nx\n");
    fails(&[&file, "\"idp\"", "ca_file", "ca.pem"]);
    let made = rcgen::generate_simple_self_signed(["idp".to_owned()]);
    write(&ca, &made.expect("a certificate").cert.pem());
    place.succeed(&check);
}

#[test]
fn a_candidate_with_a_json_web_token_leads_also_after_a_restart_of_the_store() {
    let (place, signer) = (Place::new(), Signer::new());
    place.init();
    let keys = place.path("keys.json");
    fs::write(&keys, signer.key_set("one")).expect("the keys");
    let rules = format!(
        "[[issuer]]\nname = \"ci\"\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\n\
         key_set_file = {keys:?}\n\
         [[match]]\nidentity = \"ci:team/*\"\n\
         grants = [{{ role = \"candidate\", namespace = \"tests\" }}]\n"
    );
    let path = place.path("etc/access.toml");
    let access = OpenOptions::new().append(true).open(path);
    let mut access = access.expect("the access file");
    access.write_all(rules.as_bytes()).expect("the rules");
    // The token file is a link, as Kubernetes creates it.
    fs::write(
        place.path("first"),
        signer.sign("one", &claims("team/worker")),
    )
    .expect("a token");
    symlink("first", place.path("token")).expect("a link");

    let mut store = place.serve();
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    let token = place.text("token");
    let script = "echo leads; while true; do sleep 0.1; done";
    let arguments = [
        "run",
        "--server",
        &url,
        "--ca-file",
        &ca,
        "--token-file",
        &token,
        "--election",
        "tests/job",
        "--lease-duration",
        "10s",
        "--",
        "sh",
        "-c",
        script,
    ];
    let leader = Process::spawn(&mut place.command(&arguments));
    wait_for("a leader", || {
        leader.stdout().contains("leads").then_some(())
    });
    let view = || {
        let view = place.succeed(&["status", "tests/job", "--json"]);
        serde_json::from_str::<serde_json::Value>(&view).expect("JSON")
    };
    let before = view();
    assert_eq!(before["owner"], "ci:team/worker", "{before}");

    store.signal(Signal::SIGTERM);
    store.wait();
    // The store has not checked the successor of the token before.
    let next = signer::with(claims("team/worker"), "jti", "next".into());
    fs::write(place.path("second"), signer.sign("one", &next)).expect("a token");
    symlink("second", place.path("new")).expect("a link");
    fs::rename(place.path("new"), place.path("token")).expect("the new token");
    let _store = place.serve();
    wait_for("a renewal after the restart", || {
        let remaining = view()["remaining_ms"].as_u64()?;
        // After a restart the lease lasts its full duration. After that it needs renewals.
        std::thread::sleep(std::time::Duration::from_millis(1500));
        let later = view()["remaining_ms"].as_u64()?;
        (later + 1000 > remaining).then_some(())
    });
    let after = view();
    assert_eq!(after["epoch"], before["epoch"], "{after}");
    assert_eq!(leader.stdout().matches("leads").count(), 1);
}
