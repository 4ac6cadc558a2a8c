//! Tests of `tenure dashboard`: the address that it prints signs its reader in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use reqwest::{Certificate, Client};
use serde_json::{Value, json};
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use crate::{Place, read, started};

/// Exchanges a code for a session as the page does, and returns the status and the answer.
fn redeem(place: &Place, code: &str) -> (u16, Value) {
    let ca = Certificate::from_pem(read(&place.path("etc/tls/ca.pem")).as_bytes());
    let client = Client::builder().no_proxy();
    let client = client.tls_certs_only([ca.expect("a certificate")]).build();
    let request = client.expect("a client").post(place.url() + "/v1/session");
    let request = request.json(&json!({"code": code})).send();
    Runtime::new().expect("a runtime").block_on(async {
        let answer = request.await.expect("an answer");
        let status = answer.status().as_u16();
        (status, answer.json().await.expect("JSON"))
    })
}

#[test]
fn the_address_of_the_dashboard_signs_its_reader_in_once() {
    let place = Place::new();
    place.init();
    let _store = place.serve();
    let url = place.succeed(&["dashboard"]);
    let (page, code) = url.trim().split_once("#code=").expect("a code");
    assert_eq!(page, place.url() + "/");
    let (status, session) = redeem(&place, code);
    assert_eq!(
        (status, &session["principal"]),
        (200, &json!("ada")),
        "{session}"
    );
    assert_eq!(redeem(&place, code).0, 401);

    let printed = place.succeed(&["dashboard", "--json"]);
    let printed: Value = serde_json::from_str(&printed).expect("JSON");
    let code = printed["code"].as_str().expect("a code");
    assert_eq!(printed["url"], format!("{}/#code={code}", place.url()));
    assert!(printed["expires_at"].is_string(), "{printed}");
    assert_eq!(redeem(&place, code).0, 200);
}

#[test]
fn without_a_credential_the_error_names_the_settings_and_an_open_store_needs_no_code() {
    let place = Place::new();
    place.init();
    let store = place.serve();
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    let error = place.fail(77, &["dashboard", "--server", &url, "--ca-file", &ca]);
    for word in [&*url, "token_file", "TENURE_TOKEN_FILE", "--context"] {
        assert!(error.contains(word), "{error}");
    }
    drop(store);
    let error = place.fail(69, &["dashboard"]);
    assert!(error.contains("can't reach the store"), "{error}");

    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", "open"];
    let open = started(command(&serve).current_dir(place.folder.path()));
    let stdout = open.stdout();
    let (_, url) = stdout.split_once("listening on ").expect("an address");
    let url = url.split_whitespace().next().expect("an address");
    let server = match url.starts_with("http") {
        true => url.to_owned(),
        false => format!("http://{url}"),
    };
    let printed = place.succeed(&["dashboard", "--server", &server]);
    assert_eq!(printed.trim(), format!("{server}/"));
}

#[test]
fn the_browser_gets_the_address_from_a_file_and_not_as_an_argument() {
    let place = Place::new();
    place.init();
    let _store = place.serve();
    let (browser, seen) = (place.path("browser"), place.path("seen"));
    let script = format!(
        "#!/bin/sh\necho \"$@\" > {0}.arguments\nstat -c %a \"$1\" > {0}.mode\ncp \"$1\" {0}.new\nmv {0}.new {0}\n",
        seen.display()
    );
    fs::write(&browser, script).expect("a script");
    fs::set_permissions(&browser, fs::Permissions::from_mode(0o700)).expect("a mode");
    let mut command: Command = place.command(&["dashboard", "--open"]);
    let dashboard = Process::spawn(command.env("BROWSER", &browser));
    wait_for("the browser", || seen.exists().then_some(()));
    let url = wait_for("the address", || {
        let stdout = dashboard.stdout();
        stdout.ends_with('\n').then(|| stdout.trim().to_owned())
    });
    let page = read(&seen);
    assert!(page.contains(&format!("url={url}\"")), "{page}");
    let arguments = read(&place.path("seen.arguments"));
    assert!(!arguments.contains("tnc1_"), "{arguments}");
    assert_eq!(read(&place.path("seen.mode")).trim(), "600");
}
