//! Tests of access control with real processes: starts that a store refuses, the first minute,
//! tokens that are rotated and revoked during a term, files that change while the store runs,
//! secrets that must not appear, metrics, keys of peers, stores under a supervisor, and candidates
//! that the store never accepts.

mod certificates;
mod commands;
mod dashboard;
mod first_minute;
mod json_web_tokens;
mod metrics;
mod never_let_in;
mod other_owners;
mod peers;
mod reloads;
mod rotation;
mod secrets;
mod starts;
mod supervised;
mod tokens;
mod transport;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command, output};
use tenure_tests::{PATIENCE, wait_for};

/// A directory with the files of a store, and a home directory for its administrator.
struct Place {
    folder: TempDir,
    port: u16,
}

impl Place {
    fn new() -> Self {
        let port = free_address().port();
        let folder = tempfile::tempdir().expect("a folder");
        Self { folder, port }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        let path = self.path(name);
        path.to_str().expect("a path of text").to_owned()
    }

    /// Creates the command with this home directory.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command
            .env("XDG_CONFIG_HOME", self.path("home"))
            .current_dir(self.folder.path());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        output(&mut self.command(arguments))
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs a command that must fail with this code, and returns its error.
    #[track_caller]
    fn fail(&self, code: i32, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {stderr}");
        stderr
    }

    fn init(&self) -> String {
        let listen = format!("0.0.0.0:{}", self.port);
        let (dir, data) = (self.text("etc"), self.text("data"));
        self.succeed(&[
            "init",
            "--name",
            "localhost",
            "--admin",
            "ada",
            "--dir",
            &dir,
            "--data-dir",
            &data,
            "--listen",
            &listen,
        ])
    }

    fn serve(&self) -> Process {
        let config = self.text("etc/tenure.toml");
        started(&mut self.command(&["serve", "--config", &config]))
    }

    /// Creates a candidate with this name, and one file with all settings that it needs.
    fn create(&self, name: &str) -> String {
        let bundle = self.text(&format!("{name}.toml"));
        let (file, ca) = (self.text("etc/access.toml"), self.text("etc/tls/ca.pem"));
        let server = self.url();
        self.succeed(&[
            "token",
            "create",
            name,
            "--role",
            "candidate",
            "--namespace",
            "tests",
            "--bundle",
            &bundle,
            "--server",
            &server,
            "--ca-file",
            &ca,
            "--file",
            &file,
        ]);
        bundle
    }

    fn url(&self) -> String {
        format!("https://localhost:{}", self.port)
    }

    fn token_command(&self, arguments: &[&str]) -> String {
        let file = self.text("etc/access.toml");
        self.succeed(&[&["token"], arguments, &["--file", &file]].concat())
    }

    /// Waits until the store has read the access file with this token.
    fn wait_until_known(&self, token: &str) {
        let (url, ca) = (self.url(), self.text("etc/tls/ca.pem"));
        let list = [
            "list",
            "--namespace",
            "tests",
            "--server",
            &url,
            "--ca-file",
            &ca,
        ];
        let list = [&list[..], &["--token-file", token]].concat();
        wait_for("the token", || {
            self.run(&list).status.success().then_some(())
        });
    }

    /// Returns the number of terms of an election so far.
    fn terms(&self, election: &str) -> usize {
        let history = self.succeed(&["history", election, "--json"]);
        let history: serde_json::Value = serde_json::from_str(&history).expect("JSON");
        let terms = history["terms"].as_array().or_else(|| history.as_array());
        terms.expect("terms").len()
    }

    /// Returns the token of a principal that was created with a bundle, or the administrator's
    /// token.
    fn token_in(&self, file: &str) -> String {
        let text = read(&self.path(file));
        let mut lines = text.lines();
        let token = lines.find_map(|line| line.strip_prefix("token = \"")?.strip_suffix('"'));
        token.expect("a token").to_owned()
    }

    /// Returns the id of the only token of a principal.
    fn id_of(&self, name: &str) -> String {
        let list = self.token_command(&["list", "--json"]);
        let list: serde_json::Value = serde_json::from_str(&list).expect("JSON");
        let mut principals = list.as_array().expect("a list").iter();
        let principal = principals.find(|principal| principal["name"] == name);
        let id = principal.expect("the principal")["tokens"][0]["id"].as_str();
        id.expect("a token").to_owned()
    }
}

/// Starts a store, and waits until it serves. A connection of another test may have the port for a
/// moment.
fn started(serve: &mut Command) -> Process {
    let mut process = Process::spawn(serve);
    wait_for("the start of the store", || {
        if process.has_ended() {
            let stderr = process.stderr();
            assert!(stderr.contains("in use"), "the store ended: {stderr}");
            process = Process::spawn(serve);
        }
        process.stdout().contains("listening on ").then_some(())
    });
    process
}

/// Waits until a line of the log has all these words.
#[track_caller]
fn wait_for_log(process: &Process, words: &[&str]) {
    let start = Instant::now();
    let has_all = |line: &str| words.iter().all(|word| line.contains(word));
    while !process.stderr().lines().any(has_all) {
        let is_late = start.elapsed() > PATIENCE;
        assert!(!is_late, "no line has {words:?}: {}", process.stderr());
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until a line of the log has appeared this number of times.
#[track_caller]
fn wait_for_count(process: &Process, line: &str, count: usize) {
    wait_for(line, || {
        (process.stderr().matches(line).count() >= count).then_some(())
    });
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("a file")
}
