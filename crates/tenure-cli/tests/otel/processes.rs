//! A store and a candidate that export their spans.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

/// The command, with spans exported to this collector.
pub(crate) fn tenure(collector: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        let is_own = ["TENURE_", "OTEL_", "TRACEPARENT"]
            .iter()
            .any(|own| name.starts_with(own));
        if is_own || name.to_lowercase().ends_with("_proxy") {
            command.env_remove(&*name);
        }
    }
    command
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", collector)
        .env("OTEL_BSP_SCHEDULE_DELAY", "100")
        .env("TENURE_LOG_FORMAT", "json")
        .env("XDG_CONFIG_HOME", "/nonexistent")
        .args(arguments)
        .stdin(Stdio::null());
    command
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command starts");
        Self {
            stdout: collect(child.stdout.take().expect("a pipe")),
            stderr: collect(child.stderr.take().expect("a pipe")),
            child,
        }
    }

    pub(crate) fn stdout(&self) -> String {
        self.stdout.lock().expect("text").clone()
    }

    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().expect("text").clone()
    }

    /// The log lines so far.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let text = self.stderr();
        let lines = text.lines();
        lines
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line:?}")))
            .collect()
    }

    /// Waits for a log line with this message.
    pub(crate) fn line(&self, message: &str) -> Value {
        wait_for(message, || {
            let mut lines = self.lines().into_iter();
            lines.find(|line| line["message"].as_str() == Some(message))
        })
    }

    /// Asks the process to stop, and waits for its end.
    pub(crate) fn stop(&mut self) -> ExitStatus {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        kill(pid, Signal::SIGTERM).expect("a process");
        self.wait()
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        let status = wait_for("the end of a process", || {
            self.child.try_wait().expect("a process")
        });
        // The threads that read the pipes have a handle each.
        let is_read = |text| Arc::strong_count(text) == 1;
        wait_for("the last lines", || {
            (is_read(&self.stdout) && is_read(&self.stderr)).then_some(())
        });
        status
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn collect(pipe: impl std::io::Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::<Mutex<String>>::default();
    let sink = Arc::clone(&text);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            *sink.lock().expect("text") += &(line + "\n");
        }
    });
    text
}

/// A store in memory.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) process: Process,
    address: String,
}

impl Store {
    pub(crate) fn start(collector: &str, environment: &[(&str, &str)]) -> Self {
        let serve = ["serve", "--listen", "127.0.0.1:0", "--home", "memory"];
        let mut serve = tenure(collector, &serve);
        let process = Process::start(serve.envs(environment.iter().copied()));
        let address = wait_for("the store", || {
            let line = process.stdout();
            let address = line.strip_prefix("listening on http://")?;
            Some(address.strip_suffix('\n')?.to_owned())
        });
        Self { process, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Sends a request, and returns the status of the answer.
    pub(crate) fn send(&self, method: &str, path: &str, headers: &[&str], body: &str) -> u16 {
        let headers: String = headers
            .iter()
            .map(|header| format!("{header}\r\n"))
            .collect();
        let mut stream = TcpStream::connect(&self.address).expect("a store");
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\nconnection: close\r\n{headers}\r\n{body}",
            self.address,
            body.len()
        );
        stream.write_all(request.as_bytes()).expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let status = answer.split(' ').nth(1).expect("a status");
        status.parse().expect("a status")
    }
}

/// `tenure run` as the candidate `worker-1` for `tests/job`; `arguments` end with the command.
pub(crate) fn candidate(collector: &str, store: &Store, arguments: &[&str]) -> Command {
    let url = store.url();
    let run = ["run", "--server", &url, "--election", "tests/job"];
    let mut run = tenure(collector, &run);
    run.args(["--candidate", "worker-1"]).args(arguments);
    run
}

/// Waits for the value of `found`.
pub(crate) fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = found() {
            return found;
        }
        assert!(Instant::now() < until, "waited too long for {what}");
        thread::sleep(Duration::from_millis(10));
    }
}
