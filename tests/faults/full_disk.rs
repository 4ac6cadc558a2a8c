//! A store whose disk is full.

use std::fs;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tenure_tests::data_dir::incompressible;
use tenure_tests::needs::SmallDisk;
use tenure_tests::process::{Process, StoreProcess, command, run};
use tenure_tests::receiver::now;
use tenure_tests::{wait_for, wait_until};

use super::{Bench, Client, id};

#[test]
fn a_full_disk_stops_changes_but_not_renewals_and_the_store_recovers() {
    let test = "a_full_disk_stops_changes_but_not_renewals_and_the_store_recovers";
    let Some(disk) = SmallDisk::mount(test, 1_024) else {
        return;
    };
    let mut bench = Bench::on(disk.path().join("store"));
    let _leader = bench.candidate("leader");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = bench.candidate("second");
    bench.wait_for_waiters(1);
    let tapped = bench.client();
    let ask = |name: &'static str, number| tapped.acquire(name, number);
    let (_, held) = bench.runtime.block_on(ask("tests/held", 1)).unwrap();
    let brief = json!({"lease_id": id(2), "holder": "c2", "duration_ms": 1_000});
    let brief = tapped.post("tests/brief", "acquire", brief);
    let (_, brief) = bench.runtime.block_on(brief).unwrap();
    let began = Instant::now();
    let ballast = disk.fill();
    let mut acknowledged = vec![("tests/held".to_owned(), held)];
    // The reserved space of the log is used up first, before the brief lease expires.
    let refused = (3..200).find_map(|number| {
        let name = format!("tests/lease-{number}");
        let body = json!({"lease_id": id(number), "holder": format!("c{number}"),
            "duration_ms": 60_000, "metadata": {"filling": incompressible(number, 3_000)}});
        match bench.runtime.block_on(tapped.post(&name, "acquire", body)) {
            Some((200, view)) => {
                acknowledged.push((name, view));
                None
            }
            answer => Some((name, answer.unwrap())),
        }
    });
    let (refused, (status, problem)) = refused.expect("a full disk");
    assert_eq!((status, &problem["code"]), (507, &"disk_full".into()));

    // The space that is left for smaller changes is used up, too.
    let mut refusals = 0;
    for count in 0..1_000 {
        let body = json!({"lease_id": id(1), "metadata": {"count": count.to_string()}});
        let described = tapped.ask(Method::PUT, "tests/held", "/metadata", Some(body));
        let (status, _) = bench.runtime.block_on(described).unwrap();
        refusals = if status == 507 { refusals + 1 } else { 0 };
        if refusals == 10 {
            break;
        }
    }
    assert_eq!(refusals, 10, "a full disk");

    // The lease without renewals expires, which cannot be written.
    std::thread::sleep(Duration::from_millis(1_100).saturating_sub(began.elapsed()));
    // The expiry has no revision, so these requests bypass the history check.
    bench.runtime.block_on(reads_answer(&bench, &brief));
    let url = bench.store.url();
    for (arguments, expected) in [
        (&["list", "--namespace", "tests"][..], "expired"),
        (&["status", "tests/brief"], "expired"),
        (&["history", "tests/brief"], "c2"),
    ] {
        let output = run(&[arguments, &["--server", &url]].concat());
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
    let output = run(&["break", "tests/held", "--server", &url]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("the store's disk is full"), "{text}");
    bench.runtime.block_on(async {
        let refusal = tapped.acquire("tests/brief", 900).await.unwrap();
        assert_eq!(refusal.0, 507, "{refusal:?}");
        assert_eq!(tapped.renew("tests/held", 1).await.unwrap().0, 200);
        let (status, view) = tapped.view(&refused).await.unwrap();
        assert!(status == 404 || view["holder"].is_null(), "{view}");
    });

    // The store has renewed the leader's lease all the time, and the leader continues for longer
    // than its lease.
    let full_since = now();
    wait_for("further actions of the leader", || {
        let last = bench.receiver.last_of("leader", epoch);
        (last.at > full_since + 2 * super::LEASE).then_some(())
    });
    assert!(
        bench.receiver.notes().is_empty(),
        "{:?}",
        bench.receiver.notes()
    );

    // A start on the full disk either works without writing, or fails with the reason.
    let address = bench.store.address().to_string();
    bench.store.process.signal(nix::sys::signal::SIGKILL);
    bench.store.process.wait();
    let data = bench.data.to_str().unwrap();
    let mut second = Process::start(&["serve", "--listen", &address, "--data-dir", data]);
    let is_up = wait_for("the start or the end of the store", || {
        let is_up = !second.stdout().is_empty();
        (is_up || second.has_ended()).then_some(is_up)
    });
    if is_up {
        let view = bench.runtime.block_on(tapped.view("tests/held"));
        assert_eq!(view.unwrap().0, 200);
    } else {
        assert_eq!(second.wait().code(), Some(1));
        wait_for("the reason", || {
            second.stderr().contains("space").then_some(())
        });
    }
    eprintln!("a start on the full disk: up: {is_up}; {}", second.stderr());
    drop(second);

    fs::remove_file(&ballast).unwrap();
    bench.store = StoreProcess::start_at(&bench.data, &address);
    bench.runtime.block_on(async {
        let late = wait_until("the store to work again", async || {
            let (status, view) = tapped.acquire("tests/late", 500).await?;
            (status == 200).then_some(view)
        });
        acknowledged.push(("tests/late".to_owned(), late.await));
        for (name, acked) in acknowledged {
            let (_, view) = tapped.view(&name).await.unwrap();
            assert_eq!(view["epoch"], acked["epoch"], "{acked} has become {view}");
            assert_eq!(view["holder"], acked["holder"]);
        }
        let (status, view) = tapped.view(&refused).await.unwrap();
        assert!(status == 404 || view["holder"].is_null(), "{view}");
    });
    bench.verify();
}

#[test]
fn a_log_that_fills_a_small_disk_is_shortened_by_a_snapshot_and_changes_go_on() {
    let test = "a_log_that_fills_a_small_disk_is_shortened_by_a_snapshot_and_changes_go_on";
    let Some(disk) = SmallDisk::mount(test, 256) else {
        return;
    };
    let mut bench = Bench::on(disk.path().join("store"));
    let client = bench.client();
    let held = bench.runtime.block_on(client.acquire("tests/held", 1));
    assert_eq!(held.unwrap().0, 200);
    // Changes of a single lease, in all four times the size of the disk. While a snapshot is made, some
    // are refused.
    for count in 1..=350 {
        let filling = format!("{count} {}", incompressible(count, 3_000));
        let body = json!({"lease_id": id(1), "metadata": {"filling": filling}});
        let described = wait_until("room on the disk", async || {
            let asked = client.ask(Method::PUT, "tests/held", "/metadata", Some(body.clone()));
            match asked.await? {
                (200, _) => Some(()),
                (507, _) => None,
                (status, problem) => panic!("{status} {problem}"),
            }
        });
        bench.runtime.block_on(described);
    }
    bench.restart_store();
    let (_, view) = bench.runtime.block_on(client.view("tests/held")).unwrap();
    let filling = view["metadata"]["filling"].as_str().unwrap();
    assert!(filling.starts_with("350 "), "{}", &filling[..10]);
    bench.tap.assert_possible();
}

/// Checks that all reads answer, and that a renewal by the last holder is refused. All reads but
/// the history show the lease as expired; the history shows no end before it is durable.
async fn reads_answer(bench: &Bench, brief: &Value) {
    let client = Client::new(bench.store.address());
    let (name, epoch) = ("tests/brief", &brief["epoch"]);
    let (status, view) = client.view(name).await.unwrap();
    assert_eq!((status, &view["state"]), (200, &"expired".into()), "{view}");
    assert_eq!(
        view["revision"], brief["revision"],
        "the expiry has no revision yet"
    );
    let poll = format!("?after={}&wait_ms=300", brief["revision"]);
    let (status, view) = client.ask(Method::GET, name, &poll, None).await.unwrap();
    assert_eq!((status, &view["state"]), (200, &"expired".into()), "{view}");
    let asked = json!({"epoch": epoch});
    let (status, body) = client.post(name, "verify", asked).await.unwrap();
    assert_eq!((status, &body["current"]), (200, &false.into()), "{body}");
    let (status, problem) = client.renew(name, 2).await.unwrap();
    assert_eq!(
        (status, &problem["code"]),
        (409, &"lease_expired".into()),
        "{problem}"
    );
    let history = client.ask(Method::GET, name, "/history", None).await;
    let (status, body) = history.unwrap();
    assert_eq!(status, 200, "{body}");
    let [term] = &body["terms"].as_array().unwrap()[..] else {
        panic!("{body}");
    };
    assert_eq!((&term["epoch"], &term["end"]), (epoch, &Value::Null));
    assert_eq!(term["ended_at"], Value::Null, "{term}");
    let path = "/v1/namespaces/tests/leases";
    let list = client.request(Method::GET, path, None).await;
    let (status, list) = list.unwrap();
    assert_eq!(status, 200, "{list}");
    let mut leases = list["leases"].as_array().unwrap().iter();
    let listed = leases.find(|view| view["lease"] == "brief").unwrap();
    assert_eq!(listed["state"], "expired");
}

#[test]
fn a_limit_of_the_size_of_files_stops_snapshots_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("store");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir"];
    let serve = command(&arguments);
    let mut limited = std::process::Command::new("sh");
    // In units of 512 bytes.
    limited.args(["-c", "ulimit -f 2000; exec \"$0\" \"$@\""]);
    limited
        .arg(serve.get_program())
        .args(serve.get_args())
        .arg(&data);
    let mut store = Process::spawn(&mut limited);
    let url = wait_for("the store", || {
        let line = store.stdout();
        line.trim().strip_prefix("listening on ").map(str::to_owned)
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let client = reqwest::Client::new();
    let acquire = |url: &str, number: usize| {
        let body = json!({
            "lease_id": id(number as u64), "holder": "one", "duration_ms": "infinite",
            "metadata": {"text": incompressible(number as u64, 3_000)},
        });
        let url = format!("{url}/v1/namespaces/tests/leases/lease-{number}/acquire");
        runtime.block_on(async {
            let answer = client.post(url).json(&body).send().await.unwrap();
            (
                answer.status().as_u16(),
                answer.json::<Value>().await.unwrap(),
            )
        })
    };
    // The files of the log are small enough, and a snapshot of all leases is not.
    let is_told = || store.stderr().contains("no snapshot was made");
    let told = (1..1_000).find(|number| {
        let (status, answer) = acquire(&url, *number);
        assert_eq!(status, 200, "{answer}");
        is_told()
    });
    let acknowledged = told.expect("a snapshot over the limit") + 100;
    for number in acknowledged - 99..=acknowledged {
        assert_eq!(acquire(&url, number).0, 200);
    }
    assert!(!store.has_ended(), "{}", store.stderr());
    let count = |url: &str| {
        let list = ["list", "--namespace", "tests", "--json", "--server", url];
        let listed: Value = serde_json::from_slice(&run(&list).stdout).unwrap();
        listed.to_string().matches("\"lease-").count()
    };
    assert_eq!(count(&url), acknowledged);
    store.signal(nix::sys::signal::Signal::SIGKILL);
    store.wait();
    // Everything is there.
    let store = StoreProcess::start(&data);
    assert_eq!(count(&store.url()), acknowledged);
    assert_eq!(acquire(&store.url(), 3_000).0, 200);
}
