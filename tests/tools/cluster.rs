//! `tenure cluster` against a store that is in no cluster, and against no store.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::ports::free_address;
use tenure_tests::process::{json_of, run};

use super::{Bench, code, fake, problem, stderr, stdout};

/// The state of a server of a cluster.
fn view(server: &str, role: &str, active: &Value) -> Value {
    json!({
        "store": "9f2c61b07e5d4a8890d3c1f6a2b4e7d5", "name": "default", "server": server, "start": server,
        "role": role, "generation": 7, "sequence": 1200, "active": active, "ownership_ms": 3000,
        "behind": 0, "serving_ms_left": null, "home": "etcd", "reason": null,
    })
}

/// A server that tells this state.
fn server(view: &Value) -> SocketAddr {
    let (view, is_active) = (view.to_string(), view["role"] == "active");
    fake(Duration::ZERO, move |path| match path {
        "/v1/cluster" => (200, view.clone()),
        "/active" if !is_active => (503, problem("not_active")),
        "/active" | "/livez" | "/readyz" => (200, "ok\n".into()),
        _ => (404, problem("unknown_lease")),
    })
}

/// A standby that names the server at this address as the active one.
fn standby_of(address: SocketAddr) -> SocketAddr {
    let active = json!({"name": "s0", "url": format!("http://{address}")});
    server(&view("s1", "following", &active))
}

/// Runs a command with this address of the store.
fn ask(arguments: &[&str], address: SocketAddr) -> std::process::Output {
    let url = format!("http://{address}");
    run(&[arguments, &["--server", &url]].concat())
}

#[test]
fn an_active_server_that_only_a_standby_names_is_asked_without_a_credential_and_shown() {
    let active = server(&view("s0", "active", &Value::Null));
    let guarded = fake(Duration::ZERO, |path| match path {
        "/active" => (200, "active\n".into()),
        _ => (401, problem("unauthenticated")),
    });
    for active in [active, guarded] {
        let standby = standby_of(active);
        let output = ask(&["cluster", "status"], standby);
        assert_eq!(code(&output), 0, "{output:?}");
        let note = format!("http://{active}/: named by s1");
        assert!(stdout(&output).contains(&note), "{output:?}");
        let report = json_of(&ask(&["cluster", "status", "--json"], standby));
        assert_eq!(report["active"], "s0", "{report}");
        assert_eq!(report["servers"][1]["named_by"], "s1", "{report}");
        assert_eq!(report["servers"][1]["view"]["generation"], 7, "{report}");
        let output = ask(&["doctor"], standby);
        assert_eq!(code(&output), 0, "{output:?}");
        let row = format!("http://{active}/: named by s1 as the active server");
        assert!(stdout(&output).contains(&row), "{output:?}");
    }
}

#[test]
fn an_active_server_that_only_a_standby_names_and_that_does_not_answer_is_named() {
    let nobody = free_address();
    let elsewhere = standby_of(nobody);
    for away in [nobody, elsewhere] {
        let standby = standby_of(away);
        let output = ask(&["cluster", "status"], standby);
        assert_eq!(code(&output), 3, "{output:?}");
        let told = format!("no server is active, nor is http://{away}/, which a server names");
        assert!(stderr(&output).contains(&told), "{output:?}");
        let output = ask(&["doctor"], standby);
        assert_eq!(code(&output), 1, "{output:?}");
        for part in ["no server of the cluster is active", &format!("{away}/: ")] {
            assert!(stdout(&output).contains(part), "{part}: {output:?}");
        }
    }
}

#[test]
fn a_server_that_refuses_the_log_fails_the_status_although_another_one_is_active() {
    let active = server(&view("s0", "active", &Value::Null));
    let mut refusing = view("s1", "refusing", &Value::Null);
    refusing["reason"] = "the home lost what it acknowledged".into();
    let url = format!("http://{}", server(&refusing));
    for (command, expected) in [(&["cluster", "status"][..], 65), (&["doctor"], 1)] {
        let output = ask(&[command, &["--server", &url]].concat(), active);
        assert_eq!(code(&output), expected, "{output:?}");
        let text = stdout(&output) + &stderr(&output);
        assert!(
            text.contains("the home lost what it acknowledged"),
            "{text}"
        );
    }
}

#[test]
fn two_servers_with_one_name_are_reported_and_two_addresses_of_one_server_are_not() {
    let active = view("s0", "active", &Value::Null);
    let mut other = view("s0", "following", &Value::Null);
    other["start"] = "another start".into();
    for (second, expected) in [(&active, 0), (&other, 1)] {
        let url = format!("http://{}", server(second));
        let output = ask(&["doctor", "--server", &url], server(&active));
        assert_eq!(code(&output), expected, "{output:?}");
        let status = ask(&["cluster", "status", "--server", &url], server(&active));
        assert_eq!(code(&status), 0, "{status:?}");
        for output in [output, status] {
            let is_told = stdout(&output).contains("two servers have the name s0");
            assert_eq!(is_told, expected == 1, "{output:?}");
        }
    }
}

#[test]
fn a_forced_hand_over_that_no_other_server_takes_ends_as_soon_as_the_same_server_is_active_again() {
    let generation = Arc::new(AtomicU64::new(7));
    let alone = fake(Duration::ZERO, move |path| match path {
        "/v1/cluster/hand-over" => {
            generation.fetch_add(1, Ordering::SeqCst);
            (202, String::new())
        }
        _ => {
            let mut view = view("s0", "active", &Value::Null);
            view["generation"] = generation.load(Ordering::SeqCst).into();
            (200, view.to_string())
        }
    });
    let began = std::time::Instant::now();
    let output = ask(&["cluster", "hand-over", "--force"], alone);
    assert_eq!(code(&output), 3, "{output:?}");
    let told = "no other server took over: s0 is active again, as generation 8";
    assert!(stderr(&output).contains(told), "{output:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_address_is_printed_once_and_http_to_a_port_with_tls_is_recognised() {
    // A server with TLS closes a connection whose first bytes are no handshake.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = std::io::Read::read(&mut stream, &mut [0; 4096]);
        }
    });
    let output = ask(&["cluster", "status"], address);
    assert_eq!(code(&output), 69, "{output:?}");
    let text = stderr(&output);
    assert!(text.contains("write https"), "{text}");
    assert_eq!(text.matches(&address.to_string()).count(), 1, "{text}");
    let noted = stdout(&output);
    let lines = noted.lines().filter(|line| line.contains("write https"));
    for line in lines {
        assert_eq!(line.matches(&address.to_string()).count(), 1, "{line}");
    }
}

#[test]
fn a_store_that_is_in_no_cluster_is_named_as_such() {
    let bench = Bench::new();
    let url = bench.store.url();
    let url = url.as_str();
    for arguments in [
        &["cluster", "status", "--server", url][..],
        &["cluster", "status", "--json", "--server", url],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 3, "{output:?}");
        assert!(stderr(&output).contains("is not a cluster"), "{output:?}");
    }
    let output = run(&["cluster", "hand-over", "--server", url]);
    assert_eq!(code(&output), 3, "{output:?}");
    let output = run(&["cluster", "status", "--server", "http://127.0.0.1:1"]);
    assert_eq!(code(&output), 69, "{output:?}");
}

#[test]
fn a_recovery_is_never_made_by_accident() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    let text = "[serve]\nhome = \"etcd://127.0.0.1:1\"\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let output = run(&["cluster", "recover", "--config", file]);
    assert_eq!(code(&output), 2, "{output:?}");
    assert!(stderr(&output).contains("--yes"), "{output:?}");
    // A home that can't be reached is one thing, a wrong setting another.
    for arguments in [
        &["cluster", "recover", "--yes", "--config", file][..],
        &["cluster", "init", "--config", file],
    ] {
        let output = run(arguments);
        assert_eq!(code(&output), 69, "{output:?}");
    }
    std::fs::write(file, "[serve]\nhome = \"memory\"\n").unwrap();
    let output = run(&["cluster", "init", "--config", file]);
    assert_eq!(code(&output), 2, "{output:?}");
}
