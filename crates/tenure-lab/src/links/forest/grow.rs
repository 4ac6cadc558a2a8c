//! Growing the forest.

use super::node::OfLabel;
use super::ports::Child;
use super::{ForestMessage, ForestNode, FragmentLabel, Port, PortState};

impl ForestNode {
    /// Tests the next port of the queue, one at a time: the bound on messages needs that.
    pub(super) fn search(&mut self) {
        while self.candidate.is_none() && self.testing.is_none() && self.label.level >= 0 {
            let Some(port) = self.queue.pop_front() else {
                return;
            };
            if self.ports.state(port) != PortState::Queued {
                continue;
            }
            if self.ports.deferred(port).is_some_and(|it| it > self.label) {
                self.take(port);
            } else {
                self.ports.set_state(port, PortState::Testing);
                self.testing = Some(port);
                self.send(port, ForestMessage::Test(self.label));
            }
        }
    }

    /// Notes a port to a greater fragment, and tells the core.
    fn take(&mut self, port: Port) {
        self.ports.set_state(port, PortState::Outgoing);
        self.candidate = Some(port);
        if self.is_core {
            self.decide(None);
        } else {
            self.send_found();
        }
    }

    fn send_found(&mut self) -> bool {
        let is_first = !self.of_label.is_found_sent;
        if let Some(parent) = self.parent.filter(|_| is_first) {
            self.of_label.is_found_sent = true;
            self.send(parent, ForestMessage::Found(self.label));
        }
        is_first
    }

    pub(super) fn handle_test(&mut self, port: Port, label: FragmentLabel) {
        let state = self.ports.state(port);
        if state == PortState::Branch {
            return;
        }
        if label == self.label {
            self.reject(port);
            self.send(port, ForestMessage::Reject);
        } else if label < self.label {
            self.send(port, ForestMessage::Accept(self.label));
        } else {
            // The answer waits: if it left now, the tester would never learn that this fragment
            // outgrows its own. A greater neighbour is itself a fragment to join.
            self.ports.set_deferred(port, Some(label));
            let is_free = matches!(state, PortState::Queued | PortState::Testing);
            if is_free && self.candidate.is_none() {
                self.take(port);
            }
        }
    }

    pub(super) fn handle_accept(&mut self, port: Port, label: FragmentLabel) {
        if self.testing == Some(port) {
            self.testing = None;
        }
        if self.ports.state(port) != PortState::Testing {
            return;
        }
        // Only a greater label: joins to greater labels form no circle.
        if label > self.label && self.candidate.is_none() {
            self.take(port);
        } else {
            self.ports.set_state(port, PortState::Queued);
            self.queue.push_front(port);
        }
    }

    /// Both ends of the link are in this fragment. Fragments never part, so this is final.
    pub(super) fn reject(&mut self, port: Port) {
        self.ports.set_state(port, PortState::Rejected);
        if self.testing == Some(port) {
            self.testing = None;
        }
    }

    pub(super) fn handle_found(&mut self, port: Port) {
        if self.is_core {
            self.decide(Some(port));
        } else if self.send_found() {
            self.of_label.found_via = Some(port);
        }
    }

    /// The core orders one join for each label, over its own candidate or over that of a node
    /// below.
    fn decide(&mut self, via: Option<Port>) {
        if self.is_frozen {
            return;
        }
        // Safety: from here on this core neither wins nor raises its level, so that its nodes are
        // counted by one winner at most, and the fragment that it joins stays greater.
        self.is_frozen = true;
        match via {
            None => self.join(),
            Some(port) => self.send(port, ForestMessage::ChangeRoot(self.label)),
        }
    }

    pub(super) fn handle_change_root(&mut self) {
        match self.of_label.found_via {
            _ if self.candidate.is_some() => self.join(),
            Some(port) => self.send(port, ForestMessage::ChangeRoot(self.label)),
            None => {}
        }
    }

    /// Connects over the candidate. It stays the candidate until the new label arrives: more tests
    /// under the old label would be wasted.
    fn join(&mut self) {
        let Some(port) = self.candidate else { return };
        self.ports.set_state(port, PortState::Branch);
        self.ports.set_deferred(port, None);
        self.send(port, ForestMessage::Connect(self.label));
    }

    pub(super) fn handle_connect(&mut self, port: Port, label: FragmentLabel) {
        if label.level < self.label.level {
            self.swallow(port);
        } else {
            // It waits until this fragment has a greater level: by its own raise, or because it
            // joins another one.
            // The memory of a node is bounded by its ports, whatever arrives.
            if !self.pending.contains(&port) {
                self.pending.push(port);
            }
            self.request_raise();
        }
    }

    /// Asks the core to raise the level, once for each label; the core does.
    pub(super) fn request_raise(&mut self) {
        if self.is_core {
            self.raise();
        } else if let Some(parent) = self.parent.filter(|_| !self.of_label.is_raise_sent) {
            self.of_label.is_raise_sent = true;
            self.send(parent, ForestMessage::RaiseRequest(self.label));
        }
    }

    pub(super) fn raise(&mut self) {
        if self.is_frozen {
            return;
        }
        let label = FragmentLabel {
            level: self.label.level.saturating_add(1),
            core: self.id,
        };
        self.relabel(label, None, None);
    }

    /// Lets a fragment of a lower level in. It counts by itself, as a region.
    fn swallow(&mut self, port: Port) {
        self.ports.set_state(port, PortState::Branch);
        self.ports.set_deferred(port, None);
        for held in [&mut self.testing, &mut self.candidate] {
            if *held == Some(port) {
                *held = None;
            }
        }
        self.ports.set_child(port, Some(Child::Edge));
        let initiate = ForestMessage::Initiate {
            label: self.label,
            is_edge: true,
            goal: self.of_label.quota,
        };
        self.send(port, initiate);
    }

    /// `region` is the goal of a new region whose root this node is.
    pub(super) fn handle_initiate(
        &mut self,
        port: Port,
        label: FragmentLabel,
        region: Option<Option<u32>>,
    ) {
        self.is_core = false;
        self.is_frozen = false;
        self.parent = Some(port);
        self.relabel(label, Some(port), region);
    }

    fn relabel(&mut self, label: FragmentLabel, parent: Option<Port>, region: Option<Option<u32>>) {
        self.label = label;
        self.is_without_majority = false;
        self.of_label = OfLabel {
            is_region_root: self.is_core || region.is_some(),
            goal: region.flatten(),
            ..OfLabel::default()
        };
        if let Some(port) = self.candidate.take()
            && self.ports.state(port) == PortState::Outgoing
        {
            self.ports.set_state(port, PortState::Queued);
            // A port that was taken out of turn is still in the queue.
            self.queue.retain(|it| *it != port);
            self.queue.push_front(port);
        }
        for port in self.ports.all() {
            self.relabel_port(port, parent);
        }
        // Their level is lower now.
        for port in std::mem::take(&mut self.pending) {
            self.swallow(port);
        }
    }

    fn relabel_port(&mut self, port: Port, parent: Option<Port>) {
        let state = self.ports.state(port);
        let is_child = state == PortState::Branch && parent != Some(port);
        self.ports
            .set_child(port, is_child.then_some(Child::UNKNOWN));
        let label = self.label;
        if is_child {
            let initiate = ForestMessage::Initiate {
                label,
                is_edge: false,
                goal: None,
            };
            self.send(port, initiate);
        }
        let Some(deferred) = self.ports.deferred(port).filter(|it| *it <= label) else {
            return;
        };
        self.ports.set_deferred(port, None);
        if deferred == label {
            self.reject(port);
            self.send(port, ForestMessage::Reject);
        } else {
            self.send(port, ForestMessage::Accept(label));
        }
    }
}
