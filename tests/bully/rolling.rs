//! Changing the strategy of a running group, one member after the other.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure_tests::group::secret;
use tenure_tests::process::{Process, StoreProcess, run};
use tenure_tests::receiver::{Receiver, now};
use tenure_tests::wait_for;

use super::three::free_addresses;

/// A store, three members, and a fenced receiver that checks their actions.
struct Group {
    folder: TempDir,
    store: StoreProcess,
    receiver: Receiver,
    addresses: Vec<String>,
    members: BTreeMap<usize, Process>,
}

impl Group {
    fn start(strategy: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("key"), secret(&folder)).unwrap();
        let mut group = Self {
            store: StoreProcess::start(&folder.path().join("store")),
            receiver: Receiver::start(),
            addresses: free_addresses(3),
            members: BTreeMap::new(),
            folder,
        };
        for node in 1..=3 {
            group.join(node, strategy);
        }
        group
    }

    fn join(&mut self, node: usize, strategy: &str) {
        let path = |name: &str| self.folder.path().join(name);
        let peers = (1..).zip(&self.addresses);
        let peers = peers.map(|(node, address)| format!("{node}=http://{address}"));
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-test-candidate"));
        command
            .args([self.receiver.address().to_string(), self.store.url()])
            .args(["tests/job", &node.to_string(), "3000"])
            .arg(path("freeze-nobody"))
            .env("TENURE_ELECTION", "tests/job")
            .env("TENURE_LEASE_DURATION", "3s");
        let (table, members) = match strategy {
            "fallback" | "fallback that requires the store" => {
                let requires_store = strategy != "fallback";
                command.env("TENURE_FALLBACK_REQUIRE_STORE", requires_store.to_string());
                ("FALLBACK", "MEMBERS")
            }
            strategy => {
                command.env("TENURE_STRATEGY", strategy);
                ("BULLY", "PEERS")
            }
        };
        let key = |name: &str| format!("TENURE_{table}_{name}");
        command
            .env(key("NODE"), node.to_string())
            .env(key(members), peers.collect::<Vec<_>>().join(","))
            .env(key("LISTEN"), &self.addresses[node - 1])
            .env(key("KEY_FILE"), path("key"))
            .env(key("STATE_DIR"), path(&format!("state-{node}")))
            .env(key("MESSAGE_LIFETIME"), "400ms");
        self.members.insert(node, Process::spawn(&mut command));
    }

    /// Waits for an action of a leader from now on, and returns the leader.
    fn led(&self) -> usize {
        let begin = now();
        wait_for("a leader", || {
            let acts = self.receiver.acts();
            let last = acts
                .last()
                .filter(|act| act.before > begin && act.accepted)?;
            last.candidate.parse().ok()
        })
    }

    /// Restarts all members with this strategy, one after the other, the leader last: the leader is
    /// killed, the others are stopped. There is a leader after each restart.
    fn roll(&mut self, strategy: &str) {
        let leader = self.led();
        let others = (1..=3).filter(|node| *node != leader);
        for node in others.chain([leader]) {
            let mut old = self.members.remove(&node).unwrap();
            old.signal(if node == leader {
                Signal::SIGKILL
            } else {
                Signal::SIGTERM
            });
            old.wait();
            self.join(node, strategy);
            self.led();
        }
    }
}

#[test]
fn from_a_lease_to_peers_and_back_leaders_do_not_overlap_and_epochs_increase() {
    move_to(&["both", "bully", "both", "lease"]);
}

#[test]
fn from_a_lease_to_a_fallback_and_back_leaders_do_not_overlap_and_epochs_increase() {
    let between = "fallback that requires the store";
    move_to(&[between, "fallback", between, "lease"]);
}

fn move_to(strategies: &[&str]) {
    let mut group = Group::start("lease");
    for strategy in strategies {
        group.roll(strategy);
        let acts = group.receiver.acts();
        let last = acts.last().unwrap();
        eprintln!("{strategy}: {} leads, epoch {}", last.candidate, last.epoch);
    }
    group.receiver.assert_one_at_a_time();
    let acts = group.receiver.acts();
    let refused = acts.iter().find(|act| !act.accepted);
    assert_eq!(refused, None, "an old leader acted");
    let mut epochs: Vec<u64> = acts.iter().map(|act| act.epoch).collect();
    assert!(epochs.is_sorted());
    epochs.dedup();
    // The leader was killed four times.
    assert!(epochs.len() >= 5, "{epochs:?}");
}

#[test]
fn without_the_store_a_peer_is_elected_but_waits_for_the_lease_and_does_not_lead() {
    let group = Group::start("both");
    group.led();
    let peers = (1..).zip(&group.addresses);
    let peers: Vec<_> = peers
        .map(|(node, address)| format!("{node}=http://{address}"))
        .collect();
    let peers = peers.join(",");
    let show = || run(&["peers", "--election", "tests/job", "--peers", &peers]);
    wait_for("agreement", || show().status.success().then_some(()));
    group.store.process.signal(Signal::SIGKILL);
    let shown = wait_for("a member that waits for the lease", || {
        let shown = show();
        let table = String::from_utf8(shown.stdout.clone()).unwrap();
        table.contains("elected").then_some(shown)
    });
    assert_eq!(shown.status.code(), Some(1), "{shown:?}");
    group.receiver.assert_one_at_a_time();
}
