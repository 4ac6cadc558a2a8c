//! An engine or a log that permits no server of a configuration, and a mixed pair of versions. A
//! server that is refused at its start ends and says why; one that runs goes on when it is mended.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::PATIENCE;
use tenure_tests::cluster::{Cluster, Server, Settings};
use tenure_tests::engine::{connection_string, url_file};
use tenure_tests::needs::{output_of, skipped};
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, json_of, run, stderr};
use tenure_tests::proxy::Proxy;

use super::DEFAULT;
use super::wrong::{encode, require_users};

/// Wrong configuration.
const CONFIGURATION: i32 = 2;

/// A log that can't be used.
const DATA: i32 = 65;

/// Starts a server that must end by itself with this code, and say this. If a busy machine delays the
/// answers of the engine for seconds, the server waits for the engine instead, and is started again.
#[track_caller]
fn assert_refused(server: &mut Server, code: i32, said: &str) {
    let before = server.log().len();
    server.spawn();
    for _ in 0..2 {
        if !server.ends_within(PATIENCE / 4) {
            server.kill();
            server.spawn();
        }
    }
    let status = server.wait();
    let log = server.log()[before..].to_owned();
    assert_eq!(status.code(), Some(code), "{said:?} in\n{log}");
    assert!(log.contains(said), "{said:?} in\n{log}");
}

/// Starts a server, and waits until it is active.
fn start(cluster: &mut Cluster, server: usize) {
    cluster.servers[server].spawn();
    cluster.servers[server].wait_for_role(&cluster.runtime, "active");
}

/// Ends a server in order: the log is vacant then.
fn stop(cluster: &mut Cluster, server: usize) {
    cluster.servers[server].signal(Signal::SIGTERM);
    let status = cluster.servers[server].wait();
    assert!(status.success(), "{status}");
}

/// The value of a slot in etcd.
fn value(cluster: &Cluster, key: &str) -> Vec<u8> {
    let found = (cluster.etcd()).must("/v3/kv/range", &json!({"key": encode(key)}));
    let value = found["kvs"][0]["value"].as_str().expect("a value");
    STANDARD.decode(value).expect("base64")
}

/// The key of the slot of an entry.
fn slot(sequence: u64) -> String {
    format!("tenure/register/c/slot-{}", sequence % 256)
}

/// The number of the newest entry.
fn newest(cluster: &Cluster) -> u64 {
    let links = cluster.engine.links("c");
    let sequence = &links.last().expect("an entry").entry["sequence"];
    sequence.as_u64().expect("a number")
}

/// Writes a value in etcd.
fn put(cluster: &Cluster, key: &str, value: &[u8]) {
    let put = json!({"key": encode(key), "value": STANDARD.encode(value)});
    cluster.etcd().must("/v3/kv/put", &put);
}

/// Deletes a value, or all that begin with this.
fn delete(cluster: &Cluster, key: &str, is_prefix: bool) {
    let mut keys = json!({"key": encode(key)});
    if is_prefix {
        keys["range_end"] = encode(&format!("{key}~")).into();
    }
    cluster.etcd().must("/v3/kv/deleterange", &keys);
}

/// The same entry with another byte, and the checksum of that.
fn changed(value: &[u8], at: usize, to: u8) -> Vec<u8> {
    let mut changed = value.to_vec();
    changed[at] = to;
    let sum = crc32fast::hash(&changed[FORMAT..]);
    changed[FORMAT - 4..FORMAT].copy_from_slice(&sum.to_le_bytes());
    changed
}

/// The place of the format, which follows the length and the checksum of an entry, and of the identity
/// of the home.
const FORMAT: usize = 8;
const HOME: usize = 9;

#[test]
fn a_server_that_etcd_refuses_at_its_start_ends_and_says_what_to_change() {
    let test = "a_server_that_etcd_refuses_at_its_start_ends_and_says_what_to_change";
    let secrets = tempfile::tempdir().expect("a folder");
    let file = secrets.path().join("password");
    fs::write(&file, "wrong\n").expect("a file");
    let mut settings = Settings::short(DEFAULT);
    settings.password_file = Some(file.clone());
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    require_users(&cluster, "right");
    let root = |cluster: &Cluster, path: &str, body: &Value| {
        cluster.etcd().must_as("root", "of root", path, body);
    };
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "etcd refuses the password of the user tenure: correct the file password_file",
    );
    let config = cluster.servers[0].config().to_str().expect("UTF-8");
    let begun = run(&["cluster", "init", "--config", config]);
    assert_eq!(begun.status.code(), Some(CONFIGURATION), "{begun:?}");
    assert!(stderr(&begun).contains("etcd refuses the password"));
    fs::write(&file, "right\n").expect("a file");
    let role = json!({"name": "tenure", "role": "tenure"});
    root(&cluster, "/v3/auth/user/revoke", &role);
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "etcdctl role grant-permission ROLE readwrite --prefix=true tenure/",
    );
    let role = json!({"user": "tenure", "role": "tenure"});
    root(&cluster, "/v3/auth/user/grant", &role);
    start(&mut cluster, 0);
    stop(&mut cluster, 0);
    let restart = |cluster: &mut Cluster, options: &[&str]| {
        cluster.etcd_mut().kill(0);
        cluster.etcd_mut().set_options(options);
        cluster.etcd_mut().spawn(0);
        cluster.etcd_mut().wait_until_ready(0);
    };
    restart(&mut cluster, &["--enable-grpc-gateway=false"]);
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "its JSON gateway is off (--enable-grpc-gateway) or on another port",
    );

    // An etcd that is away may be back at any time.
    cluster.etcd_mut().kill(0);
    let before = cluster.servers[0].log().len();
    cluster.servers[0].spawn();
    cluster.servers[0].wait_for_line(" s (etcd: etcd at ");
    cluster.servers[0].wait_for_role(&cluster.runtime, "following");
    cluster.etcd_mut().set_options(&[]);
    cluster.etcd_mut().spawn(0);
    cluster.etcd_mut().wait_until_ready(0);
    cluster.servers[0].wait_for_role(&cluster.runtime, "active");
    // On a busy machine the etcd that has started may be away once more.
    let log = cluster.servers[0].log()[before..].to_owned();
    let [away, back] =
        ["no read of the log", "can be read again"].map(|it| log.matches(it).count());
    assert!((1..=2).contains(&away) && away == back, "{log}");
}

/// The versions of etcd that may lose changes which it has acknowledged.
const LOSSY: [&str; 5] = ["3.5.0", "3.5.1", "3.5.2", "3.5.3", "3.5.4"];

#[test]
#[ignore = "needs etcd 3.5.0 to 3.5.4 in PATH"]
fn a_real_etcd_that_may_lose_changes_starts_no_server() {
    let test = "a_real_etcd_that_may_lose_changes_starts_no_server";
    let version = output_of(Command::new("etcd").arg("--version")).unwrap_or_default();
    let version = version.lines().next().unwrap_or_default();
    let version = version.strip_prefix("etcd Version: ").unwrap_or_default();
    if !LOSSY.contains(&version) {
        skipped(test, "it needs etcd 3.5.0 to 3.5.4 in PATH");
        return;
    }
    let Some(mut cluster) = Cluster::prepare(test, Settings::short(DEFAULT)) else {
        return;
    };
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "may lose acknowledged changes (3.5.0 to 3.5.4 do): upgrade it to 3.5.30 or later",
    );
}

#[test]
fn a_log_of_another_version_another_etcd_or_a_moved_store_starts_no_server() {
    let test = "a_log_of_another_version_another_etcd_or_a_moved_store_starts_no_server";
    let Some(mut cluster) = Cluster::prepare(test, Settings::short(DEFAULT)) else {
        return;
    };
    start(&mut cluster, 0);
    stop(&mut cluster, 0);
    let key = slot(newest(&cluster));
    let vacant = value(&cluster, &key);
    let other_home = changed(&vacant, HOME, vacant[HOME] ^ 1);
    for (wrong, said) in [
        (
            changed(&vacant, FORMAT, 2),
            "the log has format 2, which this version does not know: upgrade the standbys first",
        ),
        (other_home, "the log was written in "),
        (
            b"garbage".to_vec(),
            " is damaged: another program writes to the log",
        ),
    ] {
        put(&cluster, &key, &wrong);
        assert_refused(&mut cluster.servers[0], DATA, said);
        let after = value(&cluster, &key);
        assert_eq!(after, wrong, "a server that ends changes nothing");
    }

    // Without its slots, a log with anything else is not a new one.
    let file = format!("tenure/file/c/file/{:020}-{:032x}", 7, 1);
    put(&cluster, &file, b"a snapshot");
    delete(&cluster, "tenure/register/c/slot-", true);
    assert_refused(
        &mut cluster.servers[0],
        DATA,
        "the log has no entry, but the file c/file/",
    );
    delete(&cluster, &file, false);

    start(&mut cluster, 0);
    cluster.servers[1].spawn();
    cluster.servers[1].wait_until_ready(&cluster.runtime);
    // A newer version has written the next entry.
    stop(&mut cluster, 0);
    cluster.servers[1].wait_for_role(&cluster.runtime, "active");
    cluster.servers[1].kill();
    let view = json!({"key": encode("tenure/register/c/slot-"),
        "range_end": encode("tenure/register/c/slot-~")});
    let slots = cluster.etcd().must("/v3/kv/range", &view);
    let count = slots["kvs"].as_array().expect("slots").len() as u64;
    let next = slot(count + 1);
    let newer = changed(&value(&cluster, &slot(count)), FORMAT, 2);
    put(&cluster, &next, &newer);
    assert_refused(&mut cluster.servers[0], DATA, "upgrade the standbys first");
    delete(&cluster, &next, false);
    start(&mut cluster, 0);
}

#[test]
fn a_server_that_postgresql_refuses_at_its_start_ends_and_says_what_to_change() {
    let test = "a_server_that_postgresql_refuses_at_its_start_ends_and_says_what_to_change";
    let settings = Settings::short(2 * DEFAULT).over_postgres();
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    let set_password = |cluster: &Cluster, password: &str| {
        let server = &cluster.servers[0];
        let addresses: Vec<_> = server.engine.iter().map(Proxy::address).collect();
        let text = connection_string(&addresses, password);
        fs::write(url_file(server.config()), text).expect("a file");
    };
    set_password(&cluster, "wrong");
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "Check user and password in the connection string",
    );
    set_password(&cluster, "first");
    let revoke = "revoke create on database postgres from tenure";
    cluster.databases().primary.query(revoke);
    assert_refused(
        &mut cluster.servers[0],
        CONFIGURATION,
        "has to run: create schema \"tenure\" authorization \"tenure\"",
    );
    let grant = "grant create on database postgres to tenure";
    cluster.databases().primary.query(grant);
    start(&mut cluster, 0);
    let (_, view) = cluster.servers[0].must_get(&cluster.runtime, "/v1/cluster");
    let version = view["home_version"].as_str().expect("a version");
    assert!(
        version.split('.').all(|part| part.parse::<u32>().is_ok()),
        "{view}"
    );
    let identity = view["home_identity"].as_str().expect("an identity");
    assert!(identity.contains("timeline 00000001"), "{view}");
    assert!(view["home_latency_us"].as_u64() > Some(0), "{view}");
    stop(&mut cluster, 0);
}

/// An access file that gives nobody a right.
fn access_file(folder: &Path) -> std::path::PathBuf {
    let file = folder.join("access.toml");
    fs::write(&file, "version = 1\n").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("a mode");
    file
}

#[test]
fn a_cluster_with_access_control_is_not_served_without_it_by_mistake() {
    let test = "a_cluster_with_access_control_is_not_served_without_it_by_mistake";
    let folder = tempfile::tempdir().expect("a folder");
    let access = format!(
        "[access]\nfile = \"{}\"\n",
        access_file(folder.path()).display()
    );
    let mut settings = Settings::short(DEFAULT);
    settings.cluster = access.clone();
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    cluster.servers[0].spawn();
    cluster.servers[0].wait_for_line("active as generation 1");
    let guarded = fs::read_to_string(cluster.servers[0].config()).expect("a file");
    let open = folder.path().join("open.toml");
    fs::write(&open, guarded.replace(&access, "")).expect("a file");
    let open = open.to_str().expect("a path in UTF-8");
    let address = free_address().to_string();
    let serve = ["serve", "--config", open, "--listen", &address];
    let refused = run(&serve);
    assert_eq!(refused.status.code(), Some(CONFIGURATION), "{refused:?}");
    let said = stderr(&refused);
    for part in ["have access control", "access.file", "--allow-anonymous"] {
        assert!(said.contains(part), "{said}");
    }
    let allowed = Process::start(&[&serve[..], &["--allow-anonymous"]].concat());
    tenure_tests::wait_for("the start", || {
        allowed.stdout().contains("listening").then_some(())
    });
}

#[test]
fn a_server_shows_the_facts_about_its_engine_and_counts_its_part() {
    let test = "a_server_shows_the_facts_about_its_engine_and_counts_its_part";
    // No server is late with this duration, and the engine is not slow for it.
    let Some(cluster) = Cluster::start(test, Settings::short(10 * DEFAULT)) else {
        return;
    };
    let active = cluster.active();
    let servers = &cluster.servers;
    let view = tenure_tests::wait_for("the size of etcd", || {
        let view = servers[active].view(&cluster.runtime)?;
        view["home_bytes"].as_u64().map(|_| view)
    });
    assert_eq!(view["home"], "etcd");
    let quota = view["home_quota_bytes"].as_u64().expect("a quota");
    assert_eq!(quota, 2 << 30);
    assert!(view["home_bytes"].as_u64() < Some(quota / 2), "{view}");
    let latency = view["home_latency_us"].as_u64().expect("a time");
    assert!((1..5_000_000).contains(&latency), "{view}");
    let (_, standby) = servers[(active + 1) % 3].must_get(&cluster.runtime, "/v1/cluster");
    for view in [&view, &standby] {
        let version = view["home_version"].as_str().expect("a version");
        assert!(version.starts_with("3."), "{view}");
        let numbers = version
            .split('.')
            .map(|part| part.parse::<u32>().expect("a number"));
        let has_errors = match numbers.collect::<Vec<_>>()[..] {
            [3, 5, patch] => patch < 30,
            [3, 6, patch] => patch < 11,
            [3, minor, _] => minor < 5,
            _ => false,
        };
        assert_eq!(view["home_warnings"][0].is_string(), has_errors, "{view}");
        let links = cluster.engine.links("c");
        let written = &links.last().expect("an entry").entry["place"];
        assert_eq!(&view["home_identity"], written, "{view}");
    }

    let urls = cluster.urls();
    let asked: Vec<_> = urls.iter().flat_map(|url| ["--server", url]).collect();
    let doctor = run(&[&["doctor", "--json"][..], &asked].concat());
    let report = json_of(&doctor).to_string();
    assert!(!report.contains("on average"), "{report}");
    if let Some(warning) = view["home_warnings"][0].as_str() {
        assert!(report.contains(warning), "{report}");
    }

    let metric = |server: usize, series: &str| -> Option<f64> {
        let url = format!("http://{}/metrics", servers[server].address);
        let text = cluster.runtime.block_on(async {
            let answer = reqwest::get(url).await.expect("an answer");
            answer.text().await.expect("a text")
        });
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
        value.map(|value| value.parse().expect("a number"))
    };
    let role = |server, role: &str| {
        let series = format!("tenure_cluster_role{{cluster=\"c\",role=\"{role}\"}}");
        metric(server, &series).expect("a role")
    };
    for server in 0..3 {
        let is_active = f64::from(u8::from(server == active));
        assert_eq!(role(server, "active"), is_active);
        assert_eq!(role(server, "following"), 1.0 - is_active);
        assert_eq!(role(server, "refusing"), 0.0);
        let generation = metric(server, "tenure_cluster_generation{cluster=\"c\"}");
        assert_eq!(generation, Some(1.0));
        assert_eq!(
            metric(server, "tenure_cluster_take_overs_total"),
            Some(is_active)
        );
        assert_eq!(metric(server, "tenure_cluster_lapses_total"), Some(0.0));
        assert_eq!(metric(server, "tenure_cluster_behind"), Some(0.0));
        let appends = metric(server, "tenure_cluster_appends_total{result=\"done\"}");
        let timed = metric(server, "tenure_cluster_append_duration_seconds_count");
        assert!(appends <= timed, "{appends:?} {timed:?}");
        assert_eq!(timed > Some(0.0), server == active, "{timed:?}");
        // A standby knows no lease.
        let leases = metric(server, "tenure_leases{state=\"leased\"}");
        assert_eq!(leases.is_some(), server == active);
    }
    let bytes = metric(active, "tenure_cluster_home_bytes").expect("a size");
    let quota = metric(active, "tenure_cluster_home_quota_bytes").expect("a size");
    assert!(bytes > 0.0 && bytes < quota, "{bytes} of {quota}");
}
