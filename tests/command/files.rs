//! A store that may open few files, or no more files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_tests::data_dir::incompressible;
use tenure_tests::needs::{can_run, has_program};
use tenure_tests::process::{Process, StoreProcess, tenure};
use tenure_tests::wait_for;

use super::{acquire, address_of, ask};

/// A connection that stays open.
struct Kept(TcpStream);

impl Kept {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        let patience = Some(Duration::from_secs(10));
        stream.set_read_timeout(patience).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let length = body.len();
        let request = format!(
            "{method} /v1/namespaces/tests/leases/{path} HTTP/1.1\r\nhost: localhost\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.0.read_exact(&mut byte).unwrap();
            head.extend(byte);
        }
        let head = String::from_utf8(head).unwrap().to_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut body = vec![0; length.unwrap().parse().unwrap()];
        self.0.read_exact(&mut body).unwrap();
        (status, serde_json::from_slice(&body).unwrap_or_default())
    }

    /// Acquires and releases once: two commits.
    fn change(&mut self) {
        let body = json!({"holder": "first", "duration_ms": 60_000,
            "metadata": {"text": incompressible(1, 4_000)}});
        let (status, view) = self.ask("POST", "changing/acquire", &body);
        assert_eq!(status, 200, "{view}");
        let body = json!({"lease_id": view["lease_id"]});
        let (status, view) = self.ask("POST", "changing/release", &body);
        assert_eq!(status, 200, "{view}");
    }
}

#[test]
fn a_store_with_few_files_renews_over_new_connections_among_silent_ones() {
    let folder = tempfile::tempdir().unwrap();
    let line = format!(
        "ulimit -n 200; exec {} serve --listen 127.0.0.1:0 --data-dir {}",
        tenure().display(),
        folder.path().join("data").display()
    );
    let mut store = Process::spawn(Command::new("sh").args(["-c", &line]));
    let address = address_of(&mut store);
    wait_for("a warning with both numbers", || {
        let said = store.stderr();
        said.contains("max_connections is lowered from 60000 to 120")
            .then_some(())
    });
    let lease_id = acquire(address, "tests/job", "first")["lease_id"].clone();
    let mut kept = Kept::connect(address);
    assert_eq!(kept.ask("GET", "job", &Value::Null).0, 200);
    // More than connections and files are available.
    let silent: Vec<_> = (0..400)
        .map_while(|_| TcpStream::connect_timeout(&address, Duration::from_secs(3)).ok())
        .collect();
    let began = Instant::now();
    for _ in 0..20 {
        let body = json!({"lease_id": lease_id});
        let began = Instant::now();
        let (status, view) = ask(address, "POST", "tests/leases/job/renew", &body);
        assert_eq!(status, 200, "{view}");
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    eprintln!(
        "20 renewals among {} silent: {:?}",
        silent.len(),
        began.elapsed()
    );
    let (status, history) = kept.ask("GET", "job/history", &Value::Null);
    assert_eq!(status, 200, "{history}\n{}", store.stderr());
    kept.change();
}

/// The numbers of the files that a process has open.
fn open_files(store: &Process) -> BTreeSet<u64> {
    let files = fs::read_dir(format!("/proc/{}/fd", store.pid())).unwrap();
    files
        .map(|file| file.unwrap().file_name().to_string_lossy().parse().unwrap())
        .collect()
}

fn allow_files(store: &Process, files: &str) {
    let limited = Command::new("prlimit")
        .args(["--pid", &store.pid().to_string()])
        .arg(format!("--nofile={files}:"))
        .status();
    assert!(limited.unwrap().success());
}

/// Its processor time, in ticks of 10 ms.
fn ticks(store: &Process) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", store.pid())).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next().unwrap().parse::<u64>().unwrap();
    next() + next()
}

#[test]
fn a_store_that_runs_out_of_files_continues_and_recovers() {
    let test = "a_store_that_runs_out_of_files_continues_and_recovers";
    if !can_run(test, "prlimit, on Linux", has_program("prlimit")) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = StoreProcess::start(folder.path());
    let (address, store) = (store.address(), &store.process);
    let lease_id = acquire(address, "tests/job", "first")["lease_id"].clone();
    let mut kept = Kept::connect(address);
    // Nearly half of a file of the log. Then the store opens the next one.
    for _ in 0..800 {
        kept.change();
    }
    let next = folder.path().join("log.new");
    assert!(!next.exists());
    // All numbers up to the greatest one are in use.
    let mut silent = Vec::new();
    let most = wait_for("files without a gap", || {
        silent.push(TcpStream::connect(address).unwrap());
        thread::sleep(Duration::from_millis(20));
        let files = open_files(store);
        let most = files.last().unwrap() + 1;
        (files.len() as u64 == most).then_some(most)
    });
    allow_files(store, &most.to_string());

    let (status, history) = kept.ask("GET", "job/history", &Value::Null);
    assert_eq!(status, 200, "{history}");
    // Changes go on in the current file of the log. That no further file can be opened is logged
    // once, and tried again.
    let is_told = || store.stderr().matches("the next file of the log").count();
    while is_told() == 0 {
        kept.change();
    }
    for _ in 0..20 {
        kept.change();
    }
    assert_eq!(is_told(), 1);
    assert!(!next.exists());

    // The store has closed the silent connections, or will soon close them. Other connections then
    // use their file descriptors.
    let others = silent.len();
    silent.extend((0..others).map(|_| TcpStream::connect(address).unwrap()));

    // After a failed accept the store waits before it accepts again.
    let body = json!({"lease_id": lease_id});
    let renewing = thread::spawn(move || {
        let answer = ask(address, "POST", "tests/leases/job/renew", &body);
        (answer, Instant::now())
    });
    let before = ticks(store);
    thread::sleep(Duration::from_secs(2));
    let busy = ticks(store) - before;
    assert!(busy < 20, "{busy} ticks in 2 s");
    assert!(!renewing.is_finished());
    // Enough for the connections that came before the renewal.
    allow_files(store, &(most + others as u64 + 100).to_string());
    let raised = Instant::now();
    let ((status, view), at) = renewing.join().unwrap();
    assert_eq!(status, 200, "{view}");
    assert!(at - raised < Duration::from_secs(1), "{:?}", at - raised);
    kept.change();
    wait_for("the next file of the log", || next.exists().then_some(()));
}
