//! A network namespace for each process, with a switch between them that drops packets and counts.
//!
//! None of the namespaces has a name or a file: the system takes one away when the last process and
//! thread that is in it has ended, however that came about.

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

use super::Carried;

/// Where everybody listens, and the switch; nobody else is in these namespaces.
const PORT: u16 = 7500;
const SWITCH: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 254);

/// Drops come before counters, so that only what arrives counts. A request or an answer is one write of
/// its sender, whose last packet has the flag "push".
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
    hosts: BTreeMap<u32, Host>,
    switch: Host,
}

/// Where this one listens.
pub(super) fn listens(number: u32) -> SocketAddr {
    let [.., last] = (number + 1).to_be_bytes();
    (Ipv4Addr::new(10, 78, 0, last), PORT).into()
}

impl Namespaces {
    /// One for each of these.
    pub(super) fn make(numbers: &[u32]) -> anyhow::Result<Self> {
        let switch = Host::make()?;
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
            let host = Host::make()?;
            let (port, to, address) = (port(number), switch.path(), listens(number).ip());
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

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.hosts.len() + 1
    }

    /// A port of the switch itself: what comes there is not sent on, and so neither cut nor counted.
    pub(super) fn listener(&self) -> anyhow::Result<TcpListener> {
        Ok(self.switch.run(|| TcpListener::bind((SWITCH, 0)))??)
    }

    pub(super) fn spawn(&self, number: u32, mut command: Command) -> anyhow::Result<Child> {
        Ok(self.hosts[&number].run(move || command.spawn())??)
    }

    /// Nothing gets through from whom to whom, and everything else does.
    pub(super) fn cut(&self, cuts: &BTreeSet<(u32, u32)>) -> anyhow::Result<()> {
        let mut rules = String::from("flush chain bridge tenure cut\n");
        for &(from, to) in cuts {
            let (from, to) = (port(from), port(to));
            // Writing to a string does not fail.
            let _ = writeln!(
                rules,
                "add rule bridge tenure cut iifname {from} oifname {to} drop"
            );
        }
        self.switch.feed("nft", &["-f", "-"], rules).map(drop)
    }

    pub(super) fn carried(&self) -> anyhow::Result<Carried> {
        let list = ["-j", "list", "counters", "table", "bridge", "tenure"];
        let told = self.switch.feed("nft", &list, String::new())?;
        read_counters(&told).with_context(|| format!("nft counts in an unknown way: {told}"))
    }
}

fn read_counters(told: &str) -> Option<Carried> {
    let told: Value = serde_json::from_str(told).ok()?;
    let read = |name: &str, what: &str| {
        let mut counters = told["nftables"].as_array()?.iter();
        let counter = counters.find(|it| it["counter"]["name"] == name)?;
        counter["counter"][what].as_u64()
    };
    Some(Carried {
        messages: read("messages", "packets")?,
        bytes: read("carried", "bytes")?,
    })
}

/// The switch's end of this one's cable.
fn port(number: u32) -> String {
    format!("p{number}")
}

type Job = Box<dyn FnOnce() + Send>;

/// A thread in a namespace of its own; what it starts and opens is in there, too. The kernel takes the end
/// of the thread that has started a process for the end of its parent, so it lasts as long as the
/// namespace is needed.
#[derive(Debug)]
struct Host {
    thread: Pid,
    jobs: Option<Sender<Job>>,
    handle: Option<JoinHandle<()>>,
}

impl Host {
    fn make() -> anyhow::Result<Self> {
        let (jobs, todo) = channel::<Job>();
        let (tell, told) = channel();
        let handle = thread::spawn(move || {
            let made = unshare(CloneFlags::CLONE_NEWNET).map(|()| gettid());
            let is_made = made.is_ok();
            if tell.send(made).is_ok() && is_made {
                todo.into_iter().for_each(|job| job());
            }
        });
        let thread = told.recv().context("a thread has ended")?;
        Ok(Self {
            thread: thread.context("can't make a network namespace, which takes root")?,
            jobs: Some(jobs),
            handle: Some(handle),
        })
    }

    /// The namespace, as other programs find it.
    fn path(&self) -> String {
        format!("/proc/{}/task/{}/ns/net", getpid(), self.thread)
    }

    /// Does that there.
    fn run<T: Send + 'static>(
        &self,
        that: impl FnOnce() -> T + Send + 'static,
    ) -> anyhow::Result<T> {
        let (tell, told) = channel();
        let job: Job = Box::new(move || {
            // Who asked waits for it.
            let _ = tell.send(that());
        });
        let jobs = self.jobs.as_ref().context("a namespace that is left")?;
        jobs.send(job).ok().context("a thread has ended")?;
        told.recv().context("a thread has ended")
    }

    /// Runs a program there, with this input, and gives what it prints.
    fn feed(&self, program: &str, arguments: &[&str], input: String) -> anyhow::Result<String> {
        let mut command = Command::new(program);
        command
            .args(arguments)
            // Ctrl-C is for this process alone, which then still needs it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let output = self.run(move || {
            let mut child = command.spawn()?;
            // Dropped, it is at its end. A program that reads nothing says why by itself.
            let _ = child
                .stdin
                .take()
                .map(|mut it| it.write_all(input.as_bytes()));
            child.wait_with_output()
        })?;
        let output = output.with_context(|| format!("can't run {program:?}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("{program} failed: {}", said.trim_end());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Host {
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

    /// Whether a word gets from the one to the other in a while; for the way there a connection takes
    /// both directions.
    fn gets_through(namespaces: &Namespaces, from: u32, to: u32) -> bool {
        let listen = namespaces.hosts[&to].run(move || TcpListener::bind(listens(to)));
        let listener = listen.expect("a thread").expect("a free port");
        listener.set_nonblocking(true).expect("a socket");
        let send = move || {
            let mut stream = TcpStream::connect_timeout(&listens(to), Duration::from_millis(300))?;
            stream.write_all(b"a word")
        };
        let sent = namespaces.hosts[&from].run(send).expect("a thread");
        let heard = listener.accept().and_then(|(mut stream, _)| {
            stream.set_nonblocking(false)?;
            stream.read_to_end(&mut Vec::new())
        });
        sent.is_ok() && heard.is_ok_and(|bytes| bytes == 6)
    }

    #[test]
    fn what_is_cut_drops_and_what_passes_is_counted() {
        let made = Namespaces::make(&[1, 2, 3]);
        let Ok(namespaces) = made else {
            let why = made.map(drop).expect_err("an error");
            let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
            assert!(!is_ci, "network namespaces: {why:#}");
            // Not print: what a test prints that passes is not shown.
            let test = "what_is_cut_drops_and_what_passes_is_counted";
            let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why:#}");
            return;
        };
        assert!(gets_through(&namespaces, 1, 2));
        let carried = namespaces.carried().expect("counters");
        assert!(carried.messages == 1 && carried.bytes > 6, "{carried:?}");
        // A connection takes both ways.
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
        let told = r#"{"nftables": [{"metainfo": {"version": "1.0.6"}},
            {"counter": {"family": "bridge", "name": "messages", "table": "tenure", "packets": 7, "bytes": 900}},
            {"counter": {"family": "bridge", "name": "carried", "table": "tenure", "packets": 20, "bytes": 1500}}]}"#;
        let carried = Carried {
            messages: 7,
            bytes: 1_500,
        };
        assert_eq!(read_counters(told), Some(carried));
        assert_eq!(read_counters("{}"), None);
    }
}
