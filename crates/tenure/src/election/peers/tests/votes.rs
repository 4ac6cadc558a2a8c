//! Elections over HTTP: the requests, and the messages in their responses.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::Request;
use axum::middleware::Next;
use serde_json::Value;
use tempfile::TempDir;
use tenure_core::election::ElectionMachine as _;
use tokio::sync::oneshot;

use super::*;
use crate::api::candidate::Candidate;
use crate::api::candidate_runtime::CandidateRuntime;
use crate::config::Strategy;
use crate::peers::state::StateFile;
use crate::peers::transport::{PeerServer, Setup};
use crate::peers::wire::{Fingerprint, Mac};
use crate::{Timings, TimingsOptions};

/// A time that is longer than any of these tests may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request about the election that a member has accepted.
#[derive(Clone, Debug, PartialEq)]
struct Exchange {
    from: u64,
    to: u32,
    request: String,
    /// The messages in the response; `None` until it was sent.
    response: Option<Vec<String>>,
}

type Exchanges = Arc<Mutex<Vec<Exchange>>>;

/// Three members over HTTP. The first one has the best priority.
struct Group {
    candidates: Vec<Candidate>,
    disks: Vec<Disk>,
    exchanges: Exchanges,
    _runtimes: Vec<CandidateRuntime>,
    _folders: Vec<TempDir>,
}

/// Returns the name of a message about the election, as in JSON, or `None` for other messages.
fn name(payload: &Value) -> Option<String> {
    let message = payload.get("election")?.get("quorum")?.as_object()?;
    message.keys().next().cloned()
}

/// Records a request about the election and the messages in its response.
async fn record(
    exchanges: Exchanges,
    to: u32,
    request: Request,
    next: Next,
) -> axum::response::Response {
    let (head, body) = request.into_parts();
    let body = to_bytes(body, 1 << 20).await.unwrap();
    let envelope: Value = serde_json::from_slice(&body).unwrap_or_default();
    let place = name(&envelope["payload"]).map(|request| {
        let mut exchanges = exchanges.lock().unwrap();
        exchanges.push(Exchange {
            from: envelope["from"].as_u64().unwrap(),
            to,
            request,
            response: None,
        });
        exchanges.len() - 1
    });
    let response = next.run(Request::from_parts(head, Body::from(body))).await;
    let (head, body) = response.into_parts();
    let body: Bytes = to_bytes(body, 1 << 20).await.unwrap();
    if let Some(place) = place {
        let answer: Value = serde_json::from_slice(&body).unwrap();
        let messages = match answer["payloads"].as_array() {
            Some(payloads) => payloads.iter().filter_map(name).collect(),
            // The first request to a process teaches the sender the time of that process, and is
            // sent again.
            None => vec![answer["code"].as_str().unwrap().to_owned()],
        };
        exchanges.lock().unwrap()[place].response = Some(messages);
    }
    axum::response::Response::from_parts(head, Body::from(body))
}

impl Group {
    async fn start(message_lifetime: Duration) -> Self {
        let mut timings = TimingsOptions::default();
        timings.lease_duration = Some(Duration::from_secs(60));
        let timings = Timings::new(&timings).unwrap();
        let mut listeners = Vec::new();
        for _ in 0..3 {
            listeners.push(tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let addresses = listeners.iter().map(|it| it.local_addr().unwrap());
        let peers = (1..)
            .zip(addresses)
            .map(|(node, address): (u32, SocketAddr)| {
                Peer::new(NodeId(node), &format!("http://{address}")).unwrap()
            });
        let peers: Vec<Peer> = peers.collect();
        let mut group = Self {
            candidates: Vec::new(),
            disks: Vec::new(),
            exchanges: Exchanges::default(),
            _runtimes: Vec::new(),
            _folders: Vec::new(),
        };
        for (node, listener) in (1..).zip(listeners) {
            let mut bully = Bully::new(NodeId(node), peers.clone());
            bully.timings.message_lifetime = Some(message_lifetime);
            let config = Config::new("tests/job".parse().unwrap())
                .with_timings(timings)
                .with_candidate(NodeId(node).into())
                .with_strategy(Strategy::Bully(bully.clone()));
            group.add(&bully, config, listener);
        }
        group
    }

    fn add(&mut self, bully: &Bully, config: Config, listener: tokio::net::TcpListener) {
        let clock = Clock::system().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let plan = bully.plan(&config.timings).unwrap();
        let (rules, detection) = (plan.settings, plan.detection);
        let fingerprint = Fingerprint::of(&config.election, &rules);
        let cluster = config.election.name.clone();
        let mut file = StateFile::open(
            folder.path(),
            "tests/job",
            bully.node.unwrap(),
            &fingerprint,
        )
        .unwrap();
        let started = clock.started();
        let mut machine = PeerCandidate::new(rules.clone(), file.record(), started);
        let Some(Output::Effect(PeerEffect::Persist(first))) = machine.poll_output() else {
            panic!("a member's first output is its record")
        };
        file.write(&first).unwrap();
        machine.handle_message(started.at, PeerInput::Persisted, &mut OsRandom);
        let (server, inbox) = PeerServer::start(Setup {
            cluster,
            me: bully.node.unwrap(),
            incarnation: Incarnation(1),
            fingerprint,
            peers: bully.others(),
            relay: false,
            message_lifetime: rules.timings().message_lifetime(),
            mac: Mac::new(None).into(),
            listen: None,
            hosts: Vec::new(),
            page: axum::Router::new(),
            store: None,
            clock: clock.clone(),
        })
        .unwrap();
        let (exchanges, to) = (self.exchanges.clone(), bully.node.unwrap().0);
        let recorder = axum::middleware::from_fn(move |request, next| {
            record(exchanges.clone(), to, request, next)
        });
        let router = server.router().layer(recorder);
        tokio::spawn(async move { axum::serve(listener, router).await });
        let disk: Disk = Arc::new(Mutex::new(file));
        self.disks.push(disk.clone());
        let runtime = CandidateRuntime::start_with(clock).unwrap();
        self.candidates.push(runtime.peer_candidate(
            config,
            Parts {
                detector: detection.detector(&rules.group(Incarnation(1))),
                machine,
                transport: PeerTransport::Http(server.into(), inbox),
                disk: Some(disk),
            },
            None,
        ));
        self._runtimes.push(runtime);
        self._folders.push(folder);
    }

    /// Returns all exchanges whose request had this name and was accepted.
    fn of(&self, request: &str) -> Vec<Exchange> {
        let exchanges = self.exchanges.lock().unwrap();
        let late = Some(vec!["late".to_owned()]);
        let of = exchanges
            .iter()
            .filter(|it| it.request == request && it.response != late);
        of.cloned().collect()
    }

    async fn wait_until(&self, what: &str, is_true: impl Fn(&Self) -> bool) {
        let wait = async {
            while !is_true(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(
            waited.is_ok(),
            "timed out while waiting for {what}: {:#?}",
            self.exchanges
        );
    }

    /// Waits until both followers have answered the first renewal, and checks the exchanges: the
    /// leader has sent each follower three requests, and each response contained the answer.
    async fn check_exchanges(&self) {
        let answered = |it: &Exchange| it.response.is_some();
        self.wait_until("two renewals", |group| {
            group.of("renew").iter().filter(|it| answered(it)).count() == 2
        })
        .await;
        for (request, response) in [
            ("pre_vote", "pre_vote_reply"),
            ("request_vote", "vote_granted"),
            ("renew", "renew_ack"),
        ] {
            let exchanges = self.of(request);
            assert_eq!(exchanges.len(), 2, "{exchanges:#?}");
            for exchange in exchanges {
                assert_eq!(exchange.from, 1);
                assert_eq!(
                    exchange.response,
                    Some(vec![response.to_owned()]),
                    "{exchange:#?}"
                );
            }
        }
        let all = self.exchanges.lock().unwrap();
        assert!(all.iter().all(|it| it.from == 1), "{all:#?}");
    }
}

/// The disks of both followers, which block all writes.
struct BusyDisks {
    release: mpsc::Sender<()>,
    holder: JoinHandle<()>,
}

impl BusyDisks {
    async fn of(group: &Group) -> Self {
        let disks = group.disks[1..].to_vec();
        let (release, released) = mpsc::channel();
        let (hold, held) = oneshot::channel();
        let holder = thread::spawn(move || {
            let guards: Vec<_> = disks.iter().map(|disk| disk.lock().unwrap()).collect();
            hold.send(()).unwrap();
            let _ = released.recv();
            drop(guards);
        });
        held.await.unwrap();
        Self { release, holder }
    }

    fn release(self) {
        self.release.send(()).unwrap();
        self.holder.join().unwrap();
    }
}

#[tokio::test]
async fn an_election_of_three_takes_three_requests_to_each_follower() {
    let group = Group::start(Duration::from_secs(4)).await;
    let guard = tokio::time::timeout(PATIENCE, group.candidates[0].campaign());
    let _guard = guard.await.unwrap().unwrap();
    group.check_exchanges().await;
}

#[tokio::test]
async fn a_vote_that_waits_for_a_slow_disk_is_sent_in_the_response_to_its_request() {
    let group = Group::start(Duration::from_secs(4)).await;
    let votes = async {
        let disks = BusyDisks::of(&group).await;
        group
            .wait_until("two requests for a vote", |group| {
                group.of("request_vote").len() == 2
            })
            .await;
        // The disks are busy, so no vote is durable yet.
        tokio::time::sleep(Duration::from_millis(200)).await;
        for exchange in group.of("request_vote") {
            assert_eq!(exchange.response, None);
        }
        disks.release();
    };
    let campaign = async { group.candidates[0].campaign().await.unwrap() };
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(campaign, votes) });
    let (_guard, ()) = both.await.unwrap();
    group.check_exchanges().await;
}

#[tokio::test]
async fn a_vote_that_is_too_late_for_its_response_is_sent_in_a_separate_request() {
    let group = Group::start(Duration::from_millis(800)).await;
    let votes = async {
        let disks = BusyDisks::of(&group).await;
        group
            .wait_until("two responses without a vote", |group| {
                let responses = group.of("request_vote").into_iter().map(|it| it.response);
                responses.filter(|it| *it == Some(Vec::new())).count() == 2
            })
            .await;
        disks.release();
    };
    let campaign = async { group.candidates[0].campaign().await.unwrap() };
    let both = tokio::time::timeout(PATIENCE, async { tokio::join!(campaign, votes) });
    let (_guard, ()) = both.await.unwrap();
    group
        .wait_until("both votes", |group| group.of("vote_granted").len() == 2)
        .await;
    assert_eq!(
        group.of("request_vote").len(),
        2,
        "it was elected by the first vote"
    );
}
