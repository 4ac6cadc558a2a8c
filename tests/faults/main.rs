//! Failures of leaders, stores, networks and disks, with real processes and sockets. A fenced
//! receiver checks the actions of leaders, and a history of all requests checks the answers of the
//! store.

mod blobs;
mod contention;
mod disk;
mod full_disk;
mod leader;
mod machine;
mod store;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tenure_tests::client::{Answer, Client, id};
use tenure_tests::process::{Process, StoreProcess};
use tenure_tests::receiver::Receiver;
use tenure_tests::tap::Tap;
use tokio::runtime::Runtime;

/// The election of most tests.
const ELECTION: &str = "tests/job";

/// The lease duration of most tests: renewals come every 500 ms, the renew deadline is one second.
const LEASE: Duration = Duration::from_millis(1500);

/// A store process, a tap that records all its requests, and a receiver.
struct Bench {
    runtime: Runtime,
    folder: TempDir,
    /// The store's data directory.
    data: PathBuf,
    store: StoreProcess,
    tap: Tap,
    receiver: Receiver,
}

impl Bench {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("store");
        Self::over(folder, data)
    }

    /// Starts with this data directory.
    fn on(data: PathBuf) -> Self {
        Self::over(tempfile::tempdir().unwrap(), data)
    }

    fn over(folder: TempDir, data: PathBuf) -> Self {
        let store = StoreProcess::start(&data);
        let runtime = Runtime::new().unwrap();
        let tap = runtime.block_on(Tap::start(store.address()));
        let receiver = Receiver::start();
        Self {
            runtime,
            folder,
            data,
            store,
            tap,
            receiver,
        }
    }

    /// Starts a candidate process.
    fn candidate(&self, id: &str) -> Process {
        Process::spawn(&mut self.candidate_command(id, self.tap.address()))
    }

    fn candidate_command(&self, id: &str, store: SocketAddr) -> Command {
        self.candidate_with(id, store, &LEASE.as_millis().to_string())
    }

    /// The same with other timings.
    fn candidate_with(&self, id: &str, store: SocketAddr, timings: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-test-candidate"));
        command
            .arg(self.receiver.address().to_string())
            .arg(format!("http://{store}"))
            .args([ELECTION, id, timings])
            .arg(self.freeze_file(id));
        command
    }

    /// If this file exists, the candidate freezes between its check and its action.
    fn freeze_file(&self, id: &str) -> PathBuf {
        self.folder.path().join(format!("freeze-{id}"))
    }

    /// Kills the store and starts it again with the same data and address.
    fn restart_store(&mut self) {
        let address = self.store.address().to_string();
        self.store.process.signal(nix::sys::signal::SIGKILL);
        self.store.process.wait();
        self.store = StoreProcess::start_at(&self.data, &address);
    }

    fn client(&self) -> Client {
        Client::new(self.tap.address())
    }

    /// The current view of the tests' election.
    fn status(&self) -> Value {
        let client = self.client();
        let (status, view) = self.runtime.block_on(client.view(ELECTION)).unwrap();
        assert_eq!(status, 200, "{view}");
        view
    }

    fn wait_for_waiters(&self, count: u64) {
        tenure_tests::wait_for("waiting candidates", || {
            (self.status()["waiters"] == count).then_some(())
        });
    }

    /// Checks the actions of leaders and the answers of the store.
    fn verify(&self) {
        assert!(!self.receiver.acts().is_empty(), "there was no leader");
        self.receiver.assert_one_at_a_time();
        self.tap.assert_possible();
    }
}
