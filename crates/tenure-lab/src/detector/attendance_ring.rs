//! A failure detector by an attendance list that goes round.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tenure_core::detector::peer_table::{PeerTable, Step};
use tenure_core::detector::{AskOptions, Detector, DetectorInput, DetectorOutput, Group};
use tenure_core::{Incarnation, Instant, NodeId};

/// Passes one list from node to node, in the order of their ids and back to the first. The node that
/// has the list signs it, holds it for a moment and passes it on to the next node that is not
/// suspected.
///
/// A node that has not seen the list for too long takes it for lost. It pings all the others and
/// writes a new list that names those without an answer as **absent**: so the others learn of them
/// without pings. The node with the least id that is not suspected does that first; the next one
/// waits longer, by the time that the first one needs. Of two lists the newer one holds, by
/// generation and then author; a node that has seen the newer one drops the other.
///
/// The first node alone pings the absent nodes again from time to time.
///
/// Since it last saw the list, a node trusts its own observations more than the list.
///
/// It knows about all nodes, under watch or not; a watch only makes it report them.
///
/// - Detection of one crash: at most 2 × (members × (`hold` + delay) + `list_timeout` + ask timeout),
///   half of it if the node with the least id is up. Each further node that is down at the same
///   time, with a lesser id than all that are up, costs `list_timeout` + ask timeout more.
/// - Messages: members per round, and all learn about all; 2 per member after a loss, and 1 per
///   absent node and `fresh`.
/// - One slow node delays the detection of all.
///
/// A crash of one node delays all, and so does one lost message. It is for experiments.
///
/// Source: the "attendance list" in section 2.2 of S.-H. Park, "An Election Algorithm with Failure
/// Detectors in Distributed Systems" (2008). How a list is replaced is not said there.
#[derive(Debug)]
pub struct AttendanceRing {
    table: PeerTable,
    /// Lists to send.
    lists: VecDeque<(NodeId, Attendance)>,
    list_timeout: Duration,
    /// The newest list that was seen or passed on.
    newest: Option<Stamp>,
    /// When a list was last seen.
    seen: Instant,
    /// The list while it is here, and when it goes on.
    held: Option<(Instant, Attendance)>,
    /// The node that the list went to, until this node sees it again.
    passed_to: Option<NodeId>,
    /// When this node takes the list for lost.
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

/// Orders attendance lists: the newer one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Stamp {
    /// Grows when a node writes a new list.
    pub generation: u64,
    /// The node that wrote it.
    pub author: NodeId,
    /// How often it was passed on.
    pub hops: u64,
}

/// How long each node keeps the list. Longer: fewer messages, later detection.
const HOLD: Duration = Duration::from_millis(100);

/// How long a node waits at least for the list before it takes it for lost. In a large group it waits
/// for three rounds: two of them are for the messages.
const LIST_TIMEOUT: Duration = Duration::from_secs(3);

impl AttendanceRing {
    /// The detector of a node that starts at `now`.
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

    /// How much later than the first node this one takes the list for lost: by then the first one has
    /// searched and its list has come round.
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

    /// Input: a list has come from this node.
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
            // The first node asks about the absent ones again. Otherwise each side of a network
            // partition would keep a list of its own after the partition has healed.
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

    /// Passes the list on. If all others are down the list is lost, and its nodes search for it in
    /// time.
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

    /// Writes a list of a new generation from this node's own knowledge. Nodes that have seen it drop
    /// the older lists that still go round.
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
            // The list went to a node that is down: do not wait for its timeout.
            self.write_anew(now);
        } else {
            self.handle_found(now, node);
        }
    }
}

/// How long a list takes to go round if messages take no time.
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
