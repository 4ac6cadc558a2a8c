//! Slow, failing and full disks, and a store that is killed while it writes.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::data_dir::newest;
use tenure_tests::process::{Process, StoreProcess, command};
use tenure_tests::strace::{SYNC, has_strace, inject};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use super::{Answer, Client};

/// The fault that kills the process.
const KILL: &str = "signal=KILL";

/// The call that writes a change before the sync.
const WRITE: &str = "pwrite64";

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

    /// From now on these calls of the store on its log, which gets the changes, have this fault.
    /// `how` has the syntax of `strace --inject`.
    fn inject(&self, calls: &str, how: &str) -> Process {
        let log = newest(self.folder.path(), "log");
        let log = ["-P", log.to_str().unwrap()];
        inject(self.store.process.pid(), &log, calls, how)
    }

    /// The same for all files.
    fn inject_anywhere(&self, calls: &str, how: &str) -> Process {
        inject(self.store.process.pid(), &[], calls, how)
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

/// At its end a store appends an entry to its log. Each sync has the fault, one after the other.
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
        assert!(hit >= 1, "{how} hit {hit} syncs");
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

/// The start after a kill begins the next file of the log, and cuts the one before. The test kills
/// the store at each sync of that start.
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
    for n in 1..=30 {
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
    panic!("the store never came up");
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

/// The names in the folder, if there is one.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> = entries
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[test]
fn a_restore_with_a_fault_at_any_step_leaves_nothing_that_passes_for_a_store() {
    let test = "a_restore_with_a_fault_at_any_step_leaves_nothing_that_passes_for_a_store";
    if !has_strace(test) {
        return;
    }
    let mut bench = Bench::new();
    bench.acquire(1).unwrap();
    bench.store.process.signal(nix::sys::signal::SIGTERM);
    bench.store.process.wait();
    // The store had access control, which the backup keeps.
    fs::write(bench.folder.path().join("GUARDED"), "").unwrap();
    let place = tempfile::tempdir().unwrap();
    let backup = place.path().join("backup");
    let folder = bench.folder.path().to_str().unwrap();
    let file = backup.to_str().unwrap();
    let backed_up = command(&["backup", "--data-dir", folder, file]).status();
    assert!(backed_up.unwrap().success());
    for calls in ["write", SYNC, "rename"] {
        for how in [KILL, "error=EIO"] {
            let mut has_ended_well = false;
            for n in 1..=60 {
                let folder = place.path().join("restored");
                let target = folder.to_str().unwrap();
                let restore = ["restore", file, "--data-dir", target];
                let mut strace = Command::new("strace");
                strace.args(["-f", "-qq", "-o", "/dev/null"]);
                strace.args(["-e", &format!("trace={calls}"), "-e"]);
                strace.arg(format!("inject={calls}:{how}:when={n}"));
                strace.arg(tenure_tests::process::tenure()).args(restore);
                let is_restored = strace.output().unwrap().status.success();
                let left = names(&folder);
                let is_store = left.iter().any(|name| name.starts_with("snapshot-"));
                let is_marked = left.contains(&"snapshot.restoring".to_owned());
                let is_empty = left.iter().all(|name| name == "lock");
                // A restore that fails removes its mark, and leaves at most that of access control.
                let is_safe = is_marked || is_empty || how != KILL && !starts(&folder);
                assert!(is_store || is_safe, "{calls} {n} {how}: {left:?}");
                if !is_store {
                    let again = command(&restore).output().unwrap();
                    let text = String::from_utf8_lossy(&again.stderr);
                    assert!(
                        again.status.success(),
                        "{calls} {n} {how}: {left:?}: {text}"
                    );
                }
                assert!(
                    folder.join("GUARDED").exists(),
                    "{calls} {n} {how}: {left:?}"
                );
                fs::remove_dir_all(&folder).unwrap();
                has_ended_well = is_restored;
                if is_restored {
                    break;
                }
            }
            assert!(
                has_ended_well,
                "{calls} {how}: the restore never ended well"
            );
        }
    }
}

/// Whether a store starts on this folder.
fn starts(folder: &Path) -> bool {
    let folder = folder.to_str().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0", "--data-dir", folder];
    let mut store = Process::spawn(&mut command(&serve));
    wait_for("the start or the end of the store", || {
        let is_up = !store.stdout().is_empty();
        (is_up || store.has_ended()).then_some(is_up)
    })
}
