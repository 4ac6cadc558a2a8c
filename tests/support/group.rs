//! Members of an election among peers, as `tenure run` processes, with a network between them that
//! fails on demand. A fenced receiver records the actions of their commands. A group may also
//! have a store, and elect among the members only while the store is away.

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

use crate::process::{Process, StoreProcess, command};
use crate::proxy::{Proxy, ProxyMode};
use crate::receiver::{Act, Receiver};
use crate::{Limit, wait_for};

/// All members of a group of five; 1 has the highest priority.
pub const MEMBERS: [u32; 5] = [1, 2, 3, 4, 5];

/// The lease duration of most tests: renewals come every second, the renew deadline is two seconds,
/// and the command is gone after 2.8 seconds.
pub const LEASE: Duration = Duration::from_secs(3);

/// The time for which a test checks that an event does not happen: longer than a vote lasts, plus
/// an election.
pub const A_WHILE: Duration = Duration::from_secs(5);

/// The port of every member: each member has an address of its own.
const PORT: u16 = 7500;

/// Ignores SIGTERM, so that only the end of its term stops the command. A library that is preloaded
/// into a member must not change the clock of its command.
const COMMAND: &str = r#"trap '' TERM; unset LD_PRELOAD; exec "$0" "$1""#;

/// Members, five unless a test says otherwise, and a link from each member to each other one.
#[derive(Debug)]
pub struct Group {
    /// Dropped first, since the members use the other fields.
    members: BTreeMap<u32, Process>,
    /// The numbers of all members, running or not.
    all: Vec<u32>,
    store: Option<GroupStore>,
    links: BTreeMap<(u32, u32), Proxy>,
    /// The pairs of members that have each other's address, if the others have not.
    neighbors: Option<Vec<(u32, u32)>>,
    addresses: BTreeMap<u32, SocketAddr>,
    settings: Vec<(Option<u32>, OsString, OsString)>,
    command: PathBuf,
    receiver: Receiver,
    _limit: Limit,
    client: Client,
    runtime: Runtime,
    folder: TempDir,
}

/// The store of a group with a fallback, and a link from each member to the store.
#[derive(Debug)]
struct GroupStore {
    /// The process; `None` while it is killed.
    process: Option<StoreProcess>,
    address: SocketAddr,
    links: BTreeMap<u32, Proxy>,
}

/// The number of lines of each member that a failed test shows.
const LAST_LINES: usize = 20;

impl Drop for Group {
    /// Shows the last lines of all members if the test fails.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for (member, process) in &self.members {
            let stderr = process.stderr();
            let lines: Vec<&str> = stderr.lines().collect();
            let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
            eprintln!("the last lines of member {member}:\n{}", last.join("\n"));
        }
    }
}

/// The shared key of a group, which is its own: a process of another test that still runs and sends to
/// a port of this group is no member of it.
#[must_use]
pub fn secret(folder: &TempDir) -> String {
    format!("a secret of the tests in {}\n", folder.path().display())
}

impl Group {
    /// Five members that are not running yet, and the command for leaders.
    ///
    /// # Panics
    ///
    /// If there are no resources for them.
    #[must_use]
    pub fn new(command: &str) -> Self {
        Self::of_size(MEMBERS.len() as u32, command)
    }

    /// As many members that are not running yet, and the command for leaders.
    ///
    /// # Panics
    ///
    /// If there are no resources for them.
    #[must_use]
    pub fn of_size(size: u32, command: &str) -> Self {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("key"), secret(&folder)).expect("a key");
        // Addresses that no other process uses: a restarted member has the same address.
        let group = std::process::id().wrapping_mul(16) + GROUPS.fetch_add(1, Ordering::Relaxed);
        let address = |member: u32| {
            let [.., high, low] = (group % 0xff00 + 0x100).to_be_bytes();
            let [.., last] = member.to_be_bytes();
            SocketAddr::from((Ipv4Addr::new(127, high, low, last), PORT))
        };
        let addresses = (1..=size).map(|member| (member, address(member)));
        let runtime = Runtime::new().expect("a runtime");
        let pairs = (1..=size).flat_map(|from| (1..=size).map(move |to| (from, to)));
        let links = pairs
            .filter(|(from, to)| from != to)
            .map(|(from, to)| {
                let proxy = runtime.block_on(Proxy::start(address(to)));
                ((from, to), proxy.expect("a free port"))
            })
            .collect();
        let lease = format!("{}ms", LEASE.as_millis());
        let client = crate::client::plain_http()
            .timeout(Duration::from_millis(500))
            .build();
        let mut group = Self {
            members: BTreeMap::new(),
            all: (1..=size).collect(),
            store: None,
            links,
            neighbors: None,
            addresses: addresses.collect(),
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
        for member in 1..=size {
            let state = group.folder().join(format!("state-{member}"));
            group.set_for(member, "TENURE_BULLY_STATE_DIR", state);
        }
        group
    }

    /// Lets the members pass messages on. Each of them has the addresses of its neighbours only,
    /// which are in these pairs.
    #[must_use]
    pub fn with_neighbors(mut self, pairs: impl IntoIterator<Item = (u32, u32)>) -> Self {
        self.neighbors = Some(pairs.into_iter().collect());
        self.set("TENURE_BULLY_RELAY", "true");
        self
    }

    fn has_address(&self, member: u32, of: u32) -> bool {
        let linked =
            |pairs: &Vec<_>| pairs.contains(&(member, of)) || pairs.contains(&(of, member));
        member == of || self.neighbors.as_ref().is_none_or(linked)
    }

    /// Gives the members a store, which is running, and lets them elect among themselves while it is
    /// away. `k` members are enough beside the store.
    ///
    /// # Panics
    ///
    /// If there are no resources for it.
    #[must_use]
    pub fn with_store(mut self, k: u32) -> Self {
        let mut address = self.addresses[&1];
        if let SocketAddr::V4(address) = &mut address {
            let [net, high, low, _] = address.ip().octets();
            address.set_ip(Ipv4Addr::new(net, high, low, 200));
        }
        let links = self.all.iter().map(|&member| {
            let proxy = self.runtime.block_on(Proxy::start(address));
            (member, proxy.expect("a free port"))
        });
        let links = links.collect();
        self.set("TENURE_FALLBACK_K", k.to_string());
        self.set("TENURE_FALLBACK_MESSAGE_LIFETIME", "400ms");
        for member in self.all.clone() {
            let state = self.folder().join(format!("state-{member}"));
            self.set_for(member, "TENURE_FALLBACK_STATE_DIR", state);
        }
        self.settings
            .retain(|(_, name, _)| !name.to_string_lossy().starts_with("TENURE_BULLY_"));
        self.store = Some(GroupStore {
            process: None,
            address,
            links,
        });
        self.start_store();
        self
    }

    /// Starts the store, or starts it again with its data.
    ///
    /// # Panics
    ///
    /// If the group has none.
    pub fn start_store(&mut self) {
        let folder = self.folder().join("store");
        let store = self.store.as_mut().expect("a store");
        let process = StoreProcess::start_at(&folder, &store.address.to_string());
        store.process = Some(process);
    }

    /// Kills the store.
    ///
    /// # Panics
    ///
    /// If the group has none, or it is killed already.
    pub fn kill_store(&mut self) {
        let store = self.store.as_mut().expect("a store");
        let store = store.process.take().expect("a running store");
        store.process.signal(Signal::SIGKILL);
    }

    /// From now on exactly these members reach the store. The traffic of the others is lost.
    ///
    /// # Panics
    ///
    /// If the group has no store.
    pub fn let_reach_store(&self, members: &[u32]) {
        for (member, link) in &self.store.as_ref().expect("a store").links {
            let is_cut = !members.contains(member);
            link.set(if is_cut {
                ProxyMode::Hang
            } else {
                ProxyMode::Pass
            });
        }
    }

    /// The lease as the store shows it; `None` if the store does not answer.
    ///
    /// # Panics
    ///
    /// If the group has no store.
    #[must_use]
    pub fn lease(&self) -> Option<Value> {
        self.ask_store("")
    }

    /// The last terms of the lease as the store shows them; `None` if the store does not answer.
    ///
    /// # Panics
    ///
    /// If the group has no store.
    #[must_use]
    pub fn history(&self) -> Option<Value> {
        self.ask_store("/history")
    }

    fn ask_store(&self, verb: &str) -> Option<Value> {
        let address = self.store.as_ref().expect("a store").address;
        let url = format!("http://{address}/v1/namespaces/tests/leases/job{verb}");
        let answer = async { self.client.get(url).send().await.ok()?.json().await.ok() };
        self.runtime.block_on(answer)
    }

    /// The epoch under which the store holds the lease now.
    #[must_use]
    pub fn held_epoch(&self) -> Option<u64> {
        let lease = self.lease()?;
        lease["epoch"]
            .as_u64()
            .filter(|_| lease["state"] == "leased")
    }

    /// Sets an environment variable for all members, from their next start on. A later value
    /// replaces an earlier one.
    pub fn set(&mut self, name: impl Into<OsString>, value: impl Into<OsString>) {
        self.settings.push((None, name.into(), value.into()));
    }

    /// Sets an environment variable for one member, from its next start on.
    pub fn set_for(&mut self, member: u32, name: impl Into<OsString>, value: impl Into<OsString>) {
        let setting = (Some(member), name.into(), value.into());
        self.settings.push(setting);
    }

    /// The numbers of all members, running or not.
    #[must_use]
    pub fn all(&self) -> &[u32] {
        &self.all
    }

    /// A folder that exists as long as the group.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The receiver of the leaders' commands.
    #[must_use]
    pub const fn receiver(&self) -> &Receiver {
        &self.receiver
    }

    /// `tenure run` as this member.
    #[must_use]
    pub fn run(&self, member: u32) -> Command {
        // The peers' addresses are those of the links, so that each link can be cut separately.
        let address = |to| match self.links.get(&(member, to)) {
            Some(link) => link.address(),
            None => self.addresses[&member],
        };
        let peers = self
            .all
            .iter()
            .map(|&to| match self.has_address(member, to) {
                true => format!("{to}=http://{}", address(to)),
                false => format!("{to}=relay"),
            });
        let peers = peers.collect::<Vec<_>>().join(",");
        let mut run = command(&["run", "--election", "tests/job"]);
        let listen = self.addresses[&member].to_string();
        let key_file = self.folder().join("key");
        match &self.store {
            None => {
                run.args(["--strategy", "bully", "--node", &member.to_string()])
                    .args(["--peers", &peers])
                    .args(["--listen", &listen])
                    .arg("--key-file")
                    .arg(key_file);
            }
            Some(store) => {
                let server = format!("http://{}", store.links[&member].address());
                run.env("TENURE_SERVER", server)
                    .env("TENURE_FALLBACK_MEMBERS", peers)
                    .env("TENURE_FALLBACK_NODE", member.to_string())
                    .env("TENURE_FALLBACK_LISTEN", listen)
                    .env("TENURE_FALLBACK_KEY_FILE", key_file);
            }
        }
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

    /// A command of an operator of a group with a store, with the addresses of the store and of the
    /// members, which no fault affects.
    ///
    /// # Panics
    ///
    /// If the group has no store.
    #[must_use]
    pub fn tool(&self, arguments: &[&str]) -> Command {
        let store = self.store.as_ref().expect("a store");
        let addresses = self.addresses.iter();
        let members = addresses.map(|(member, address)| format!("{member}=http://{address}"));
        let members: Vec<String> = members.collect();
        let mut tool = command(arguments);
        tool.env("TENURE_ELECTION", "tests/job")
            .env("TENURE_SERVER", format!("http://{}", store.address))
            .env("TENURE_FALLBACK_MEMBERS", members.join(","))
            .env("TENURE_FALLBACK_NODE", "1");
        tool
    }

    /// Starts this member, or starts it again.
    pub fn start(&mut self, member: u32) {
        let process = Process::spawn(&mut self.run(member));
        self.members.insert(member, process);
    }

    /// Starts all members.
    pub fn start_all(&mut self) {
        for member in self.all.clone() {
            self.start(member);
        }
    }

    /// The process of a member that was started.
    ///
    /// # Panics
    ///
    /// If it was not started.
    #[must_use]
    pub fn member(&self, member: u32) -> &Process {
        &self.members[&member]
    }

    /// The same, to wait for its end.
    ///
    /// # Panics
    ///
    /// If it was not started.
    pub fn member_mut(&mut self, member: u32) -> &mut Process {
        self.members.get_mut(&member).expect("a running member")
    }

    /// Kills these members, and waits until they are gone.
    ///
    /// # Panics
    ///
    /// If one is not running.
    pub fn kill(&mut self, members: &[u32]) {
        for member in members {
            self.members[member].signal(Signal::SIGKILL);
        }
        for member in members {
            // Dropping the process waits for its end.
            self.members.remove(member).expect("a running member");
        }
    }

    /// The status of a member; `None` if it does not answer.
    #[must_use]
    pub fn status(&self, member: u32) -> Option<Value> {
        let url = format!("http://{}/v1/peers/job/status", self.addresses[&member]);
        let answer = async { self.client.get(url).send().await.ok()?.json().await.ok() };
        self.runtime.block_on(answer)
    }

    /// Starts all members, and makes this one the leader. That takes no extra step for the member
    /// with the highest priority.
    #[must_use]
    pub fn start_all_under(&mut self, member: u32) -> Leader {
        self.start_all();
        let mut leader = self.settled(0, &self.all);
        while leader.member != member {
            // The old leader returns when another member leads; before that it would win every
            // vote.
            self.kill(&[leader.member]);
            let _ = self.next_leader(leader.epoch);
            self.start(leader.member);
            leader = self.settled(leader.epoch, &self.all);
        }
        leader
    }

    /// The leader that a member knows, possibly itself; `None` also if the member does not answer.
    #[must_use]
    pub fn followed_by(&self, member: u32) -> Option<u32> {
        let leader = self.status(member)?["leader"].as_u64()?;
        leader.try_into().ok()
    }

    /// Waits until a member follows this leader.
    pub fn wait_until_follows(&self, member: u32, leader: u32) {
        wait_for(&format!("member {member} to follow {leader}"), || {
            (self.followed_by(member) == Some(leader)).then_some(())
        });
    }

    /// Waits until all these members follow a leader that has acted under an epoch above this one.
    #[must_use]
    #[track_caller]
    pub fn settled(&self, above: u64, members: &[u32]) -> Leader {
        wait_for("a leader that all members know", || {
            let leader = self.leaders().pop().filter(|leader| leader.epoch > above)?;
            let knows = |&member: &u32| self.followed_by(member) == Some(leader.member);
            members.iter().all(knows).then_some(leader)
        })
    }

    /// Waits for the first action under an epoch above this one.
    #[must_use]
    pub fn next_leader(&self, above: u64) -> Leader {
        Leader::of(&self.receiver.next_leader(above))
    }

    /// All leaders with an accepted action, in the order of their first ones.
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

    /// The last leader.
    ///
    /// # Panics
    ///
    /// If there was none.
    #[must_use]
    pub fn last_leader(&self) -> Leader {
        *self.leaders().last().expect("a leader")
    }

    /// Waits for the end of a member that was stopped.
    ///
    /// # Panics
    ///
    /// If it is not running.
    pub fn end_of(&mut self, member: u32) -> ExitStatus {
        let mut process = self.members.remove(&member).expect("a running member");
        process.wait()
    }

    /// Waits until a member has noticed the end of its term. The process may have exited then, if
    /// its command did not stop at once; a supervisor would start it again.
    ///
    /// # Panics
    ///
    /// If it is not running, or has ended for another reason.
    pub fn wait_until_stepped_down(&mut self, member: u32) {
        let process = self.members.get_mut(&member).expect("a running member");
        let has_ended = wait_for(&format!("member {member} to step down"), || {
            let has_ended = process.has_ended();
            (has_ended || process.stderr().contains("leadership lost")).then_some(has_ended)
        });
        if has_ended {
            let stderr = process.stderr();
            assert!(stderr.contains("so this process ends"), "{stderr}");
            self.start(member);
        }
    }

    /// From now on all traffic between these two is lost if `from` has opened the connection.
    pub fn cut_one_way(&self, from: u32, to: u32) {
        self.links[&(from, to)].set(ProxyMode::HangRequests);
        self.links[&(to, from)].set(ProxyMode::HangReplies);
    }

    /// From now on all traffic between the two sets is lost, in both directions.
    pub fn partition(&self, ones: &[u32], others: &[u32]) {
        for &one in ones {
            for &other in others {
                self.links[&(one, other)].set(ProxyMode::Hang);
                self.links[&(other, one)].set(ProxyMode::Hang);
            }
        }
    }

    /// The link that carries requests from one member to the other, and their answers.
    #[must_use]
    pub fn link(&self, from: u32, to: u32) -> &Proxy {
        &self.links[&(from, to)]
    }

    /// Ends all cuts and delays; delayed traffic arrives.
    pub fn heal(&self) {
        for link in self.links.values() {
            link.set(ProxyMode::Pass);
        }
        if self.store.is_some() {
            self.let_reach_store(&self.all);
        }
    }

    /// Lets this much time pass.
    pub fn let_pass(&self, time: Duration) {
        let begin = Instant::now();
        wait_for("time to pass", || (begin.elapsed() >= time).then_some(()));
    }

    /// All members of a group of five but these.
    #[must_use]
    pub fn all_but(members: &[u32]) -> Vec<u32> {
        let mut all = MEMBERS.to_vec();
        all.retain(|member| !members.contains(member));
        all
    }
}

/// The member that acted, and its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leader {
    /// The member.
    pub member: u32,
    /// Its epoch.
    pub epoch: u64,
}

impl Leader {
    /// The member of this action.
    ///
    /// # Panics
    ///
    /// If it is no member.
    #[must_use]
    pub fn of(act: &Act) -> Self {
        Self {
            member: act.candidate.parse().expect("a member"),
            epoch: act.epoch,
        }
    }
}
