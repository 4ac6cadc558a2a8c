//! `tenure serve`: start and stop.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::needs::{can_run, has_program};
use tenure_tests::process::{Process, StoreProcess, command, full_pipe, run, tenure};
use tenure_tests::wait_for;

use super::{acquire, address_of, ask, memory_store, stderr};

#[test]
fn a_store_prints_one_line_when_it_is_ready() {
    let folder = tempfile::tempdir().unwrap();
    let store = StoreProcess::start(&folder.path().join("data"));
    acquire(store.address(), "tests/job", "first");
    let line = format!("listening on http://{}\n", store.address());
    assert_eq!(store.process.stdout(), line);
    assert_ne!(store.address().port(), 0);
}

#[test]
fn signals_end_a_store_cleanly_while_clients_wait() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let folder = tempfile::tempdir().unwrap();
        let mut store = StoreProcess::start(folder.path());
        let address = store.address();
        acquire(address, "tests/job", "first");
        let waiting = thread::spawn(move || {
            let body = json!({"holder": "second", "duration_ms": 60_000, "wait_ms": 60_000});
            ask(address, "POST", "tests/leases/job/acquire", &body)
        });
        wait_for("a waiter", || {
            let (_, view) = ask(address, "GET", "tests/leases/job", &Value::Null);
            (view["waiters"] == 1).then_some(())
        });
        let mut idle = TcpStream::connect(address).unwrap();
        idle.write_all(b"GET / HTTP/1.1\r\n").unwrap();

        let begin = Instant::now();
        store.process.signal(signal);
        let (status, _) = waiting.join().unwrap();
        assert_eq!(status, 503, "a waiter gets a response");
        let told = begin.elapsed();
        assert!(told < Duration::from_secs(1), "{signal}: {told:?}");
        assert_eq!(store.process.wait().code(), Some(0), "{signal}");
        // A connection in the middle of a request gets some seconds.
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(8), "{signal}: {took:?}");
    }
}

#[test]
fn no_signal_of_reloads_and_log_rotation_ends_a_store_without_files_to_reload() {
    let (mut store, address) = memory_store();
    let hangups = [Signal::SIGHUP, Signal::SIGHUP];
    let others = [Signal::SIGUSR1, Signal::SIGUSR2, Signal::SIGALRM];
    let signals = [&hangups[..], &others].concat();
    for (number, signal) in signals.into_iter().enumerate() {
        store.signal(signal);
        thread::sleep(Duration::from_millis(50));
        acquire(address, &format!("tests/lease-{number}"), "one");
    }
    assert!(!store.has_ended(), "{}", store.stderr());
    store.signal(Signal::SIGTERM);
    assert_eq!(store.wait().code(), Some(0));
}

#[test]
fn a_store_ends_in_order_when_its_terminal_closes_and_not_under_nohup() {
    let test = "a_store_ends_in_order_when_its_terminal_closes_and_not_under_nohup";
    if !can_run(test, "setsid", has_program("setsid")) {
        return;
    }
    for (before, ends) in [("", true), ("trap '' HUP;", false)] {
        let terminal = nix::pty::openpty(None, None).unwrap();
        // The store must not keep its own terminal open.
        fcntl(&terminal.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
        let serve = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
        let mut on_terminal = Command::new("setsid");
        // The tests may run under nohup themselves.
        on_terminal.args(["--ctty", "env", "--default-signal=HUP", "sh", "-c"]);
        on_terminal.arg(format!("{before} exec \"$0\" \"$@\""));
        on_terminal.arg(serve.get_program()).args(serve.get_args());
        on_terminal.stdin(terminal.slave);
        let mut store = Process::spawn(&mut on_terminal);
        drop(on_terminal);
        let address = address_of(&mut store);
        acquire(address, "tests/before", "one");
        drop(terminal.master);
        if ends {
            assert_eq!(store.wait().code(), Some(0), "{}", store.stderr());
            assert!(store.stderr().contains("stopped"), "{}", store.stderr());
        } else {
            thread::sleep(Duration::from_millis(500));
            acquire(address, "tests/after", "one");
        }
    }
}

#[test]
fn an_idle_store_ends_at_once() {
    let (mut store, address) = memory_store();
    acquire(address, "tests/job", "first");
    let begin = Instant::now();
    store.signal(Signal::SIGTERM);
    assert_eq!(store.wait().code(), Some(0));
    let took = begin.elapsed();
    assert!(took < Duration::from_secs(1), "{took:?}");
}

#[test]
fn a_store_whose_log_is_not_read_continues_and_reports_dropped_lines() {
    let (reader, writer) = full_pipe();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--home", "memory"]);
    let mut store = Process::spawn_unread(&mut serve, writer);
    let address = address_of(&mut store);
    // Two lines for each term; the queue has some 4,000.
    const TERMS: usize = 2_400;
    for _ in 0..TERMS {
        let lease_id = acquire(address, "tests/job", "first")["lease_id"].clone();
        let body = json!({"lease_id": lease_id});
        let (status, view) = ask(address, "POST", "tests/leases/job/release", &body);
        assert_eq!(status, 200, "{view}");
    }
    store.read_stderr(reader);
    let dropped_line = wait_for("the number of dropped lines", || {
        let said = store.stderr();
        let line = said.lines().find(|line| line.contains("were dropped"))?;
        Some(line.to_owned())
    });
    let (_, dropped) = dropped_line.split_once("dropped=").unwrap();
    let dropped: usize = dropped.parse().unwrap();
    let said = store.stderr();
    let of_terms = said
        .lines()
        .filter(|line| line.contains("election=tests/job"));
    assert_eq!(of_terms.count() + dropped, 2 * TERMS, "{dropped_line}");

    acquire(address, "tests/later", "first");
    wait_for("the next line", || {
        store
            .stderr()
            .contains("election=tests/later")
            .then_some(())
    });
}

#[test]
fn a_command_ends_although_its_last_lines_are_not_read() {
    let (_reader, writer) = full_pipe();
    let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--home", "memory"]);
    let mut store = Process::spawn_unread(&mut serve, writer);
    acquire(address_of(&mut store), "tests/job", "first");
    store.signal(Signal::SIGTERM);
    assert_eq!(store.wait().code(), Some(0));

    let (_reader, writer) = full_pipe();
    let mut fails =
        Process::spawn_unread(&mut command(&["status", "a/b", "--server", "x"]), writer);
    assert_eq!(fails.wait().code(), Some(2));
}

#[test]
fn a_store_raises_the_limit_of_open_files_as_far_as_it_can() {
    let serve = |limits: &str| {
        let line = format!(
            "{limits}; export TENURE_MAX_WAITING=100 TENURE_MAX_CONNECTIONS=400; \
             exec {} serve --home memory --listen 127.0.0.1:0",
            tenure().display()
        );
        let mut shell = Command::new("sh");
        let mut store = Process::spawn(shell.args(["-c", &line]));
        address_of(&mut store);
        let path = format!("/proc/{}/limits", store.pid());
        let limits = fs::read_to_string(path).unwrap();
        let files = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let soft = files.unwrap().split_whitespace().next().unwrap();
        (soft.parse::<u64>().unwrap(), store)
    };
    // A tenth for connections over the limit, and 64 other files.
    let (files, mut store) = serve("ulimit -Sn 100");
    assert_eq!(files, 400 + 40 + 64, "{}", store.stderr());
    // All log lines are written when it has ended.
    store.signal(Signal::SIGTERM);
    store.wait();
    let said = store.stderr();
    assert!(!said.contains("max_connections is lowered"), "{said}");
    let (files, store) = serve("ulimit -Sn 100; ulimit -Hn 300");
    assert_eq!(files, 300);
    wait_for("the warning", || {
        let said = store.stderr();
        let told = "max_connections is lowered from 400 to 215";
        (said.contains(told) && said.contains("504")).then_some(())
    });
}

#[test]
fn a_store_answers_requests_on_as_many_threads_as_its_key_says() {
    let workers = |threads: &str| {
        let mut serve = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
        let mut store = Process::spawn(serve.env("TENURE_WORKER_THREADS", threads));
        address_of(&mut store);
        let tasks = fs::read_dir(format!("/proc/{}/task", store.pid())).unwrap();
        let names = tasks.flatten().map(|task| task.path().join("comm"));
        let names = names.flat_map(fs::read_to_string);
        names.filter(|name| name.starts_with("tokio-rt")).count()
    };
    // A few others of these threads run what blocks.
    assert!(workers("1") < 20);
    assert!(workers("20") >= 20);
}

#[test]
fn a_second_store_on_the_same_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("the-data");
    let store = StoreProcess::start(&data);
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--data-dir"];
    let second = run(&[&arguments[..], &[data.to_str().unwrap()]].concat());
    assert_eq!(second.status.code(), Some(1));
    assert!(second.stdout.is_empty());
    assert!(stderr(&second).contains("the-data"), "{}", stderr(&second));
    acquire(store.address(), "tests/job", "still-served");
}

#[test]
fn a_folder_is_free_again_when_its_store_was_killed() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..3 {
        let mut store = StoreProcess::start(folder.path());
        store.process.signal(Signal::SIGKILL);
        store.process.wait();
    }
}

#[test]
fn an_address_in_use_is_named() {
    let (_store, address) = memory_store();
    let address = address.to_string();
    let second = run(&["serve", "--home", "memory", "--listen", &address]);
    let said = stderr(&second);
    assert_eq!(second.status.code(), Some(1), "{said}");
    assert!(second.stdout.is_empty());
    assert!(said.contains(&address) && said.contains("in use"), "{said}");
}

#[test]
fn the_memory_engine_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut command = command(&["serve", "--home", "memory", "--listen", "127.0.0.1:0"]);
        let mut store = Process::spawn(command.current_dir(&folder));
        let address = address_of(&mut store);
        (store, address)
    };
    let (store, address) = start();
    acquire(address, "tests/job", "first");
    drop(store);
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
    let (_store, address) = start();
    let (status, _) = ask(address, "GET", "tests/leases/job", &Value::Null);
    assert_eq!(status, 404);
}

#[test]
fn a_warning_is_logged_for_an_address_that_is_not_loopback() {
    let arguments = ["serve", "--home", "memory", "--listen", "0.0.0.0:0"];
    let store = Process::start(&[&arguments[..], &["--allow-anonymous"]].concat());
    wait_for("a warning", || {
        store.stderr().contains("--allow-anonymous").then_some(())
    });
}
