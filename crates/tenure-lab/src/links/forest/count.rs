//! Counting the nodes of a tree.
//!
//! A **region** is a part of the tree that counts together: the fragment as it was when it got its
//! label, and each fragment that it swallowed later. A region reports to its parent when it has
//! reached its goal. For each node, c is the number of open places below it, at most 2f + 1, and k
//! the number of counted nodes. The part that reports nothing is the part in which all 2f + 1
//! tokens of the paper would be parked.

use super::ports::Child;
use super::{ForestLeader, ForestMessage, ForestNode, Port};

impl ForestNode {
    pub(super) fn count(&mut self) {
        if self.leader().is_some() || !self.is_awake() {
            return;
        }
        let cap = self.tokens();
        let (open, counted) = (self.ports.open_places(cap), self.ports.counted());
        if self.is_core {
            self.count_as_core(open, counted);
        } else if self.of_label.is_region_root {
            let goal = self.of_label.goal;
            let has_goal = goal.is_some_and(|goal| counted >= goal);
            if open == 0 || has_goal || !self.settings.has_quotas() {
                self.of_label.is_region_root = false;
                self.of_label.reported = Some((open, counted));
                let label = self.label;
                self.send_to_parent(ForestMessage::Grow {
                    label,
                    open,
                    counted,
                });
            } else if let Some(goal) = goal {
                self.share(open, counted, goal);
            }
        } else {
            let before = self.of_label.reported;
            // A place where all tokens are parked reports nothing, except that it was different
            // before.
            let is_known = open < cap || before.is_some_and(|(open, _)| open < cap);
            if is_known && before != Some((open, counted)) {
                self.of_label.reported = Some((open, counted));
                let label = self.label;
                self.send_to_parent(ForestMessage::Up {
                    label,
                    open,
                    counted,
                });
            }
        }
    }

    fn count_as_core(&mut self, open: u32, counted: u32) {
        if self.is_frozen || self.label.level < 0 {
            return;
        }
        let majority = self.majority();
        if counted >= majority {
            // Safety: each counted node is in this tree, once, and this core has ordered no join.
            let id = self.id;
            return self.end(ForestLeader { id, port: None });
        }
        if open == 0 {
            // Nothing is open, so these are all nodes that can be reached.
            self.is_without_majority = true;
            return;
        }
        let mut goal = majority;
        if self.settings.raises_by_count() {
            let next = 1_u32.checked_shl(self.label.level.unsigned_abs().into());
            goal = goal.min(next.map_or(u32::MAX, |it| it.saturating_mul(2)));
            if counted >= goal {
                return self.raise();
            }
        }
        self.share(open, counted, goal);
    }

    /// Divides what is missing among the open places: behind one of them is at least the quota.
    fn share(&mut self, open: u32, counted: u32, goal: u32) {
        if open == 0 || open >= self.tokens() {
            return;
        }
        let quota = goal.saturating_sub(counted).div_ceil(open);
        let is_smaller = self.of_label.quota.is_none_or(|it| quota < it);
        if is_smaller || counted > self.of_label.counted_at_quota {
            self.of_label.counted_at_quota = counted;
            self.pass_quota(quota);
        }
    }

    fn pass_quota(&mut self, quota: u32) {
        self.of_label.quota = Some(quota);
        let label = self.label;
        for port in self.ports.all() {
            let is_open = match self.ports.child(port) {
                None => false,
                Some(Child::Edge) => true,
                Some(Child::Inside { open, .. }) => open != Some(0),
            };
            if is_open {
                self.send(port, ForestMessage::Quota { label, quota });
            }
        }
    }

    pub(super) fn handle_quota(&mut self, quota: u32) {
        if self.of_label.is_region_root {
            self.of_label.goal = Some(quota);
        } else {
            self.pass_quota(quota);
        }
    }

    pub(super) fn handle_report(&mut self, port: Port, open: u32, counted: u32) {
        if self.ports.child(port).is_some() {
            let open = (open < self.tokens()).then_some(open);
            self.ports
                .set_child(port, Some(Child::Inside { open, counted }));
        }
    }

    fn send_to_parent(&mut self, message: ForestMessage) {
        if let Some(parent) = self.parent {
            self.send(parent, message);
        }
    }

    fn majority(&self) -> u32 {
        self.settings.majority()
    }

    fn tokens(&self) -> u32 {
        self.settings.tokens()
    }
}
