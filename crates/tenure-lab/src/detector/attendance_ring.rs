//! A failure detector with an attendance list that passes around a ring.

use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use serde::Serialize;
use tenure_core::detector::peer_table::{PeerTable, Step};
use tenure_core::detector::{AskOptions, Detector, DetectorInput, DetectorOutput, Group};
use tenure_core::{Incarnation, Instant, NodeId};
use tenure_sim::contestant::{OtherDetector, OtherDetectorKind, json_size};
use tenure_sim::sim::SimMessage;

/// The detector for contestants.
pub static ATTENDANCE_RING: OtherDetectorKind = OtherDetectorKind {
    suffix: "-ring",
    about: "an attendance list that passes around a ring",
    start: |now, group, ask| Box::new(AttendanceRing::new(now, group, ask)),
};

/// Passes one list from node to node, in the order of their ids and then back to the first. The
/// node that has the list signs it, holds it for a moment, and passes it to the next node that is
/// not suspected.
///
/// A node that has not seen the list for too long considers it lost. It pings all other nodes, and
/// writes a new list that contains the nodes without an answer as **absent**, so that the others
/// learn of them without pings. The node with the least id that is not suspected does this first.
/// Each further node waits longer, by the time that the first one needs. Of two lists the newer one
/// is valid, by generation and then by author. A node that has seen the newer list drops the older
/// one.
///
/// Only the first node pings the absent nodes again from time to time.
///
/// A node prefers its own observations to the list, if they are newer than the last list that it
/// saw.
///
/// A node has information about all nodes; a watch only makes the detector report them.
///
/// - Detection of one crash: at most 2 × (members × (`hold` + delay) + `list_timeout` + ask
///   timeout), or half of it if the node with the least id is up. Each further node that is down at
///   the same time and has a smaller id than all running nodes adds `list_timeout` + ask timeout.
/// - Messages: one per member and round, with which each node learns about all others; 2 per member
///   after a loss, and 1 per absent node and `fresh`.
/// - One slow node delays the detection of all.
///
/// The crash of one node delays the detection of all, and so does one lost message. The detector is
/// for experiments only.
///
/// Source: the "attendance list" in section 2.2 of S.-H. Park, "An Election Algorithm with Failure
/// Detectors in Distributed Systems" (2008). The paper does not describe how a lost list is
/// replaced.
#[derive(Debug)]
pub struct AttendanceRing {
    table: PeerTable,
    /// The lists to send.
    lists: VecDeque<(NodeId, Attendance)>,
    list_timeout: Duration,
    /// The newest list that was seen or passed on.
    newest: Option<Stamp>,
    /// The time at which this node last saw a list.
    seen: Instant,
    /// The list while this node holds it, and the time at which it is passed on.
    held: Option<(Instant, Attendance)>,
    /// The node to which the list was passed, until this node sees a list again.
    passed_to: Option<NodeId>,
    /// The time at which this node considers the list lost.
    lost: Instant,
    /// The nodes that have not answered yet in the search after a loss.
    searched: BTreeSet<NodeId>,
}

/// The list that an [`AttendanceRing`] passes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attendance {
    /// The number of the list, and its progress around the ring.
    pub stamp: Stamp,
    /// The nodes that have signed it, or answered in the search before it.
    pub present: BTreeSet<NodeId>,
    /// The nodes that did not answer in the search.
    pub absent: BTreeSet<NodeId>,
}

/// The order of attendance lists: the newest list is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Stamp {
    /// The generation, which increases when a node writes a new list.
    pub generation: u64,
    /// The node that wrote it.
    pub author: NodeId,
    /// How often it was passed on.
    pub hops: u64,
}

/// The time for which each node holds the list. A longer time means fewer messages and later
/// detection.
const HOLD: Duration = Duration::from_millis(100);

/// The least time without a list after which a node considers it lost. In a large group the time is
/// three rounds; two of them allow for the delays of messages.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

impl AttendanceRing {
    /// Creates the detector of a node that starts at `now`.
    #[must_use]
    pub fn new(now: Instant, group: &Group, ask: AskOptions) -> Self {
        let mut ring = Self {
            table: PeerTable::new(group, ask),
            lists: VecDeque::new(),
            list_timeout: LIST_TIMEOUT.max(3 * round(group, HOLD)),
            newest: None,
            seen: now,
            held: None,
            passed_to: None,
            lost: now,
            searched: BTreeSet::new(),
        };
        ring.lost = now + ring.turn();
        ring
    }

    /// Returns how much later than the first node this node considers the list lost. By then the
    /// first node has searched, and its list has passed around the ring.
    fn turn(&self) -> Duration {
        let me = self.table.group.me;
        let before = self.table.group.peers().filter(|node| *node < me);
        let before = before.filter(|node| !self.table.is_listed(*node)).count();
        let turn = self.table.options.timeout + self.list_timeout;
        turn * u32::try_from(before).unwrap_or(u32::MAX)
    }

    fn see(&mut self, now: Instant, stamp: Stamp) {
        self.newest = Some(stamp);
        self.seen = now;
        self.lost = now + self.list_timeout + self.turn();
        self.passed_to = None;
        self.searched.clear();
    }

    /// Input: a list has arrived from this node.
    pub fn handle_list(
        &mut self,
        now: Instant,
        (from, incarnation): (NodeId, Incarnation),
        mut list: Attendance,
    ) {
        let heard = DetectorInput::Heard { from, incarnation };
        let Step::Heard { .. } = self.table.handle_input(now, heard) else {
            return;
        };
        self.table.trust(from);
        self.handle_found(now, from);
        if self.newest.is_some_and(|newest| list.stamp <= newest) {
            return;
        }
        let me = self.table.group.me;
        let mut present = BTreeSet::from([me]);
        let mut absent = BTreeSet::new();
        for node in self.table.group.clone().peers() {
            let listed = self.table.listed(node).is_some_and(|at| at > self.seen);
            let heard = self.table.heard(node).is_some_and(|at| at > self.seen);
            if listed || (!heard && list.absent.contains(&node)) {
                absent.insert(node);
                if !self.table.is_listed(node) {
                    self.table.suspect(now, node);
                }
            } else if heard || list.present.contains(&node) {
                present.insert(node);
                self.table.trust(node);
            }
        }
        (list.present, list.absent) = (present, absent);
        self.see(now, list.stamp);
        self.held = Some((now + HOLD, list));
        if self.turn().is_zero() {
            // The first node asks about the absent nodes again. Otherwise each side of a network
            // partition would keep its own list after the partition has healed.
            for node in self.table.group.clone().peers() {
                if self.table.is_listed(node) {
                    self.table.ask_about(now, node);
                }
            }
        }
    }

    /// Output: the next list to send. It may be lost.
    pub fn poll_list(&mut self) -> Option<(NodeId, Attendance)> {
        self.lists.pop_front()
    }

    /// Passes the list on. If all other nodes are down, the list is lost, and its nodes search for
    /// it after their timeouts.
    fn pass(&mut self, mut list: Attendance) {
        let Some(next) = self.successor() else {
            return;
        };
        list.stamp.hops = list.stamp.hops.saturating_add(1);
        self.newest = Some(list.stamp);
        self.passed_to = Some(next);
        self.lists.push_back((next, list));
    }

    fn successor(&self) -> Option<NodeId> {
        let group = &self.table.group;
        let after = group.peers().filter(|node| *node > group.me);
        let before = group.peers().filter(|node| *node < group.me);
        after
            .chain(before)
            .find(|node| !self.table.is_listed(*node))
    }

    fn search(&mut self, now: Instant) {
        self.passed_to = None;
        for node in self.table.group.clone().peers() {
            self.table.ask_about(now, node);
            if self.table.is_asked(node) {
                self.searched.insert(node);
            }
        }
        if self.searched.is_empty() {
            self.write_anew(now);
        }
    }

    /// Writes a list of a new generation from this node's own information. Nodes that have seen it
    /// drop older lists.
    fn write_anew(&mut self, now: Instant) {
        let author = self.table.group.me;
        let last = self.newest.map_or(0, |newest| newest.generation);
        let stamp = Stamp {
            generation: last.saturating_add(1),
            author,
            hops: 0,
        };
        let peers = self.table.group.peers();
        let (absent, mut present): (BTreeSet<_>, BTreeSet<_>) =
            peers.partition(|node| self.table.is_listed(*node));
        present.insert(author);
        self.see(now, stamp);
        self.pass(Attendance {
            stamp,
            present,
            absent,
        });
    }

    fn handle_found(&mut self, now: Instant, node: NodeId) {
        if self.searched.remove(&node) && self.searched.is_empty() {
            self.write_anew(now);
        }
    }

    fn handle_down(&mut self, now: Instant, node: NodeId) {
        self.table.suspect(now, node);
        if self.passed_to == Some(node) {
            // The list was passed to a node that is down, so do not wait for its timeout.
            self.write_anew(now);
        } else {
            self.handle_found(now, node);
        }
    }
}

/// Returns the time that a list needs for a round if messages take no time.
/// A list with the incarnation of its sender.
#[derive(Debug)]
struct AttendanceMessage(Incarnation, Attendance);

impl SimMessage for AttendanceMessage {
    fn kind(&self) -> &'static str {
        "attendance"
    }

    fn bytes(&self) -> u64 {
        json_size(&self.1)
    }

    fn is_detection(&self) -> bool {
        true
    }
}

impl OtherDetector for AttendanceRing {
    fn handle_message(&mut self, now: Instant, from: NodeId, message: &dyn SimMessage) {
        if let Some(AttendanceMessage(incarnation, list)) = message.downcast_ref() {
            self.handle_list(now, (from, *incarnation), list.clone());
        }
    }

    fn poll_message(&mut self) -> Option<(NodeId, Rc<dyn SimMessage>)> {
        let (to, list) = self.poll_list()?;
        let incarnation = self.table.group.incarnation;
        Some((to, Rc::new(AttendanceMessage(incarnation, list))))
    }
}

fn round(group: &Group, hold: Duration) -> Duration {
    hold * u32::try_from(group.peers().count() + 1).unwrap_or(u32::MAX)
}

impl Detector for AttendanceRing {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.table.handle_input(now, input) {
            Step::Nothing | Step::Unwatch(_) => {}
            Step::Watch(node) => {
                if self.table.is_listed(node) {
                    self.table.suspect(now, node);
                }
            }
            Step::Heard { from, .. } => {
                self.table.trust(from);
                self.handle_found(now, from);
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.table.handle_timeout(now) {
            self.handle_down(now, node);
        }
        if let Some((_, list)) = self.held.take_if(|(until, _)| *until <= now) {
            self.pass(list);
        }
        if self.held.is_none() && self.searched.is_empty() && self.lost <= now {
            self.search(now);
        }
    }

    fn poll_output(&mut self) -> Option<DetectorOutput> {
        self.table.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let context = match &self.held {
            Some((until, _)) => Some(*until),
            None => self.searched.is_empty().then_some(self.lost),
        };
        [context, self.table.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.table.is_suspected(node)
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        let round = round(&self.table.group, HOLD + delay);
        2 * (round + self.list_timeout + self.table.options.timeout)
    }
}
