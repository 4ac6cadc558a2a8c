//! Tests that secrets do not appear in logs at the level trace, audit lines, arguments,
//! environments of commands, and core dumps.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::Command;

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use reqwest::{Certificate, Client, Method, Response};
use serde_json::{Value, json};
use tenure_tests::Limit;
use tenure_tests::needs::can_run;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command, descendants, tenure};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use crate::{Place, read, started, wait_for_log};

const LEASE_IDS: [&str; 3] = [
    "c0ffee01-1111-4111-8111-00000000cafe",
    "c0ffee02-2222-4222-8222-00000000cafe",
    "c0ffee03-3333-4333-8333-00000000cafe",
];
const WRONG: &str = "tnr1_aaaaaaaa_wrongwrongcanarywrongwrong";
/// The payload of a JSON web token.
const PAYLOAD: &str = "eyJjYW5hcnkiOiJ3cml0dGVuIGJ5IG5vYm9keSJ9";
const PASSWORD: &str = "Y2FuYXJ5OmNhbmFyeSBwYXNzd29yZA==";
const KEY: &str = "canary key of the group";

/// The texts that must not appear: the random part of each token, and the other secrets.
struct Secrets(Vec<String>);

impl Secrets {
    fn new(place: &Place) -> Self {
        let tokens = ["home/tenure/config.toml", "worker.toml"].map(|file| {
            let token = place.token_in(file);
            token.split('_').nth(2).expect("the random part").to_owned()
        });
        let others = [WRONG, PAYLOAD, PASSWORD, KEY].into_iter().chain(LEASE_IDS);
        Self(
            tokens
                .into_iter()
                .chain(others.map(str::to_owned))
                .collect(),
        )
    }

    /// Returns the secrets in this text, also searching for ids without their hyphens.
    fn in_text(&self, text: &str) -> Vec<&str> {
        let text = text.to_lowercase();
        let has = |secret: &&String| {
            let secret = secret.to_lowercase();
            text.contains(&secret) || text.contains(&secret.replace('-', ""))
        };
        self.0.iter().filter(has).map(String::as_str).collect()
    }

    #[track_caller]
    fn are_not_in(&self, place: &str, text: &str) {
        let seen = self.in_text(text);
        let line = text.lines().find(|line| !self.in_text(line).is_empty());
        assert!(seen.is_empty(), "{seen:?} in {place}: {line:?}");
    }

    /// Checks the arguments of all processes of this machine, as `ps` shows them, and the
    /// environments of these processes.
    #[track_caller]
    fn are_not_in_processes(&self, environments: &[Pid]) {
        for entry in fs::read_dir("/proc").expect("processes").flatten() {
            let arguments = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            self.are_not_in("arguments", &arguments);
        }
        for process in environments {
            let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
            self.are_not_in("an environment", &String::from_utf8_lossy(&environment));
        }
    }
}

/// A client that sends requests in the same manner as programs in other languages.
struct Requests {
    client: Client,
    url: String,
}

impl Requests {
    fn new(place: &Place) -> Self {
        let ca = Certificate::from_pem(read(&place.path("etc/tls/ca.pem")).as_bytes());
        let client = Client::builder()
            .no_proxy()
            .tls_certs_only([ca.expect("a certificate")]);
        Self {
            client: client.build().expect("a client"),
            url: place.url(),
        }
    }

    async fn send(&self, authorization: &str, method: &str, path: &str, body: Value) -> u16 {
        let answer = self.answer(authorization, method, path, body).await;
        answer.status().as_u16()
    }

    async fn answer(&self, authorization: &str, method: &str, path: &str, body: Value) -> Response {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = match authorization {
            "" => request,
            authorization => request.header("authorization", authorization),
        };
        request.json(&body).send().await.expect("an answer")
    }

    /// Returns the session or the code that the store issues.
    async fn issued(&self, authorization: &str, path: &str, body: Value) -> String {
        let answer = self.answer(authorization, "POST", path, body).await;
        let answer: Value = answer.json().await.expect("JSON");
        let issued = answer["session"]
            .as_str()
            .or_else(|| answer["code"].as_str());
        issued.expect("a session or a code").to_owned()
    }
}

/// Sends requests that succeed and requests that fail, with all kinds of secrets. Returns the
/// sessions and codes that the store has issued.
async fn send_all(place: &Place) -> Vec<String> {
    let requests = Requests::new(place);
    let worker = format!("Bearer {}", place.token_in("worker.toml"));
    let admin = format!("Bearer {}", place.token_in("home/tenure/config.toml"));
    let lease = "/v1/namespaces/tests/leases/canary";
    let [one, other, changed] = LEASE_IDS;
    let id = |id: &str| json!({"lease_id": id});
    let acquire = |id: &str| json!({"lease_id": id, "holder": "me", "duration_ms": 60_000});
    let many = json!({"leases": [{"lease": "canary", "lease_id": other}]});
    let change = json!({"lease_id": one, "proposed_lease_id": changed});
    let metadata = json!({"lease_id": other, "metadata": {}});
    let broken = json!({"lease_id": one, "duration_ms": "canary"});
    for (as_whom, method, path, body, expected) in [
        (&worker, "POST", "/acquire", acquire(one), 200),
        (&worker, "POST", "/acquire", acquire(other), 409),
        (&worker, "POST", "/renew", id(one), 200),
        (&worker, "POST", "/renew", id(other), 409),
        (&worker, "POST", "/renew", broken, 400),
        (&worker, "POST", "/renew", json!(one), 400),
        (&worker, "POST", "/release", id(other), 409),
        (&worker, "PUT", "/metadata", metadata, 409),
        (
            &worker,
            "POST",
            "/handover",
            json!({"to": "x", "within_ms": 1_000, "force": true}),
            403,
        ),
        (&worker, "POST", "/break", json!({}), 403),
        (&worker, "POST", "/change", change, 200),
        (&worker, "GET", "", Value::Null, 200),
        (&worker, "GET", "/history", Value::Null, 200),
        (&admin, "POST", "/release", id(changed), 409),
        (&admin, "POST", "/break", json!({"break_period_ms": 0}), 200),
        (&worker, "POST", "/renew", id(changed), 409),
    ] {
        let status = requests
            .send(as_whom, method, &format!("{lease}{path}"), body)
            .await;
        assert_eq!(status, expected, "{method} {path}");
    }
    let many = requests
        .send(&worker, "POST", "/v1/namespaces/tests/renew", many)
        .await;
    assert_eq!(many, 200);
    let nowhere = format!("/v1/nowhere/{}", place.token_in("worker.toml"));
    assert_eq!(
        requests.send(&worker, "GET", &nowhere, Value::Null).await,
        404
    );
    for wrong in [
        format!("Bearer {WRONG}"),
        format!("Bearer {}x", place.token_in("worker.toml")),
        format!("Bearer eyJhbGciOiJSUzI1NiJ9.{PAYLOAD}.c2lnbmF0dXJl"),
        format!("Basic {PASSWORD}"),
    ] {
        let status = requests
            .send(&wrong, "POST", &format!("{lease}/acquire"), acquire(one))
            .await;
        assert_eq!(status, 401);
    }
    let code = requests.issued(&admin, "/v1/session/code", json!({})).await;
    let by_code = json!({"code": &code});
    let session = requests.issued("", "/v1/session", by_code.clone()).await;
    let other = requests.issued(&worker, "/v1/session", json!({})).await;
    let as_session = format!("Bearer {session}");
    for (as_whom, method, path, body, expected) in [
        ("", "POST", "/v1/session", by_code, 401),
        (&*as_session, "POST", "/v1/session", json!({}), 403),
        (&as_session, "GET", "/v1/whoami", Value::Null, 200),
        (&as_session, "GET", "/v1/overview", Value::Null, 200),
        (&as_session, "GET", "/v1/nowhere", Value::Null, 404),
        (
            &format!("{as_session}x"),
            "GET",
            "/v1/whoami",
            Value::Null,
            401,
        ),
    ] {
        let status = requests.send(as_whom, method, path, body).await;
        assert_eq!(status, expected, "{method} {path}");
    }
    vec![code, session, other]
}

/// Returns the metrics, which contain the names of leases and of routes.
fn metrics_of(place: &Place) -> String {
    let requests = Requests::new(place);
    let request = requests.client.get(format!("{}/metrics", requests.url));
    let request = request.bearer_auth(place.token_in("home/tenure/config.toml"));
    let metrics = async { request.send().await.expect("an answer").text().await };
    let runtime = Runtime::new().expect("a runtime");
    let metrics = runtime.block_on(metrics).expect("text");
    assert!(metrics.contains("lease=\"canary\""), "{metrics}");
    metrics
}

#[test]
fn no_secret_is_in_a_log_an_audit_line_or_an_argument() {
    let (_limit, place) = (Limit::start(), Place::new());
    place.init();
    let bundle = place.create("worker");
    let mut secrets = Secrets::new(&place);
    let (config, audit) = (place.path("etc/tenure.toml"), place.path("audit.jsonl"));
    let text = format!("{}\n[audit]\nfile = {audit:?}\n", read(&config));
    fs::write(&config, text).expect("a configuration");
    let config = place.text("etc/tenure.toml");
    let mut serve = place.command(&["serve", "--config", &config]);
    let store = started(serve.env("TENURE_LOG", "trace"));
    let runtime = Runtime::new().expect("a runtime");
    secrets.0.extend(runtime.block_on(send_all(&place)));

    let mut outputs = vec![("the metrics".to_owned(), metrics_of(&place))];
    for arguments in [
        &["list"][..],
        &["list", "--config", &bundle],
        &["status", "tests/canary"],
        &["history", "tests/canary"],
        &["doctor", "--config", &bundle],
        &["config", "show", "--config", &bundle],
        &["config", "check", &bundle],
        &["context", "list"],
        &["context", "add", "worker", &bundle],
        &["token", "list", "--last-used", "--file", "etc/access.toml"],
        &["break", "tests/other", "--config", &bundle],
        &["access", "check", "etc/access.toml"],
        &["audit", "verify", "audit.jsonl"],
    ] {
        let mut command = place.command(arguments);
        let ran = tenure_tests::process::output(command.env("TENURE_LOG", "trace"));
        for bytes in [&ran.stdout, &ran.stderr] {
            outputs.push((
                arguments.join(" "),
                String::from_utf8_lossy(bytes).into_owned(),
            ));
        }
    }
    let run = [
        "run",
        "--election",
        "tests/job",
        "--config",
        &bundle,
        "--",
        "sh",
        "-c",
    ];
    let script = "env; cat /proc/self/environ; echo; echo leads; exec sleep 1000";
    let mut run = place.command(&[&run[..], &[script]].concat());
    let run = Process::spawn(run.env("TENURE_LOG", "trace"));
    wait_for("a leader", || run.stdout().contains("leads").then_some(()));
    let all = [descendants(run.pid()), vec![store.pid()]].concat();
    secrets.are_not_in_processes(&all);

    for (name, process) in [("the store", &store), ("tenure run", &run)] {
        secrets.are_not_in(name, &(process.stdout() + &process.stderr()));
    }
    // The level is in force. The store itself logs no line below INFO.
    wait_for_log(&run, &["DEBUG"]);
    for (name, output) in outputs {
        secrets.are_not_in(&name, &output);
    }
    let lines = read(&audit);
    for kind in ["\"break\"", "\"credential\"", "\"sign-in\""] {
        assert!(lines.contains(kind), "{lines}");
    }
    secrets.are_not_in("the audit log", &lines);
    // The access file contains only hashes. The data directory contains lease ids.
    secrets.are_not_in("the access file", &read(&place.path("etc/access.toml")));
}

#[test]
fn a_token_or_key_in_the_environment_is_not_in_that_of_the_command() {
    let place = Place::new();
    place.init();
    place.create("worker");
    let secrets = Secrets::new(&place);
    let _store = place.serve();
    let (url, ca) = (place.url(), place.text("etc/tls/ca.pem"));
    let script = "env; cat /proc/self/environ; echo; echo leads; exec sleep 1000";
    let by_token = [
        "--server",
        &url,
        "--ca-file",
        &ca,
        "--health-command",
        "env",
    ];
    let peers = format!("1=http://{}", free_address());
    let state = place.text("state");
    let by_key = [
        "--strategy",
        "bully",
        "--node",
        "1",
        "--peers",
        &peers,
        "--state-dir",
        &state,
    ];
    let token = place.token_in("worker.toml");
    for (flags, name, secret) in [
        (&by_token[..], "TENURE_TOKEN", token.as_str()),
        (&by_key, "TENURE_BULLY_KEY", KEY),
    ] {
        let run = [
            &["run", "--election", "tests/job"],
            flags,
            &["--", "sh", "-c", script],
        ];
        let mut run = place.command(&run.concat());
        let run = Process::spawn(run.env(name, secret).env("TENURE_LOG", "trace"));
        wait_for("a leader", || run.stdout().contains("leads").then_some(()));
        let all = descendants(run.pid());
        assert!(all.len() > 1, "the command is a descendant");
        secrets.are_not_in_processes(&all[1..]);
        secrets.are_not_in(name, &(run.stdout() + &run.stderr()));
    }
}

#[test]
fn no_key_of_a_group_is_in_the_logs_of_its_members() {
    let place = Place::new();
    let peers = [1, 2].map(|node| format!("{node}=http://{}", free_address()));
    let peers = peers.join(",");
    let key = place.text("key");
    fs::write(&key, format!("{KEY}\n")).expect("a key");
    let member = |node: &str| {
        let run = [
            "run",
            "--election",
            "tests/job",
            "--strategy",
            "bully",
            "--node",
            node,
        ];
        let state = place.text(&format!("state-{node}"));
        let more = ["--peers", &peers, "--key-file", &key, "--state-dir", &state];
        let command = ["--", "sh", "-c", "env; echo leads; exec sleep 1000"];
        let mut run = place.command(&[&run[..], &more, &command].concat());
        Process::spawn(run.env("TENURE_LOG", "trace"))
    };
    let members = [member("1"), member("2")];
    wait_for("a leader", || {
        let leads = |member: &Process| member.stdout().contains("leads");
        members.iter().any(leads).then_some(())
    });
    for member in &members {
        wait_for_log(member, &["DEBUG"]);
        let seen = member.stdout() + &member.stderr();
        assert!(!seen.contains(KEY), "{seen}");
    }
}

/// Returns a process of this program without a limit on the size of core dumps.
fn with_cores(program: &Command, folder: &Path) -> Process {
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$@\"", "sh"]);
    shell.arg(program.get_program()).args(program.get_args());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    Process::spawn(shell.current_dir(folder))
}

#[test]
fn a_store_and_a_candidate_that_abort_leave_no_core() {
    let test = "a_store_and_a_candidate_that_abort_leave_no_core";
    let place = Place::new();
    let folder = place.folder.path();
    let mut sleep = Command::new("sleep");
    let mut sleep = with_cores(sleep.arg("1000"), folder);
    wait_for("the program", || {
        let name = fs::read_to_string(format!("/proc/{}/comm", sleep.pid())).ok()?;
        (name == "sleep\n").then_some(())
    });
    sleep.signal(Signal::SIGABRT);
    let writes_cores = sleep.wait().core_dumped();
    if !can_run(test, "cores of processes that abort", writes_cores) {
        return;
    }
    place.init();
    let bundle = place.create("worker");
    let config = place.text("etc/tenure.toml");
    let mut store = with_cores(&place.command(&["serve", "--config", &config]), folder);
    wait_for("the store", || {
        store.stdout().contains("listening on").then_some(())
    });
    let run = ["run", "--election", "tests/job", "--config", &bundle, "--"];
    let command = ["sh", "-c", "ulimit -c; echo leads; exec sleep 1000"];
    let run = place.command(&[&run[..], &command].concat());
    let mut run = with_cores(&run, folder);
    wait_for("a leader", || run.stdout().contains("leads").then_some(()));
    // The command of the leader has no restriction.
    assert!(run.stdout().contains("unlimited"), "{}", run.stdout());
    for process in [&mut run, &mut store] {
        process.signal(Signal::SIGABRT);
        let status = process.wait();
        assert_eq!(status.signal(), Some(Signal::SIGABRT as i32));
        assert!(!status.core_dumped(), "a core was written");
    }
}

#[test]
fn a_user_cannot_read_the_memory_of_the_store_that_runs_as_that_user() {
    const NOBODY: u32 = 65_534;
    let test = "a_user_cannot_read_the_memory_of_the_store_that_runs_as_that_user";
    let mut version = Command::new(tenure());
    let output = version.arg("--version").uid(NOBODY).output();
    let can_start = output.is_ok_and(|output| output.status.success());
    if !can_run(test, "root, and a program that others can start", can_start) {
        return;
    }
    let mut serve = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
    let store = started(serve.uid(NOBODY).current_dir("/"));
    // Such files of a process belong to its user, unless the process has forbidden that.
    let memory = fs::metadata(format!("/proc/{}/mem", store.pid())).expect("a process");
    assert_eq!(memory.uid(), 0);
}
