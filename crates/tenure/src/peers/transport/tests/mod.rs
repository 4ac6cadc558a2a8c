//! The server over real sockets, and the state file on a real disk.

mod ages;
mod connections;
mod doubles;
mod folders;
mod macs;
mod refusals;
mod relays;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tenure_core::bully::{
    GroupSettings, GroupTimings, Member, Membership, PeerMessage, QuorumMessage,
};
use tenure_core::{ElectionName, Epoch, Incarnation, Instant, Name, NodeId};
use tokio::sync::watch;

use super::*;
use crate::base::clock::{Clock, ManualClock};
use crate::base::member_error::StateError;
use crate::base::peer_key::PeerKey;
use crate::peers::state::StateFile;
use crate::peers::wire::{Counters, Fingerprint, Mac, Payload, Status};

/// A time that is longer than any of these tests may take.
const PATIENCE: Duration = Duration::from_secs(20);

const LIFETIME: Duration = Duration::from_secs(5);

impl PeerServer {
    fn counters(&self) -> Counters {
        self.endpoint.view().counters.clone()
    }
}

fn cluster() -> Name {
    "billing".parse().unwrap()
}

fn election() -> ElectionName {
    "tests/billing".parse().unwrap()
}

fn key() -> PeerKey {
    PeerKey::new("a key that tests share").unwrap()
}

fn keyed() -> Arc<Mac> {
    Mac::new(Some(&key())).into()
}

fn fingerprint(me: u32) -> Fingerprint {
    let member = |id| Member {
        id: NodeId(id),
        priority: 0,
    };
    let members = Membership::new([1, 2, 3].map(member)).unwrap();
    let settings = GroupSettings::new(NodeId(me), members, GroupTimings::default()).unwrap();
    Fingerprint::of(&election(), &settings)
}

/// The setup of a member that listens. Its peers have no address until a test sets one.
fn setup(me: u32) -> Setup {
    let nowhere: Url = "http://127.0.0.1:1".parse().unwrap();
    let peers = [1, 2, 3].map(NodeId).into_iter();
    Setup {
        cluster: cluster(),
        me: NodeId(me),
        incarnation: Incarnation(1),
        fingerprint: fingerprint(me),
        peers: peers
            .filter(|id| id.0 != me)
            .map(|id| (id, Some(nowhere.clone())))
            .collect(),
        relay: false,
        message_lifetime: LIFETIME,
        mac: keyed(),
        listen: Some("127.0.0.1:0".parse().unwrap()),
        hosts: vec!["two.lan".into()],
        page: axum::Router::new(),
        store: None,
        clock: Clock::system().unwrap(),
    }
}

fn at(address: SocketAddr) -> Url {
    format!("http://{address}").parse().unwrap()
}

fn listening_on(server: &PeerServer) -> SocketAddr {
    server.listening_on.unwrap()
}

/// The setup of member 1, with member 2 at this address.
fn one_with_two_at(address: SocketAddr) -> Setup {
    let mut setup = setup(1);
    setup.peers.insert(NodeId(2), Some(at(address)));
    setup
}

fn manual_clock() -> (Clock, watch::Sender<Instant>) {
    let clock = ManualClock::start();
    let time = clock.time.clone();
    (Clock::Manual(clock), time)
}

fn pre_vote(round: u64) -> Payload {
    Payload::Election(PeerMessage::Quorum(QuorumMessage::PreVote { round }))
}

fn ack(epoch: u64) -> Payload {
    let epoch = Epoch::new(epoch).unwrap();
    Payload::Election(PeerMessage::Quorum(QuorumMessage::VoteGranted { epoch }))
}

async fn next(inbox: &mut Inbox) -> PeerEvent {
    let event = tokio::time::timeout(PATIENCE, inbox.recv()).await;
    event.expect("an event in time").expect("a server")
}

async fn next_message(inbox: &mut Inbox) -> IncomingMessage {
    loop {
        if let PeerEvent::Message(message) = next(inbox).await {
            return message;
        }
    }
}

/// Replies to a request whose sender still waits. A message that arrived in a response has no
/// reply.
fn reply(message: IncomingMessage, payloads: Vec<Payload>) {
    if let Some(reply) = message.reply {
        assert_eq!(reply.send(payloads), Ok(()));
    }
}

/// Answers every message, like a driver.
fn answering(mut inbox: Inbox) {
    tokio::spawn(async move {
        while let Some(event) = inbox.recv().await {
            if let PeerEvent::Message(message) = event {
                reply(message, vec![ack(1)]);
            }
        }
    });
}

async fn wait_until(what: &str, is_true: impl Fn() -> bool) {
    let wait = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, wait).await;
    assert!(waited.is_ok(), "timed out while waiting for {what}");
}

#[tokio::test]
async fn an_answer_in_the_same_turn_is_in_the_response() {
    // The response is the only connection from member 2 to member 1.
    let (two, mut inbox_of_two) = PeerServer::start(setup(2)).unwrap();
    let (one, mut inbox_of_one) = PeerServer::start(one_with_two_at(listening_on(&two))).unwrap();
    one.send(NodeId(2), pre_vote(1));
    let asked = next_message(&mut inbox_of_two).await;
    assert_eq!((asked.from, asked.incarnation), (NodeId(1), Incarnation(1)));
    assert_eq!(asked.payload, pre_vote(1));
    reply(asked, vec![ack(5), pre_vote(9)]);
    let first = next_message(&mut inbox_of_one).await;
    assert_eq!((first.from, first.payload), (NodeId(2), ack(5)));
    let second = next_message(&mut inbox_of_one).await;
    assert_eq!(second.payload, pre_vote(9));
    // The first attempt learned the time of the receiver.
    let counters = one.counters();
    assert_eq!((counters.sent, counters.answered), (2, 1));
    assert_eq!(counters.refused_by_peers, 0);
    assert_eq!(two.counters().taken, 1);
}

#[tokio::test]
async fn a_message_that_arrived_in_a_response_has_no_reply() {
    let (one, mut inbox_of_one) = PeerServer::start(setup(1)).unwrap();
    let mut two = setup(2);
    two.peers.insert(NodeId(1), Some(at(listening_on(&one))));
    let (two, mut inbox_of_two) = PeerServer::start(two).unwrap();
    // There is no response to a response.
    two.send(NodeId(1), pre_vote(1));
    reply(next_message(&mut inbox_of_one).await, vec![ack(5)]);
    let answer = next_message(&mut inbox_of_two).await;
    assert!(answer.reply.is_none());
    two.send(NodeId(1), pre_vote(2));
    assert_eq!(next_message(&mut inbox_of_one).await.payload, pre_vote(2));
}

#[tokio::test]
async fn an_application_may_mount_the_routes_under_a_prefix() {
    let two = Setup {
        listen: None,
        ..setup(2)
    };
    let (two, mut inbox) = PeerServer::start(two).unwrap();
    let app = axum::Router::new().nest("/tenure", two.router());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let mut setup = one_with_two_at(address);
    let url = format!("http://{address}/tenure/").parse().unwrap();
    setup.peers.insert(NodeId(2), Some(url));
    let (one, _inbox) = PeerServer::start(setup).unwrap();
    one.send(NodeId(2), pre_vote(1));
    assert_eq!(next_message(&mut inbox).await.payload, pre_vote(1));
}

#[tokio::test]
async fn without_keys_messages_are_accepted_and_a_key_on_one_side_is_refused() {
    let insecure = || Arc::new(Mac::new(None));
    let two = Setup {
        mac: insecure(),
        ..setup(2)
    };
    let (two, mut inbox_of_two) = PeerServer::start(two).unwrap();
    let one = one_with_two_at(listening_on(&two));
    let (keyed, _inbox) = PeerServer::start(one).unwrap();
    keyed.send(NodeId(2), pre_vote(1));
    wait_until("the refusal", || {
        two.counters().refused.contains_key("unauthenticated")
    })
    .await;
    let one = Setup {
        mac: insecure(),
        ..one_with_two_at(listening_on(&two))
    };
    let (bare, _inbox) = PeerServer::start(one).unwrap();
    bare.send(NodeId(2), pre_vote(2));
    assert_eq!(next_message(&mut inbox_of_two).await.payload, pre_vote(2));
}

#[tokio::test]
async fn a_message_that_has_waited_for_too_long_is_not_delivered() {
    let (clock, time) = manual_clock();
    let two = Setup {
        clock: clock.clone(),
        ..setup(2)
    };
    let (two, mut inbox) = PeerServer::start(two).unwrap();
    let one = Setup {
        clock,
        ..one_with_two_at(listening_on(&two))
    };
    let (one, _inbox) = PeerServer::start(one).unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("the message to be accepted", || two.counters().taken == 1).await;
    time.send_modify(|time| *time = *time + LIFETIME + Duration::from_millis(2));
    one.send(NodeId(2), pre_vote(2));
    assert_eq!(next_message(&mut inbox).await.payload, pre_vote(2));
}

#[tokio::test]
async fn a_newer_message_replaces_a_waiting_one_of_its_kind() {
    // No process reads from this socket, so the first message keeps the connection busy.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let one = one_with_two_at(silent.local_addr().unwrap());
    let (one, _inbox) = PeerServer::start(one).unwrap();
    one.send(NodeId(2), pre_vote(0));
    wait_until("the first message to be sent", || one.counters().sent == 1).await;
    for round in 1..=100 {
        one.send(NodeId(2), pre_vote(round));
    }
    one.send(NodeId(2), ack(1));
    assert_eq!(one.counters().replaced, 99);
    assert_eq!(one.counters().sent, 1, "one request at a time");
}

#[tokio::test]
async fn the_status_route_shows_the_published_status_and_the_counters() {
    let (two, _inbox) = PeerServer::start(setup(2)).unwrap();
    two.endpoint.view().status = Status {
        role: "following".into(),
        leader: Some(NodeId(3)),
        epoch: Epoch::new(7),
        suspects: vec![NodeId(1)],
        quorum: Some(true),
        ..Status::of(NodeId(2), Incarnation(4))
    };
    let base = at(listening_on(&two));
    let shown: serde_json::Value = reqwest::get(format!("{base}v1/peers/billing/status"))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(shown["node"], 2);
    assert_eq!(shown["incarnation"], 4);
    assert_eq!(
        (&shown["role"], &shown["leader"]),
        (&"following".into(), &3.into())
    );
    assert_eq!(
        (&shown["epoch"], &shown["quorum"]),
        (&7.into(), &true.into())
    );
    assert_eq!(shown["suspects"], serde_json::json!([1]));
    assert_eq!(shown["counters"]["taken"], 0);
    let other = reqwest::get(format!("{base}v1/peers/other/status"))
        .await
        .unwrap();
    assert_eq!(other.status(), 404);
}

#[tokio::test]
async fn an_address_in_use_is_an_error_that_names_it() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let setup = Setup {
        listen: Some(address),
        ..setup(1)
    };
    let error = PeerServer::start(setup).unwrap_err().to_string();
    assert!(error.contains(&address.to_string()), "{error}");
}

#[test]
fn settings_that_must_be_the_same_are_in_the_fingerprint() {
    assert_eq!(fingerprint(1), fingerprint(2));
    let of = |priorities: [u32; 3], guarantee| {
        let members = (1..).zip(priorities).map(|(id, priority)| Member {
            id: NodeId(id),
            priority,
        });
        let members = Membership::new(members).unwrap();
        let settings = GroupSettings::new(NodeId(1), members, GroupTimings::default()).unwrap();
        let settings = settings.with_guarantee(guarantee);
        Fingerprint::of(&election(), &settings).hash
    };
    use tenure_core::bully::GroupGuarantee::{BestEffort, Quorum};
    assert_eq!(of([0, 0, 0], Quorum), fingerprint(1).hash);
    assert_ne!(of([0, 0, 0], BestEffort), fingerprint(1).hash);
    assert_ne!(of([9, 0, 0], Quorum), fingerprint(1).hash);
    let settings = GroupSettings::new(
        NodeId(1),
        Membership::new([1, 2, 3].map(|id| Member {
            id: NodeId(id),
            priority: 0,
        }))
        .unwrap(),
        GroupTimings::default(),
    );
    for other in ["other/billing", "tests/other"] {
        let other = Fingerprint::of(&other.parse().unwrap(), settings.as_ref().unwrap());
        assert_ne!(other.hash, fingerprint(1).hash, "{}", other.text);
    }
}
