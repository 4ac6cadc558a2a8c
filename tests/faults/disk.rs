//! Slow, failing and full disks, and a store that is killed while it writes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::needs::{SmallDisk, can_run, has_program};
use tenure_tests::process::{Process, StoreProcess, run};
use tenure_tests::receiver::now;
use tenure_tests::{wait_for, wait_until};
use tokio::runtime::Runtime;

use super::{Answer, Client, id};

/// The calls that make a change durable.
const SYNC: &str = "fsync,fdatasync";

/// The calls that write a change before the sync.
const WRITE: &str = "pwrite64";

fn has_strace(test: &str) -> bool {
    can_run(test, "strace", has_program("strace"))
}

/// A store with a faulty disk.
struct Bench {
    runtime: Runtime,
    folder: TempDir,
    store: StoreProcess,
    client: Client,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreProcess::start(folder.path());
        let client = Client::new(store.address());
        Self {
            runtime: Runtime::new().unwrap(),
            folder,
            store,
            client,
        }
    }

    /// From now on these calls of the store on its log, to which changes go, have this fault. `how`
    /// has the syntax of `strace --inject`.
    fn inject(&self, calls: &str, how: &str) -> Process {
        let log = self.folder.path().join("leases.db-wal");
        self.inject_where(&["-P", log.to_str().unwrap()], calls, how)
    }

    /// The same for all files.
    fn inject_anywhere(&self, calls: &str, how: &str) -> Process {
        self.inject_where(&[], calls, how)
    }

    fn inject_where(&self, filter: &[&str], calls: &str, how: &str) -> Process {
        let pid = self.store.process.pid().to_string();
        let mut strace = Command::new("strace");
        strace.args(filter);
        strace.args(["-f", "-p", &pid, "-e"]);
        strace.arg(format!("trace={calls}"));
        strace.args(["-e", &format!("inject={calls}:{how}")]);
        let strace = Process::spawn(&mut strace);
        let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        wait_for("strace to attach to the store", || {
            let held = |task: fs::DirEntry| {
                let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
                !status.contains("TracerPid:\t0")
            };
            threads().flatten().all(held).then_some(())
        });
        strace
    }

    fn acquire(&self, number: u64) -> Answer {
        let name = format!("tests/lease-{number}");
        self.runtime.block_on(self.client.acquire(&name, number))
    }

    fn release(&self, number: u64) -> Answer {
        let name = format!("tests/lease-{number}");
        self.runtime.block_on(self.client.release(&name, number))
    }

    /// Starts the store again and checks the acknowledged changes.
    fn restart_and_check(&mut self, acknowledged: &[(u64, Value)]) {
        self.store = StoreProcess::start(self.folder.path());
        self.client = Client::new(self.store.address());
        for (number, acked) in acknowledged {
            let name = format!("tests/lease-{number}");
            let (status, view) = self.runtime.block_on(self.client.view(&name)).unwrap();
            assert_eq!(status, 200, "lease {number} is forgotten: {acked}");
            for field in ["state", "holder", "epoch", "revision"] {
                assert_eq!(view[field], acked[field], "{acked} has become {view}");
            }
        }
        let (status, view) = self.acquire(1_000).unwrap();
        assert_eq!(status, 200, "{view}");
    }
}

/// Acquires and releases until the store stops answering. Returns the last answer for each lease. A
/// lease whose last request has no answer is left out, since the change may or may not be stored.
fn work_until_the_store_dies(bench: &Bench) -> Vec<(u64, Value)> {
    let mut acknowledged: Vec<(u64, Value)> = Vec::new();
    for number in 1..=60 {
        match bench.acquire(number) {
            Some((200, view)) => acknowledged.push((number, view)),
            _ => return acknowledged,
        }
        if number % 3 == 0 {
            acknowledged.pop();
            match bench.release(number) {
                Some((200, view)) => acknowledged.push((number, view)),
                _ => return acknowledged,
            }
        }
    }
    panic!("the store still runs");
}

fn check_that_acknowledged_changes_survive_a_kill_at(calls: &str, test: &str) {
    if !has_strace(test) {
        return;
    }
    let mut most = 0;
    for n in 1..=12 {
        let mut bench = Bench::new();
        let _strace = bench.inject(calls, &format!("signal=KILL:when={n}"));
        let acknowledged = work_until_the_store_dies(&bench);
        assert_eq!(bench.store.process.wait().signal(), Some(9));
        most = most.max(acknowledged.len());
        bench.restart_and_check(&acknowledged);
    }
    assert!(
        most >= 2,
        "the store died before it had acknowledged anything"
    );
}

#[test]
fn acknowledged_changes_survive_a_kill_at_any_sync() {
    let test = "acknowledged_changes_survive_a_kill_at_any_sync";
    check_that_acknowledged_changes_survive_a_kill_at(SYNC, test);
}

#[test]
fn acknowledged_changes_survive_a_kill_at_any_write() {
    let test = "acknowledged_changes_survive_a_kill_at_any_write";
    check_that_acknowledged_changes_survive_a_kill_at(WRITE, test);
}

/// Several clients at once, whose changes share commits. Returns the last answer for each lease.
fn work_together(bench: &Bench) -> Vec<(u64, Value)> {
    let work = |first: u64| {
        let client = bench.client.clone();
        bench.runtime.spawn(async move {
            let mut acknowledged = Vec::new();
            for number in first..first + 8 {
                let name = format!("tests/lease-{number}");
                let mut answer = client.acquire(&name, number).await.unwrap();
                if number % 3 == 0 {
                    answer = client.release(&name, number).await.unwrap();
                }
                assert_eq!(answer.0, 200, "{}", answer.1);
                acknowledged.push((number, answer.1));
            }
            acknowledged
        })
    };
    let clients: Vec<_> = (0..6).map(|client| work(1 + 10 * client)).collect();
    let clients = clients.into_iter();
    clients
        .flat_map(|client| bench.runtime.block_on(client).unwrap())
        .collect()
}

/// At its end a store moves its log into the database, and marks the log as empty. Each sync of
/// these files has the fault, one after the other.
#[test]
fn acknowledged_changes_survive_a_fault_of_any_sync_at_the_end() {
    let test = "acknowledged_changes_survive_a_fault_of_any_sync_at_the_end";
    if !has_strace(test) {
        return;
    }
    for how in ["signal=KILL", "error=EIO"] {
        let mut hit = 0;
        loop {
            let mut bench = Bench::new();
            let acknowledged = work_together(&bench);
            let how = format!("{how}:when={}", hit + 1);
            let _strace = bench.inject_anywhere(SYNC, &how);
            bench.store.process.signal(nix::sys::signal::SIGTERM);
            let ended = bench.store.process.wait();
            bench.restart_and_check(&acknowledged);
            if ended.success() {
                break;
            }
            hit += 1;
        }
        eprintln!("{hit} syncs with {how}");
        // At least one sync of the log and one of the database.
        assert!(hit >= 2, "{how} hit {hit} syncs");
    }
}

/// Starts a store that is killed at the n-th sync. If it comes up before that, it is killed then,
/// and the result is `true`.
fn start_and_kill_at(n: u32, folder: &Path) -> (Process, bool) {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", &format!("trace={SYNC}"), "-e"]);
    strace.arg(format!("inject={SYNC}:signal=KILL:when={n}"));
    strace.arg(tenure_tests::process::tenure());
    strace.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
    strace.arg(folder);
    let mut store = Process::spawn(&mut strace);
    let is_up = wait_for("the start or the end of the store", || {
        let is_up = !store.stdout().is_empty();
        (is_up || store.has_ended()).then_some(is_up)
    });
    if is_up {
        // The store is the only child of strace.
        let pid = store.pid();
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        let child = nix::unistd::Pid::from_raw(children.trim().parse().unwrap());
        nix::sys::signal::kill(child, nix::sys::signal::SIGKILL).unwrap();
    }
    (store, is_up)
}

/// The next start moves the log that a killed store has left: each sync of that is a kill's target.
#[test]
fn acknowledged_changes_survive_a_kill_at_any_sync_of_the_next_start() {
    let test = "acknowledged_changes_survive_a_kill_at_any_sync_of_the_next_start";
    if !has_strace(test) {
        return;
    }
    for n in 1..=12 {
        let mut bench = Bench::new();
        let acknowledged = work_together(&bench);
        bench.store.process.signal(nix::sys::signal::SIGKILL);
        bench.store.process.wait();
        let (mut store, is_up) = start_and_kill_at(n, bench.folder.path());
        store.wait();
        bench.restart_and_check(&acknowledged);
        if is_up {
            assert!(n > 1, "nothing was synced before the store came up");
            return;
        }
    }
    panic!("the store never came up");
}

#[test]
fn a_store_that_is_killed_while_it_creates_its_folder_creates_it_at_the_next_start() {
    let test = "a_store_that_is_killed_while_it_creates_its_folder_creates_it_at_the_next_start";
    if !has_strace(test) {
        return;
    }
    for n in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, is_up) = start_and_kill_at(n, folder.path());
        store.wait();
        let store = StoreProcess::start(folder.path());
        let runtime = Runtime::new().unwrap();
        let granted = runtime.block_on(Client::new(store.address()).acquire("tests/a", 1));
        assert_eq!(granted.unwrap().0, 200);
        if is_up {
            assert!(n > 1, "nothing was synced before the store came up");
            return;
        }
    }
}

#[test]
fn changes_are_acknowledged_only_when_on_disk_and_renewals_do_not_wait_for_them() {
    let test = "changes_are_acknowledged_only_when_on_disk_and_renewals_do_not_wait_for_them";
    if !has_strace(test) {
        return;
    }
    const SLOW: Duration = Duration::from_millis(1_500);
    let bench = Bench::new();
    assert_eq!(bench.acquire(1).unwrap().0, 200);
    let how = format!("delay_enter={}", SLOW.as_micros());
    let _strace = bench.inject(SYNC, &how);
    let begin = Instant::now();
    let (client, other) = (bench.client.clone(), bench.client.clone());
    bench.runtime.block_on(async {
        let granted = tokio::spawn(async move { client.acquire("tests/lease-2", 2).await });
        tokio::time::sleep(Duration::from_millis(200)).await;
        let renewed = other.renew("tests/lease-1", 1).await;
        assert_eq!(renewed.unwrap().0, 200);
        let renewed_after = begin.elapsed();
        assert!(
            !granted.is_finished(),
            "answered before the grant was on disk"
        );
        assert!(renewed_after < SLOW, "a renewal waited: {renewed_after:?}");
        // A read must not show the grant early either.
        let seen = other.view("tests/lease-2").await.unwrap();
        assert!(
            begin.elapsed() >= SLOW,
            "read before the grant was on disk: {seen:?}"
        );
        assert_eq!(granted.await.unwrap().unwrap().0, 200);
    });
}

#[test]
fn a_failed_sync_ends_the_store_without_a_false_acknowledgement() {
    let test = "a_failed_sync_ends_the_store_without_a_false_acknowledgement";
    if !has_strace(test) {
        return;
    }
    for n in 1..=3 {
        let mut bench = Bench::new();
        // This sync fails and the next would succeed, as some operating systems behave.
        let _strace = bench.inject(SYNC, &format!("error=EIO:when={n}"));
        let acknowledged = work_until_the_store_dies(&bench);
        assert!(acknowledged.len() < n, "acknowledged without a sync");
        let ended = bench.store.process.wait();
        assert_eq!(ended.code(), Some(1), "{}", bench.store.process.stderr());
        bench.restart_and_check(&acknowledged);
    }
}

#[test]
fn a_full_disk_stops_changes_but_not_renewals_and_the_store_recovers() {
    let test = "a_full_disk_stops_changes_but_not_renewals_and_the_store_recovers";
    let Some(disk) = SmallDisk::mount(test, 1_024) else {
        return;
    };
    let mut bench = super::Bench::on(disk.path().join("store"));
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
    // The free space in the log is used up first.
    let refused = (3..200).find_map(|number| {
        let name = format!("tests/lease-{number}");
        match bench.runtime.block_on(tapped.acquire(&name, number)) {
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
            second.stderr().contains("full").then_some(())
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
fn a_disk_that_the_log_has_filled_is_handled_as_a_full_disk() {
    let test = "a_disk_that_the_log_has_filled_is_handled_as_a_full_disk";
    let Some(disk) = SmallDisk::mount(test, 1_024) else {
        return;
    };
    let mut bench = super::Bench::on(disk.path().join("store"));
    let client = bench.client();
    let held = bench.runtime.block_on(client.acquire("tests/held", 1));
    assert_eq!(held.unwrap().0, 200);
    let describe = |count: u64| {
        let filling = format!("{count} {}", "x".repeat(3_000));
        let body = json!({"lease_id": id(1), "metadata": {"filling": filling}});
        client.ask(Method::PUT, "tests/held", "/metadata", Some(body))
    };
    // Changes of a single lease: only the log grows.
    let mut described = 0;
    let (status, problem) = loop {
        match bench.runtime.block_on(describe(described + 1)).unwrap() {
            (200, _) => {
                described += 1;
                assert!(described < 5_000, "the disk never fills up");
            }
            answer => break answer,
        }
    };
    assert_eq!((status, &problem["code"]), (507, &"disk_full".into()));
    bench.runtime.block_on(async {
        let is_last = |view: Value| {
            let filling = view["metadata"]["filling"].as_str().unwrap();
            filling.starts_with(&format!("{described} "))
        };
        assert_eq!(client.renew("tests/held", 1).await.unwrap().0, 200);
        let (status, view) = client.view("tests/held").await.unwrap();
        assert!(status == 200 && is_last(view), "{described}");
    });
    disk.grow(8_192);
    described += 1;
    let (status, problem) = bench.runtime.block_on(describe(described)).unwrap();
    assert_eq!(status, 200, "{problem}");
    bench.restart_store();
    let (_, view) = bench.runtime.block_on(client.view("tests/held")).unwrap();
    let filling = view["metadata"]["filling"].as_str().unwrap();
    assert!(filling.starts_with(&format!("{described} ")), "{described}");
    bench.tap.assert_possible();
}

/// Checks that all reads answer, and that a renewal by the last holder is refused. All reads but
/// the history show the lease as expired; the history shows no end before it is durable.
async fn reads_answer(bench: &super::Bench, brief: &Value) {
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
    let url = format!(
        "http://{}/v1/namespaces/tests/leases",
        bench.store.address()
    );
    let list = client.http.get(url).send().await.unwrap();
    assert_eq!(list.status(), 200);
    let list: Value = list.json().await.unwrap();
    let mut leases = list["leases"].as_array().unwrap().iter();
    let listed = leases.find(|view| view["lease"] == "brief").unwrap();
    assert_eq!(listed["state"], "expired");
}
