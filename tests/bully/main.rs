//! `tenure run` among peers: three processes, and what may happen to their leader.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure_tests::process::{Process, command, output};
use tenure_tests::wait_for;

/// Writes who leads and its epoch again and again, so that two leaders at once would be seen. It takes
/// no notice of SIGTERM: only the end of its term stops it.
const BEAT: &str =
    r#"trap '' TERM; while :; do echo "$TENURE_EPOCH $TENURE_CANDIDATE" >> "$0"; sleep 0.02; done"#;

/// Three members, and a folder for what they write.
struct Group {
    folder: TempDir,
    peers: String,
    key: PathBuf,
    members: BTreeMap<u32, Process>,
}

impl Group {
    fn start() -> Self {
        // All three are taken before any is given back, so they differ.
        let ports: Vec<TcpListener> = (0..3)
            .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
            .collect();
        let peers: Vec<String> = (1..)
            .zip(&ports)
            .map(|(node, port)| format!("{node}=http://{}", port.local_addr().unwrap()))
            .collect();
        drop(ports);
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, "a secret of the tests, long enough\n").unwrap();
        let mut group = Self {
            peers: peers.join(","),
            key,
            folder,
            members: BTreeMap::new(),
        };
        for node in 1..=3 {
            group.join(node);
        }
        group
    }

    fn command(&self, node: u32, flags: &[&str]) -> Command {
        let mut command = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        command
            .args(["--node", &node.to_string(), "--peers", &self.peers])
            .args(["--lease-duration", "3s", "--key-file"])
            .arg(&self.key)
            .arg("--state-dir")
            .arg(self.folder.path().join(format!("state-{node}")))
            .env("TENURE_BULLY_LISTEN", self.address(node))
            .env("TENURE_BULLY_MESSAGE_LIFETIME", "400ms")
            .args(flags)
            .args(["--", "sh", "-c", BEAT])
            .arg(self.folder.path().join("journal"));
        command
    }

    fn address(&self, node: u32) -> String {
        let mut peers = self.peers.split(',');
        let peer = peers.find_map(|peer| peer.strip_prefix(&format!("{node}=http://")));
        peer.unwrap().to_owned()
    }

    fn join(&mut self, node: u32) {
        let process = Process::spawn(&mut self.command(node, &[]));
        self.members.insert(node, process);
    }

    /// Epoch and leader, beat by beat.
    fn beats(&self) -> Vec<(u64, u32)> {
        let text = fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let beat = |line: &str| {
            let (epoch, node) = line.split_once(' ').unwrap();
            (epoch.parse().unwrap(), node.parse().unwrap())
        };
        whole.lines().map(beat).collect()
    }

    /// Waits for the first beat of an epoch above this one.
    fn next_leader(&self, above: u64) -> (u64, u32) {
        wait_for("the next leader's command", || {
            self.beats().into_iter().find(|(epoch, _)| *epoch > above)
        })
    }

    /// Fails if a beat came from an old leader after one from a new leader.
    fn assert_one_at_a_time(&self) {
        let beats = self.beats();
        assert!(
            beats.is_sorted_by_key(|(epoch, _)| *epoch),
            "two commands ran at once: {:?}",
            beats.windows(2).find(|pair| pair[0] > pair[1])
        );
    }
}

#[test]
fn when_the_leader_is_killed_another_member_leads_with_a_greater_epoch() {
    let mut group = Group::start();
    let (epoch, leader) = group.next_leader(0);
    group.members[&leader].signal(Signal::SIGKILL);
    let (next_epoch, next) = group.next_leader(epoch);
    assert_ne!(next, leader);
    // It comes back with what it had promised, and leaves the leader alone.
    group.members.remove(&leader);
    group.join(leader);
    wait_for("the old leader to follow", || {
        let following = group.members[&leader].stderr().contains("following");
        following.then_some(())
    });
    assert_eq!(group.beats().last(), Some(&(next_epoch, next)));
    group.assert_one_at_a_time();
}

#[test]
fn a_leader_that_is_frozen_past_its_lease_finds_that_it_leads_no_more() {
    let group = Group::start();
    let (epoch, leader) = group.next_leader(0);
    group.members[&leader].signal(Signal::SIGSTOP);
    let (next_epoch, next) = group.next_leader(epoch);
    assert_ne!(next, leader);
    group.members[&leader].signal(Signal::SIGCONT);
    wait_for("the old leader to notice", || {
        let stderr = group.members[&leader].stderr();
        stderr.contains("leadership lost").then_some(())
    });
    assert_eq!(group.beats().last(), Some(&(next_epoch, next)));
    group.assert_one_at_a_time();
}

#[test]
fn a_leader_that_is_told_to_stop_gives_way_before_its_promises_end() {
    let mut group = Group::start();
    let (epoch, leader) = group.next_leader(0);
    group.members[&leader].signal(Signal::SIGTERM);
    let process = group.members.get_mut(&leader).unwrap();
    assert!(process.wait().success());
    let begin = std::time::Instant::now();
    group.next_leader(epoch);
    let took = begin.elapsed();
    // Without a release it is nearly all of the lease, and an election.
    assert!(took.as_millis() < 2_000, "the next one led after {took:?}");
    group.assert_one_at_a_time();
}

#[test]
fn what_can_not_be_is_refused_with_its_name() {
    let group = Group {
        folder: tempfile::tempdir().unwrap(),
        peers: "1=http://127.0.0.1:1,2=http://127.0.0.1:2,3=http://127.0.0.1:3".into(),
        key: "/no/such/key".into(),
        members: BTreeMap::new(),
    };
    let refused = |change: &dyn Fn(&mut Command)| {
        let mut command = group.command(1, &[]);
        command.env_remove("TENURE_BULLY_LISTEN");
        change(&mut command);
        let output = output(&mut command);
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let stderr = refused(&|_| {});
    assert!(
        stderr.contains("--key-file") && stderr.contains("/no/such/key"),
        "{stderr}"
    );
}
