//! "Are you alive?", asked all the time.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::message::{DetectorInput, DetectorMessage, DetectorOutput, Group};
use super::options::{self, OptionsError};
use super::peer_table::{AskOptions, PeerTable, Step};
use super::{Detector, earliest};
use crate::{Instant, NodeId};

/// Pings a node under watch at an interval, and suspects it when several pings in a row stay
/// unanswered.
///
/// What counts is when a ping was **sent**: a slow answer does not prolong the time that the node has
/// for the next one.
///
/// - Detection: at most `misses` × `interval` + `timeout`, while timers are punctual.
/// - Messages: 2 per interval and watch (1 while the node is down).
/// - A mistake needs `misses` exchanges in a row that are lost or take longer than the timeout: with
///   a loss of p per message, about (2p)^`misses` per interval.
///
/// Source: the "simplest implementation" in section 2.2 of S.-H. Park, "An Election Algorithm with
/// Failure Detectors in Distributed Systems" (2008), with more than one miss.
#[derive(Debug)]
pub struct Pull {
    desk: PeerTable,
    options: PullOptions,
    probes: BTreeMap<NodeId, Probes>,
}

/// The parameters of [`Pull`], beside [`AskOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PullOptions {
    /// How often a node under watch is pinged. Default 300 ms. Longer: fewer messages, later
    /// detection.
    pub interval: Duration,
    /// How long each ping has to be answered. Default 300 ms, at most the interval.
    pub timeout: Duration,
    /// How many pings in a row stay unanswered until the node is suspected. Default 4, 1 to 100.
    pub misses: u32,
}

impl Default for PullOptions {
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(300),
            timeout: Duration::from_millis(300),
            misses: 4,
        }
    }
}

#[derive(Debug)]
struct Probes {
    next: Instant,
    /// Pings without an answer since the newest one that has one, the oldest first: round and when
    /// it was sent. At most `misses`: later ones decide nothing.
    open: VecDeque<(u64, Instant)>,
}

impl Probes {
    /// When the last of `misses` open pings has had its time.
    fn deadline(&self, options: &PullOptions) -> Option<Instant> {
        let last = self.open.get(options.misses as usize - 1)?;
        Some(last.1 + options.timeout)
    }
}

impl Pull {
    /// The detector of a node.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters can't hold together; it names both numbers.
    pub fn new(group: &Group, ask: AskOptions, options: PullOptions) -> Result<Self, OptionsError> {
        let desk = PeerTable::new(group, ask)?;
        options::duration("ping interval", options.interval)?;
        options::duration("ping timeout", options.timeout)?;
        options::at_most(
            "ping timeout",
            options.timeout,
            "the ping interval ",
            options.interval,
        )?;
        options::number("misses", f64::from(options.misses), 1.0, 100.0)?;
        Ok(Self {
            desk,
            options,
            probes: BTreeMap::new(),
        })
    }

    fn begin(&mut self, now: Instant, node: NodeId) {
        let open = VecDeque::new();
        self.probes.insert(node, Probes { next: now, open });
        self.handle_timeout(now);
    }

    fn handle_heard(&mut self, now: Instant, from: NodeId, message: Option<&DetectorMessage>) {
        let Some(probes) = self.probes.get_mut(&from) else {
            return;
        };
        let answered = match message {
            Some(DetectorMessage::Pong { round, .. }) => {
                probes.open.iter().position(|open| open.0 == *round)
            }
            _ => None,
        };
        if let Some(answered) = answered {
            probes.open.drain(..=answered);
            self.desk.trust(from);
        } else if self.desk.is_suspected(from) {
            // It lives, and shows it otherwise than by answering a ping of this watch: it has as
            // much time as at first.
            self.desk.trust(from);
            self.begin(now, from);
        } else {
            // It lives, and perhaps did not when the open pings came.
            probes.open.clear();
        }
    }
}

impl Detector for Pull {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.desk.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => self.begin(now, node),
            Step::Unwatch(node) => {
                self.probes.remove(&node);
            }
            Step::Heard { from, message, .. } => self.handle_heard(now, from, message.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.desk.handle_timeout(now) {
            self.desk.suspect(now, node);
        }
        for (node, probes) in &mut self.probes {
            if probes.deadline(&self.options).is_some_and(|at| at <= now) {
                if !self.desk.is_suspected(*node) {
                    self.desk.find_silent(now, *node);
                }
                probes.open.pop_front();
            }
            if probes.next <= now {
                let round = self.desk.ping(*node);
                probes.open.push_back((round, now));
                probes.next = now + self.options.interval;
            }
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.desk.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self
            .probes
            .values()
            .flat_map(|probes| [Some(probes.next), probes.deadline(&self.options)]);
        earliest(deadlines.chain([self.desk.poll_timeout()]))
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.desk.is_suspected(node)
    }

    fn detection_bound(&self, _delay: Duration) -> Duration {
        self.options.interval * self.options.misses + self.options.timeout
    }
}
