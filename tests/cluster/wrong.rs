//! An etcd that refuses, is full, or was restored from a snapshot. The servers say what to change,
//! acknowledge nothing meanwhile, and go on by themselves once it is changed.

use std::fs;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::cluster::{Cluster, Server, Settings};
use tenure_tests::needs::{can_run, has_program};
use tenure_tests::process::{json_of, run};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use super::{Bench, DEFAULT, SHORT, pass, renewed_since};

/// Makes the engine refuse, waits for this line in the log of every server, checks that nobody
/// answers, and mends the engine. A server goes on, and if the engine refuses reads, too, it is the
/// same one unless the machine is busy: returns how many generations were used.
pub(super) fn refuse(
    bench: &mut Bench,
    line: &str,
    break_it: impl FnOnce(&mut Cluster),
    mend_it: impl FnOnce(&mut Cluster),
) -> u64 {
    let says = |server: &Server, _: &Runtime| server.wait_for_line(line);
    refuse_and(bench, line, says, break_it, mend_it)
}

/// The same, where every server says the reason in another place: `says` waits for that.
pub(super) fn refuse_and(
    bench: &mut Bench,
    line: &str,
    says: impl Fn(&Server, &Runtime),
    break_it: impl FnOnce(&mut Cluster),
    mend_it: impl FnOnce(&mut Cluster),
) -> u64 {
    let ownership = bench.cluster.settings.ownership;
    let (active, generation) = bench.cluster.ownership();
    break_it(&mut bench.cluster);
    let since = now();
    for server in &bench.cluster.servers {
        says(server, &bench.cluster.runtime);
    }
    // The last append that was done was sent before the engine began to refuse.
    pass((ownership * 5 / 6).saturating_sub(now() - since));
    let silent = now();
    pass(ownership / 2);
    let answer = bench.load.probe.first_since(silent);
    assert!(answer.is_none(), "{line}: {answer:?}");
    let ready = bench.cluster.servers[active].must_get(&bench.cluster.runtime, "/readyz");
    assert_eq!(ready.0, 503, "{line}");
    mend_it(&mut bench.cluster);
    let took = renewed_since(&bench.load.probe, now());
    eprintln!("{line}: renewed {took:?} after it was mended");
    let active = bench.cluster.active();
    bench.cluster.generation(active) - generation
}

pub(super) fn encode(key: &str) -> String {
    STANDARD.encode(key)
}

/// Adds a user `tenure` with rights on the keys of clusters, and turns authentication on.
pub(super) fn require_users(cluster: &Cluster, password: &str) {
    let range = json!({"permType": "READWRITE", "key": encode("tenure/"),
        "range_end": encode("tenure0")});
    for (path, body) in [
        ("user/add", json!({"name": "root", "password": "of root"})),
        ("user/grant", json!({"user": "root", "role": "root"})),
        ("user/add", json!({"name": "tenure", "password": password})),
        ("role/add", json!({"name": "tenure"})),
        ("role/grant", json!({"name": "tenure", "perm": range})),
        ("user/grant", json!({"user": "tenure", "role": "tenure"})),
        ("enable", json!({})),
    ] {
        cluster.etcd().must(&format!("/v3/auth/{path}"), &body);
    }
}

#[test]
fn standbys_that_may_only_read_are_not_ready_after_they_have_tried_to_take_over() {
    let test = "standbys_that_may_only_read_are_not_ready_after_they_have_tried_to_take_over";
    let secrets = tempfile::tempdir().expect("a folder");
    let file = secrets.path().join("password");
    fs::write(&file, "secret\n").expect("a file");
    let mut settings = Settings::short(SHORT);
    settings.password_file = Some(file);
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    require_users(&cluster, "secret");
    cluster.run();
    let active = cluster.active();
    let root = |cluster: &Cluster, path: &str, body: &Value| {
        cluster.etcd().must_as("root", "of root", path, body);
    };
    let range =
        json!({"permType": "READ", "key": encode("tenure/"), "range_end": encode("tenure0")});
    root(&cluster, "/v3/auth/role/add", &json!({"name": "reader"}));
    root(
        &cluster,
        "/v3/auth/role/grant",
        &json!({"name": "reader", "perm": range}),
    );
    root(
        &cluster,
        "/v3/auth/user/grant",
        &json!({"user": "tenure", "role": "reader"}),
    );
    root(
        &cluster,
        "/v3/auth/user/revoke",
        &json!({"name": "tenure", "role": "tenure"}),
    );
    cluster.servers[active].kill();
    for standby in (0..3).filter(|it| *it != active) {
        let server = &cluster.servers[standby];
        wait_for("a take-over that has failed", || {
            let view = server.view(&cluster.runtime)?;
            let is_told = view["reason"]
                .as_str()?
                .contains("the last take-over of this server failed");
            is_told.then_some(())
        });
        // Reads succeed between its attempts.
        for _ in 0..30 {
            let ready = server.must_get(&cluster.runtime, "/readyz");
            let view = server.view(&cluster.runtime).expect("a view");
            assert_eq!(ready.0, 503, "{view}");
            assert!(view["reason"].is_string(), "{view}");
            pass(SHORT / 20);
        }
    }
    root(
        &cluster,
        "/v3/auth/user/grant",
        &json!({"user": "tenure", "role": "tenure"}),
    );
    let next = cluster.active_beside(active);
    for standby in (0..3).filter(|it| *it != active && *it != next) {
        cluster.servers[standby].wait_until_ready(&cluster.runtime);
    }
}

#[test]
fn servers_that_etcd_refuses_say_why_and_go_on_when_it_is_mended() {
    let test = "servers_that_etcd_refuses_say_why_and_go_on_when_it_is_mended";
    let secrets = tempfile::tempdir().expect("a folder");
    let file = secrets.path().join("password");
    fs::write(&file, "first\n").expect("a file");
    let mut settings = Settings::short(DEFAULT);
    settings.password_file = Some(file.clone());
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    require_users(&cluster, "first");
    cluster.run();
    let mut bench = Bench::over(cluster);
    let root = |cluster: &Cluster, path: &str, body: &Value| {
        cluster.etcd().must_as("root", "of root", path, body);
    };

    let password = json!({"name": "tenure", "password": "second"});
    let mut used = refuse(
        &mut bench,
        "etcd refuses the password of the user tenure",
        |cluster| root(cluster, "/v3/auth/user/changepw", &password),
        |_| fs::write(&file, "second\n").expect("a file"),
    );
    let revoke = json!({"name": "tenure", "role": "tenure"});
    let grant = json!({"user": "tenure", "role": "tenure"});
    used += refuse(
        &mut bench,
        "etcdctl role grant-permission ROLE readwrite --prefix=true tenure/",
        |cluster| root(cluster, "/v3/auth/user/revoke", &revoke),
        |cluster| root(cluster, "/v3/auth/user/grant", &grant),
    );
    let restart = |cluster: &mut Cluster, options: &[&str]| {
        cluster.etcd_mut().kill(0);
        cluster.etcd_mut().set_options(options);
        cluster.etcd_mut().spawn(0);
        cluster.etcd_mut().wait_until_ready(0);
    };
    used += refuse(
        &mut bench,
        "its JSON gateway is off (--enable-grpc-gateway)",
        |cluster| restart(cluster, &["--enable-grpc-gateway=false"]),
        |cluster| restart(cluster, &[]),
    );
    // After each fault the first server whose append succeeds goes on.
    assert!(used <= 3, "{used} generations");
    root(&bench.cluster, "/v3/auth/disable", &json!({}));
    bench.verify_without_terms();
}

#[test]
fn servers_on_a_full_etcd_say_so_and_go_on_when_it_has_space() {
    let test = "servers_on_a_full_etcd_say_so_and_go_on_when_it_has_space";
    let mut settings = Settings::short(SHORT);
    settings.options = vec!["--quota-backend-bytes".into(), "4194304".into()];
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let ballast = json!({"key": encode("ballast"), "value": encode(&"x".repeat(300_000))});
    refuse(
        &mut bench,
        "etcd has no space left",
        |cluster| {
            wait_for("a full etcd", || {
                let answer = cluster.etcd().ask(0, "/v3/kv/put", &ballast);
                let (_, body) = answer.expect("an answer");
                // A slow disk has other errors.
                body.to_string().contains("space").then_some(())
            });
        },
        |cluster| {
            let _ = cluster.audit("c");
            let etcd = cluster.etcd();
            let now = etcd.must(
                "/v3/kv/range",
                &json!({"key": encode("ballast"), "count_only": true}),
            );
            let revision = &now["header"]["revision"];
            etcd.must(
                "/v3/kv/compaction",
                &json!({"revision": revision, "physical": true}),
            );
            etcd.must("/v3/maintenance/defragment", &json!({}));
            let alarms = etcd.must("/v3/maintenance/alarm", &json!({"action": "GET"}));
            for alarm in alarms["alarms"].as_array().expect("an alarm") {
                let off = json!({"action": "DEACTIVATE", "alarm": "NOSPACE",
                    "memberID": alarm["memberID"]});
                etcd.must("/v3/maintenance/alarm", &off);
            }
        },
    );
    for server in &bench.cluster.servers {
        let log = server.log();
        let undone = log.matches("changes were undone").count();
        // The load sends many changes; there are causes with and without the warning of the size,
        // which may grow in steps.
        assert!(undone <= 8, "{undone} lines:\n{log}");
    }
    bench.verify_without_terms();
}

fn succeed(command: &mut Command) {
    let output = command.output().expect("a program of etcd");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// Restores etcd from a snapshot that was taken while it ran, with or without another identity.
/// The servers that run refuse with this line.
fn restore(test: &str, another_identity: bool, line: &str) {
    if !can_run(
        test,
        "etcdctl (package etcd-client)",
        has_program("etcdctl"),
    ) {
        return;
    }
    let Some(mut bench) = Bench::start(test, Settings::short(SHORT)) else {
        return;
    };
    let folder = bench.cluster.folder.path().to_owned();
    let (snapshot, restored) = (folder.join("snapshot"), folder.join("restored"));
    let endpoint = bench.cluster.etcd().endpoint(0);
    succeed(
        Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .args(["--dial-timeout", "60s", "--command-timeout", "60s"])
            .args(["--endpoints", &endpoint, "snapshot", "save"])
            .arg(&snapshot),
    );
    // The identity depends on the URL of the member and on a token.
    let pid = bench.cluster.etcd().pid(0);
    let options = fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("a process");
    let options: Vec<_> = options.split('\0').collect();
    let option = |name: &str| {
        let at = options
            .iter()
            .position(|it| *it == name)
            .expect("an option");
        options[at + 1]
    };
    let token = if another_identity {
        "other"
    } else {
        "etcd-cluster"
    };
    let data = restored.to_str().expect("a path in UTF-8");
    // From etcd 3.6 on only etcdutl restores snapshots; etcd 3.4 has no such program.
    let program = match has_program("etcdutl") {
        true => "etcdutl",
        false => "etcdctl",
    };
    succeed(
        Command::new(program)
            .env("ETCDCTL_API", "3")
            .args(["snapshot", "restore"])
            .arg(&snapshot)
            .args(["--name=m0", "--initial-cluster-token", token])
            .args(["--initial-cluster", option("--initial-cluster")])
            .args([
                "--initial-advertise-peer-urls",
                option("--initial-advertise-peer-urls"),
            ])
            .args(["--data-dir", data]),
    );
    // What is acknowledged now is not in the snapshot.
    let client = bench.cluster.client();
    wait_for("a grant", || {
        let granted = bench
            .cluster
            .runtime
            .block_on(client.acquire("late/lease", 7));
        granted.filter(|(status, _)| *status == 200)
    });
    let _ = bench.cluster.audit("c");
    bench.cluster.etcd_mut().kill(0);
    bench.cluster.etcd_mut().set_options(&["--data-dir", data]);
    bench.cluster.etcd_mut().spawn(0);
    bench.cluster.etcd_mut().wait_until_ready(0);
    let revision = |cluster: &Cluster| {
        let head = json!({"key": encode("tenure/register/c/slot-1")});
        cluster.etcd().must("/v3/kv/range", &head)["header"]["revision"].clone()
    };
    let restored = revision(&bench.cluster);
    for server in &bench.cluster.servers {
        server.wait_for_line(line);
        server.wait_for_role(&bench.cluster.runtime, "refusing");
    }
    let since = now();
    pass(3 * SHORT);
    let answer = bench.load.probe.first_since(since);
    assert!(answer.is_none(), "{answer:?}");
    for server in 0..3 {
        let ready = bench.cluster.servers[server].must_get(&bench.cluster.runtime, "/readyz");
        assert_eq!(ready.0, 503);
    }
    assert_eq!(revision(&bench.cluster), restored, "nobody appends");
    let Bench { load, mut cluster } = bench;
    load.verify_answers(&cluster);
    cluster.servers[0].tap.assert_possible();
    let _ = cluster.audit("c");
    if !another_identity {
        grow_past_what_was_lost(&mut cluster);
    }
    recover(&mut cluster);
}

/// Recovers the log while no server runs. Checks that the servers go on with greater epochs, and
/// without the lease `late/lease`, which was lost.
pub(super) fn recover(cluster: &mut Cluster) {
    let config = cluster.servers[0]
        .config()
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let arguments = ["cluster", "recover", "--config", &config, "--json"];
    for server in &mut cluster.servers {
        server.signal(Signal::SIGTERM);
        assert!(server.wait().success());
    }
    let asked = run(&arguments);
    assert_eq!(asked.status.code(), Some(2), "{asked:?}");
    let recovered = run(&[&arguments[..], &["--yes"]].concat());
    assert!(recovered.status.success(), "{recovered:?}");
    let above = json_of(&recovered)["epochs_above"]
        .as_u64()
        .expect("an epoch");
    cluster.run();
    let client = cluster.client();
    let granted = wait_for("a grant", || {
        let granted = cluster.runtime.block_on(client.acquire("after/lease", 7));
        granted.filter(|(status, _)| *status == 200)
    });
    assert!(granted.1["epoch"].as_u64() > Some(above), "{granted:?}");
    let late = wait_for("an answer of the active server", || {
        let late = cluster.runtime.block_on(client.view("late/lease"));
        late.filter(|(status, _)| *status < 500)
    });
    assert_eq!(late.0, 404, "it was lost");
}

/// Lets a server that is restarted, and can't notice that the log went back, append more than was
/// lost. Checks that the other servers go on to refuse.
fn grow_past_what_was_lost(cluster: &mut Cluster) {
    let lost = cluster.servers[0].view(&cluster.runtime).expect("a view");
    cluster.servers[1].kill();
    cluster.servers[1].spawn();
    cluster.servers[1].wait_for_role(&cluster.runtime, "active");
    let client = cluster.client_of(1);
    let mut grants = 0;
    wait_for("a longer log", || {
        let granted = cluster
            .runtime
            .block_on(client.acquire(&format!("later/lease-{grants}"), 7));
        grants += u64::from(granted.is_some_and(|(status, _)| status == 200));
        let now = cluster.servers[1].view(&cluster.runtime)?;
        (grants > 20 && now["sequence"].as_u64() > lost["sequence"].as_u64()).then_some(())
    });
    // Followers look twelve times in T.
    pass(2 * SHORT);
    for server in [0, 2] {
        assert_eq!(cluster.servers[server].role(&cluster.runtime), "refusing");
    }
}

#[test]
fn servers_on_a_restored_etcd_refuse() {
    let test = "servers_on_a_restored_etcd_refuse";
    restore(test, true, "the log was written in");
}

#[test]
fn servers_on_an_etcd_that_went_back_refuse() {
    let test = "servers_on_an_etcd_that_went_back_refuse";
    restore(test, false, "the home lost what it acknowledged");
}
