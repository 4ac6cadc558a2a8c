//! Nodes with a detector each, and what lies between them.

use std::collections::BTreeMap;

use super::*;
use tenure_lab::detector::quality::{Meter, Quality};
use tenure_lab::sim::Rng;

pub(super) struct Network {
    pub(super) now: Instant,
    make: Make,
    nodes: BTreeMap<NodeId, Node>,
    /// On their way, by when they arrive and in the order in which they were sent.
    parcels: BTreeMap<(Instant, u64), Parcel>,
    rng: Rng,
    /// How long the next message takes; `None` if it is lost.
    way: fn(&mut Rng) -> Option<Duration>,
    /// Nothing arrives that is sent from there to there.
    cuts: Vec<(NodeId, NodeId)>,
    meters: BTreeMap<(NodeId, NodeId), Meter>,
    pub(super) sent: u64,
    /// What the detectors said, but for what they sent.
    pub(super) said: Vec<(Instant, NodeId, DetectorOutput)>,
}

struct Node {
    group: Group,
    /// How far its clock is ahead: no detector may rely on what another one's clock says.
    ahead: Duration,
    /// `None` while it is down.
    detector: Option<SimDetector>,
    paused: bool,
    /// What has come while it stood still.
    inbox: Vec<Parcel>,
}

#[derive(Clone)]
struct Parcel {
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
    /// Nodes 1 to `members` that all start at 0 s and of which node 1 watches all others.
    pub(super) fn new(make: Make, members: u32) -> Self {
        let mut network = Self {
            now: at(0),
            make,
            nodes: BTreeMap::new(),
            parcels: BTreeMap::new(),
            rng: Rng::from_seed(1),
            way: |_| Some(DELAY),
            cuts: Vec::new(),
            meters: BTreeMap::new(),
            sent: 0,
            said: Vec::new(),
        };
        for id in (1..=members).map(NodeId) {
            let node = Node {
                group: group(id, members),
                // Multiples of 300 ms, so that heartbeats are due at round times here too.
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

    pub(super) fn with_way(mut self, seed: u64, way: fn(&mut Rng) -> Option<Duration>) -> Self {
        self.rng = Rng::from_seed(seed);
        self.way = way;
        self
    }

    pub(super) fn watch(&mut self, watcher: NodeId, node: NodeId) {
        let meter = Meter::new(self.now);
        self.meters.insert((watcher, node), meter);
        self.input(watcher, DetectorInput::Watch(node));
    }

    /// Everything sent from `from` to `to` is lost from now on.
    pub(super) fn cut(&mut self, from: NodeId, to: NodeId) {
        self.cuts.push((from, to));
    }

    pub(super) fn heal(&mut self) {
        self.cuts.clear();
    }

    /// The node is gone, with all that it knows.
    pub(super) fn crash(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        (node.detector, node.paused) = (None, false);
        node.inbox.clear();
        self.tell_meters(id, false);
    }

    /// It is back in its next incarnation, with a clock that begins anew.
    pub(super) fn restart(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        let next = Incarnation(node.group.incarnation().0 + 1);
        node.group = Group::new(id, next, node.group.peers().collect::<Vec<_>>());
        node.ahead = millis(77);
        self.boot(id);
        self.tell_meters(id, true);
    }

    fn boot(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.detector = Some((self.make)(self.now + node.ahead, &node.group));
        self.tick(id);
    }

    fn tell_meters(&mut self, id: NodeId, up: bool) {
        let of_node = self.meters.iter_mut().filter(|((_, node), _)| *node == id);
        of_node.for_each(|(_, meter)| meter.set_up(self.now, up));
    }

    /// The node stands still, and is up all the same.
    pub(super) fn pause(&mut self, id: NodeId) {
        self.nodes.get_mut(&id).unwrap().paused = true;
    }

    /// It goes on: first with what has come meanwhile, then with its timers.
    pub(super) fn resume(&mut self, id: NodeId) {
        let node = self.nodes.get_mut(&id).unwrap();
        node.paused = false;
        for parcel in std::mem::take(&mut node.inbox) {
            self.deliver(parcel);
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

    fn with(&mut self, id: NodeId, act: impl FnOnce(&mut SimDetector, Duration)) {
        let node = self.nodes.get_mut(&id).unwrap();
        let (ahead, incarnation) = (node.ahead, node.group.incarnation());
        let Some(detector) = &mut node.detector else {
            return;
        };
        act(detector, ahead);
        let outputs = drain(&mut **detector);
        let lists: Vec<_> = std::iter::from_fn(|| detector.poll_list()).collect();
        for output in outputs {
            match output {
                DetectorOutput::Send { to, message } => self.post(Parcel {
                    from: id,
                    incarnation,
                    to,
                    message: Message::Detector(message),
                }),
                DetectorOutput::Suspected(node) => self.note(id, node, true),
                DetectorOutput::Trusted(node) => self.note(id, node, false),
                other => self.said.push((self.now, id, other)),
            }
        }
        for (to, list) in lists {
            self.post(Parcel {
                from: id,
                incarnation,
                to,
                message: Message::List(list),
            });
        }
    }

    fn note(&mut self, watcher: NodeId, node: NodeId, suspected: bool) {
        let meter = self.meters.get_mut(&(watcher, node)).unwrap();
        meter.set_suspected(self.now, suspected);
        let output = if suspected {
            DetectorOutput::Suspected(node)
        } else {
            DetectorOutput::Trusted(node)
        };
        self.said.push((self.now, watcher, output));
    }

    fn post(&mut self, parcel: Parcel) {
        self.sent += 1;
        let way = (self.way)(&mut self.rng);
        if self.cuts.contains(&(parcel.from, parcel.to)) {
            return;
        }
        if let Some(way) = way {
            self.parcels.insert((self.now + way, self.sent), parcel);
        }
    }

    fn deliver(&mut self, parcel: Parcel) {
        let node = self.nodes.get_mut(&parcel.to).unwrap();
        if node.paused {
            node.inbox.push(parcel);
            return;
        }
        let Parcel {
            from,
            incarnation,
            to,
            message,
        } = parcel;
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

    /// Lets time pass up to `end`, that instant included.
    pub(super) fn run_until(&mut self, end: Instant) -> &mut Self {
        let mut stuck = 0;
        loop {
            let timers = self.nodes.iter().filter_map(|(id, node)| {
                let detector = node.detector.as_ref().filter(|_| !node.paused)?;
                let due = detector.poll_timeout()?.earlier_by(node.ahead);
                Some((due.max(self.now), *id))
            });
            let timer = timers.min();
            let parcel = self.parcels.first_key_value().map(|(key, _)| *key);
            let times = [timer.map(|it| it.0), parcel.map(|it| it.0)];
            let next = times.into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            stuck = if next == self.now { stuck + 1 } else { 0 };
            assert!(stuck < 10_000, "no time passes at {next:?}");
            self.now = next;
            match (parcel, timer) {
                (Some(key), _) if key.0 == next => {
                    let parcel = self.parcels.remove(&key).unwrap();
                    self.deliver(parcel);
                }
                (_, Some((_, id))) => self.tick(id),
                _ => unreachable!(),
            }
        }
        self.now = end;
        self
    }

    /// What node 1 thinks of node 2.
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

    /// How good all the watches were, up to now.
    pub(super) fn quality(&self) -> Quality {
        let mut quality = Quality::default();
        for meter in self.meters.values() {
            quality.add(&meter.clone().finish(self.now));
        }
        quality
    }

    /// What node 1 has said, with the times in milliseconds.
    pub(super) fn events(&self) -> Vec<(u64, DetectorOutput)> {
        let said = self.said.iter().filter(|(_, id, _)| *id == ONE);
        said.map(|(at, _, output)| (at.as_nanos() / 1_000_000, output.clone()))
            .collect()
    }
}
