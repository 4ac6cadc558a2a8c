//! The number of HTTP requests between members: all reach each other, or a ring passes messages on.
//!
//! `cargo test -p tenure-tests --test bully requests_of_a_ring -- --nocapture` prints the numbers.

use std::time::Duration;

use tempfile::TempDir;
use tenure::config::{Bully, Peer, PeerKey, Strategy};
use tenure::peers::{Asked, PeersClient, agreement};
use tenure::{Candidate, Config, Epoch, Leadership, NodeId, Timings, TimingsOptions};
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
            bully.relay = bully.peers.iter().any(|peer| peer.url().is_none());
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

    /// Waits until all members agree on a leader. Returns its epoch and all requests so far.
    async fn agreed(&self) -> (Epoch, u64) {
        wait_until("agreement", async || {
            let asked = self.client.ask_all().await;
            let (_, epoch) = agreement(&asked)?;
            let all = asked.iter().all(|asked| asked.view.is_ok());
            all.then(|| (epoch, requests(&asked)))
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

/// Returns the number of requests in a minute at rest, and prints it with those before.
async fn measured(name: &str, has_address: fn(u32, u32) -> bool) -> f64 {
    const PART: Duration = Duration::from_secs(10);
    let members = Members::start(has_address).await;
    let (_, first) = members.agreed().await;
    let minute = loop {
        // After an election the members find the remaining paths.
        sleep(PART / 2).await;
        let (epoch, before) = members.agreed().await;
        let begin = Instant::now();
        sleep(PART).await;
        let (same, after) = members.agreed().await;
        if same == epoch {
            let requests = f64::from(u32::try_from(after - before).expect("a small number"));
            break requests * 60.0 / begin.elapsed().as_secs_f64();
        }
    };
    println!("{name}: {first} requests for the first election, {minute:.0} in a minute at rest");
    for candidate in &members.candidates {
        candidate.abort();
    }
    minute
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_of_a_ring_and_of_members_that_all_reach_each_other() {
    let direct = measured("7 members, all to all", |_, _| true).await;
    let ring = |one: u32, other: u32| [1, MEMBERS - 1].contains(&one.abs_diff(other));
    let relayed = measured("7 members in a ring", ring).await;
    // No path in this ring has more than six links, and searches are rare at rest.
    assert!(relayed < 7.0 * direct, "{relayed} and {direct}");
}
