//! Five members of an election among peers, as `tenure run` processes, with a network between them
//! that fails on demand. What their commands do is seen at a fenced receiver.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::Client;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::process::{Process, command};
use crate::proxy::{Proxy, ProxyMode};
use crate::receiver::{Act, Receiver};
use crate::{Limit, wait_for};

/// All of them; 1 is the best.
pub const MEMBERS: [u32; 5] = [1, 2, 3, 4, 5];

/// The lease duration of most tests: renewals every second, given up after two, all gone after 2.8.
pub const LEASE: Duration = Duration::from_secs(3);

/// How long a test looks on at what must not happen: longer than a promise lasts, and an election.
pub const A_WHILE: Duration = Duration::from_secs(5);

/// The port of every member: each has an address of its own.
const PORT: u16 = 7500;

/// Takes no notice of SIGTERM, so that only the end of its term stops the command. What is loaded
/// into a member must not spoil the clock of its command.
const COMMAND: &str = r#"trap '' TERM; unset LD_PRELOAD; exec "$0" "$1""#;

/// Five members, and a link from each to each.
#[derive(Debug)]
pub struct Group {
    /// The first to go: the others are what they stand on.
    members: BTreeMap<u32, Process>,
    links: BTreeMap<(u32, u32), Proxy>,
    addresses: BTreeMap<u32, SocketAddr>,
    settings: Vec<(Option<u32>, OsString, OsString)>,
    command: PathBuf,
    receiver: Receiver,
    _limit: Limit,
    client: Client,
    runtime: Runtime,
    folder: TempDir,
}

impl Group {
    /// Members that are not started yet, and the command that the leader is to run.
    ///
    /// # Panics
    ///
    /// If there is no room for them.
    #[must_use]
    pub fn new(command: &str) -> Self {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("key"), "a secret of the tests\n").expect("a key");
        // Addresses that no other process has: a member is at the same one when it starts again.
        let group = std::process::id().wrapping_mul(16) + GROUPS.fetch_add(1, Ordering::Relaxed);
        let address = |member: u32| {
            let [.., high, low] = (group % 0xff00 + 0x100).to_be_bytes();
            let [.., last] = member.to_be_bytes();
            SocketAddr::from((Ipv4Addr::new(127, high, low, last), PORT))
        };
        let addresses = MEMBERS.map(|member| (member, address(member))).into();
        let runtime = Runtime::new().expect("a runtime");
        let pairs = MEMBERS.map(|from| MEMBERS.map(|to| (from, to)));
        let pairs = pairs.as_flattened().iter().filter(|(from, to)| from != to);
        let links = pairs
            .map(|&(from, to)| {
                let proxy = runtime.block_on(Proxy::start(address(to)));
                ((from, to), proxy.expect("a free port"))
            })
            .collect();
        let lease = format!("{}ms", LEASE.as_millis());
        let client = Client::builder()
            .no_proxy()
            .timeout(Duration::from_millis(500))
            .build();
        let mut group = Self {
            members: BTreeMap::new(),
            links,
            addresses,
            settings: Vec::new(),
            command: command.into(),
            receiver: Receiver::start(),
            _limit: Limit::start(),
            client: client.expect("a client"),
            runtime,
            folder,
        };
        group.set("TENURE_LEASE_DURATION", lease);
        group.set("TENURE_BULLY_MESSAGE_LIFETIME", "400ms");
        for member in MEMBERS {
            let state = group.folder().join(format!("state-{member}"));
            group.set_for(member, "TENURE_BULLY_STATE_DIR", state);
        }
        group
    }

    /// Sets a variable of the environment of all members, from their next start on. What is set last
    /// counts.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.settings.push((None, name.into(), value.into()));
    }

    /// Sets a variable of the environment of one member, from its next start on.
    pub fn set_for(&mut self, member: u32, name: impl Into<OsString>, value: impl Into<OsString>) {
        let setting = (Some(member), name.into(), value.into());
        self.settings.push(setting);
    }

    /// A folder that lasts as long as the group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What the leaders' commands act on.
    #[must_use]
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// `tenure run` as this member.
    #[must_use]
    pub fn run(&self, member: u32) -> Command {
        // Others are where their links begin, so that each link can be cut by itself.
        let address = |to| match self.links.get(&(member, to)) {
            Some(link) => link.address(),
            None => self.addresses[&member],
        };
        let peers = MEMBERS.map(|to| format!("{to}=http://{}", address(to)));
        let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        run.args(["--node", &member.to_string()])
            .args(["--peers", &peers.join(",")])
            .args(["--listen", &self.addresses[&member].to_string()])
            .arg("--key-file")
            .arg(self.folder().join("key"));
        for (of, name, value) in &self.settings {
            if of.is_none_or(|of| of == member) {
                run.env(name, value);
            }
        }
        run.args(["--", "sh", "-c", COMMAND])
            .arg(&self.command)
            .arg(self.receiver.address().to_string());
        run
    }

    /// Starts this member (anew).
    pub fn start(&mut self, member: u32) {
        let process = Process::spawn(&mut self.run(member));
        self.members.insert(member, process);
    }

    /// Starts all of them.
    pub fn start_all(&mut self) {
        for member in MEMBERS {
            self.start(member);
        }
    }

    /// One of them, if it was started.
    ///
    /// # Panics
    ///
    /// If it was not.
    #[must_use]
    pub fn member(&self, member: u32) -> &Process {
        &self.members[&member]
    }

    /// Kills these, and waits until they are gone.
    ///
    /// # Panics
    ///
    /// If one does not run.
    pub fn kill(&mut self, members: &[u32]) {
        for member in members {
            self.members[member].signal(Signal::SIGKILL);
        }
        for member in members {
            // Dropped, it is waited for.
            self.members.remove(member).expect("a member that runs");
        }
    }

    /// What a member says of itself; `None` if it does not answer.
    #[must_use]
    pub fn status(&self, member: u32) -> Option<Value> {
        let url = format!("http://{}/v1/peers/job/status", self.addresses[&member]);
        let answer = async { self.client.get(url).send().await.ok()?.json().await.ok() };
        self.runtime.block_on(answer)
    }

    /// Starts all of them, and sees to it that this one leads. The best one needs the least help.
    #[must_use]
    pub fn start_all_under(&mut self, member: u32) -> Leader {
        self.start_all();
        let mut leader = self.settled(0, &MEMBERS);
        while leader.member != member {
            // It comes back when another one leads, or it would have the votes of all.
            self.kill(&[leader.member]);
            let _ = self.next_leader(leader.epoch);
            self.start(leader.member);
            leader = self.settled(leader.epoch, &MEMBERS);
        }
        leader
    }

    /// Whom a member takes for the leader, itself perhaps; `None` if it does not answer, too.
    #[must_use]
    pub fn followed_by(&self, member: u32) -> Option<u32> {
        let leader = self.status(member)?["leader"].as_u64()?;
        leader.try_into().ok()
    }

    /// Waits until a member follows another one.
    pub fn wait_until_follows(&self, member: u32, leader: u32) {
        wait_for(&format!("{member} to follow {leader}"), || {
            (self.followed_by(member) == Some(leader)).then_some(())
        });
    }

    /// Waits until all these follow a leader that has acted under an epoch above this one.
    #[must_use]
    pub fn settled(&self, above: u64, members: &[u32]) -> Leader {
        wait_for("a leader that all know", || {
            let leader = self.leaders().pop().filter(|leader| leader.epoch > above)?;
            let knows = |&member: &u32| self.followed_by(member) == Some(leader.member);
            members.iter().all(knows).then_some(leader)
        })
    }

    /// Waits for the first act under an epoch above this one.
    #[must_use]
    pub fn next_leader(&self, above: u64) -> Leader {
        Leader::of(&self.receiver.next_leader(above))
    }

    /// All that have acted and were let pass, in the order in which they began.
    #[must_use]
    pub fn leaders(&self) -> Vec<Leader> {
        let mut leaders: Vec<Leader> = Vec::new();
        for act in self.receiver.acts().iter().filter(|act| act.accepted) {
            if leaders.last().is_none_or(|last| last.epoch != act.epoch) {
                leaders.push(Leader::of(act));
            }
        }
        leaders
    }

    /// The last one of them.
    ///
    /// # Panics
    ///
    /// If nobody has acted.
    #[must_use]
    pub fn last_leader(&self) -> Leader {
        *self.leaders().last().expect("somebody has acted")
    }

    /// Waits for the end of a member that was told to stop.
    ///
    /// # Panics
    ///
    /// If it does not run.
    pub fn end_of(&mut self, member: u32) -> ExitStatus {
        let mut process = self.members.remove(&member).expect("a member that runs");
        process.wait()
    }

    /// Waits until a member has found by itself that its term is over. It may have ended itself then,
    /// if its command was not gone at once; whoever runs it starts it again.
    ///
    /// # Panics
    ///
    /// If it does not run, or has ended for another reason.
    pub fn wait_until_stepped_down(&mut self, member: u32) {
        let process = self.members.get_mut(&member).expect("a member that runs");
        let has_ended = wait_for(&format!("{member} to step down by itself"), || {
            let has_ended = process.has_ended();
            (has_ended || process.stderr().contains("leadership lost")).then_some(has_ended)
        });
        if has_ended {
            let stderr = process.stderr();
            assert!(
                stderr.contains("exiting, so that the task ends"),
                "{stderr}"
            );
            self.start(member);
        }
    }

    /// From now on nothing gets from one to the other, neither what it asks nor what it answers.
    pub fn cut_one_way(&self, from: u32, to: u32) {
        self.links[&(from, to)].set(ProxyMode::HangRequests);
        self.links[&(to, from)].set(ProxyMode::HangReplies);
    }

    /// From now on nothing gets from the ones to the others, in either direction.
    pub fn part(&self, ones: &[u32], others: &[u32]) {
        for &one in ones {
            for &other in others {
                self.links[&(one, other)].set(ProxyMode::Hang);
                self.links[&(other, one)].set(ProxyMode::Hang);
            }
        }
    }

    /// The way from one to the other: what the one asks, and what the other answers to it.
    #[must_use]
    pub fn link(&self, from: u32, to: u32) -> &Proxy {
        &self.links[&(from, to)]
    }

    /// From now on everything arrives, and so does what was held up.
    pub fn heal(&self) {
        for link in self.links.values() {
            link.set(ProxyMode::Pass);
        }
    }

    /// Looks on for so long.
    pub fn look_on(&self, time: Duration) {
        let begin = Instant::now();
        wait_for("time to pass", || (begin.elapsed() >= time).then_some(()));
    }

    /// Everyone but these.
    #[must_use]
    pub fn all_but(members: &[u32]) -> Vec<u32> {
        let mut all = MEMBERS.to_vec();
        all.retain(|member| !members.contains(member));
        all
    }
}

/// Who acted, and under which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The member.
    pub member: u32,
    /// Its epoch.
    pub epoch: u64,
}

impl Leader {
    /// Who did this.
    ///
    /// # Panics
    ///
    /// If it was no member.
    #[must_use]
    pub fn of(act: &Act) -> Self {
        Self {
            member: act.candidate.parse().expect("a member"),
            epoch: act.epoch,
        }
    }
}
