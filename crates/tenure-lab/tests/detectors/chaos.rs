//! Properties that hold for all orders of inputs and all jumps of time.

use std::collections::BTreeMap;

use proptest::collection;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Wait(u64),
    Ask(NodeId),
    Input(DetectorInput),
    List(NodeId, Incarnation, Attendance),
}

fn node() -> impl Strategy<Value = NodeId> {
    (1..=5_u32).prop_map(NodeId) // Node 1 is the detector's own node, node 5 is not a member.
}

fn message() -> impl Strategy<Value = DetectorMessage> {
    prop_oneof![
        (0..50_u64).prop_map(|round| DetectorMessage::Ping { round }),
        (0..50_u64).prop_map(|round| DetectorMessage::Pong {
            round,
            candidacy: Candidacy::Candidate
        }),
        (0..900_u64, 0..9_000_u64).prop_map(|(interval, lifetime)| DetectorMessage::Subscribe {
            interval: millis(interval),
            lifetime: millis(lifetime),
        }),
        Just(DetectorMessage::Unsubscribe),
        prop_oneof![0..100_u64, Just(u64::MAX)]
            .prop_map(|tick| DetectorMessage::Heartbeat { tick }),
        Just(DetectorMessage::Recovered),
        (0..3_u64).prop_map(|it| DetectorMessage::RecoveredAck {
            incarnation: Incarnation(it)
        }),
    ]
}

fn list() -> impl Strategy<Value = Attendance> {
    let generation = prop_oneof![0..9_u64, Just(u64::MAX)];
    let nodes = || collection::btree_set(node(), 0..5);
    let list = (generation, node(), 0..9_u64, nodes(), nodes());
    list.prop_map(|(generation, author, hops, present, absent)| Attendance {
        stamp: Stamp {
            generation,
            author,
            hops,
        },
        present,
        absent,
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..700_u64).prop_map(Step::Wait),
        1 => (0..100_000_u64).prop_map(Step::Wait),
        3 => node().prop_map(Step::Ask),
        1 => node().prop_map(|node| Step::Input(DetectorInput::Watch(node))),
        1 => node().prop_map(|node| Step::Input(DetectorInput::Unwatch(node))),
        1 => node().prop_map(|node| Step::Input(DetectorInput::Refused(node))),
        2 => (node(), 1..4_u64).prop_map(|(from, incarnation)| {
            Step::Input(DetectorInput::Heard { from, incarnation: Incarnation(incarnation) })
        }),
        5 => (node(), 1..4_u64, message()).prop_map(|(from, incarnation, message)| {
            let incarnation = Incarnation(incarnation);
            Step::Input(DetectorInput::Message { from, incarnation, message })
        }),
        1 => (node(), 1..4_u64, list())
            .prop_map(|(from, incarnation, list)| Step::List(from, Incarnation(incarnation), list)),
    ]
}

/// A detector, and the checks of its outputs.
struct Checker {
    detector: SimDetector,
    now: Instant,
    asks: u64,
    /// The last open question about each node, and whether a message of the node came after it.
    open: BTreeMap<NodeId, (u64, bool)>,
    newest: BTreeMap<NodeId, Incarnation>,
    suspected: BTreeMap<NodeId, bool>,
}

impl Checker {
    fn step(&mut self, step: Step) {
        match step {
            Step::Wait(duration) => self.wait(millis(duration)),
            Step::Ask(node) => {
                self.asks += 1;
                self.open.insert(node, (self.asks, false));
                self.input(DetectorInput::Ask {
                    node,
                    ask: self.asks,
                });
            }
            Step::Input(input) => self.input(input),
            Step::List(from, incarnation, list) => {
                self.note_heard(from, incarnation);
                self.detector
                    .handle_list(self.now, (from, incarnation), list);
                self.check();
            }
        }
    }

    fn note_heard(&mut self, from: NodeId, incarnation: Incarnation) {
        let newest = self.newest.entry(from).or_insert(incarnation);
        if incarnation >= *newest {
            *newest = incarnation;
            let open = self.open.entry(from);
            open.and_modify(|(_, heard)| *heard = true);
        }
    }

    fn input(&mut self, input: DetectorInput) {
        match &input {
            DetectorInput::Heard { from, incarnation }
            | DetectorInput::Message {
                from, incarnation, ..
            } => self.note_heard(*from, *incarnation),
            DetectorInput::Watch(node) => {
                self.suspected.entry(*node).or_insert(false);
            }
            DetectorInput::Unwatch(node) => {
                self.suspected.remove(node);
            }
            _ => {}
        }
        self.detector.handle_input(self.now, input);
        self.check();
    }

    /// Lets time pass. For short waits the timers are punctual; for long ones a single late timer
    /// follows.
    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        if duration < millis(1_000) {
            while let Some(next) = self.detector.poll_timeout().filter(|next| *next <= end) {
                self.now = self.now.max(next);
                self.tick();
            }
        }
        self.now = end;
        self.tick();
    }

    fn tick(&mut self) {
        self.detector.handle_timeout(self.now);
        self.check();
        // A second call at the same time changes nothing, and the next timer is in the future.
        self.detector.handle_timeout(self.now);
        assert_eq!(self.detector.poll_output(), None);
        assert_eq!(self.detector.poll_list(), None);
        let next = self.detector.poll_timeout();
        assert!(
            next.is_none_or(|next| next > self.now),
            "the next timer must be in the future"
        );
    }

    fn check(&mut self) {
        let outputs = drain(&mut *self.detector);
        let lists: Vec<_> = std::iter::from_fn(|| self.detector.poll_list()).collect();
        assert!(outputs.len() + lists.len() < 50, "{outputs:?}, {lists:?}");
        assert!(lists.iter().all(|(to, _)| (2..=4).contains(&to.0)));
        for output in outputs {
            match output {
                DetectorOutput::Send { to, .. } => assert!((2..=4).contains(&to.0)),
                DetectorOutput::Answer {
                    ask,
                    node,
                    verdict,
                    at,
                    ..
                } => {
                    let (last, heard) = self.open.remove(&node).expect("a question is open");
                    assert_eq!(ask, last);
                    assert!(at <= self.now);
                    let is_down = verdict == Verdict::Down;
                    // A node that is not a member counts as down, even if messages arrive from it.
                    assert!(!(is_down && heard) || node == NodeId(5));
                    assert!(is_down || heard || node == ONE);
                }
                DetectorOutput::Suspected(node) => {
                    assert_eq!(self.suspected.insert(node, true), Some(false));
                }
                DetectorOutput::Trusted(node) => {
                    assert_eq!(self.suspected.insert(node, false), Some(true));
                }
                DetectorOutput::Restarted(node, incarnation) => {
                    assert!(self.suspected.contains_key(&node));
                    assert_eq!(incarnation, self.newest[&node]);
                }
            }
        }
        for (node, suspected) in &self.suspected {
            assert_eq!(self.detector.is_suspected(*node), *suspected);
        }
    }
}

proptest! {
    #[test]
    fn no_sequence_of_inputs_breaks_the_detectors_guarantees(
        steps in collection::vec(step(), 1..80),
        which in 0..ALL.len(),
    ) {
        let mut checker = Checker {
            detector: ALL[which].1(at(0), &group(ONE, 4)),
            now: at(0),
            asks: 0,
            open: BTreeMap::new(),
            newest: BTreeMap::new(),
            suspected: BTreeMap::new(),
        };
        checker.tick();
        for step in steps {
            checker.step(step);
        }
        // Every question is answered eventually.
        checker.wait(millis(600));
        checker.wait(millis(600));
        prop_assert!(checker.open.is_empty());
    }
}
