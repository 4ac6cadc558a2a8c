//! Tests of the audit log of a store process: its start and its end, a restore, a kill, a full
//! disk.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::needs::SmallDisk;
use tenure_tests::process::{Process, command, full_pipe, output, run, stdout};
use tenure_tests::wait_for;

use super::{address_of, ask, stderr};

/// A store with an audit log, and the directory of both.
struct Audited {
    folder: TempDir,
    log: PathBuf,
    process: Process,
    address: SocketAddr,
}

impl Audited {
    fn start(environment: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("audit.jsonl");
        Self::start_in(folder, log, environment)
    }

    fn start_in(folder: TempDir, log: PathBuf, environment: &[(&str, &str)]) -> Self {
        let data = folder.path().join("data");
        let mut process = serve(&data, &log, environment);
        let address = address_of(&mut process);
        Self {
            folder,
            log,
            process,
            address,
        }
    }

    /// Starts the store again after it was killed.
    fn restart(mut self, environment: &[(&str, &str)]) -> Self {
        self.process.wait();
        Self::start_in(self.folder, self.log, environment)
    }

    fn acquire(&self, lease: &str, number: u32) -> u16 {
        let body = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(number)});
        let path = format!("a/leases/{lease}/acquire");
        ask(self.address, "POST", &path, &body).0
    }

    fn release(&self, lease: &str, number: u32) -> u16 {
        let body = json!({"lease_id": id(number)});
        let path = format!("a/leases/{lease}/release");
        ask(self.address, "POST", &path, &body).0
    }

    fn verify(&self) -> Output {
        run(&["audit", "verify", "--json", path(&self.log)])
    }

    #[track_caller]
    fn verified(&self) -> Value {
        let output = self.verify();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        tenure_tests::process::json_of(&output)
    }
}

fn serve(data: &Path, log: &Path, environment: &[(&str, &str)]) -> Process {
    let mut command = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir", path(data)]);
    command.env("TENURE_AUDIT_FILE", log);
    command.envs(environment.iter().copied());
    Process::spawn(&mut command)
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn id(number: u32) -> String {
    format!("6f1c9a64-3a52-4c0e-9d43-{number:012}")
}

/// Returns the kinds of the lines, in their order.
fn kinds(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap();
    let kind = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["kind"].as_str().unwrap().to_owned()
    };
    text.lines().map(kind).collect()
}

#[test]
fn a_restore_is_in_the_audit_log_of_the_next_start_and_of_no_other() {
    let mut audited = Audited::start(&[]);
    assert_eq!(audited.acquire("job", 1), 200);
    let (backup, data) = (
        audited.folder.path().join("leases.backup"),
        audited.folder.path().join("data"),
    );
    let made = run(&["backup", path(&backup), "--data-dir", path(&data)]);
    assert!(made.status.success(), "{made:?}");
    audited.process.signal(Signal::SIGTERM);
    audited.process.wait();
    fs::remove_dir_all(&data).unwrap();
    let restored = run(&["restore", path(&backup), "--data-dir", path(&data)]);
    assert!(restored.status.success(), "{restored:?}");
    // A start without an audit log leaves the line to the next start.
    let mut without = Process::start(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data-dir",
        path(&data),
    ]);
    address_of(&mut without);
    without.signal(Signal::SIGTERM);
    without.wait();
    for _ in 0..2 {
        let mut store = serve(&data, &audited.log, &[]);
        address_of(&mut store);
        store.signal(Signal::SIGTERM);
        store.wait();
    }
    let expected = ["start", "stop", "restore", "start", "stop", "start", "stop"];
    assert_eq!(kinds(&audited.log), expected);
    let text = fs::read_to_string(&audited.log).unwrap();
    let restore: Value = serde_json::from_str(text.lines().nth(2).unwrap()).unwrap();
    let reason = restore["reason"].as_str().unwrap();
    assert!(reason.contains(path(&backup)), "{reason}");
    assert_eq!(audited.verified()["last"], 7);
}

#[test]
fn a_reload_of_the_access_file_is_in_the_audit_log_right_or_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let (access, log) = (
        folder.path().join("access.toml"),
        folder.path().join("audit.jsonl"),
    );
    let write = |text: &str| {
        let new = folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&new, &access).unwrap();
    };
    write("version = 1\n");
    let environment = [("TENURE_ACCESS_FILE", path(&access))];
    let _audited = Audited::start_in(tempfile::tempdir().unwrap(), log.clone(), &environment);
    let wait_for_lines = |count| {
        wait_for("a line", || (kinds(&log).len() >= count).then_some(()));
    };
    wait_for_lines(1);
    write("version = 1\nnonsense = 1\n");
    wait_for_lines(2);
    write("version = 1\n# right again\n");
    wait_for_lines(3);
    assert_eq!(kinds(&log), ["start", "reload", "reload"]);
    let text = fs::read_to_string(&log).unwrap();
    let outcome = |line: usize| {
        let line: Value = serde_json::from_str(text.lines().nth(line).unwrap()).unwrap();
        line["outcome"].as_str().unwrap().to_owned()
    };
    assert!(outcome(1).contains("nonsense"), "{}", outcome(1));
    assert_eq!(outcome(2), "done");
}

#[test]
fn a_kill_at_any_moment_leaves_a_chain_that_goes_on() {
    let environment = [("TENURE_AUDIT_LEVEL", "changes")];
    let mut audited = Audited::start(&environment);
    for round in 0..5 {
        let (stop, done) = (AtomicBool::new(false), AtomicU32::new(0));
        thread::scope(|scope| {
            for client in 0..3 {
                let (audited, stop, done) = (&audited, &stop, &done);
                scope.spawn(move || {
                    let lease = format!("job-{client}");
                    for number in 1.. {
                        let number = round * 1_000_000 + number;
                        let asked = std::panic::catch_unwind(|| {
                            audited.acquire(&lease, number);
                            audited.release(&lease, number);
                        });
                        if asked.is_err() || stop.load(Ordering::Relaxed) {
                            return;
                        }
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            wait_for("some terms", || {
                (done.load(Ordering::Relaxed) > 30 + round * 7).then_some(())
            });
            audited.process.signal(Signal::SIGKILL);
            stop.store(true, Ordering::Relaxed);
        });
        let last = audited.verified()["last"].as_u64().unwrap();
        audited = audited.restart(&environment);
        wait_for("the line of the start", || {
            (audited.verified()["last"].as_u64().unwrap() > last).then_some(())
        });
    }
    // The file ends with a part of a line, as after a power failure.
    audited.process.signal(Signal::SIGKILL);
    audited.process.wait();
    let whole = fs::read_to_string(&audited.log).unwrap();
    let count = whole.lines().count();
    fs::write(
        &audited.log,
        format!("{whole}{{\"seq\":{},\"at\":\"20", count + 1),
    )
    .unwrap();
    let wrong = audited.verify();
    assert_eq!(wrong.status.code(), Some(65));
    let named = format!("audit.jsonl:{}: this is not an audit line", count + 1);
    assert!(stderr(&wrong).contains(&named), "{}", stderr(&wrong));
    let audited = audited.restart(&environment);
    wait_for("the line of the start", || {
        (audited.verify().status.code() == Some(0)).then_some(())
    });
    let verified = audited.verified();
    assert_eq!(verified["last"], count + 1);
    assert_eq!(verified["cut"][0]["line"], count + 1);
    let text = stdout(&run(&["audit", "verify", path(&audited.log)]));
    assert!(text.contains("this line was cut short"), "{text}");
}

#[test]
fn a_wrong_setting_is_refused_with_its_name_and_a_right_value() {
    for (name, value, right) in [
        ("TENURE_AUDIT_LEVEL", "everything", "\"changes\""),
        ("TENURE_AUDIT_FILE", "/dev/null", "\"stderr\""),
        ("TENURE_AUDIT_REQUIRED", "true", "audit.file"),
        (
            "TENURE_ACCESS_TRUSTED_PROXIES",
            "10.0.0.1, proxy.lan",
            "10.0.0.0/8",
        ),
    ] {
        let listen = ["serve", "--listen", "127.0.0.1:0", "--home", "memory"];
        let refused = output(command(&listen).env(name, value));
        assert_eq!(refused.status.code(), Some(2), "{refused:?}");
        let text = stderr(&refused);
        let last = value.rsplit(' ').next().unwrap();
        for part in [name, last, right] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn elections_go_on_while_a_write_to_the_audit_log_hangs() {
    let (_reader, writer) = full_pipe();
    let listen = ["--listen", "127.0.0.1:0", "--home", "memory"];
    let mut command = command(&[&["serve"], &listen[..]].concat());
    command.env("TENURE_AUDIT_FILE", "stderr");
    command.env("TENURE_AUDIT_LEVEL", "changes");
    command.env("TENURE_AUDIT_REQUIRED", "true");
    let mut store = Process::spawn_unread(&mut command, writer);
    let address = address_of(&mut store);
    let url = format!("http://{address}");
    let break_lease = || run(&["break", "a/job", "--server", &url]).status.code();
    let acquire = |number| {
        let body = json!({"holder": "c1", "duration_ms": 60_000, "lease_id": id(number)});
        ask(address, "POST", "a/leases/job/acquire", &body).0
    };
    let release = |number| {
        let body = json!({"lease_id": id(number)});
        ask(address, "POST", "a/leases/job/release", &body).0
    };
    for number in 1..20 {
        assert_eq!((acquire(number), release(number)), (200, 200));
    }
    // The first change waits for its line for a limited time, and the later changes are refused.
    assert_eq!(acquire(20), 200);
    assert_eq!(break_lease(), Some(0));
    assert_eq!(break_lease(), Some(69));
    assert_eq!(release(20), 200);
    for number in 21..40 {
        assert_eq!((acquire(number), release(number)), (200, 200));
    }
    store.signal(Signal::SIGTERM);
    store.wait();
}

#[test]
fn elections_go_on_while_the_disk_of_the_audit_log_is_full() {
    let test = "elections_go_on_while_the_disk_of_the_audit_log_is_full";
    let Some(disk) = SmallDisk::mount(test, 64) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let environment = [
        ("TENURE_AUDIT_LEVEL", "changes"),
        ("TENURE_AUDIT_REQUIRED", "true"),
    ];
    let audited = Audited::start_in(folder, disk.path().join("audit.jsonl"), &environment);
    let break_lease = |lease: &str| {
        let url = format!("http://{}", audited.address);
        run(&["break", lease, "--server", &url, "--reason", "a test"])
    };
    assert_eq!(audited.acquire("held", 1), 200);
    assert!(break_lease("a/held").status.success());
    assert_eq!(audited.acquire("other", 2), 200);
    let ballast = disk.fill();
    // The rest of the last page has room for some more lines, and then for a part of a line.
    let mut number = 3;
    wait_for("an error", || {
        assert_eq!(audited.acquire("job", number), 200);
        assert_eq!(audited.release("job", number), 200);
        number += 1;
        let stderr = audited.process.stderr();
        stderr.contains("can't write the audit log").then_some(())
    });
    let renew = json!({"lease_id": id(2)});
    let renewed = ask(audited.address, "POST", "a/leases/other/renew", &renew);
    assert_eq!(renewed.0, 200, "{renewed:?}");
    let refused = break_lease("a/other");
    assert_eq!(refused.status.code(), Some(69), "{refused:?}");
    assert!(
        stderr(&refused).contains("audit log"),
        "{}",
        stderr(&refused)
    );
    let view = ask(audited.address, "GET", "a/leases/other", &Value::Null).1;
    assert_eq!(view["state"], "leased", "{view}");

    fs::remove_file(ballast).unwrap();
    wait_for("an operator's change", || {
        break_lease("a/other").status.success().then_some(())
    });
    let stderr = audited.process.stderr();
    assert!(stderr.contains("lines were lost"), "{stderr}");
    let verified = audited.verified();
    assert!(verified["lost"].as_u64() > Some(0), "{verified}");
    assert_eq!(verified["cut"], json!([]), "{verified}");
}
