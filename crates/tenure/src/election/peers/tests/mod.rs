//! A member among its peers.

mod votes;

use tenure_core::UnixMillis;
use tenure_core::bully::{HardState, Started};
use tenure_core::detector::DetectorMessage;
use tenure_core::election::ElectionMachine as _;

use super::*;
use crate::config::{Bully, Peer};

/// Member 1 of two members without a quorum. The other member sends no messages by itself.
fn one_of_two(now: Instant) -> Peers {
    let peer = |node| Peer::new(NodeId(node), "http://127.0.0.1:1").unwrap();
    let bully = Bully::new(NodeId(1), [1, 2].map(peer));
    let config = Config::new("tests/job".parse().unwrap());
    let plan = bully.plan(&config.timings).unwrap();
    let (rules, detection) = (plan.settings, plan.detection);
    let started = Started {
        at: now,
        wall: UnixMillis::new(0),
    };
    let parts = Parts {
        detector: detection.detector(&rules.group(Incarnation(1))),
        machine: PeerCandidate::new(rules, HardState::default(), started),
        transport: PeerTransport::Silent,
        disk: None,
    };
    let clock = Clock::system().unwrap();
    let config = Arc::new(config);
    let metrics = Recorder::new(config.clone(), clock.clone());
    Peers::new(&config, clock, parts, None, Arc::new(metrics)).0
}

#[test]
fn the_status_of_a_leader_shows_silent_members() {
    let at = |millis| Instant::default() + Duration::from_millis(millis);
    let mut peers = one_of_two(at(0));
    let run = |peers: &mut Peers, from: u64, to: u64| {
        for millis in (from..to).step_by(10) {
            peers.handle_timeout(at(millis));
            while peers.poll_term_event(at(millis)).is_some() {}
        }
    };
    peers.machine.campaign(at(0), &mut OsRandom);
    run(&mut peers, 0, 5_000);
    assert_eq!(peers.status.role, "leading");
    assert_eq!(peers.status.suspects, [NodeId(2)], "it sent nothing");
    let message = IncomingMessage {
        from: NodeId(2),
        incarnation: Incarnation(1),
        payload: Payload::Detector(DetectorMessage::Ping { round: 1 }),
        reply: None,
        good_until: at(6_000),
    };
    peers.handle_event(at(5_000), PeerEvent::Message(message));
    // Two renew intervals and the lifetime of a message.
    run(&mut peers, 5_000, 15_500);
    assert_eq!(peers.status.suspects, [], "it has just sent a message");
    run(&mut peers, 15_500, 15_800);
    assert_eq!(peers.status.suspects, [NodeId(2)]);
}
