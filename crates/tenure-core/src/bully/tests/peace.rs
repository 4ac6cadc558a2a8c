//! Members with real failure detectors in virtual time: the number of messages that they send at
//! rest, and the time without a leader after a leader fails. Every message takes one millisecond,
//! and every random number is in the middle of its range.

extern crate std;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use std::println;

use super::*;
use crate::Incarnation;
use crate::detector::{self, DetectBy, Detection, DetectionOptions, Detector};

/// The time that every message takes.
const DELAY: Duration = millis(1);

/// The time that every write of a record takes.
const DISK: Duration = millis(2);

/// A random source that returns the middle of every range.
struct Middle;

impl Random for Middle {
    fn next_u64(&mut self) -> u64 {
        1 << 63
    }
}

struct World {
    now: Instant,
    settings: GroupSettings,
    /// The detection of each member. If there are fewer than members, they are taken in turns.
    detections: Vec<Detection>,
    places: BTreeMap<NodeId, Place>,
    /// The messages and inputs under way, by arrival time and then in the order in which they were
    /// sent.
    parcels: BTreeMap<(Instant, u64), Parcel>,
    count: u64,
    /// The number of messages that were sent: in total, and in the next field by sender and
    /// receiver.
    sent: u64,
    ways: BTreeMap<(NodeId, NodeId), u64>,
    /// Whether the sender is notified of a refused connection, and the other end of a closed one.
    hints: bool,
    parted: BTreeSet<NodeId>,
}

struct Place {
    node: PeerCandidate,
    detector: Box<dyn Detector + Send>,
    /// The members under watch.
    watched: Vec<NodeId>,
    seen: Option<NodeId>,
    leads: bool,
}

enum Parcel {
    Election(NodeId, NodeId, PeerMessage),
    Detector(NodeId, NodeId, detector::DetectorMessage),
    Written(NodeId),
    Hint(NodeId, NodeId),
}

impl World {
    fn new(members: u32, guarantee: GroupGuarantee, by: DetectBy) -> Self {
        Self::mixed(members, guarantee, &[by])
    }

    fn mixed(members: u32, guarantee: GroupGuarantee, by: &[DetectBy]) -> Self {
        let settings =
            GroupSettings::new(NodeId(1), super::members(members), GroupTimings::default());
        let settings = settings.unwrap().with_guarantee(guarantee);
        let lifetime = settings.timings().message_lifetime();
        let detections = by.iter().map(|&by| {
            let options = DetectionOptions {
                by,
                ..DetectionOptions::default()
            };
            Detection::new(&options, lifetime).unwrap()
        });
        let mut world = Self {
            now: Instant::default() + Duration::from_secs(1_000),
            detections: detections.collect(),
            settings,
            places: BTreeMap::new(),
            parcels: BTreeMap::new(),
            count: 0,
            sent: 0,
            ways: BTreeMap::new(),
            hints: false,
            parted: BTreeSet::new(),
        };
        for id in (1..=members).map(NodeId) {
            world.start(id);
        }
        world
    }

    fn start(&mut self, id: NodeId) {
        let (members, timings) = (self.settings.members().clone(), *self.settings.timings());
        let settings = GroupSettings::new(id, members, timings).unwrap();
        let settings = settings.with_guarantee(self.settings.guarantee());
        let group = settings.group(Incarnation(1));
        let started = Started {
            at: self.now,
            wall: UnixMillis::new(0),
        };
        let place = Place {
            node: PeerCandidate::new(settings, HardState::default(), started),
            detector: self.detections[(id.0 as usize - 1) % self.detections.len()].detector(&group),
            watched: Vec::new(),
            seen: None,
            leads: false,
        };
        self.places.insert(id, place);
        self.drive(id, |place, now| place.node.campaign(now, &mut Middle));
    }

    fn crash(&mut self, id: NodeId) {
        self.places.remove(&id);
        if self.hints {
            for to in self.places.keys().copied().collect::<Vec<_>>() {
                self.after(DELAY, Parcel::Hint(to, id));
            }
        }
    }

    fn after(&mut self, delay: Duration, parcel: Parcel) {
        self.count += 1;
        self.parcels.insert((self.now + delay, self.count), parcel);
    }

    fn send(&mut self, from: NodeId, to: NodeId, parcel: Parcel) {
        self.sent += 1;
        *self.ways.entry((from, to)).or_default() += 1;
        if self.parted.contains(&from) != self.parted.contains(&to) {
            return;
        }
        if self.places.contains_key(&to) {
            self.after(DELAY, parcel);
        } else if self.hints {
            self.after(DELAY, Parcel::Hint(from, to));
        }
    }

    fn run_until(&mut self, end: Instant) {
        self.run_while(end, |_| true);
    }

    /// Runs until `end`, or until `goes_on` returns `false`.
    fn run_while(&mut self, end: Instant, goes_on: impl Fn(&Self) -> bool) {
        while goes_on(self) {
            let due = self.places.iter().filter_map(|(id, place)| {
                let due = [place.node.poll_timeout(), place.detector.poll_timeout()];
                Some((due.into_iter().flatten().min()?, *id))
            });
            let timer = due.min();
            let parcel = self.parcels.keys().next().copied();
            let next = match (timer, parcel) {
                (Some((at, _)), Some((arrives, _))) => at.min(arrives),
                (Some((at, _)), None) | (None, Some((at, _))) => at,
                (None, None) => end,
            };
            if next >= end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
            if parcel.is_some_and(|(arrives, _)| arrives <= next) {
                let (_, parcel) = self.parcels.pop_first().unwrap();
                self.deliver(parcel);
            } else if let Some((_, id)) = timer {
                self.drive(id, |place, now| {
                    place.detector.handle_timeout(now);
                    place.node.handle_timeout(now, &mut Middle);
                });
            }
        }
    }

    fn deliver(&mut self, parcel: Parcel) {
        let incarnation = Incarnation(1);
        match parcel {
            Parcel::Election(from, to, message) => self.drive(to, |place, now| {
                let input = PeerInput::Message {
                    from,
                    incarnation,
                    message,
                };
                place.node.handle_message(now, input, &mut Middle);
                let heard = detector::DetectorInput::Heard { from, incarnation };
                place.detector.handle_input(now, heard);
            }),
            Parcel::Detector(from, to, message) => self.drive(to, |place, now| {
                let input = detector::DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                };
                place.detector.handle_input(now, input);
            }),
            Parcel::Written(id) => self.drive(id, |place, now| {
                place
                    .node
                    .handle_message(now, PeerInput::Persisted, &mut Middle);
            }),
            Parcel::Hint(to, about) => self.drive(to, |place, now| {
                place
                    .detector
                    .handle_input(now, detector::DetectorInput::Refused(about));
            }),
        }
    }

    fn drive(&mut self, id: NodeId, act: impl FnOnce(&mut Place, Instant)) {
        let now = self.now;
        let Some(place) = self.places.get_mut(&id) else {
            return;
        };
        act(place, now);
        let mut said = Vec::new();
        loop {
            if let Some(output) = place.node.poll_output() {
                place.seen = place.node.leader().map(|(leader, _)| leader);
                match output {
                    Output::Effect(PeerEffect::Send { to, message }) => {
                        said.push((DELAY, Some(to), Parcel::Election(id, to, message)));
                    }
                    Output::Effect(PeerEffect::Persist(_)) => {
                        said.push((DISK, None, Parcel::Written(id)))
                    }
                    Output::Effect(PeerEffect::Ask { node, round }) => {
                        let ask = detector::DetectorInput::Ask { node, ask: round };
                        place.detector.handle_input(now, ask);
                    }
                    Output::Effect(PeerEffect::Watch(node)) => {
                        place.watched.push(node);
                        place
                            .detector
                            .handle_input(now, detector::DetectorInput::Watch(node));
                    }
                    Output::Effect(PeerEffect::Unwatch(node)) => {
                        place.watched.retain(|it| *it != node);
                        place
                            .detector
                            .handle_input(now, detector::DetectorInput::Unwatch(node));
                    }
                    Output::Term(TermEvent::Began(_)) => place.leads = true,
                    Output::Term(TermEvent::Cancel(_)) => {
                        place.leads = false;
                        place.node.task_ended(now, TaskEnd::Aborted, &mut Middle);
                    }
                    Output::Term(TermEvent::Ended(..)) => place.node.campaign(now, &mut Middle),
                    _ => {}
                }
                continue;
            }
            let Some(output) = place.detector.poll_output() else {
                break;
            };
            let input = match output {
                detector::DetectorOutput::Send { to, message } => {
                    said.push((DELAY, Some(to), Parcel::Detector(id, to, message)));
                    continue;
                }
                detector::DetectorOutput::Answer {
                    ask, node, verdict, ..
                } => PeerInput::Answer {
                    node,
                    round: ask,
                    verdict,
                },
                detector::DetectorOutput::Suspected(node) => PeerInput::Suspected(node),
                detector::DetectorOutput::Trusted(node) => PeerInput::Alive(node),
                detector::DetectorOutput::Restarted(..) => unreachable!("no member restarts"),
            };
            place.node.handle_message(now, input, &mut Middle);
        }
        for (delay, to, parcel) in said {
            match to {
                Some(to) => self.send(id, to, parcel),
                None => self.after(delay, parcel),
            }
        }
    }

    fn leaders(&self) -> Vec<NodeId> {
        let leading = self.places.iter().filter(|(_, place)| place.leads);
        leading.map(|(&id, _)| id).collect()
    }

    /// Returns whether all members see this member as the leader.
    fn follows(&self, leader: NodeId) -> bool {
        self.leaders() == [leader] && self.places.values().all(|it| it.seen == Some(leader))
    }

    /// Runs until the first election has ended and the group is at rest.
    fn settle(&mut self) {
        self.run_until(self.now + Duration::from_secs(60));
        assert!(self.follows(NodeId(1)), "{:?}", self.leaders());
    }

    /// Crashes the leader, and returns the time until there is another one.
    fn failover(&mut self) -> Duration {
        let leader = self.leaders()[0];
        self.crash(leader);
        let began = self.now;
        let end = began + Duration::from_secs(120);
        self.run_while(end, |world| world.leaders().is_empty());
        assert!(self.now < end, "no member has become the leader");
        self.now.since(began)
    }
}

const BOTH: [GroupGuarantee; 2] = [GroupGuarantee::Quorum, GroupGuarantee::BestEffort];

#[test]
fn only_followers_watch_and_only_their_leader() {
    for guarantee in BOTH {
        let mut world = World::new(5, guarantee, DetectBy::Push);
        world.settle();
        for leader in [1, 2] {
            for (id, place) in &world.places {
                let expected: &[NodeId] = if id.0 == leader {
                    &[]
                } else {
                    &[NodeId(leader)]
                };
                assert_eq!(place.watched, expected, "{id} watches");
            }
            // At rest followers send each other nothing.
            world.ways.clear();
            world.run_until(world.now + Duration::from_secs(120));
            let between = world
                .ways
                .keys()
                .filter(|(from, to)| from.0 != leader && to.0 != leader);
            assert_eq!(between.collect::<Vec<_>>(), Vec::<&(NodeId, NodeId)>::new());
            world.failover();
            world.run_until(world.now + Duration::from_secs(10));
        }
    }
}

/// The bounds give the exact number of messages in ten minutes at rest.
#[test]
fn the_bounds_give_the_number_of_messages_at_rest() {
    for guarantee in BOTH {
        for by in DetectBy::ALL {
            for members in [2, 3, 5, 9] {
                let mut world = World::new(members, guarantee, by);
                world.settle();
                let before = world.sent;
                world.run_until(world.now + Duration::from_secs(600));
                let sent = (world.sent - before) as f64;
                let bounds = Bounds::of(&world.settings, &world.detections[0]);
                let told = bounds.messages_per_second * 600.0;
                println!(
                    "{members} members, {guarantee}, {}: {sent} in 600 s, calculated {told:.1}",
                    by.name()
                );
                assert_eq!(sent, told.round());
                let intervals = 600.0 / 0.3;
                let per_node = sent / intervals / f64::from(members);
                match by {
                    DetectBy::Push | DetectBy::PushFixed | DetectBy::Phi => {
                        assert!(
                            per_node <= 2.0,
                            "{per_node} messages per member and interval"
                        );
                    }
                    // An exchange takes two messages, and both sides may ask.
                    DetectBy::Pull => assert!(per_node <= 2.0 * 1.2, "{per_node}"),
                    DetectBy::OnDemand => {}
                }
            }
        }
    }
}

/// Without a quorum, the time is the detection, with or without a hint, and a few messages; also
/// when other members are down.
#[test]
fn a_leader_that_is_gone_is_replaced_within_the_bounds() {
    for guarantee in BOTH {
        for by in DetectBy::ALL {
            for (hints, others) in [
                (false, &[][..]),
                (true, &[]),
                (false, &[2]),
                (true, &[3]),
                (false, &[3, 5]),
            ] {
                if guarantee == GroupGuarantee::Quorum && others.len() > 1 {
                    continue; // Too few members remain for a majority.
                }
                let mut world = World::new(5, guarantee, by);
                world.hints = hints;
                world.settle();
                for other in others {
                    world.crash(NodeId(*other));
                }
                world.run_until(world.now + Duration::from_millis(20_130));
                let took = world.failover();
                let bounds = Bounds::of(&world.settings, &world.detections[0]);
                println!(
                    "{guarantee}, {}, hints {hints}, {others:?} down as well: {took:.3?} of {:.1?}",
                    by.name(),
                    bounds.without_leader
                );
                assert!(took <= bounds.without_leader);
                let (timings, detection) = (world.settings.timings(), &world.detections[0]);
                let lifetime = timings.message_lifetime();
                // All members that are down as well are asked about at once.
                let (missed, question) = match (guarantee, hints) {
                    (GroupGuarantee::Quorum, _) => (timings.term().lease_duration(), lifetime),
                    (_, true) => (detection.confirm_timeout(), detection.confirm_timeout()),
                    (_, false) => (detection.detection_bound(DELAY), detection.ask_timeout()),
                };
                let question = question * u32::from(!others.is_empty());
                // A member that does not suspect the leader yet refuses, and the organiser asks it
                // again a little later.
                let round = 20 * (DELAY + DISK) + lifetime / 5;
                let most = missed + question + round;
                assert!(took <= most, "{took:?} of {most:?}");
            }
        }
    }
}

/// Each member has the detector that suits it. Without a quorum the slowest one decides.
#[test]
fn members_with_different_detectors_follow_one_leader_and_replace_it_within_the_bounds() {
    for guarantee in BOTH {
        for first in 0..DetectBy::ALL.len() {
            let mut detectors = DetectBy::ALL;
            detectors.rotate_left(first);
            let mut world = World::mixed(5, guarantee, &detectors);
            world.settle();
            // A minute is two lifetimes of a subscription.
            let end = world.now + Duration::from_secs(60);
            world.run_while(end, |world| world.follows(NodeId(1)));
            assert_eq!(world.now, end, "{guarantee}, {detectors:?}");
            let took = world.failover();
            let timings = world.settings.timings();
            let lifetime = timings.message_lifetime();
            let followers = &world.detections[1..];
            let most = match guarantee {
                GroupGuarantee::Quorum => timings.worst_without_leader(),
                GroupGuarantee::BestEffort => {
                    let detected = followers.iter().map(|it| it.detection_bound(DELAY));
                    let question = followers.iter().map(Detection::ask_timeout);
                    detected.max().unwrap() + question.max().unwrap() + lifetime
                }
            };
            println!("{guarantee}, {detectors:?}: {took:.3?} of {most:.1?}");
            assert!(took <= most, "{took:?} of {most:?}");
        }
    }
}

/// The two leaders of a network that was partitioned find each other within a renew interval.
#[test]
fn leaders_that_meet_without_a_quorum_merge_within_a_renew_interval() {
    let mut world = World::new(5, GroupGuarantee::BestEffort, DetectBy::Push);
    world.settle();
    world.parted = [NodeId(4), NodeId(5)].into();
    world.run_until(world.now + Duration::from_secs(30));
    assert_eq!(world.leaders(), [NodeId(1), NodeId(4)]);
    world.parted.clear();
    let interval = GroupTimings::default().term().renew_interval();
    world.run_until(world.now + interval + 20 * (DELAY + DISK));
    assert!(world.follows(NodeId(1)), "{:?}", world.leaders());
}
