//! Disks that are slow, that fail and that are full, and a store that is killed in the middle of
//! writing.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::needs::{SmallDisk, can_run, has_program};
use tenure_tests::process::{Process, StoreProcess};
use tenure_tests::{wait_for, wait_until};
use tokio::runtime::Runtime;

use super::{Answer, Client};

/// The calls that make a change durable.
const SYNC: &str = "fsync,fdatasync";

/// The calls that write it before.
const WRITE: &str = "pwrite64";

fn has_strace(test: &str) -> bool {
    can_run(test, "strace", has_program("strace"))
}

/// A store on a disk that a test spoils.
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

    /// From now on these calls of the store fare so. `how` is in the words of `strace --inject`.
    fn inject(&self, calls: &str, how: &str) -> Process {
        let pid = self.store.process.pid().to_string();
        let mut strace = Command::new("strace");
        // Of the log: that is where changes go. SQLite does without syncs of folders.
        strace
            .arg("-P")
            .arg(self.folder.path().join("leases.db-wal"));
        strace.args(["-f", "-p", &pid, "-e"]);
        strace.arg(format!("trace={calls}"));
        strace.args(["-e", &format!("inject={calls}:{how}")]);
        let strace = Process::spawn(&mut strace);
        let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        wait_for("strace to hold the store", || {
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

    /// Starts the store again, and looks at what was acknowledged.
    fn restart_and_check(&mut self, acknowledged: &[(u64, Value)]) {
        self.store = StoreProcess::start(self.folder.path());
        self.client = Client::new(self.store.address());
        for (number, said) in acknowledged {
            let name = format!("tests/lease-{number}");
            let (status, view) = self.runtime.block_on(self.client.view(&name)).unwrap();
            assert_eq!(status, 200, "lease {number} is forgotten: {said}");
            for field in ["state", "holder", "epoch", "revision"] {
                assert_eq!(view[field], said[field], "{said} has become {view}");
            }
        }
        let (status, view) = self.acquire(1_000).unwrap();
        assert_eq!(status, 200, "{view}");
    }
}

/// Grants and releases until the store does not answer any more. Returns the last word on each
/// lease; one whose last question was not answered is left out, because either may be true.
fn work_until_it_dies(bench: &Bench) -> Vec<(u64, Value)> {
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
    panic!("the store lives on");
}

fn what_was_acknowledged_is_there_after_a_kill_at(calls: &str, test: &str) {
    if !has_strace(test) {
        return;
    }
    let mut most = 0;
    for n in 1..=12 {
        let mut bench = Bench::new();
        let _strace = bench.inject(calls, &format!("signal=KILL:when={n}"));
        let acknowledged = work_until_it_dies(&bench);
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
fn what_was_acknowledged_is_there_after_a_kill_at_any_sync() {
    let test = "what_was_acknowledged_is_there_after_a_kill_at_any_sync";
    what_was_acknowledged_is_there_after_a_kill_at(SYNC, test);
}

#[test]
fn what_was_acknowledged_is_there_after_a_kill_at_any_write() {
    let test = "what_was_acknowledged_is_there_after_a_kill_at_any_write";
    what_was_acknowledged_is_there_after_a_kill_at(WRITE, test);
}

#[test]
fn a_store_that_is_killed_while_it_makes_its_folder_makes_it_the_next_time() {
    let test = "a_store_that_is_killed_while_it_makes_its_folder_makes_it_the_next_time";
    if !has_strace(test) {
        return;
    }
    for n in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let mut strace = Command::new("strace");
        strace.args(["-f", "-e", &format!("trace={SYNC}"), "-e"]);
        strace.arg(format!("inject={SYNC}:signal=KILL:when={n}"));
        strace.arg(tenure_tests::process::tenure());
        strace.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        strace.arg(folder.path());
        let mut store = Process::spawn(&mut strace);
        let is_up = wait_for("the store to come up or to die", || {
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
fn nothing_is_acknowledged_before_it_is_on_disk_and_renewals_do_not_wait_for_it() {
    let test = "nothing_is_acknowledged_before_it_is_on_disk_and_renewals_do_not_wait_for_it";
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
        assert!(!granted.is_finished(), "granted before it was on disk");
        assert!(renewed_after < SLOW, "a renewal waited: {renewed_after:?}");
        // A read must not tell of it either.
        let seen = other.view("tests/lease-2").await.unwrap();
        assert!(
            begin.elapsed() >= SLOW,
            "seen before it was on disk: {seen:?}"
        );
        assert_eq!(granted.await.unwrap().unwrap().0, 200);
    });
}

#[test]
fn a_sync_that_fails_is_the_end_and_nothing_is_falsely_acknowledged() {
    let test = "a_sync_that_fails_is_the_end_and_nothing_is_falsely_acknowledged";
    if !has_strace(test) {
        return;
    }
    for n in 1..=3 {
        let mut bench = Bench::new();
        // This one fails and the next would succeed, as an operating system may do it.
        let _strace = bench.inject(SYNC, &format!("error=EIO:when={n}"));
        let acknowledged = work_until_it_dies(&bench);
        assert!(acknowledged.len() < n, "acknowledged without a sync");
        let ended = bench.store.process.wait();
        assert_eq!(ended.code(), Some(1), "{}", bench.store.process.stderr());
        bench.restart_and_check(&acknowledged);
    }
}

#[test]
fn a_full_disk_stops_changes_but_no_renewals_and_passes() {
    let test = "a_full_disk_stops_changes_but_no_renewals_and_passes";
    let Some(disk) = SmallDisk::mount(test, 1_024) else {
        return;
    };
    let folder = disk.path().join("store");
    let runtime = Runtime::new().unwrap();
    let mut store = StoreProcess::start(&folder);
    let client = Client::new(store.address());
    runtime.block_on(async {
        let (_, held) = client.acquire("tests/held", 1).await.unwrap();
        let ballast = disk.fill();
        let mut acknowledged = vec![("tests/held".to_owned(), held)];
        // What room the log has left is used up first.
        let mut refused = None;
        for number in 2..200 {
            let name = format!("tests/lease-{number}");
            match client.acquire(&name, number).await.unwrap() {
                (200, view) => acknowledged.push((name, view)),
                answer => {
                    refused = Some((name, answer));
                    break;
                }
            }
        }
        let (refused, (status, problem)) = refused.expect("a full disk");
        assert_eq!((status, &problem["code"]), (507, &"disk_full".into()));
        assert_eq!(client.renew("tests/held", 1).await.unwrap().0, 200);
        let (status, _) = client.view("tests/held").await.unwrap();
        assert_eq!(status, 200, "reads work");
        let (status, view) = client.view(&refused).await.unwrap();
        assert!(status == 404 || view["holder"].is_null(), "{view}");

        fs::remove_file(&ballast).unwrap();
        let late = wait_until("the store to work again", async || {
            let (status, view) = client.acquire("tests/late", 500).await?;
            (status == 200).then_some(view)
        });
        acknowledged.push(("tests/late".to_owned(), late.await));
        store.process.signal(nix::sys::signal::SIGKILL);
        store.process.wait();
        store = StoreProcess::start(&folder);
        let client = Client::new(store.address());
        for (name, said) in acknowledged {
            let (_, view) = client.view(&name).await.unwrap();
            assert_eq!(view["epoch"], said["epoch"], "{said} has become {view}");
            assert_eq!(view["holder"], said["holder"]);
        }
        let (status, view) = client.view(&refused).await.unwrap();
        assert!(status == 404 || view["holder"].is_null(), "{view}");
    });
    drop(store);
}
