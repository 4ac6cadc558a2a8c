//! A network namespace for each process, with a switch between them that drops packets and counts.
//!
//! None of the namespaces has a name or a file: the kernel removes one when the last process or
//! thread in it has ended, however it has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, bail};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{Pid, getpid, gettid};
use serde_json::Value;

use super::traffic::TrafficCount;

/// The port of every process, and the address of the switch. No other process is in these
/// namespaces.
const PORT: u16 = 7500;
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);

/// Packets are dropped before they are counted, so that only packets that arrive count. A request
/// or a response is one write of its sender, and the last packet of a write has the flag "push".
const SWITCH_RULES: &str = "
table bridge tenure {
  counter messages { }
  counter carried { }
  chain cut { type filter hook forward priority 0; policy accept; }
  chain count {
    type filter hook forward priority 10; policy accept;
    ip protocol tcp counter name carried
    ip protocol tcp tcp flags & psh == psh counter name messages
  }
}
";

/// A namespace for each process, and one for the switch.
#[derive(Debug)]
pub(super) struct Namespaces {
    hosts: BTreeMap<u32, Namespace>,
    switch: Namespace,
}

/// The address that a process listens on.
pub(super) fn listen_address(number: u32) -> SocketAddr {
    let [.., last] = (number + 1).to_be_bytes();
    (Ipv4Addr::new(10, 78, 0, last), PORT).into()
}

impl Namespaces {
    /// One for each of these numbers, and the switch.
    pub(super) fn create(numbers: &[u32]) -> anyhow::Result<Self> {
        let switch = Namespace::create()?;
        switch.feed(
            "ip",
            &["-batch", "-"],
            format!(
                "link set lo up\nlink add br0 type bridge\naddr add {SWITCH}/24 dev br0\nlink set br0 up\n"
            ),
        )?;
        switch.feed("nft", &["-f", "-"], SWITCH_RULES.into())?;
        let mut hosts = BTreeMap::new();
        for &number in numbers {
            let host = Namespace::create()?;
            let (port, to, address) = (port(number), switch.path(), listen_address(number).ip());
            host.feed(
                "ip",
                &["-batch", "-"],
                format!(
                    "link set lo up\nlink add e0 type veth peer name {port} netns {to}\n\
                     addr add {address}/24 dev e0\nlink set e0 up\n"
                ),
            )?;
            let plug = format!("link set {port} master br0 up\n");
            switch.feed("ip", &["-batch", "-"], plug)?;
            hosts.insert(number, host);
        }
        Ok(Self { hosts, switch })
    }

    /// The number of namespaces.
    pub(super) fn count(&self) -> usize {
        self.hosts.len() + 1
    }

    /// A listener on the switch itself. Its packets are not forwarded, and so neither cut nor
    /// counted.
    pub(super) fn listener(&self) -> anyhow::Result<TcpListener> {
        Ok(self.switch.run(|| TcpListener::bind((SWITCH, 0)))??)
    }

    pub(super) fn spawn(&self, number: u32, mut command: Command) -> anyhow::Result<Child> {
        Ok(self.hosts[&number].run(move || command.spawn())??)
    }

    /// Drops all packets from these senders to these receivers, and no others.
    pub(super) fn cut(&self, cuts: &BTreeSet<(u32, u32)>) -> anyhow::Result<()> {
        let mut rules = String::from("flush chain bridge tenure cut\n");
        for &(from, to) in cuts {
            let (from, to) = (port(from), port(to));
            // A write to a string does not fail.
            let _ = writeln!(
                rules,
                "add rule bridge tenure cut iifname {from} oifname {to} drop"
            );
        }
        self.switch.feed("nft", &["-f", "-"], rules).map(drop)
    }

    pub(super) fn traffic(&self) -> anyhow::Result<TrafficCount> {
        let list = ["-j", "list", "counters", "table", "bridge", "tenure"];
        let output = self.switch.feed("nft", &list, String::new())?;
        read_counters(&output).with_context(|| format!("unknown output of nft: {output}"))
    }
}

fn read_counters(output: &str) -> Option<TrafficCount> {
    let output: Value = serde_json::from_str(output).ok()?;
    let read = |name: &str, what: &str| {
        let mut counters = output["nftables"].as_array()?.iter();
        let counter = counters.find(|it| it["counter"]["name"] == name)?;
        counter["counter"][what].as_u64()
    };
    Some(TrafficCount {
        messages: read("messages", "packets")?,
        bytes: read("carried", "bytes")?,
    })
}

/// The end of a process's cable at the switch.
fn port(number: u32) -> String {
    format!("p{number}")
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a network namespace of its own. Processes and sockets that it creates are in that
/// namespace. For the kernel, the end of the thread that has started a process is the end of its
/// parent, so the thread lives as long as the namespace is needed.
#[derive(Debug)]
struct Namespace {
    thread: Pid,
    jobs: Option<Sender<Job>>,
    handle: Option<JoinHandle<()>>,
}

impl Namespace {
    fn create() -> anyhow::Result<Self> {
        let (jobs, queue) = channel::<Job>();
        let (send, created) = channel();
        let handle = thread::spawn(move || {
            let result = unshare(CloneFlags::CLONE_NEWNET).map(|()| gettid());
            let is_created = result.is_ok();
            if send.send(result).is_ok() && is_created {
                queue.into_iter().for_each(|job| job());
            }
        });
        let thread = created.recv().context("a thread has ended")?;
        Ok(Self {
            thread: thread.context("can't create a network namespace, which requires root")?,
            jobs: Some(jobs),
            handle: Some(handle),
        })
    }

    /// The path of the namespace for other programs.
    fn path(&self) -> String {
        format!("/proc/{}/task/{}/ns/net", getpid(), self.thread)
    }

    /// Runs a function in the namespace.
    fn run<T: Send + 'static>(
        &self,
        function: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let (send, result) = channel();
        let job: Job = Box::new(move || {
            // The caller waits for it.
            let _ = send.send(function());
        });
        let jobs = self.jobs.as_ref().context("the namespace is closed")?;
        jobs.send(job).ok().context("a thread has ended")?;
        result.recv().context("a thread has ended")
    }

    /// Runs a program in the namespace with this input, and returns its output.
    fn feed(&self, program: &str, arguments: &[&str], input: String) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            // Ctrl-C must not end it, because this process still needs it then.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = self.run(move || {
            let mut child = command.spawn()?;
            // The drop ends the input. A program that does not read it reports why.
            let _ = child
                .stdin
                .take()
                .map(|mut stdin| stdin.write_all(input.as_bytes()));
            child.wait_with_output()
        })?;
        let output = output.with_context(|| format!("can't run {program:?}"))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!("{program} failed: {}", stderr.trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs.take();
        if let Some(handle) = self.handle.take() {
            let _ = handle.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// Whether a message arrives within 300 ms. A connection needs both directions.
    fn gets_through(namespaces: &Namespaces, from: u32, to: u32) -> bool {
        let listen = namespaces.hosts[&to].run(move || TcpListener::bind(listen_address(to)));
        let listener = listen.expect("a thread").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let send = move || {
            let mut stream =
                TcpStream::connect_timeout(&listen_address(to), Duration::from_millis(300))?;
            stream.write_all(b"a word")
        };
        let sent = namespaces.hosts[&from].run(send).expect("a thread");
        let received = listener.accept().and_then(|(mut stream, _)| {
            stream.set_nonblocking(false)?;
            stream.read_to_end(&mut Vec::new())
        });
        sent.is_ok() && received.is_ok_and(|bytes| bytes == 6)
    }

    #[test]
    fn packets_of_a_cut_link_are_dropped_and_all_others_are_counted() {
        let created = Namespaces::create(&[1, 2, 3]);
        let Ok(namespaces) = created else {
            let why = created.map(drop).expect_err("an error");
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "network namespaces: {why:#}");
            // Not `println!`, which is not shown for a test that passes.
            let test = "packets_of_a_cut_link_are_dropped_and_all_others_are_counted";
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why:#}");
            return;
        };
        assert!(gets_through(&namespaces, 1, 2));
        let traffic = namespaces.traffic().expect("counters");
        assert!(traffic.messages == 1 && traffic.bytes > 6, "{traffic:?}");
        for cut in [(1, 2), (2, 1)] {
            namespaces.cut(&BTreeSet::from([cut])).expect("rules");
            assert!(!gets_through(&namespaces, 1, 2), "{cut:?}");
            assert!(gets_through(&namespaces, 1, 3));
        }
        namespaces.cut(&BTreeSet::new()).expect("rules");
        assert!(gets_through(&namespaces, 1, 2));
        assert_eq!(namespaces.count(), 4);
    }

    #[test]
    fn counters_are_found_by_their_names() {
        let output = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "bridge", "name": "messages", "table": "tenure", "packets": 7, "bytes": 900}},
            {"counter": {"family": "bridge", "name": "carried", "table": "tenure", "packets": 20, "bytes": 1500}}]}"#;
        let traffic = TrafficCount {
            messages: 7,
            bytes: 1_500,
        };
        assert_eq!(read_counters(output), Some(traffic));
        assert_eq!(read_counters("{}"), None);
    }
}
