//! The commands of operators, as processes.

mod addresses;
mod bucket;
mod cluster;
mod configuration;
mod doctor;
mod health;
mod leases;
mod pages;
mod watch;
mod wrong_settings;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use serde_json::json;
use tenure_tests::process::{Process, StoreProcess, command, json_of, run, stderr, stdout};
use tenure_tests::wait_for;

const ELECTION: &str = "tests/job";

fn code(output: &Output) -> i32 {
    output.status.code().expect("an exit code")
}

/// A store, and a temporary directory.
struct Bench {
    folder: tempfile::TempDir,
    store: StoreProcess,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreProcess::start(&folder.path().join("store"));
        Self { folder, store }
    }

    /// Runs the command with these arguments on this store.
    fn run(&self, arguments: &[&str]) -> Output {
        run(&[arguments, &["--server", &self.store.url()]].concat())
    }

    /// Starts a candidate that does nothing while it leads.
    fn candidate(&self, id: &str, flags: &[&str]) -> Process {
        Process::spawn(&mut self.leading(id, flags, &["sleep", "600"]))
    }

    fn leading(&self, id: &str, flags: &[&str], program: &[&str]) -> Command {
        let mut command = command(&["run", "--election", ELECTION, "--candidate", id]);
        command.args(["--server", &self.store.url(), "--lease-duration", "3s"]);
        command.args(flags).arg("--").args(program);
        command
    }

    fn wait_for_leader(&self, id: &str) {
        wait_for("a leader", || {
            let output = self.run(&["status", ELECTION, "--json"]);
            (code(&output) == 0 && json_of(&output)["holder"] == id).then_some(())
        });
    }
}

/// A server that answers every request with the result of this function, after a delay.
fn fake(delay: Duration, answer: impl Fn(&str) -> (u16, String) + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut request = [0; 4096];
            let length = stream.read(&mut request).unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..length]).into_owned();
            thread::sleep(delay);
            let (status, body) = answer(request.split(' ').nth(1).unwrap_or_default());
            let _ = write!(
                stream,
                "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    address
}

fn problem(code: &str) -> String {
    let problem = json!({
        "type": format!("urn:tenure:problem:{code}"), "title": "no", "status": 404,
        "detail": "no", "code": code,
    });
    problem.to_string()
}
