//! Clients and candidates of a cluster.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure::{Candidate, Config, Timings, TimingsOptions};
use tenure_tests::client::{Client, compete, id};
use tenure_tests::cluster::Cluster;
use tenure_tests::needs::skipped;
use tenure_tests::process::Process;
use tenure_tests::receiver::{Link, Receiver, now};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

/// The number of elections whose leaders must keep their terms. Each has two candidates.
const LEADERS: usize = 6;

/// The number of clients that compete for two short leases.
const CLIENTS: u64 = 4;

/// The interval of actions of these leaders.
const PACE: Duration = Duration::from_millis(50);

/// The default lease duration.
const DEFAULT_LEASE: Duration = Duration::from_secs(15);

/// The interval of renewals of a probe.
const PROBE: Duration = Duration::from_millis(20);

/// The lease duration of the candidate processes, in milliseconds: so short that a fail-over ends
/// their terms.
const BRISK: &str = "1500";

/// All clients of a cluster in a test.
pub(crate) struct Load {
    client: Client,
    clients: Vec<JoinHandle<()>>,
    /// The judge of the candidate processes.
    pub(crate) receiver: Receiver,
    processes: Vec<Process>,
    leaders: Vec<Leader>,
    pub(crate) probe: Probe,
    /// Renewals of leaders begin when this time is left. It is the slack on which the promise rests.
    slack: Duration,
    /// Whether the leaders have the default timings: the long forms, which need a machine that is fast
    /// enough.
    has_default_timings: bool,
    stop: Arc<AtomicBool>,
}

/// An election whose leader must keep its term.
pub(crate) struct Leader {
    pub(crate) receiver: Receiver,
    ends: Arc<Mutex<Vec<String>>>,
    /// The time that the term had left when the leader acted last, in milliseconds.
    left: Arc<AtomicU64>,
    tasks: Vec<JoinHandle<()>>,
}

impl Load {
    /// Starts them, and waits until every election has a leader.
    pub(crate) fn start(cluster: &Cluster) -> Self {
        let client = cluster.client();
        let stop = Arc::<AtomicBool>::default();
        let clients = (1..=CLIENTS).map(|number| {
            let name = format!("tests/contended-{}", number % 2);
            (cluster.runtime).spawn(compete(client.clone(), name, number, stop.clone()))
        });
        let clients = clients.collect();
        let receiver = Receiver::start();
        let urls = cluster.urls();
        let processes = ["p1", "p2"].map(|candidate| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-test-candidate"));
            command
                .arg(receiver.address().to_string())
                .args([&urls.join(","), "tests/job", candidate, BRISK])
                .arg(cluster.folder.path().join(format!("freeze-{candidate}")));
            Process::spawn(&mut command)
        });
        let leaders: Vec<_> = (0..LEADERS)
            .map(|number| Leader::start(&cluster.runtime, number, &urls, cluster.settings.lease))
            .collect();
        let load = Self {
            probe: Probe::start(cluster, &stop),
            // A third of the lease duration, plus or minus a tenth.
            slack: cluster.settings.lease * 3 / 10,
            has_default_timings: cluster.settings.lease == DEFAULT_LEASE,
            client,
            clients,
            processes: processes.into(),
            receiver,
            leaders,
            stop,
        };
        for leader in &load.leaders {
            let _ = leader.receiver.next_leader(0);
        }
        let _ = load.receiver.next_leader(0);
        load.probe.wait(now());
        load
    }

    /// Waits until every leader has renewed since the last fault, as far as that made it late. It
    /// has the slack then on which the promise rests: a fail-over in the middle of another one may
    /// end terms.
    pub(crate) fn wait_until_steady(&self) {
        for leader in &self.leaders {
            wait_for("a leader with enough time left", || {
                self.assert_terms_last();
                let left = Duration::from_millis(leader.left.load(Ordering::SeqCst));
                (left >= self.slack).then_some(())
            });
        }
    }

    /// Checks that no leader that must keep its term has lost it. In short forms, on a machine on
    /// which a fail-over takes longer than the slack, terms may end, and only their order is judged.
    pub(crate) fn assert_terms_last(&self) {
        if self.has_default_timings || self.probe.longest_gap(Duration::ZERO) < self.slack {
            self.leaders.iter().for_each(Leader::assert_term_lasts);
        }
    }

    /// The codes of failures of all clients that compete, and of the probe.
    pub(crate) fn failures(&self) -> BTreeMap<String, u64> {
        let mut failures = self.client.failures();
        for (code, count) in self.probe.client.failures() {
            *failures.entry(code).or_default() += count;
        }
        failures
    }

    /// Ends all clients and checks what they did.
    pub(crate) fn verify(self, cluster: &Cluster) {
        // Each leader acts again after the last fault.
        let since = now();
        self.leaders
            .iter()
            .for_each(|leader| leader.wait_for_act(since));
        self.assert_terms_last();
        let gap = self.probe.longest_gap(Duration::ZERO);
        if gap >= self.slack && !self.has_default_timings {
            let why = format!(
                "no renewal for {gap:.1?}, and leaders have {:.1?}",
                self.slack
            );
            let test = std::thread::current().name().unwrap_or("a test").to_owned();
            skipped(&format!("the terms of {test}"), &why);
        }
        self.verify_answers(cluster);
    }

    /// The same, where terms may have ended.
    pub(crate) fn verify_answers(self, cluster: &Cluster) {
        let receivers = self.end(cluster);
        receivers.iter().for_each(Receiver::assert_one_at_a_time);
    }

    /// The same, where terms may have overlapped.
    pub(crate) fn verify_fence(self, cluster: &Cluster) {
        let receivers = self.end(cluster);
        receivers.iter().for_each(Receiver::assert_fence_held);
    }

    fn end(self, cluster: &Cluster) -> Vec<Receiver> {
        self.stop.store(true, Ordering::SeqCst);
        for process in &self.processes {
            process.signal(Signal::SIGKILL);
        }
        cluster.runtime.block_on(async {
            for client in self.clients {
                client.await.expect("a client");
            }
            self.probe.task.await.expect("a probe");
        });
        let leaders = self.leaders.into_iter().map(Leader::end);
        leaders.chain([self.receiver]).collect()
    }
}

impl Leader {
    pub(crate) fn start(
        runtime: &Runtime,
        number: usize,
        urls: &[String],
        lease: Duration,
    ) -> Self {
        let receiver = Receiver::start();
        let mut timings = TimingsOptions::default();
        timings.lease_duration = Some(lease);
        let ends = Arc::<Mutex<Vec<String>>>::default();
        let left = Arc::<AtomicU64>::default();
        let tasks = ["a", "b"].map(|id| {
            let config = Config::new(format!("n{number}/job").parse().expect("an election"))
                .with_candidate(id.parse().expect("a candidate id"))
                .with_servers(urls.iter().map(|url| url.parse().expect("a URL")))
                .with_timings(Timings::new(&timings).expect("valid timings"));
            let address = receiver.address();
            runtime.spawn(lead(config, address, ends.clone(), left.clone()))
        });
        Self {
            receiver,
            ends,
            left,
            tasks: tasks.into(),
        }
    }

    /// Checks that no term has ended.
    pub(crate) fn assert_term_lasts(&self) {
        let ends = lock(&self.ends);
        assert!(ends.is_empty(), "terms ended: {ends:?}");
    }

    /// Waits for an action after this time.
    pub(crate) fn wait_for_act(&self, since: Duration) {
        wait_for("an action of each leader", || {
            let acts = self.receiver.acts();
            acts.last().filter(|act| act.at > since).map(|_| ())
        });
    }

    /// Ends the candidates.
    pub(crate) fn end(self) -> Receiver {
        self.tasks.iter().for_each(JoinHandle::abort);
        self.receiver
    }
}

/// Competes, acts at the receiver while it leads, and notes the end of each term.
async fn lead(
    config: Config,
    receiver: SocketAddr,
    ends: Arc<Mutex<Vec<String>>>,
    left: Arc<AtomicU64>,
) {
    let candidate = Candidate::start(config).await.expect("a candidate");
    let link = Link::connect(receiver, candidate.id().as_str());
    let link = Arc::new(Mutex::new(link));
    loop {
        let term = candidate.run_one_term(std::future::pending::<()>(), |leadership| {
            let (link, left) = (link.clone(), left.clone());
            async move {
                loop {
                    let before = now();
                    if !leadership.is_valid() {
                        leadership.lost().await;
                        return;
                    }
                    lock(&link).act(leadership.epoch().get(), before, now());
                    let millis = u64::try_from(leadership.remaining().as_millis());
                    left.store(millis.unwrap_or_default(), Ordering::SeqCst);
                    tokio::select! {
                        _ = leadership.lost() => return,
                        () = tokio::time::sleep(PACE) => {}
                    }
                }
            }
        });
        let Some(term) = term.await.expect("a driver") else {
            return;
        };
        let end = format!(
            "{}: epoch {}: {}",
            candidate.election(),
            term.epoch,
            term.reason
        );
        lock(&ends).push(end);
    }
}

/// A client that renews a lease all the time, and records the answers.
pub(crate) struct Probe {
    client: Client,
    renewals: Arc<Mutex<Vec<Renewal>>>,
    task: JoinHandle<()>,
}

/// A renewal that was confirmed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Renewal {
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
}

impl Probe {
    fn start(cluster: &Cluster, stop: &Arc<AtomicBool>) -> Self {
        let (client, stop) = (cluster.client(), stop.clone());
        let renewals = Arc::<Mutex<Vec<Renewal>>>::default();
        let (asking, confirmed) = (client.clone(), renewals.clone());
        let task = cluster.runtime.spawn(async move {
            let name = "probe/lease";
            let mut number = 1;
            while !stop.load(Ordering::SeqCst) {
                let acquire = json!({"lease_id": id(number), "holder": "probe",
                    "duration_ms": 15_000});
                let sent = now();
                // An acquire by the holder is a renewal, so the probe can lose its lease and go on.
                let answer = asking.post(name, "acquire", acquire).await;
                match answer {
                    Some((200, _)) => {
                        let answered = now();
                        lock(&confirmed).push(Renewal { sent, answered });
                    }
                    // The lease has expired meanwhile, and its id is not granted again.
                    Some((409, _)) => number += 1,
                    _ => {}
                }
                tokio::time::sleep(PROBE).await;
            }
        });
        Self {
            client,
            renewals,
            task,
        }
    }

    /// The first renewal that was sent after this time.
    pub(crate) fn first_since(&self, since: Duration) -> Option<Renewal> {
        let renewals = lock(&self.renewals);
        let first = renewals.partition_point(|it| it.sent <= since);
        renewals.get(first).copied()
    }

    /// The longest time without a renewal after this time, up to now.
    pub(crate) fn longest_gap(&self, since: Duration) -> Duration {
        let renewals = lock(&self.renewals);
        let first = renewals.partition_point(|it| it.sent <= since);
        let answered = renewals[first..].iter().map(|it| it.answered);
        let times: Vec<_> = answered.chain([now()]).collect();
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    }

    /// Waits for a renewal that was sent after this time.
    pub(crate) fn wait(&self, since: Duration) {
        wait_for("a renewal", || self.first_since(since));
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
