//! `tenure watch`: a line for each change, also across lost connections.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::process::{Process, StoreProcess, command};
use tenure_tests::wait_for;

use super::{Bench, ELECTION, code};

/// The JSON lines of a watch.
fn lines(watch: &Process) -> Vec<Value> {
    let text = watch.stdout();
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// The events of these lines, in order.
fn events(watch: &Process) -> Vec<Value> {
    let lines = lines(watch).into_iter();
    lines.map(|mut line| line["event"].take()).collect()
}

/// Sends a request for which there is no command.
async fn ask(method: &str, url: String, body: Value) -> u16 {
    let method = method.parse().unwrap();
    let request = reqwest::Client::new().request(method, url).json(&body);
    request.send().await.unwrap().status().as_u16()
}

#[test]
fn a_watch_that_missed_too_much_prints_the_differences() {
    let mut bench = Bench::new();
    let first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    // Otherwise it competes for the lease in the other store as well.
    first.signal(Signal::SIGKILL);
    let url = bench.store.url();
    let watch = Process::start(&["watch", "--namespace", "tests", "--json", "--server", &url]);
    wait_for("the current state of the lease", || {
        (!events(&watch).is_empty()).then_some(())
    });
    let address = bench.store.address().to_string();
    bench.store.process.signal(Signal::SIGKILL);
    bench.store.process.wait();
    // Another store, without the lease.
    bench.store = StoreProcess::start_at(&bench.folder.path().join("another"), &address);
    let deleted = wait_for("the deletion of the lease", || {
        let mut lines = lines(&watch).into_iter();
        lines.find(|line| line["event"] == "deleted")
    });
    assert_eq!(
        (&deleted["lease"], &deleted["holder"]),
        (&json!("job"), &Value::Null)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_prints_all_leases_of_another_store_that_did_more_meanwhile() {
    let mut bench = Bench::new();
    let url = bench.store.url();
    let acquire = async |lease: &str| {
        let body = json!({"holder": "a", "duration_ms": 60_000});
        let lease = format!("{url}/v1/namespaces/tests/leases/{lease}/acquire");
        assert_eq!(ask("POST", lease, body).await, 200);
    };
    let watch = Process::start(&["watch", "--namespace", "tests", "--json", "--server", &url]);
    for lease in ["a", "b", "c"] {
        acquire(lease).await;
    }
    wait_for("the leases of the first store", || {
        (events(&watch).len() == 3).then_some(())
    });
    // The watch is frozen until there is another store with greater revisions.
    watch.signal(Signal::SIGSTOP);
    let address = bench.store.address().to_string();
    bench.store.process.signal(Signal::SIGKILL);
    bench.store.process.wait();
    bench.store = StoreProcess::start_at(&bench.folder.path().join("another"), &address);
    let second = ["d", "e", "f", "g", "h"];
    for lease in second {
        acquire(lease).await;
    }
    watch.signal(Signal::SIGCONT);
    wait_for(
        "all leases of the other store, and the deleted ones",
        || {
            let lines = lines(&watch);
            let has = |lease: &str, deleted: bool| {
                let mut lines = lines.iter().skip(3);
                lines.any(|line| line["lease"] == lease && (line["event"] == "deleted") == deleted)
            };
            let gone = ["a", "b", "c"].into_iter().all(|lease| has(lease, true));
            (gone && second.into_iter().all(|lease| has(lease, false))).then_some(())
        },
    );
}

#[test]
fn a_watch_prints_each_change_and_survives_a_restart_of_the_store() {
    let mut bench = Bench::new();
    let url = bench.store.url();
    let mut watch = Process::start(&["watch", ELECTION, "--json", "--server", &url]);
    let mut all = Process::start(&["watch", "--namespace", "tests", "--server", &url]);
    wait_for("the log line about a missing lease", || {
        watch
            .stderr()
            .contains("no candidate has ever competed")
            .then_some(())
    });
    let first = bench.candidate("first", &[]);
    let holders = |watch: &Process| -> Vec<String> {
        let views = lines(watch).into_iter();
        views
            .filter_map(|view| view["holder"].as_str().map(Into::into))
            .collect()
    };
    wait_for("the first leader", || {
        (holders(&watch) == ["first"]).then_some(())
    });

    let address = bench.store.address().to_string();
    bench.store.process.signal(Signal::SIGTERM);
    bench.store.process.wait();
    wait_for("the log line about the store", || {
        watch
            .stderr()
            .contains("the store can't be reached")
            .then_some(())
    });
    bench.store = StoreProcess::start_at(&bench.folder.path().join("store"), &address);
    wait_for("the log line about the store", || {
        watch.stderr().contains("answers again").then_some(())
    });
    first.signal(Signal::SIGTERM);
    let _second = bench.candidate("second", &[]);
    wait_for("the second leader", || {
        let holders = holders(&watch);
        (holders.last()? == "second").then_some(())
    });
    wait_for("the second leader among all", || {
        let text = all.stdout();
        let line = text.lines().find(|line| line.contains("second"))?;
        assert!(line.contains("tests/job  leased"), "{line}");
        Some(())
    });
    for process in [&mut watch, &mut all] {
        process.signal(Signal::SIGINT);
        assert_eq!(process.wait().code(), Some(0));
    }
}

#[test]
fn a_watch_ends_with_its_reader_and_requires_a_lease_or_a_namespace() {
    let bench = Bench::new();
    let _first = bench.candidate("first", &[]);
    bench.wait_for_leader("first");
    let mut watch = command(&["watch", ELECTION, "--server", &bench.store.url()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(watch.stdout.take());
    bench.run(&["break", ELECTION, "--period", "0s"]);
    let status = wait_for("the end of the watch", || watch.try_wait().unwrap());
    assert_eq!(status.code(), Some(0));
    assert_eq!(code(&bench.run(&["watch"])), 2);
    assert_eq!(code(&bench.run(&["watch", "a/b", "--namespace", "a"])), 2);
}
