//! A network of nodes, each of which has a detector.

use std::collections::BTreeMap;

use tenure_sim::sim::Rng;

use super::*;
use crate::quality::{Meter, Quality};

pub(super) struct Network {
    pub(super) now: Instant,
    nodes: BTreeMap<NodeId, Node>,
    /// The messages under way, by their time of arrival and then in the order in which they were
    /// sent.
    in_flight: BTreeMap<(Instant, u64), Envelope>,
    rng: Rng,
    /// Draws the delay of the next message; `None` if it is lost.
    delay: fn(&mut Rng) -> Option<Duration>,
    /// The cut links, as pairs of sender and receiver.
    cuts: Vec<(NodeId, NodeId)>,
    meters: BTreeMap<(NodeId, NodeId), Meter>,
    pub(super) sent: u64,
    /// The outputs of the detectors, except for messages.
    pub(super) reports: Vec<(Instant, NodeId, DetectorOutput)>,
}

struct Node {
    group: Group,
    make: Make,
    /// The time by which the node's clock is ahead. It differs between nodes, because no detector
    /// may depend on another node's clock.
    ahead: Duration,
    /// The detector; `None` while the node is down.
    detector: Option<SimDetector>,
    paused: bool,
    /// The messages that arrived while the node was paused.
    inbox: Vec<Envelope>,
}

#[derive(Clone)]
struct Envelope {
    from: NodeId,
    incarnation: Incarnation,
    to: NodeId,
    message: Message,
}

#[derive(Clone)]
enum Message {
    Detector(DetectorMessage),
    List(Attendance),
}

pub(super) fn up_to(rng: &mut Rng, duration: Duration) -> Duration {
    duration.mul_f64(rng.unit())
}

impl Network {
    /// Creates nodes 1 to `members`, which all start at 0 s and run the same detector. Node 1
    /// watches all others.
    pub(super) fn new(make: Make, members: u32) -> Self {
        Self::mixed(&vec![make; members as usize])
    }

    /// Creates a node for each of these detectors, all of which start at 0 s. Node 1 watches all
    /// others.
    pub(super) fn mixed(makes: &[Make]) -> Self {
        let members = makes.len() as u32;
        let mut network = Self {
            now: at(0),
            nodes: BTreeMap::new(),
            in_flight: BTreeMap::new(),
            rng: Rng::from_seed(1),
            delay: |_| Some(DELAY),
            cuts: Vec::new(),
            meters: BTreeMap::new(),
            sent: 0,
            reports: Vec::new(),
        };
        for (id, &make) in (1..).map(NodeId).zip(makes) {
            let node = Node {
                group: group(id, members),
                make,
                // The offsets are multiples of 300 ms, so that heartbeats are also due at round
                // times of the network.
                ahead: millis(300) * 1000 * id.0,
                detector: None,
                paused: false,
                inbox: Vec::new(),
            };
            network.nodes.insert(id, node);
            network.boot(id);
        }
        for node in (2..=members).map(NodeId) {
            network.watch(ONE, node);
        }
        network
    }

    pub(super) fn with_delay(mut self, seed: u64, delay: fn(&mut Rng) -> Option<Duration>) -> Self {
        self.rng = Rng::from_seed(seed);
        self.delay = delay;
        self
    }

    pub(super) fn watch(&mut self, watcher: NodeId, node: NodeId) {
        let meter = Meter::new(self.now);
        self.meters.insert((watcher, node), meter);
        self.input(watcher, DetectorInput::Watch(node));
    }

    /// Drops all messages from `from` to `to` from now on.
    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cuts.push((from, to));
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// Crashes the node: it loses its state.
    pub(super) fn crash(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        (node.detector, node.paused) = (None, false);
        node.inbox.clear();
        self.update_meters(id, false);
    }

    /// Starts the node in its next incarnation, with a new clock.
    pub(super) fn restart(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let next = Incarnation(node.group.incarnation.0 + 1);
        node.group = Group::new(id, next, node.group.peers().collect::<Vec<_>>());
        node.ahead = millis(77);
        self.boot(id);
        self.update_meters(id, true);
    }

    /// Starts the node in its next incarnation with another detector.
    pub(super) fn restart_with(&mut self, id: NodeId, make: Make) {
        self.nodes.get_mut(&id).unwrap().make = make;
        self.restart(id);
    }

    fn boot(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.detector = Some((node.make)(self.now + node.ahead, &node.group));
        self.tick(id);
    }

    fn update_meters(&mut self, id: NodeId, up: bool) {
        let of_node = self.meters.iter_mut().filter(|((_, node), _)| *node == id);
        of_node.for_each(|(_, meter)| meter.set_up(self.now, up));
    }

    /// Pauses the node. It still counts as up.
    pub(super) fn pause(&mut self, id: NodeId) {
        self.nodes.get_mut(&id).unwrap().paused = true;
    }

    /// Resumes the node. It handles the messages that arrived while it was paused, and then its
    /// timers.
    pub(super) fn resume(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.paused = false;
        for envelope in std::mem::take(&mut node.inbox) {
            self.deliver(envelope);
        }
        self.tick(id);
    }

    pub(super) fn input(&mut self, id: NodeId, input: DetectorInput) {
        let now = self.now;
        self.with(id, |detector, ahead| {
            detector.handle_input(now + ahead, input)
        });
    }

    fn tick(&mut self, id: NodeId) {
        let now = self.now;
        self.with(id, |detector, ahead| detector.handle_timeout(now + ahead));
    }

    fn with(&mut self, id: NodeId, call: impl FnOnce(&mut SimDetector, Duration)) {
        let node = self.nodes.get_mut(&id).unwrap();
        let (ahead, incarnation) = (node.ahead, node.group.incarnation);
        let Some(detector) = &mut node.detector else {
            return;
        };
        call(detector, ahead);
        let outputs = drain(&mut **detector);
        let lists: Vec<_> = std::iter::from_fn(|| detector.poll_list()).collect();
        for output in outputs {
            match output {
                DetectorOutput::Send { to, message } => self.send(Envelope {
                    from: id,
                    incarnation,
                    to,
                    message: Message::Detector(message),
                }),
                DetectorOutput::Suspected(node) => self.report(id, node, true),
                DetectorOutput::Trusted(node) => self.report(id, node, false),
                other => self.reports.push((self.now, id, other)),
            }
        }
        for (to, list) in lists {
            self.send(Envelope {
                from: id,
                incarnation,
                to,
                message: Message::List(list),
            });
        }
    }

    fn report(&mut self, watcher: NodeId, node: NodeId, suspected: bool) {
        let meter = self.meters.get_mut(&(watcher, node)).unwrap();
        meter.set_suspected(self.now, suspected);
        let output = if suspected {
            DetectorOutput::Suspected(node)
        } else {
            DetectorOutput::Trusted(node)
        };
        self.reports.push((self.now, watcher, output));
    }

    fn send(&mut self, envelope: Envelope) {
        self.sent += 1;
        let delay = (self.delay)(&mut self.rng);
        if self.cuts.contains(&(envelope.from, envelope.to)) {
            return;
        }
        if let Some(delay) = delay {
            self.in_flight
                .insert((self.now + delay, self.sent), envelope);
        }
    }

    fn deliver(&mut self, envelope: Envelope) {
        let node = self.nodes.get_mut(&envelope.to).unwrap();
        if node.paused {
            node.inbox.push(envelope);
            return;
        }
        let Envelope {
            from,
            incarnation,
            to,
            message,
        } = envelope;
        match message {
            Message::Detector(message) => self.input(
                to,
                DetectorInput::Message {
                    from,
                    incarnation,
                    message,
                },
            ),
            Message::List(list) => {
                let now = self.now;
                self.with(to, |detector, ahead| {
                    detector.handle_list(now + ahead, (from, incarnation), list);
                });
            }
        }
    }

    /// Advances time up to and including `end`.
    pub(super) fn run_until(&mut self, end: Instant) -> &mut Self {
        let mut stuck = 0;
        loop {
            let timers = self.nodes.iter().filter_map(|(id, node)| {
                let detector = node.detector.as_ref().filter(|_| !node.paused)?;
                let due = detector.poll_timeout()?.earlier_by(node.ahead);
                Some((due.max(self.now), *id))
            });
            let timer = timers.min();
            let envelope = self.in_flight.first_key_value().map(|(key, _)| *key);
            let times = [timer.map(|it| it.0), envelope.map(|it| it.0)];
            let next = times.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            stuck = if next == self.now { stuck + 1 } else { 0 };
            assert!(stuck < 10_000, "no time passes at {next:?}");
            self.now = next;
            match (envelope, timer) {
                (Some(key), _) if key.0 == next => {
                    let envelope = self.in_flight.remove(&key).unwrap();
                    self.deliver(envelope);
                }
                (_, Some((_, id))) => self.tick(id),
                _ => unreachable!(),
            }
        }
        self.now = end;
        self
    }

    /// Returns whether node 1 suspects node 2.
    pub(super) fn suspects(&self) -> bool {
        self.suspects_of(ONE, TWO)
    }

    pub(super) fn suspects_of(&self, watcher: NodeId, node: NodeId) -> bool {
        let detector = self.nodes[&watcher].detector.as_ref();
        detector.is_some_and(|detector| detector.is_suspected(node))
    }

    pub(super) fn bound(&self, delay: Duration) -> Duration {
        let detector = self.nodes[&ONE].detector.as_ref().unwrap();
        detector.detection_bound(delay)
    }

    /// Returns the quality of all watches up to now.
    pub(super) fn quality(&self) -> Quality {
        let mut quality = Quality::default();
        for meter in self.meters.values() {
            quality.add(&meter.clone().finish(self.now));
        }
        quality
    }

    /// Returns the outputs of node 1, with the times in milliseconds.
    pub(super) fn events(&self) -> Vec<(u64, DetectorOutput)> {
        let reports = self.reports.iter().filter(|(_, id, _)| *id == ONE);
        reports
            .map(|(at, _, output)| (at.as_nanos() / 1_000_000, output.clone()))
            .collect()
    }
}
