//! The time without a leader after a leader is gone, and the requests of five idle members: `tenure
//! run` among peers as processes on this machine, with the default timings.
//!
//! A killed leader closes its connections and refuses new ones, which are hints for the failure
//! detector. A frozen leader sends and refuses nothing, as if its machine were gone: then there are
//! no hints.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command};

const MEMBERS: usize = 5;

/// Writes the leader, and waits to be stopped.
const JOB: &str = r#"echo "$TENURE_EPOCH $TENURE_CANDIDATE" >> "$0"; exec sleep 1000"#;

/// The limit for every wait.
const PATIENCE: Duration = Duration::from_secs(60);

const HEARTBEAT: Duration = Duration::from_millis(300);

struct Group {
    folder: TempDir,
    addresses: Vec<String>,
    quorum: bool,
    detector: &'static str,
    members: Vec<Option<Process>>,
}

impl Group {
    fn start(quorum: bool, detector: &'static str) -> Self {
        let addresses = (0..MEMBERS).map(|_| free_address().to_string());
        let mut group = Self {
            addresses: addresses.collect(),
            folder: tempfile::tempdir().expect("a folder"),
            quorum,
            detector,
            members: Vec::new(),
        };
        fs::write(group.path("key"), "a secret of the benchmark").expect("a key");
        group.members = (0..MEMBERS)
            .map(|index| Some(group.member(index)))
            .collect();
        group
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn member(&self, index: usize) -> Process {
        let peers = (1..).zip(&self.addresses);
        let peers: Vec<String> = peers
            .map(|(node, address)| format!("{node}=http://{address}"))
            .collect();
        let mut command = command(&["run", "--election", "bench/job", "--strategy", "bully"]);
        command
            .args([
                "--node",
                &(index + 1).to_string(),
                "--peers",
                &peers.join(","),
            ])
            .arg("--key-file")
            .arg(self.path("key"))
            .arg("--state-dir")
            .arg(self.path(&format!("state-{index}")))
            .env("TENURE_BULLY_LISTEN", &self.addresses[index])
            .env("TENURE_BULLY_QUORUM", self.quorum.to_string())
            .env("TENURE_BULLY_DETECTOR", self.detector)
            .args(["--", "sh", "-c", JOB])
            .arg(self.path("journal"));
        Process::spawn(&mut command)
    }

    /// The last term: its epoch, and the index of the leader.
    fn last(&self) -> Option<(u64, usize)> {
        let text = fs::read_to_string(self.path("journal")).ok()?;
        let line = text.get(..text.rfind('\n')?)?.lines().next_back()?;
        let (epoch, node) = line.split_once(' ')?;
        Some((epoch.parse().ok()?, node.parse::<usize>().ok()? - 1))
    }

    fn next(&self, above: u64) -> (u64, usize) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            if let Some(last) = self.last().filter(|(epoch, _)| *epoch > above) {
                return last;
            }
            sleep(Duration::from_millis(1));
        }
        panic!("no leader");
    }

    /// Waits until all members know the same leader, and returns its epoch and index.
    fn settle(&self) -> (u64, usize) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            let (epoch, leader) = self.next(0);
            let expected = format!("\"leader\":{},\"epoch\":{epoch},", leader + 1);
            if (0..MEMBERS).all(|index| self.status(index).contains(&expected)) {
                return (epoch, leader);
            }
            sleep(Duration::from_millis(50));
        }
        let seen: Vec<String> = (0..MEMBERS).map(|index| self.status(index)).collect();
        panic!(
            "{:?} leads, but the members disagree: {seen:#?}",
            self.last()
        );
    }

    fn status(&self, index: usize) -> String {
        let ask = || {
            let mut stream = TcpStream::connect(&self.addresses[index])?;
            stream.write_all(
                b"GET /v1/peers/job/status HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n\r\n",
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer).map(|_| answer)
        };
        ask().unwrap_or_default()
    }

    /// The number of requests sent by all members.
    fn sent(&self) -> u64 {
        let of = |index| {
            let status = self.status(index);
            let (_, rest) = status.split_once("\"sent\":").expect("a counter");
            let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
            digits
                .and_then(|it| it.parse::<u64>().ok())
                .expect("a number")
        };
        (0..MEMBERS).map(of).sum()
    }
}

/// The time without a leader, for each of `count` leaders.
fn failovers(group: &mut Group, signal: Signal, count: u32) -> Vec<Duration> {
    let mut took = Vec::new();
    for number in 0..count {
        let (_, leader) = group.settle();
        // Each leader ends at another phase of the heartbeats and renewals.
        sleep(Duration::from_millis(1_000 + u64::from(number) * 437));
        let (epoch, still) = group.next(0);
        assert_eq!(still, leader, "the leadership moved without a fault");
        let began = Instant::now();
        if let Some(process) = &group.members[leader] {
            process.signal(signal);
        }
        group.next(epoch);
        took.push(began.elapsed());
        // The frozen process is killed now.
        group.members[leader] = None;
        group.members[leader] = Some(group.member(leader));
    }
    took.sort_unstable();
    took
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = if arguments.iter().any(|it| it == "--quick") {
        2
    } else {
        10
    };
    let only = arguments.iter().skip(1).find(|it| !it.starts_with("--"));
    println!("| {MEMBERS} members | against | median ({count} times) | least to most | ratio |");
    println!("|---|---|---|---|---|");
    let (heartbeats, lease) = (Duration::from_millis(1_500), Duration::from_secs(15));
    for (quorum, detector, signal, what, limit) in [
        (
            false,
            "push",
            Signal::SIGKILL,
            "no quorum, push, killed",
            heartbeats,
        ),
        (
            false,
            "push",
            Signal::SIGSTOP,
            "no quorum, push, frozen",
            heartbeats,
        ),
        (
            false,
            "pull",
            Signal::SIGSTOP,
            "no quorum, pull, frozen",
            heartbeats,
        ),
        (true, "push", Signal::SIGKILL, "quorum, push, killed", lease),
    ] {
        if only.is_some_and(|only| !what.contains(only.as_str())) {
            continue;
        }
        let mut group = Group::start(quorum, detector);
        let took = failovers(&mut group, signal, count);
        let median = took[took.len() / 2];
        println!(
            "| {what} | {limit:?} | {median:.2?} | {:.2?} to {:.2?} | {:.2} |",
            took[0],
            took[took.len() - 1],
            median.as_secs_f64() / limit.as_secs_f64()
        );
    }
    println!();
    println!("| {MEMBERS} idle members | requests | per member and heartbeat interval |");
    println!("|---|---|---|");
    for (quorum, detector) in [(true, "push"), (false, "push"), (false, "pull")] {
        let what = format!(
            "{}quorum, {detector}, idle",
            if quorum { "" } else { "no " }
        );
        if only.is_some_and(|only| !what.contains(only.as_str())) {
            continue;
        }
        let group = Group::start(quorum, detector);
        group.settle();
        // Waits until the first subscriptions to members other than the leader have ended.
        sleep(Duration::from_secs(31));
        let (before, began) = (group.sent(), Instant::now());
        sleep(Duration::from_secs(20));
        let sent = group.sent() - before;
        let intervals = began.elapsed().as_secs_f64() / HEARTBEAT.as_secs_f64();
        let each = sent as f64 / intervals / MEMBERS as f64;
        println!("| {what} | {sent} in 20 s | {each:.2} |");
    }
}
