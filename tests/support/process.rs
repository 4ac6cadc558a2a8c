//! The `tenure` command as processes.

use std::fs;
use std::io::{BufRead, BufReader, PipeReader, PipeWriter, Read, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::ports::free_address;
use crate::{PATIENCE, wait_for};

/// The command that belongs to the running tests, or the one that `TENURE_TEST_BINARY` names: the
/// checks of a release run the tests with the file that users get.
///
/// # Panics
///
/// If it was not built: `cargo test --workspace` builds it.
#[must_use]
pub fn tenure() -> PathBuf {
    if let Some(path) = std::env::var_os("TENURE_TEST_BINARY") {
        return path.into();
    }
    built("tenure")
}

/// A program of the build that the running tests belong to, such as `examples/cron`.
///
/// # Panics
///
/// If it was not built: `cargo test --workspace` builds it.
#[must_use]
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let mut folder = test.parent().expect("a test is in a folder");
    // Tests are in target/PROFILE/deps, binaries in target/PROFILE.
    if folder.ends_with("deps") {
        folder = folder.parent().expect("deps is in a folder");
    }
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing: run the tests with --workspace",
        path.display()
    );
    path
}

/// The text on stdout, which is plain because it is not a terminal.
#[must_use]
pub fn stdout(output: &Output) -> String {
    plain(&output.stdout)
}

/// The text on stderr, which is plain because it is not a terminal.
#[must_use]
pub fn stderr(output: &Output) -> String {
    plain(&output.stderr)
}

fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8(bytes.to_vec()).expect("text");
    assert!(!text.contains('\u{1b}'), "plain when piped: {text}");
    text
}

/// The JSON document on stdout.
#[must_use]
pub fn json_of(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// Runs the command until it ends.
///
/// # Panics
///
/// If it does not start or does not end.
#[must_use]
pub fn run(arguments: &[&str]) -> Output {
    output(&mut command(arguments))
}

/// Runs this command until it ends.
///
/// # Panics
///
/// If it does not start or does not end.
pub fn output(command: &mut Command) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = KillOnDrop(child.spawn().expect("the command starts"));
    let read = |mut pipe: Box<dyn Read + Send>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        })
    };
    let stdout = read(Box::new(child.0.stdout.take().expect("a pipe")));
    let stderr = read(Box::new(child.0.stderr.take().expect("a pipe")));
    let status = wait_for(&format!("the end of {command:?}"), || {
        child.0.try_wait().expect("a process to wait for")
    });
    let bytes = |thread: thread::JoinHandle<std::io::Result<Vec<u8>>>| {
        let read = thread.join().expect("a thread that reads");
        read.expect("a pipe that can be read")
    };
    Output {
        status,
        stdout: bytes(stdout),
        stderr: bytes(stderr),
    }
}

/// Runs `tenure-lab` with these arguments until it ends.
///
/// # Panics
///
/// If it does not start or does not end.
#[must_use]
pub fn run_lab(arguments: &[&str]) -> Output {
    output(&mut lab(arguments))
}

/// `tenure-lab` with these arguments.
#[must_use]
pub fn lab(arguments: &[&str]) -> Command {
    command_of(&built("tenure-lab"), arguments)
}

/// A process that is killed when this is dropped.
#[derive(Debug)]
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command with these arguments, without the environment variables for it that the tests have.
#[must_use]
pub fn command(arguments: &[&str]) -> Command {
    command_of(&tenure(), arguments)
}

/// The same with another program, for example with `tenure` of another version.
#[must_use]
pub fn command_of(program: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    // The commands must not use the contexts of the person who runs the tests.
    command.env("XDG_CONFIG_HOME", "/nonexistent");
    command.args(arguments).stdin(Stdio::null());
    command
}

/// A process that is killed when this is dropped. Its output is kept.
#[derive(Debug)]
pub struct Process {
    child: KillOnDrop,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
}

impl Process {
    /// Starts the command with these arguments.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(arguments: &[&str]) -> Self {
        Self::spawn(&mut command(arguments))
    }

    /// Starts this command.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn spawn(command: &mut Command) -> Self {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        let mut process = Self::spawn_unread(command, writer);
        // The command holds the writing end, so the pipe would not end with the process.
        command.stderr(Stdio::null());
        process.read_stderr(reader);
        process
    }

    /// Starts this command with this pipe as its stderr. Nothing reads from it before
    /// [`Process::read_stderr`].
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn spawn_unread(command: &mut Command, stderr: PipeWriter) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the command starts");
        Self {
            stdout: collect(child.stdout.take().expect("a pipe")),
            stderr: Arc::default(),
            child: KillOnDrop(child),
        }
    }

    /// Starts reading the stderr of the process from this end of the pipe.
    pub fn read_stderr(&mut self, reader: PipeReader) {
        self.stderr = collect(reader);
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.0.id().cast_signed())
    }

    /// Sends a signal to this process only.
    ///
    /// # Panics
    ///
    /// If the process has ended and was waited for.
    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("a process to signal");
    }

    /// The stdout of the process so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The stderr of the process so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits for the end of the process and of its output.
    ///
    /// # Panics
    ///
    /// The process does not end.
    pub fn wait(&mut self) -> ExitStatus {
        let start = Instant::now();
        let status = loop {
            let ended = self.child.0.try_wait().expect("a process to wait for");
            if let Some(status) = ended {
                break status;
            }
            let is_over = start.elapsed() > PATIENCE;
            assert!(!is_over, "the process goes on:\n{}", self.stderr());
            thread::sleep(Duration::from_millis(5));
        };
        // The last lines may still be in the pipes. Another process that inherited a pipe may keep
        // it open, so the wait is short.
        let until = Instant::now() + Duration::from_secs(2);
        // Each thread that reads a pipe has a handle to its text.
        let is_read = |text| Arc::strong_count(text) == 1;
        while !(is_read(&self.stdout) && is_read(&self.stderr)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(2));
        }
        status
    }

    /// Sends a second stop signal to `tenure run` whose command ignores the first one. Checks that it
    /// ends with all its processes before its stop grace is over, by the exit code of that signal.
    ///
    /// # Panics
    ///
    /// If it ends in another way.
    pub fn end_by_second(&mut self, signal: Signal) {
        let all = descendants(self.pid());
        let begin = Instant::now();
        self.signal(signal);
        let code = self.wait().code();
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(8), "{took:?}");
        assert_eq!(code, Some(128 + signal as i32), "{}", self.stderr());
        wait_for("the end of all processes of the command", || {
            all.iter().all(|one| !is_alive(one.as_raw())).then_some(())
        });
    }

    /// Sends a stop signal to `tenure run`, and waits until it has asked its command to stop and a
    /// further signal counts as a second one.
    pub fn begin_to_stop(&self, signal: Signal) {
        // A command of an earlier term may have been stopped before.
        let stops = || self.stderr().matches("stopping the command").count();
        let before = stops();
        self.signal(signal);
        wait_for("the request to stop", || (stops() > before).then_some(()));
        // Signals of the first 100 ms are one request.
        thread::sleep(Duration::from_millis(150));
    }

    /// Whether the process has ended.
    ///
    /// # Panics
    ///
    /// If the system call fails.
    pub fn has_ended(&mut self) -> bool {
        self.child
            .0
            .try_wait()
            .expect("a process to wait for")
            .is_some()
    }
}

/// A full pipe: writing to it blocks until something reads from it.
///
/// # Panics
///
/// If the system has no pipe left.
#[must_use]
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    fill(&mut writer);
    (reader, writer)
}

/// Fills a pipe that nothing reads.
///
/// # Panics
///
/// If its flags can't be set.
pub fn fill(writer: &mut PipeWriter) {
    fcntl(&*writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).expect("a pipe that may be full");
    for chunk in [4096, 1] {
        while writer.write(&[b'\n'; 4096][..chunk]).is_ok() {}
    }
    fcntl(&*writer, FcntlArg::F_SETFL(OFlag::empty())).expect("a pipe that blocks");
}

fn collect(pipe: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let text = Arc::new(Mutex::new(String::new()));
    let sink = text.clone();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
            sink.push_str(&line);
            sink.push('\n');
        }
    });
    text
}

/// A store process with the embedded engine.
#[derive(Debug)]
pub struct StoreProcess {
    /// The process.
    pub process: Process,
    address: SocketAddr,
}

impl StoreProcess {
    /// Starts a store on a free port, with its data in this folder. No other process takes the port
    /// while the store is restarted.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start(data_dir: &Path) -> Self {
        Self::start_at(data_dir, &free_address().to_string())
    }

    /// Starts a store at this address, with its data in this folder.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_at(data_dir: &Path, listen: &str) -> Self {
        let folder = data_dir.to_str().expect("a folder in UTF-8");
        let mut process = Process::start(&["serve", "--listen", listen, "--data-dir", folder]);
        let address = wait_for("the start of the store", || {
            assert!(
                !process.has_ended(),
                "the store has ended: {}",
                process.stderr()
            );
            let line = process.stdout();
            line.strip_prefix("listening on http://")?
                .strip_suffix('\n')?
                .parse()
                .ok()
        });
        Self { process, address }
    }

    /// The address that the store listens on.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of the store, for `--server`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

/// Whether a process is running (and is not a zombie).
#[must_use]
pub fn is_alive(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

/// A process and all its descendants.
#[must_use]
pub fn descendants(process: Pid) -> Vec<Pid> {
    let mut all = vec![process];
    let tasks = fs::read_dir(format!("/proc/{process}/task"));
    for task in tasks.into_iter().flatten().flatten() {
        let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
        let children = children.split_whitespace().flat_map(str::parse);
        all.extend(children.flat_map(|child| descendants(Pid::from_raw(child))));
    }
    all
}
