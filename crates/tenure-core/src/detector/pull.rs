//! A detector that sends pings at an interval.

use alloc::collections::{BTreeMap, VecDeque};
use core::time::Duration;

use super::message::{DetectorInput, DetectorMessage, DetectorOutput, Group};
use super::peer_table::{PeerTable, Step};
use super::{AskOptions, Detector, earliest};
use crate::{Instant, NodeId};

/// Pings a node under watch at an interval, and suspects it if several pings in a row stay
/// unanswered.
///
/// The time for an answer counts from when its ping was **sent**, so a slow answer does not extend
/// the time for the next one.
///
/// - Detection: at most (`misses` + 1) × `interval` after the node's last message has arrived, if
///   timers are punctual.
/// - Messages: 2 per interval and watch (1 while the node is down).
/// - A mistake requires `misses` exchanges in a row that are lost or take longer than the interval:
///   with a loss of p per message, about (2p)^`misses` per interval.
///
/// Source: the "simplest implementation" in section 2.2 of S.-H. Park, "An Election Algorithm with
/// Failure Detectors in Distributed Systems" (2008), extended to more than one miss.
#[derive(Debug)]
pub struct Pull {
    table: PeerTable,
    /// The interval of the pings to a node under watch, which is also the time to answer a ping.
    interval: Duration,
    /// The number of unanswered pings in a row after which the node is suspected.
    misses: u32,
    probes: BTreeMap<NodeId, Probes>,
}

#[derive(Debug)]
struct Probes {
    next: Instant,
    /// The unanswered pings since the newest answered one, oldest first: the round, and the time of
    /// sending. At most `misses` are stored, because later pings do not affect the decision.
    open: VecDeque<(u64, Instant)>,
}

impl Pull {
    /// Creates the detector of a node. It suspects a node under watch after `misses` unanswered
    /// pings in a row, at least one. A longer interval means fewer messages and later detection.
    #[must_use]
    pub fn new(group: &Group, ask: AskOptions, interval: Duration, misses: u32) -> Self {
        Self {
            table: PeerTable::new(group, ask),
            interval,
            misses,
            probes: BTreeMap::new(),
        }
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
            self.table.trust(from);
        } else if self.table.is_suspected(from) {
            // The node is alive, but has not answered a ping of this watch. It gets as much time as
            // at first.
            self.table.trust(from);
            self.begin(now, from);
        } else {
            // The node is alive, but may have been down when the open pings arrived.
            probes.open.clear();
        }
    }
}

impl Probes {
    /// Returns the end of the time for the last of `misses` open pings.
    fn deadline(&self, misses: u32, interval: Duration) -> Option<Instant> {
        let last = self.open.get(misses as usize - 1)?;
        Some(last.1 + interval)
    }
}

impl Detector for Pull {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.table.handle_input(now, input) {
            Step::Nothing => {}
            Step::Watch(node) => self.begin(now, node),
            Step::Unwatch(node) => {
                self.probes.remove(&node);
            }
            Step::Heard { from, message, .. } => self.handle_heard(now, from, message.as_ref()),
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.table.handle_timeout(now) {
            self.table.suspect(now, node);
        }
        for (node, probes) in &mut self.probes {
            let deadline = probes.deadline(self.misses, self.interval);
            if deadline.is_some_and(|at| at <= now) {
                if !self.table.is_suspected(*node) {
                    self.table.find_silent(now, *node);
                }
                probes.open.pop_front();
            }
            if probes.next <= now {
                let round = self.table.ping(*node);
                probes.open.push_back((round, now));
                probes.next = now + self.interval;
            }
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.table.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadlines = self.probes.values().flat_map(|probes| {
            let deadline = probes.deadline(self.misses, self.interval);
            [Some(probes.next), deadline]
        });
        earliest(deadlines.chain([self.table.poll_timeout()]))
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.table.is_suspected(node)
    }

    /// Any message of the node excuses the open pings. Its last one may arrive `delay` after the
    /// crash.
    fn detection_bound(&self, delay: Duration) -> Duration {
        delay + self.interval * (self.misses + 1)
    }
}
