//! Three member processes, for tests that need neither five members nor a failing network.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;
use tenure_tests::group::secret;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, command};
use tenure_tests::wait_for;

/// Writes the epoch and the leader again and again, so that an overlap would be visible. It ignores
/// SIGTERM: only the end of its term stops it.
const BEAT: &str =
    r#"trap '' TERM; while :; do echo "$TENURE_EPOCH $TENURE_CANDIDATE" >> "$0"; sleep 0.02; done"#;

/// Unused addresses of this machine.
pub(super) fn free_addresses(count: usize) -> Vec<String> {
    (0..count).map(|_| free_address().to_string()).collect()
}

/// Three members, and a folder for their output.
pub(super) struct Group {
    pub(super) folder: TempDir,
    pub(super) peers: String,
    key: PathBuf,
    pub(super) members: BTreeMap<u32, Process>,
}

impl Group {
    pub(super) fn start() -> Self {
        let peers: Vec<String> = (1..)
            .zip(free_addresses(3))
            .map(|(node, address)| format!("{node}=http://{address}"))
            .collect();
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        fs::write(&key, secret(&folder)).unwrap();
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

    pub(super) fn command(&self, node: u32, flags: &[&str]) -> Command {
        let mut command = command(&["run", "--election", "tests/job", "--strategy", "bully"]);
        command
            .args(["--node", &node.to_string(), "--peers", &self.peers])
            .args(["--lease-duration", "3s", "--key-file"])
            .arg(&self.key)
            .env(
                "TENURE_BULLY_STATE_DIR",
                self.folder.path().join(format!("state-{node}")),
            )
            .env("TENURE_BULLY_LISTEN", self.address(node))
            .env("TENURE_BULLY_MESSAGE_LIFETIME", "400ms")
            .args(flags)
            .args(["--", "sh", "-c", BEAT])
            .arg(self.folder.path().join("journal"));
        command
    }

    pub(super) fn address(&self, node: u32) -> String {
        let mut peers = self.peers.split(',');
        let peer = peers.find_map(|peer| peer.strip_prefix(&format!("{node}=http://")));
        peer.unwrap().to_owned()
    }

    fn join(&mut self, node: u32) {
        let process = Process::spawn(&mut self.command(node, &[]));
        self.members.insert(node, process);
    }

    /// The epochs and leaders of all lines so far.
    pub(super) fn beats(&self) -> Vec<(u64, u32)> {
        let text = fs::read_to_string(self.folder.path().join("journal")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let beat = |line: &str| {
            let (epoch, node) = line.split_once(' ').unwrap();
            (epoch.parse().unwrap(), node.parse().unwrap())
        };
        whole.lines().map(beat).collect()
    }

    /// Waits for the first line with an epoch above this one.
    pub(super) fn next_leader(&self, above: u64) -> (u64, u32) {
        wait_for("the next leader's command", || {
            self.beats().into_iter().find(|(epoch, _)| *epoch > above)
        })
    }
}
