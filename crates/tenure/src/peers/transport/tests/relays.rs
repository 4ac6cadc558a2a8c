//! Messages that members pass on, over real sockets.

use std::collections::BTreeMap;

use reqwest::header::CONTENT_TYPE;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::connections::Link;
use super::refusals::Writer;
use super::*;
use crate::peers::transport::path::{PATH_HEADER, RelayPath};
use crate::peers::transport::relay::Carried;
use crate::peers::wire::mac::MAC_HEADER;

/// The setup of a member of a group of this size that passes messages on. It knows no address.
fn relaying(me: u32, members: u32) -> Setup {
    let others = (1..=members).filter(|id| *id != me);
    Setup {
        peers: others.map(|id| (NodeId(id), None)).collect(),
        relay: true,
        me: NodeId(me),
        ..setup(1)
    }
}

/// Members that answer each message, on a network in which some pairs are linked.
struct Net {
    members: BTreeMap<u32, PeerServer>,
    links: BTreeMap<(u32, u32), Link>,
}

impl Net {
    /// Starts members with these links, each of which works in both directions.
    async fn start(size: u32, pairs: &[(u32, u32)], lifetime: Duration) -> Self {
        let mut listeners = BTreeMap::new();
        for id in 1..=size {
            listeners.insert(id, TcpListener::bind("127.0.0.1:0").await.unwrap());
        }
        let mut links = BTreeMap::new();
        for (one, other) in pairs {
            for (from, to) in [(*one, *other), (*other, *one)] {
                let link = Link::to(listeners[&to].local_addr().unwrap()).await;
                links.insert((from, to), link);
            }
        }
        let mut members = BTreeMap::new();
        for (id, listener) in listeners {
            let mut setup = Setup {
                listen: None,
                message_lifetime: lifetime,
                ..relaying(id, size)
            };
            for ((_, to), link) in links.iter().filter(|((from, _), _)| *from == id) {
                setup.peers.insert(NodeId(*to), Some(at(link.address)));
            }
            let (member, inbox) = PeerServer::start(setup).unwrap();
            answering_if_awaited(inbox);
            let router = member.router();
            tokio::spawn(async move { axum::serve(listener, router).await });
            members.insert(id, member);
        }
        Self { members, links }
    }

    fn counters(&self, member: u32) -> Counters {
        self.members[&member].counters()
    }

    /// Sends messages until one is answered.
    async fn until_answered(&self, from: u32, to: u32) {
        let before = self.counters(from).answered;
        let ends = |counters: &Counters| counters.answered + counters.failed + counters.expired;
        let mut round = 0;
        while self.counters(from).answered == before {
            let ended = ends(&self.counters(from));
            round += 1;
            self.members[&from].send(NodeId(to), pre_vote(round));
            wait_until("an end", || ends(&self.counters(from)) > ended).await;
        }
    }

    /// Returns the members that pass messages on, as the sender's status shows them.
    fn relays(&self, from: u32, to: u32) -> Option<Vec<u32>> {
        let view = self.members[&from].endpoint.view();
        let path = view.paths.get(&NodeId(to))?;
        Some(path.iter().map(|node| node.0).collect())
    }

    fn cut(&self, one: u32, other: u32) {
        self.links[&(one, other)].cut();
        self.links[&(other, one)].cut();
    }
}

/// Answers every message whose sender still waits.
fn answering_if_awaited(mut inbox: Inbox) {
    tokio::spawn(async move {
        while let Some(event) = inbox.recv().await {
            if let PeerEvent::Message(message) = event
                && let Some(reply) = message.reply
            {
                let _ = reply.send(vec![ack(1)]);
            }
        }
    });
}

fn ring(size: u32) -> Vec<(u32, u32)> {
    (1..=size).map(|id| (id, id % size + 1)).collect()
}

#[tokio::test]
async fn a_member_without_an_address_is_found_and_its_path_is_remembered() {
    let net = Net::start(4, &[(1, 2), (2, 3), (3, 4)], LIFETIME).await;
    net.until_answered(1, 4).await;
    assert_eq!(net.relays(1, 4), Some(vec![2, 3]));
    assert_eq!(net.counters(4).taken, 1);
    // The next message follows the path: one request on each of its links.
    let relayed = || [2, 3].map(|relay| net.counters(relay).relayed);
    let before = relayed();
    net.until_answered(1, 4).await;
    assert_eq!(relayed(), before.map(|count| count + 1));
    // A neighbour is reached directly.
    net.until_answered(1, 2).await;
    assert_eq!(net.relays(1, 2), Some(Vec::new()));
    assert_eq!(net.counters(1).copies, 0);
}

#[tokio::test]
async fn in_a_ring_every_member_reaches_every_other_one() {
    let net = Net::start(5, &ring(5), LIFETIME).await;
    for from in 1..=5 {
        for to in (1..=5).filter(|to| *to != from) {
            net.members[&from].send(NodeId(to), pre_vote(1));
        }
    }
    let all = |count: fn(&Counters) -> u64| (1..=5).all(|id| count(&net.counters(id)) == 4);
    wait_until("all answers", || all(|counters| counters.answered)).await;
    assert!(all(|counters| counters.taken), "each message once");
    assert!((1..=5).any(|id| net.counters(id).copies > 0), "they search");
    assert_eq!((1..=5).map(|id| net.counters(id).failed).sum::<u64>(), 0);
}

#[tokio::test]
async fn of_the_copies_of_a_search_the_receiver_accepts_one_and_its_answer_wins() {
    let (three, mut inbox) = PeerServer::start(relaying(3, 4)).unwrap();
    let mut neighbors = Vec::new();
    let mut one = relaying(1, 4);
    for id in [2, 4] {
        let mut relay = relaying(id, 4);
        relay
            .peers
            .insert(NodeId(3), Some(at(listening_on(&three))));
        let (relay, inbox) = PeerServer::start(relay).unwrap();
        let address = at(listening_on(&relay));
        one.peers.insert(NodeId(id), Some(address));
        neighbors.push((relay, inbox));
    }
    let (one, _inbox) = PeerServer::start(one).unwrap();
    // A message of member 1 that is valid for some seconds.
    let mut body = message(1);
    let (_, problem) = Writer::to(&three).send(&body).await;
    let now = problem["member"]["time_ms"].as_u64().unwrap();
    let instance = &problem["member"]["instance"];
    body["good_until"] = json!({"instance": instance, "time_ms": now + 4_000});
    let body = body.to_string();
    let request = Carried {
        mac: keyed().of_request("/v1/peers/billing/message", body.as_bytes()),
        body: body.into(),
        to: NodeId(3),
        deadline: tokio::time::Instant::now() + LIFETIME,
    };
    let path = RelayPath::of_sender(NodeId(1));
    let answer = async {
        let accepted = next_message(&mut inbox).await;
        let refused = || three.counters().refused.contains_key("replayed");
        wait_until("the refusal of the other copy", refused).await;
        // The refusal reaches member 1 before the answer.
        tokio::time::sleep(Duration::from_millis(100)).await;
        reply(accepted, vec![ack(5)]);
    };
    let (delivered, ()) = tokio::join!(one.relay.search(&request, &path), answer);
    let delivered = delivered.unwrap();
    assert_eq!(delivered.answer.status, 200);
    assert!([[NodeId(2)], [NodeId(4)]].contains(&[delivered.path.relays()[0]]));
    assert_eq!(three.counters().taken, 1);
}

#[tokio::test]
async fn a_path_that_breaks_is_replaced_by_another_one() {
    let net = Net::start(4, &ring(4), Duration::from_millis(600)).await;
    net.until_answered(1, 3).await;
    let first = net.relays(1, 3).unwrap();
    let (relay, other) = if first == [2] { (2, 4) } else { (4, 2) };
    assert_eq!(first, [relay]);
    net.cut(relay, 3);
    net.until_answered(1, 3).await;
    assert_eq!(net.relays(1, 3), Some(vec![other]));
    // Without a path the status shows none.
    net.cut(1, other);
    // Now the network is 3 - other, and 1 - relay.
    net.members[&1].send(NodeId(3), pre_vote(1));
    wait_until("no path", || net.relays(1, 3).is_none()).await;
}

#[tokio::test]
async fn a_direct_link_that_fails_is_replaced_by_a_path() {
    let all = [(1, 2), (1, 3), (2, 3)];
    let net = Net::start(3, &all, Duration::from_millis(600)).await;
    net.until_answered(1, 3).await;
    assert_eq!(net.relays(1, 3), Some(Vec::new()));
    net.cut(1, 3);
    net.until_answered(1, 3).await;
    assert_eq!(net.relays(1, 3), Some(vec![2]));
}

/// A caller that sends requests to the relay route of member 2 of three.
struct Caller {
    http: reqwest::Client,
    url: String,
    writer: Writer,
}

impl Caller {
    fn to(relay: &PeerServer) -> Self {
        Self {
            http: reqwest::Client::new(),
            url: format!("{}v1/peers/billing/relay", at(listening_on(relay))),
            writer: Writer::to(relay),
        }
    }

    async fn post(&self, body: &str, mac: &str, path: Option<&str>) -> (u16, Value) {
        let request = self.http.post(&self.url).body(body.to_owned());
        let request = request.header(CONTENT_TYPE, "application/json");
        let mut request = request.header(MAC_HEADER, mac);
        if let Some(path) = path {
            request = request.header(PATH_HEADER, path);
        }
        let response = request.send().await.unwrap();
        let status = response.status().as_u16();
        (status, response.json().await.unwrap())
    }

    /// Sends a message with a valid MAC.
    async fn send(&self, message: &Value, path: &str) -> (u16, Value) {
        let body = message.to_string();
        let mac = self.writer.mac_of(body.as_bytes());
        self.post(&body, &mac, Some(path)).await
    }
}

/// A message of member 1 to member 3, without an age.
fn message(number: u64) -> Value {
    json!({
        "version": 1, "cluster": "billing", "config": fingerprint(1).hash,
        "from": 1, "incarnation": 3, "instance": 77, "to": 3, "number": number, "good_until": null,
        "payload": {"election": {"quorum": {"pre_vote": {"round": 1}}}},
    })
}

fn changed(field: &str, value: impl Into<Value>) -> Value {
    let mut message = message(1);
    message[field] = value.into();
    message
}

/// Members 2 and 3. Member 2 has the address of member 3.
fn two_and_three() -> ((PeerServer, Inbox), (PeerServer, Inbox)) {
    let three = PeerServer::start(relaying(3, 3)).unwrap();
    let mut two = relaying(2, 3);
    let address = at(listening_on(&three.0));
    two.peers.insert(NodeId(3), Some(address));
    (PeerServer::start(two).unwrap(), three)
}

#[tokio::test]
async fn a_relay_passes_on_nothing_but_new_messages_of_its_group() {
    let ((two, _inbox), (three, _inbox_of_three)) = two_and_three();
    let caller = Caller::to(&two);
    let body = message(1).to_string();
    let mac = caller.writer.mac_of(body.as_bytes());
    for (mac, path, status, code) in [
        ("", Some("1"), 401, "unauthenticated"),
        (&mac[1..], Some("1"), 401, "unauthenticated"),
        (&*mac, None, 400, "malformed"),
        (&mac, Some("1,x"), 400, "malformed"),
        (&mac, Some("3"), 421, "misdirected"),
        (&mac, Some("1,2"), 421, "misdirected"),
        (&mac, Some("1,3"), 421, "misdirected"),
    ] {
        let (got, problem) = caller.post(&body, mac, path).await;
        assert_eq!(
            (got, &problem["code"]),
            (status, &code.into()),
            "{path:?} {problem}"
        );
    }
    let altered = body.replace("\"number\":1", "\"number\":2");
    let (status, _) = caller.post(&altered, &mac, Some("1")).await;
    assert_eq!(status, 401, "another message with this MAC");
    for (message, status, code) in [
        (json!(7), 400, "malformed"),
        (changed("version", 2), 409, "version_differs"),
        (changed("cluster", "other"), 404, "unknown_cluster"),
        (changed("config", "0000"), 409, "config_differs"),
        (changed("from", 9), 403, "unknown_member"),
        (changed("from", 2), 403, "unknown_member"),
        (changed("to", 9), 421, "misdirected"),
        (changed("to", 2), 421, "misdirected"),
    ] {
        let (got, problem) = caller.send(&message, "1").await;
        assert_eq!(
            (got, &problem["code"]),
            (status, &code.into()),
            "{message} {problem}"
        );
    }
    let large = format!("{body:20000}");
    let (status, _) = caller.post(&large, &mac, Some("1")).await;
    assert_eq!(status, 413);
    assert_eq!(two.counters().relayed, 0);
    // The message itself is passed on, once. Its receiver judges its age.
    let (_, problem) = caller.send(&message(1), "1").await;
    assert_eq!(
        (&problem["code"], &problem["member"]["node"]),
        (&"late".into(), &3.into()),
        "{problem}"
    );
    let (_, problem) = caller.send(&message(1), "1").await;
    assert_eq!(problem["code"], "relayed_before");
    let (_, problem) = caller.send(&message(2), "1,2,3").await;
    assert_eq!(problem["code"], "late", "along a complete path");
    let (_, problem) = caller.send(&message(1), "1").await;
    assert_eq!(problem["code"], "relayed_before", "an older one");
    assert_eq!(two.counters().relayed, 2);
    assert_eq!(three.counters().refused["late"], 2);
    assert_eq!(three.counters().taken, 0);
}

#[tokio::test]
async fn a_member_without_the_setting_passes_nothing_on_and_says_so() {
    let (three, inbox) = PeerServer::start(relaying(3, 3)).unwrap();
    answering(inbox);
    let mut two = relaying(2, 3);
    two.relay = false;
    two.peers.insert(NodeId(3), Some(at(listening_on(&three))));
    let (two, _inbox) = PeerServer::start(two).unwrap();
    let (status, problem) = Caller::to(&two).send(&message(1), "1").await;
    assert_eq!((status, &problem["code"]), (403, &"relay_off".into()));
    // It still receives messages that others have passed on, and sends directly.
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("relay is false"), "{detail}");
    two.send(NodeId(3), pre_vote(1));
    wait_until("an answer", || two.counters().answered == 1).await;
    assert!(two.endpoint.view().paths.is_empty());
}

#[tokio::test]
async fn a_relay_that_reaches_nobody_says_so_and_gives_no_hint() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = gone.local_addr().unwrap();
    drop(gone);
    let mut two = relaying(2, 3);
    two.peers.insert(NodeId(3), Some(at(refused)));
    let (two, mut inbox_of_two) = PeerServer::start(two).unwrap();
    let mut one = relaying(1, 3);
    one.peers.insert(NodeId(2), Some(at(listening_on(&two))));
    let (one, mut inbox) = PeerServer::start(one).unwrap();
    one.send(NodeId(3), pre_vote(1));
    wait_until("the failure", || one.counters().failed == 1).await;
    assert_eq!(two.counters().refused["no_path"], 1);
    for inbox in [&mut inbox, &mut inbox_of_two] {
        let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
        assert!(event.is_err(), "{event:?}");
    }
}

/// Returns the members whose end an inbox has reported, up to this one.
async fn hints_up_to(inbox: &mut Inbox, last: u32) -> Vec<u32> {
    let mut hints = Vec::new();
    while hints.last() != Some(&last) {
        match next(inbox).await {
            PeerEvent::Message(message) => reply(message, vec![ack(1)]),
            PeerEvent::Refused(node) => hints.push(node.0),
            event => panic!("{event:?}"),
        }
    }
    hints
}

#[tokio::test]
async fn the_end_of_a_relay_is_no_hint_about_the_members_whose_messages_it_passed_on() {
    let ((two, _inbox), (three, mut inbox)) = two_and_three();
    let mut one = relaying(1, 3);
    one.peers.insert(NodeId(2), Some(at(listening_on(&two))));
    let (one, inbox_of_one) = PeerServer::start(one).unwrap();
    one.send(NodeId(3), pre_vote(1));
    let asked = next_message(&mut inbox).await;
    assert_eq!(asked.from, NodeId(1));
    reply(asked, vec![ack(1)]);
    wait_until("the answer", || one.counters().answered == 1).await;
    drop(two);
    // Now a member reaches 3 directly, and ends. Its end is the only hint.
    let mut direct = relaying(2, 3);
    direct.incarnation = Incarnation(2);
    direct
        .peers
        .insert(NodeId(3), Some(at(listening_on(&three))));
    let (direct, _inbox_of_direct) = PeerServer::start(direct).unwrap();
    direct.send(NodeId(3), pre_vote(1));
    let asked = next_message_counting(&mut inbox).await;
    reply(asked, vec![ack(1)]);
    wait_until("its answer", || direct.counters().answered == 1).await;
    drop(direct);
    assert_eq!(hints_up_to(&mut inbox, 2).await, [2]);
    drop((one, inbox_of_one));
}

/// Returns the next message. No hint may come before it.
async fn next_message_counting(inbox: &mut Inbox) -> IncomingMessage {
    match next(inbox).await {
        PeerEvent::Message(message) => message,
        event => panic!("{event:?}"),
    }
}
