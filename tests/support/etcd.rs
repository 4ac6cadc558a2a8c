//! etcd as processes: the members of a cluster on the loopback interface.
//!
//! The tests inside `tenure-server` include this file, too.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::needs::{can_run, has_program};
use super::ports::free_address;

/// How long a start, an election or an answer may take. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// The members of an etcd cluster. They are killed when this is dropped.
#[derive(Debug)]
pub struct Etcd {
    program: PathBuf,
    folder: TempDir,
    members: Vec<Member>,
    options: Vec<String>,
}

/// A place where a member runs.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its address.
    pub address: IpAddr,
    /// The command that runs another one there.
    pub launcher: Vec<String>,
}

#[derive(Debug)]
struct Member {
    clients: SocketAddr,
    peers: SocketAddr,
    launcher: Vec<String>,
    process: Option<Child>,
    /// The number of its starts.
    starts: usize,
}

impl Member {
    fn on_loopback() -> Self {
        Self {
            clients: free_address(),
            peers: free_address(),
            launcher: Vec::new(),
            process: None,
            starts: 0,
        }
    }
}

impl Etcd {
    /// Starts this number of members; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn start(test: &str, members: usize) -> Option<Self> {
        Self::start_with(test, members, &[])
    }

    /// Starts this number of members with these options; `None` if the test cannot run. The
    /// members accept clients by TLS if the options have a certificate.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn start_with(test: &str, members: usize, options: &[&str]) -> Option<Self> {
        let members = (0..members).map(|_| Member::on_loopback());
        Self::start_members(test, members.collect(), options)
    }

    /// Starts one member of this program.
    ///
    /// # Panics
    ///
    /// If it does not start.
    #[must_use]
    pub fn start_program(program: &Path) -> Self {
        Self::start_all(program, vec![Member::on_loopback()], &[])
    }

    /// Starts one member on each of these hosts; `None` if the test cannot run.
    ///
    /// # Panics
    ///
    /// If they do not start.
    #[must_use]
    pub fn start_on(test: &str, hosts: &[Host], options: &[&str]) -> Option<Self> {
        let members = hosts.iter().map(|host| Member {
            clients: (host.address, 2379).into(),
            peers: (host.address, 2380).into(),
            launcher: host.launcher.clone(),
            process: None,
            starts: 0,
        });
        Self::start_members(test, members.collect(), options)
    }

    fn start_members(test: &str, members: Vec<Member>, options: &[&str]) -> Option<Self> {
        can_run(test, "etcd (package etcd-server)", has_program("etcd"))
            .then(|| Self::start_all(Path::new("etcd"), members, options))
    }

    fn start_all(program: &Path, members: Vec<Member>, options: &[&str]) -> Self {
        let mut etcd = Self {
            program: program.into(),
            folder: tempfile::tempdir().expect("a folder"),
            members,
            options: options.iter().map(|&option| option.to_owned()).collect(),
        };
        for member in 0..etcd.members.len() {
            etcd.spawn(member);
        }
        for member in 0..etcd.members.len() {
            etcd.wait_until_ready(member);
        }
        etcd
    }

    /// The URLs of the members.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        (0..self.members.len())
            .map(|it| self.endpoint(it))
            .collect()
    }

    /// The URL of a member.
    #[must_use]
    pub fn endpoint(&self, member: usize) -> String {
        format!("{}://{}", self.scheme(), self.address(member))
    }

    /// The scheme of the URLs: `https` if the options have a certificate.
    #[must_use]
    pub fn scheme(&self) -> &'static str {
        match self.options.iter().any(|option| option == "--cert-file") {
            true => "https",
            false => "http",
        }
    }

    /// The address of a member for clients.
    #[must_use]
    pub fn address(&self, member: usize) -> SocketAddr {
        self.members[member].clients
    }

    /// The process id of a member.
    ///
    /// # Panics
    ///
    /// If it does not run.
    #[must_use]
    pub fn pid(&self, member: usize) -> Pid {
        let process = self.members[member].process.as_ref();
        Pid::from_raw(process.expect("a process").id().cast_signed())
    }

    /// The folder with the data of a member.
    #[must_use]
    pub fn data_dir(&self, member: usize) -> PathBuf {
        self.folder.path().join(format!("m{member}"))
    }

    /// Kills a member.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Starts a member again that was killed, with its data. It may wait for other members.
    pub fn spawn(&mut self, member: usize) {
        let url = |address| format!("http://{address}");
        let cluster: Vec<String> = (self.members.iter().enumerate())
            .map(|(number, member)| format!("m{number}={}", url(member.peers)))
            .collect();
        self.members[member].starts += 1;
        let log = File::create(self.log_of(member)).expect("a file");
        let Member {
            clients,
            peers,
            launcher,
            ..
        } = &self.members[member];
        let clients = format!("{}://{clients}", self.scheme());
        let mut command = match launcher.split_first() {
            Some((launcher, arguments)) => {
                let mut command = Command::new(launcher);
                command.args(arguments).arg(&self.program);
                command
            }
            None => Command::new(&self.program),
        };
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("ETCD_") {
                command.env_remove(name);
            }
        }
        command
            .args(["--name", &format!("m{member}"), "--data-dir"])
            .arg(self.data_dir(member))
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &url(*peers)])
            .args(["--initial-advertise-peer-urls", &url(*peers)])
            .args(["--initial-cluster", &cluster.join(",")])
            .args(&self.options)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let process = command.spawn().expect("etcd starts");
        self.members[member].process = Some(process);
    }

    /// Replaces the options. A member has them from its next start on.
    pub fn set_options(&mut self, options: &[&str]) {
        self.options = options.iter().map(|&option| option.to_owned()).collect();
    }

    /// Waits until a member that was started accepts clients.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn wait_until_ready(&mut self, member: usize) {
        let until = Instant::now() + PATIENCE;
        loop {
            let log = fs::read_to_string(self.log_of(member)).unwrap_or_default();
            if log.contains("ready to serve client requests") {
                return;
            }
            let process = self.members[member].process.as_mut().expect("a process");
            let has_ended = process.try_wait().expect("a process to wait for").is_some();
            // Another process may use the port for a moment.
            let is_busy = has_ended && log.contains("address already in use");
            let is_late = Instant::now() > until;
            assert!((!has_ended || is_busy) && !is_late, "no start:\n{log}");
            thread::sleep(Duration::from_millis(20));
            if is_busy {
                self.spawn(member);
            }
        }
    }

    /// Sends a signal to a member, and waits until one that is to stop has stopped.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn signal(&self, member: usize, signal: Signal) {
        kill(self.pid(member), signal).expect("a process to signal");
        if signal == Signal::SIGSTOP {
            // On a machine with load, a thread of the process may still answer for a while.
            let stopped = waitpid(self.pid(member), Some(WaitPidFlag::WUNTRACED));
            stopped.expect("a process that stops");
        }
    }

    /// Waits until all members that run name one of them as their leader, and returns it. No member
    /// may be stopped.
    ///
    /// # Panics
    ///
    /// If they do not.
    #[must_use]
    pub fn leader(&self) -> usize {
        self.leader_of(|_| true)
    }

    /// The same for these members.
    ///
    /// # Panics
    ///
    /// If they do not.
    #[must_use]
    pub fn leader_of(&self, is_asked: impl Fn(usize) -> bool) -> usize {
        let until = Instant::now() + PATIENCE;
        let is_asked = |it: &usize| self.members[*it].process.is_some() && is_asked(*it);
        let asked: Vec<usize> = (0..self.members.len()).filter(is_asked).collect();
        loop {
            let ids = asked.iter().map(|member| self.ids(*member).ok());
            let ids: Option<Vec<(String, String)>> = ids.collect();
            if let Some(ids) = ids {
                let (_, leader) = &ids[0];
                let leads = ids.iter().position(|(id, _)| id == leader);
                if let Some(leads) = leads
                    && ids.iter().all(|(_, it)| it == leader)
                {
                    return asked[leads];
                }
            }
            assert!(Instant::now() < until, "no leader");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// The id of a member, and that of its leader.
    fn ids(&self, member: usize) -> io::Result<(String, String)> {
        let (_, status) = self.ask(member, "/v3/maintenance/status", &json!({}))?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let id = text(&status["header"]["member_id"]);
        Ok((id, text(&status["leader"])))
    }

    /// Sends a request to the gateway of a member without TLS. Returns the status and the answer.
    ///
    /// # Errors
    ///
    /// There was no answer.
    pub fn ask(&self, member: usize, path: &str, body: &Value) -> io::Result<(u16, Value)> {
        self.ask_with_token(member, path, body, "")
    }

    fn ask_with_token(
        &self,
        member: usize,
        path: &str,
        body: &Value,
        token: &str,
    ) -> io::Result<(u16, Value)> {
        let mut stream = TcpStream::connect(self.address(member))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let (body, authorization) = (
            body.to_string(),
            match token {
                "" => String::new(),
                token => format!("Authorization: {token}\r\n"),
            },
        );
        // With HTTP/1.0 the answer has no chunks, and the connection ends with it.
        write!(
            stream,
            "POST {path} HTTP/1.0\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
        let body = body.and_then(|body| serde_json::from_str(body).ok());
        let none = || io::Error::other(answer.clone());
        Ok((status.ok_or_else(none)?, body.unwrap_or_default()))
    }

    /// Sends a request to the first member without TLS, until it succeeds or is refused. On a slow
    /// disk etcd answers that the time is over, and may apply the request later.
    ///
    /// # Panics
    ///
    /// If there is neither.
    #[allow(clippy::must_use_candidate)] // Often only its effect matters.
    pub fn answer(&self, path: &str, body: &Value) -> (u16, Value) {
        let (status, answer, _) = self.answer_with_token(path, body, "");
        (status, answer)
    }

    /// The same. Also returns whether an earlier attempt had an unknown outcome.
    fn answer_with_token(&self, path: &str, body: &Value, token: &str) -> (u16, Value, bool) {
        let until = Instant::now() + PATIENCE;
        let mut is_repeated = false;
        loop {
            let answer = self.ask_with_token(0, path, body, token);
            match answer {
                Ok((status, answer)) if status < 500 => return (status, answer, is_repeated),
                answer => assert!(Instant::now() < until, "{path} {body}: {answer:?}"),
            }
            is_repeated = true;
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Sends a request to the first member without TLS.
    ///
    /// # Panics
    ///
    /// If it is refused.
    #[allow(clippy::must_use_candidate)] // Often only its effect matters.
    pub fn must(&self, path: &str, body: &Value) -> Value {
        self.must_with_token(path, body, "")
    }

    fn must_with_token(&self, path: &str, body: &Value, token: &str) -> Value {
        let (status, answer, is_repeated) = self.answer_with_token(path, body, token);
        // An attempt of unknown outcome was applied if its repetition is refused: the user exists.
        let is_applied = is_repeated && (400..500).contains(&status);
        assert!(
            status == 200 || is_applied,
            "{path} {body}: {status} {answer}"
        );
        answer
    }

    /// Sends a request to the first member without TLS, as this user.
    ///
    /// # Panics
    ///
    /// If it is refused.
    #[allow(clippy::must_use_candidate)] // Often only its effect matters.
    pub fn must_as(&self, user: &str, password: &str, path: &str, body: &Value) -> Value {
        let credentials = json!({"name": user, "password": password});
        let token = self.must("/v3/auth/authenticate", &credentials);
        let token = token["token"].as_str().expect("a token");
        self.must_with_token(path, body, token)
    }

    /// The values that a key has had, oldest first, by etcd's own history. A compaction removes old
    /// ones.
    ///
    /// # Panics
    ///
    /// If the first member does not answer.
    #[must_use]
    pub fn history(&self, key: &str) -> Vec<String> {
        let mut values = Vec::new();
        let mut request = json!({"key": STANDARD.encode(key)});
        loop {
            let (_, answer) = self.answer("/v3/kv/range", &request);
            // The answer to a revision that was compacted has no value.
            let found = &answer["kvs"][0];
            let Some(revision) = found["mod_revision"].as_str() else {
                values.reverse();
                return values;
            };
            let value = STANDARD.decode(found["value"].as_str().unwrap_or_default());
            values.push(String::from_utf8(value.expect("base64")).expect("text"));
            let before = revision.parse::<u64>().expect("a revision") - 1;
            request["revision"] = before.to_string().into();
        }
    }

    fn log_of(&self, member: usize) -> PathBuf {
        let starts = self.members[member].starts;
        self.folder.path().join(format!("m{member}-{starts}.log"))
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}
