//! The number of HTTP requests between members: all reach each other, or a ring passes messages on.
//!
//! `cargo test -p tenure-tests --test bully requests_of_a_ring -- --nocapture` prints the numbers.

use std::time::Duration;

use tempfile::TempDir;
use tenure::config::{Bully, Peer, PeerKey, Strategy};
use tenure::peers::{Asked, PeersClient, agreement};
use tenure::{Candidate, Config, Leadership, NodeId, Timings, TimingsOptions};
use tenure_tests::wait_until;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::three::free_addresses;

const MEMBERS: u32 = 7;

/// Members in this process.
struct Members {
    client: PeersClient,
    candidates: Vec<JoinHandle<()>>,
    _folder: TempDir,
}

impl Members {
    /// Starts members of which each has the addresses of these others.
    async fn start(has_address: fn(u32, u32) -> bool) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let addresses = free_addresses(MEMBERS as usize);
        let url = |node: u32| format!("http://{}", addresses[node as usize - 1]);
        let mut candidates = Vec::new();
        for node in 1..=MEMBERS {
            let peers = (1..=MEMBERS).map(|to| {
                let known = to == node || has_address(node, to);
                let address = if known { url(to) } else { "relay".into() };
                Peer::new(NodeId(to), &address).expect("a member")
            });
            let mut bully = Bully::new(NodeId(node), peers);
            bully.relay = true;
            bully.key = PeerKey::new("a secret of the tests, long enough").ok();
            bully.state_dir = folder.path().join(node.to_string());
            let config = Config::new("tests/job".parse().expect("a name"))
                .with_timings(timings())
                .with_strategy(Strategy::Bully(bully));
            let candidate = Candidate::start(config).await.expect("a member");
            candidates.push(tokio::spawn(async move {
                let task = |term: Leadership| async move {
                    term.lost().await;
                };
                let _ = candidate
                    .run_while_leader(std::future::pending(), task)
                    .await;
            }));
        }
        let peers =
            (1..=MEMBERS).map(|node| Peer::new(NodeId(node), &url(node)).expect("a member"));
        Self {
            client: PeersClient::new("job".parse().expect("a name"), peers).expect("a client"),
            candidates,
            _folder: folder,
        }
    }

    /// Waits until this number of members agree on a leader. Returns it and all requests so far.
    async fn agreed(&self, members: usize) -> (NodeId, u64) {
        wait_until("agreement", async || {
            let asked = self.client.ask_all().await;
            let (leader, _) = agreement(&asked)?;
            let answered = asked.iter().filter(|asked| asked.view.is_ok()).count();
            (answered == members).then(|| (leader, requests(&asked)))
        })
        .await
    }
}

fn timings() -> Timings {
    let mut options = TimingsOptions::default();
    options.lease_duration = Some(Duration::from_secs(5));
    Timings::new(&options).expect("timings")
}

/// Each request is counted by the member that sends it, and each hop of a message is a request.
fn requests(asked: &[Asked]) -> u64 {
    let views = asked.iter().filter_map(|asked| asked.view.as_ref().ok());
    let counters = views.map(|view| &view.counters);
    counters
        .map(|counters| counters.sent + counters.copies + counters.relayed)
        .sum()
}

/// Returns the requests until there is a leader, and then the requests in a minute.
async fn measured(name: &str, has_address: fn(u32, u32) -> bool) -> (u64, u64) {
    const PART: Duration = Duration::from_secs(10);
    let members = Members::start(has_address).await;
    let (_, first) = members.agreed(MEMBERS as usize).await;
    // The members find the remaining paths.
    sleep(Duration::from_secs(2)).await;
    let (_, before) = members.agreed(MEMBERS as usize).await;
    let begin = Instant::now();
    sleep(PART).await;
    let (_, after) = members.agreed(MEMBERS as usize).await;
    let minute = (after - before) as f64 * 60.0 / begin.elapsed().as_secs_f64();
    println!("{name}: {first} requests for the first election, {minute:.0} in a minute at rest");
    for candidate in &members.candidates {
        candidate.abort();
    }
    (first, minute as u64)
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_ring_and_of_members_that_all_reach_each_other() {
    let (_, direct) = measured("7 members, all to all", |_, _| true).await;
    let ring =
        |one: u32, other: u32| one.abs_diff(other) == 1 || one.abs_diff(other) == MEMBERS - 1;
    let (_, relayed) = measured("7 members in a ring", ring).await;
    // On average a path in this ring has two links. A search now and then costs more.
    assert!(relayed < 6 * direct, "{relayed} and {direct}");
}
