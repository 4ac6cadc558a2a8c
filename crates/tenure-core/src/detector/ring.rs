//! An attendance list that goes round.

use alloc::collections::BTreeSet;
use core::time::Duration;

use super::message::{Attendance, DetectorInput, DetectorMessage, DetectorOutput, Group, Stamp};
use super::options::{self, OptionsError};
use super::peer_table::{AskOptions, PeerTable, Step};
use super::{Detector, earliest};
use crate::{Instant, NodeId};

/// Passes one list from node to node, in the order of their ids and back to the first. Who has it
/// signs it, keeps it for a moment and passes it on to the next that is not suspected.
///
/// A node that has not seen the list for too long takes it for lost. It pings all the others to find
/// out who is gone, and writes the list anew, with those as **absent**: so the others learn of them
/// without pinging. The node with the least id that is not suspected does that first; the one after
/// it waits longer, by the time that the first one needs. Of two lists the newer one holds, by
/// generation and then author; a node that has seen the newer one drops the other.
///
/// Whoever is absent is pinged again from time to time, by the first node alone.
///
/// What a node has found out by itself since it last saw the list goes before what the list says.
///
/// It knows about all nodes, whether they are under watch or not; a watch only says it aloud.
///
/// - Detection of one crash: at most 2 × (members × (`hold` + delay) + `list_timeout` + ask timeout),
///   half of it if the node with the least id is still there. Each further one that is gone at the
///   same time with a lesser id than all that are left costs `list_timeout` + ask timeout more.
/// - Messages: members per round, for everybody's knowledge of everybody; 2 per member after a loss,
///   and 1 per absent node and `fresh`.
/// - One slow node is late for all.
///
/// Source: the "attendance list" in section 2.2 of S.-H. Park, "An Election Algorithm with Failure
/// Detectors in Distributed Systems" (2008). How a list is replaced is not said there.
#[derive(Debug)]
pub struct Ring {
    desk: PeerTable,
    options: RingOptions,
    /// The newest list that was seen or passed on.
    newest: Option<Stamp>,
    /// When a list was last seen.
    seen: Instant,
    /// The list while it is here, and when it goes on.
    held: Option<(Instant, Attendance)>,
    /// To whom it went, until it is seen again.
    passed_to: Option<NodeId>,
    /// When the list is taken for lost.
    lost: Instant,
    /// Who has not answered yet, in the search after a loss.
    searched: BTreeSet<NodeId>,
}

/// The parameters of [`Ring`], beside [`AskOptions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// How long each node keeps the list. Default 100 ms. Longer: fewer messages, later detection.
    pub hold: Duration,
    /// After how long without the list it is taken for lost. Default 3 s, at least twice what one
    /// round of holding takes: the other half is for the ways between.
    pub list_timeout: Duration,
}

impl Default for RingOptions {
    fn default() -> Self {
        Self {
            hold: Duration::from_millis(100),
            list_timeout: Duration::from_secs(3),
        }
    }
}

impl Ring {
    /// The detector of a node that starts at `now`.
    ///
    /// # Errors
    ///
    /// [`OptionsError`] when the parameters can't hold together; it names both numbers.
    pub fn new(
        now: Instant,
        group: &Group,
        ask: AskOptions,
        options: RingOptions,
    ) -> Result<Self, OptionsError> {
        let desk = PeerTable::new(group, ask)?;
        options::duration("hold", options.hold)?;
        options::duration("list timeout", options.list_timeout)?;
        options::at_least(
            "list timeout",
            options.list_timeout,
            "two rounds of the group, ",
            2 * round(group, options.hold),
        )?;
        let mut ring = Self {
            desk,
            options,
            newest: None,
            seen: now,
            held: None,
            passed_to: None,
            lost: now,
            searched: BTreeSet::new(),
        };
        ring.lost = now + ring.turn();
        Ok(ring)
    }

    /// How much later than the first one this node takes the list for lost: the first one then has
    /// searched, and its list has come round.
    fn turn(&self) -> Duration {
        let me = self.desk.group().me();
        let before = self.desk.group().peers().filter(|node| *node < me);
        let before = before.filter(|node| !self.desk.is_listed(*node)).count();
        let turn = self.desk.options().timeout + self.options.list_timeout;
        turn * u32::try_from(before).unwrap_or(u32::MAX)
    }

    fn see(&mut self, now: Instant, stamp: Stamp) {
        self.newest = Some(stamp);
        self.seen = now;
        self.lost = now + self.options.list_timeout + self.turn();
        self.passed_to = None;
        self.searched.clear();
    }

    fn handle_list(&mut self, now: Instant, mut list: Attendance) {
        if self.newest.is_some_and(|newest| list.stamp <= newest) {
            return;
        }
        let me = self.desk.group().me();
        let mut present = BTreeSet::from([me]);
        let mut absent = BTreeSet::new();
        for node in self.desk.group().clone().peers() {
            let listed = self.desk.listed(node).is_some_and(|at| at > self.seen);
            let heard = self.desk.heard(node).is_some_and(|at| at > self.seen);
            if listed || (!heard && list.absent.contains(&node)) {
                absent.insert(node);
                if !self.desk.is_listed(node) {
                    self.desk.suspect(now, node);
                }
            } else if heard || list.present.contains(&node) {
                present.insert(node);
                self.desk.trust(node);
            }
        }
        (list.present, list.absent) = (present, absent);
        self.see(now, list.stamp);
        self.held = Some((now + self.options.hold, list));
        if self.turn().is_zero() {
            // The first one looks again for those who are absent. Otherwise the parts of a network
            // that was parted would each go on with a list of their own when it is whole again.
            for node in self.desk.group().clone().peers() {
                if self.desk.is_listed(node) {
                    self.desk.look_up(now, node);
                }
            }
        }
    }

    /// Passes the list on. With nobody there to take it, it is lost, and in time searched for.
    fn pass(&mut self, mut list: Attendance) {
        let Some(next) = self.successor() else {
            return;
        };
        list.stamp.hops = list.stamp.hops.saturating_add(1);
        self.newest = Some(list.stamp);
        self.passed_to = Some(next);
        self.desk.send(next, DetectorMessage::Attendance(list));
    }

    fn successor(&self) -> Option<NodeId> {
        let group = self.desk.group();
        let after = group.peers().filter(|node| *node > group.me());
        let before = group.peers().filter(|node| *node < group.me());
        after.chain(before).find(|node| !self.desk.is_listed(*node))
    }

    fn search(&mut self, now: Instant) {
        self.passed_to = None;
        for node in self.desk.group().clone().peers() {
            self.desk.look_up(now, node);
            if self.desk.is_asked(node) {
                self.searched.insert(node);
            }
        }
        if self.searched.is_empty() {
            self.write_anew(now);
        }
    }

    /// A list of a new generation, from what this node knows. Anything older that still goes round is
    /// dropped by whoever has seen this one.
    fn write_anew(&mut self, now: Instant) {
        let author = self.desk.group().me();
        let last = self.newest.map_or(0, |newest| newest.generation);
        let stamp = Stamp {
            generation: last.saturating_add(1),
            author,
            hops: 0,
        };
        let peers = self.desk.group().peers();
        let (absent, mut present): (BTreeSet<_>, BTreeSet<_>) =
            peers.partition(|node| self.desk.is_listed(*node));
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
        self.desk.suspect(now, node);
        if self.passed_to == Some(node) {
            // The list went to a node that is down: no need to wait until it is missed.
            self.write_anew(now);
        } else {
            self.handle_found(now, node);
        }
    }
}

/// How long a list takes to go round if the ways take no time.
fn round(group: &Group, hold: Duration) -> Duration {
    hold * u32::try_from(group.peers().count() + 1).unwrap_or(u32::MAX)
}

impl Detector for Ring {
    fn handle_input(&mut self, now: Instant, input: DetectorInput) {
        match self.desk.handle_input(now, input) {
            Step::Nothing | Step::Unwatch(_) => {}
            Step::Watch(node) => {
                if self.desk.is_listed(node) {
                    self.desk.suspect(now, node);
                }
            }
            Step::Heard { from, message, .. } => {
                self.desk.trust(from);
                self.handle_found(now, from);
                if let Some(DetectorMessage::Attendance(list)) = message {
                    self.handle_list(now, list);
                }
            }
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        for node in self.desk.handle_timeout(now) {
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
        self.desk.poll_output()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let here = match &self.held {
            Some((until, _)) => Some(*until),
            None => self.searched.is_empty().then_some(self.lost),
        };
        earliest([here, self.desk.poll_timeout()])
    }

    fn is_suspected(&self, node: NodeId) -> bool {
        self.desk.is_suspected(node)
    }

    fn detection_bound(&self, delay: Duration) -> Duration {
        let round = round(self.desk.group(), self.options.hold + delay);
        2 * (round + self.options.list_timeout + self.desk.options().timeout)
    }
}
