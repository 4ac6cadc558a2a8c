//! The state machine of one process.

use std::collections::VecDeque;

use super::ports::Ports;
use super::{
    CoreId, ForestMessage, ForestOutput, ForestRole, ForestSettings, FragmentLabel, Port, PortState,
};

/// A process in an election over links that may be faulty.
///
/// Inputs: [`wake`](Self::wake), [`handle_message`](Self::handle_message). Outputs:
/// [`poll_output`](Self::poll_output), until it returns `None`, after each input. The memory is
/// bounded by the number of ports.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ForestNode {
    pub(super) settings: ForestSettings,
    pub(super) id: CoreId,
    role: ForestRole,
    is_awake: bool,
    pub(super) label: FragmentLabel,
    /// Whether this is the core of its fragment.
    pub(super) is_core: bool,
    /// Whether this core has ordered a join. It then neither wins nor raises its level.
    pub(super) is_frozen: bool,
    pub(super) parent: Option<Port>,
    pub(super) ports: Ports,
    /// Ports that wait for their test. Each is in it once at most.
    pub(super) queue: VecDeque<Port>,
    pub(super) testing: Option<Port>,
    /// The port to a greater fragment.
    pub(super) candidate: Option<Port>,
    /// Ports with a `Connect` of the same level.
    pub(super) pending: Vec<Port>,
    pub(super) of_label: OfLabel,
    leader: Option<ForestLeader>,
    pub(super) is_without_majority: bool,
    outputs: VecDeque<ForestOutput>,
}

/// The state that a new label resets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct OfLabel {
    pub(super) is_found_sent: bool,
    pub(super) found_via: Option<Port>,
    pub(super) is_raise_sent: bool,
    /// Whether this is the topmost node of a region that counts by itself.
    pub(super) is_region_root: bool,
    pub(super) goal: Option<u32>,
    pub(super) quota: Option<u32>,
    /// The count at the last quota that this node computed.
    pub(super) counted_at_quota: u32,
    /// The last report to the parent: open places and counted nodes.
    pub(super) reported: Option<(u32, u32)>,
}

/// The leader, as a process knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForestLeader {
    /// Its identifier. In a network without identifiers it may not be unique.
    pub id: CoreId,
    /// The port that leads to it; `None` at the leader itself.
    pub port: Option<Port>,
}

impl ForestNode {
    /// Creates a process with this number of ports that sleeps.
    #[must_use]
    pub fn new(settings: ForestSettings, id: CoreId, role: ForestRole, ports: u16) -> Self {
        let level = match role {
            ForestRole::Initiator => 0,
            ForestRole::Follower => -1,
        };
        Self {
            settings,
            id,
            role,
            is_awake: false,
            label: FragmentLabel { level, core: id },
            is_core: true,
            is_frozen: false,
            parent: None,
            ports: Ports::new(ports),
            queue: VecDeque::new(),
            testing: None,
            candidate: None,
            pending: Vec::new(),
            of_label: OfLabel::default(),
            leader: None,
            is_without_majority: false,
            outputs: VecDeque::new(),
        }
    }

    /// Begins the election. A process that is awake already, or a follower, does nothing.
    pub fn wake(&mut self) {
        if self.role == ForestRole::Initiator && self.leader.is_none() {
            self.begin();
            self.proceed();
        }
    }

    /// Handles a message from the link of this port. A message on a port that does not exist is
    /// ignored.
    pub fn handle_message(&mut self, port: Port, message: ForestMessage) {
        // A process that knows the leader has ended.
        if self.leader.is_some() || !self.ports.has(port) {
            return;
        }
        if let ForestMessage::Elected(id) = message {
            let port = Some(port);
            return self.end(ForestLeader { id, port });
        }
        self.begin();
        // Every message but a `Hello` shows that this process was heard at the other end.
        let is_proof = !self.settings.has_handshake() || message != ForestMessage::Hello;
        if is_proof && self.ports.state(port) == PortState::Quiet {
            self.ports.set_state(port, PortState::Queued);
            self.queue.push_back(port);
        }
        if message.own_label().is_none_or(|it| it == self.label) {
            self.dispatch(port, message);
        }
        self.proceed();
    }

    /// Returns the next message to send.
    pub fn poll_output(&mut self) -> Option<ForestOutput> {
        self.outputs.pop_front()
    }

    /// Returns the leader, once this process knows it.
    #[must_use]
    pub const fn leader(&self) -> Option<ForestLeader> {
        self.leader
    }

    /// Returns whether this process is the leader.
    #[must_use]
    pub fn leads(&self) -> bool {
        self.leader.is_some_and(|it| it.port.is_none())
    }

    /// Returns whether a message or [`wake`](Self::wake) has woken this process.
    #[must_use]
    pub const fn is_awake(&self) -> bool {
        self.is_awake
    }

    /// Returns the label of the fragment.
    #[must_use]
    pub const fn label(&self) -> FragmentLabel {
        self.label
    }

    /// Returns the port to the parent in the tree.
    #[must_use]
    pub const fn parent(&self) -> Option<Port> {
        self.parent
    }

    /// Returns whether this process is a core that is certain that its component has no majority.
    #[must_use]
    pub const fn is_without_majority(&self) -> bool {
        self.is_without_majority
    }

    /// Returns the state of a port; `None` if it does not exist.
    #[must_use]
    pub fn port_state(&self, port: Port) -> Option<PortState> {
        self.ports.has(port).then(|| self.ports.state(port))
    }

    /// Wakes, and says so on every port.
    fn begin(&mut self) {
        if self.is_awake {
            return;
        }
        self.is_awake = true;
        self.of_label.is_region_root = true;
        for port in self.ports.all() {
            self.send(port, ForestMessage::Hello);
        }
    }

    fn dispatch(&mut self, port: Port, message: ForestMessage) {
        match message {
            ForestMessage::Hello if self.settings.has_handshake() => {
                self.send(port, ForestMessage::HelloAck);
            }
            ForestMessage::Hello | ForestMessage::HelloAck | ForestMessage::Elected(_) => {}
            ForestMessage::Test(label) => self.handle_test(port, label),
            ForestMessage::Accept(label) => self.handle_accept(port, label),
            ForestMessage::Reject => self.reject(port),
            ForestMessage::Found(_) => self.handle_found(port),
            ForestMessage::ChangeRoot(_) => self.handle_change_root(),
            ForestMessage::Connect(label) => self.handle_connect(port, label),
            ForestMessage::RaiseRequest(_) => self.request_raise(),
            ForestMessage::Initiate {
                label,
                is_edge,
                goal,
            } => self.handle_initiate(port, label, is_edge.then_some(goal)),
            ForestMessage::Up { open, counted, .. } | ForestMessage::Grow { open, counted, .. } => {
                self.handle_report(port, open, counted);
            }
            ForestMessage::Quota { quota, .. } => self.handle_quota(quota),
        }
    }

    /// Does what every input may have made possible.
    fn proceed(&mut self) {
        self.search();
        self.count();
    }

    /// Notes the leader, tells it on every port but those inside the fragment, and ends. Silent
    /// ports are told, too: the link may only be slow.
    pub(super) fn end(&mut self, leader: ForestLeader) {
        self.leader = Some(leader);
        for port in self.ports.all() {
            if self.ports.state(port) != PortState::Rejected && leader.port != Some(port) {
                self.send(port, ForestMessage::Elected(leader.id));
            }
        }
    }

    pub(super) fn send(&mut self, port: Port, message: ForestMessage) {
        self.outputs.push_back(ForestOutput { port, message });
    }
}
