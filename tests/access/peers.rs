//! Tests of the key of a group of peers: a member does not start without a key beyond loopback, and
//! the key can be replaced during a term.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command, output};
use tenure_tests::{Limit, wait_for};
use tokio::runtime::Runtime;

use crate::wait_for_count;

const OLD: &str = "the old key of the group";
const NEW: &str = "the new key of the group";

/// Three members, each with its own key file.
struct Group {
    members: BTreeMap<u32, Process>,
    addresses: BTreeMap<u32, String>,
    folder: TempDir,
    runtime: Runtime,
}

impl Group {
    fn new() -> Self {
        Self {
            members: BTreeMap::new(),
            addresses: (1..=3)
                .map(|node| (node, free_address().to_string()))
                .collect(),
            folder: tempfile::tempdir().expect("a folder"),
            runtime: Runtime::new().expect("a runtime"),
        }
    }

    fn key_file(&self, node: u32) -> PathBuf {
        self.folder.path().join(format!("key-{node}"))
    }

    /// Replaces the key file of a member in one step.
    fn set_key(&self, node: u32, lines: &[&str]) {
        let new = self.folder.path().join("new");
        fs::write(&new, lines.join("\n") + "\n").expect("a key");
        fs::rename(new, self.key_file(node)).expect("a key");
    }

    fn start(&mut self, node: u32) {
        let peers = self.addresses.iter();
        let peers: Vec<_> = peers
            .map(|(node, at)| format!("{node}=http://{at}"))
            .collect();
        let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        run.args(["--node", &node.to_string(), "--peers", &peers.join(",")])
            .args(["--lease-duration", "3s", "--key-file"])
            .arg(self.key_file(node))
            .arg("--state-dir")
            .arg(self.folder.path().join(format!("state-{node}")))
            .args(["--", "sh", "-c", "echo leads; exec sleep 1000"]);
        self.members.insert(node, Process::spawn(&mut run));
    }

    /// Returns the number of terms of all members together.
    fn terms(&self) -> usize {
        let members = self.members.values();
        members
            .map(|member| member.stdout().matches("leads").count())
            .sum()
    }

    fn status(&self, node: u32) -> Option<Value> {
        let url = format!("http://{}/v1/peers/job/status", self.addresses[&node]);
        let client = tenure_tests::client::plain_http()
            .build()
            .expect("a client");
        let answer = async { client.get(url).send().await.ok()?.json().await.ok() };
        self.runtime.block_on(answer)
    }

    /// Waits until these members follow a leader that all of them know.
    fn settled(&self, nodes: &[u32]) -> (Value, Value) {
        wait_for("a leader that all members know", || {
            let known = nodes.iter().map(|node| {
                let status = self.status(*node)?;
                let is_led = !status["leader"].is_null();
                is_led.then(|| (status["leader"].clone(), status["epoch"].clone()))
            });
            let known = known.collect::<Option<Vec<_>>>()?;
            known
                .windows(2)
                .all(|two| two[0] == two[1])
                .then(|| known[0].clone())
        })
    }

    /// Returns the number of messages that this member refused because of their MAC.
    fn refused(&self, node: u32) -> u64 {
        let status = self.status(node).unwrap_or_default();
        status["counters"]["refused"]["unauthenticated"]
            .as_u64()
            .unwrap_or_default()
    }
}

#[test]
fn the_key_of_a_group_is_replaced_member_by_member_under_a_leader() {
    let mut group = Group::new();
    for node in 1..=3 {
        group.set_key(node, &[OLD]);
        group.start(node);
        // Members read their files at different times.
        thread::sleep(Duration::from_secs(2));
    }
    let leader = group.settled(&[1, 2, 3]);
    assert_eq!(group.terms(), 1);
    let steps = [&[OLD, NEW][..], &[NEW, OLD], &[NEW]];
    for (step, lines) in (1..).zip(steps) {
        for node in 1..=3 {
            group.set_key(node, lines);
            wait_for_count(
                &group.members[&node],
                "read the key of the group again",
                step,
            );
            assert_eq!(group.settled(&[1, 2, 3]), leader, "{lines:?} on {node}");
        }
    }
    // One renew deadline later all members still follow the leader: their messages have the new
    // key.
    thread::sleep(Duration::from_secs(3));
    assert_eq!(group.settled(&[1, 2, 3]), leader);
    assert_eq!(group.terms(), 1);
    for node in 1..=3 {
        assert_eq!(group.refused(node), 0, "member {node} refused messages");
        let log = group.members[&node].stderr();
        assert!(!log.contains(NEW) && !log.contains(OLD), "{log}");
    }
    // The members refuse the old key.
    let follower = (1..=3).find(|node| leader.0 != *node).expect("a follower");
    group.members.remove(&follower);
    group.set_key(follower, &[OLD]);
    group.start(follower);
    let old = follower;
    wait_for("refused messages", || {
        let refused = (1..=3)
            .filter(|node| *node != old)
            .map(|node| group.refused(node));
        (refused.sum::<u64>() > 0).then_some(())
    });
    let status = wait_for("the status of the member with the old key", || {
        group.status(old)
    });
    assert!(status["leader"].is_null(), "{status}");
}

#[test]
fn a_member_with_neither_key_has_no_vote() {
    let _limit = Limit::start();
    let mut group = Group::new();
    group.set_key(1, &[NEW, OLD]);
    group.set_key(2, &["another key, of the same length"]);
    group.set_key(3, &[OLD]);
    group.start(1);
    group.start(2);
    // One of three members is no majority, and the messages of the second one are refused.
    wait_for("refused messages", || {
        (group.refused(1) > 3 && group.refused(2) > 3).then_some(())
    });
    for node in [1, 2] {
        let status = group.status(node).expect("a status");
        assert!(status["leader"].is_null(), "{status}");
    }
    assert_eq!(group.terms(), 0);
    // With a third member that has one of the two keys the group elects a leader.
    group.start(3);
    let (leader, _) = group.settled(&[1, 3]);
    assert_ne!(leader, 2);
}

#[test]
fn members_without_a_key_start_on_loopback_only_unless_a_flag_says_otherwise() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = |own: &str, more: &[&str]| {
        let peers = format!("1=http://{own},2=http://127.0.0.1:1,3=http://127.0.0.1:2");
        let mut run = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        run.args(["--node", "1", "--peers", &peers]).args(more);
        run.arg("--state-dir").arg(folder.path().join("state"));
        run.args(["--", "true"]);
        run
    };
    let beyond = [
        ("192.0.2.7:7500", &[][..]),
        ("store.example:7500", &[]),
        ("127.0.0.1:7500", &["--listen", "0.0.0.0:0"]),
        ("127.0.0.1:7500", &["--listen", "[::]:0"]),
    ];
    for (own, more) in beyond {
        let ran = output(&mut run(own, more));
        let error = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{own} {more:?}: {error}");
        for way in ["--key-file", "--allow-anonymous", "--listen 127.0.0.1:"] {
            assert!(error.contains(way), "{way}: {error}");
        }
        assert!(!folder.path().join("state").exists());
    }
    let starts = |run: &mut std::process::Command| {
        let mut member = Process::spawn(run);
        wait_for("the start of a member", || {
            assert!(!member.has_ended(), "{}", member.stderr());
            // A member locks its state directory when it starts.
            folder.path().join("state").exists().then_some(())
        });
        thread::sleep(Duration::from_millis(300));
        assert!(!member.has_ended(), "{}", member.stderr());
        drop(member);
        fs::remove_dir_all(folder.path().join("state")).expect("the state");
    };
    starts(&mut run("127.0.0.1:7500", &["--listen", "127.0.0.1:0"]));
    starts(&mut run(
        "127.0.0.1:7500",
        &["--listen", "0.0.0.0:0", "--allow-anonymous"],
    ));
    let listen = ["--listen", "0.0.0.0:0"];
    starts(run("127.0.0.1:7500", &listen).env("TENURE_BULLY_ALLOW_ANONYMOUS", "true"));
    starts(run("127.0.0.1:7500", &listen).env("TENURE_BULLY_KEY", OLD));
    // A member with a loopback address listens on that address, and not on all interfaces.
    let address = free_address();
    let _member = Process::spawn(&mut run(&address.to_string(), &[]));
    wait_for("the listener", || {
        std::net::TcpStream::connect(address).ok()
    });
    let elsewhere = ("127.0.0.2", address.port());
    assert!(std::net::TcpStream::connect(elsewhere).is_err());
}
