//! The Bully algorithm of H. Garcia-Molina, "Elections in a Distributed Computing System" (1982,
//! appendix): procedures that call other members, one after the other.
//!
//! A member that finds the leader down calls `AreYouThere` on the better members, from the next
//! better one on; the first that answers ends this election, and is expected to hold its own. If
//! none answers, the member halts the worse ones in the order of their ranks. That is the election
//! point: it leads, calls `NewCoordinator` on all that it halted, and then `Ready`.
//!
//! It assumes that a member without an answer in time is down. If that is wrong, there may be two
//! leaders, and nothing makes them meet: `AreYouNormal` asks for the state of a member, not for its
//! leader.

use std::collections::VecDeque;
use std::rc::Rc;

use serde::Serialize;
use tenure_core::{Instant, NodeId};
use tenure_sim::contestant::json_size;
use tenure_sim::sim::{Context, SimMessage};

use super::Baseline;
use super::node::BaselineNode;

/// A message between members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GarciaMolinaMessage {
    /// A call, with its number.
    Call(u64, Procedure),
    /// The end of the call with this number. The flag tells whether the sender is in its normal
    /// state.
    Return(u64, bool),
}

/// A procedure that members call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Procedure {
    /// The caller asks whether the member is up.
    AreYouThere,
    /// The member must stop: there is an election.
    Halt,
    /// The caller is the new leader.
    NewCoordinator,
    /// The election is over.
    Ready,
    /// The leader asks whether the member is in its normal state.
    AreYouNormal,
}

impl SimMessage for GarciaMolinaMessage {
    fn kind(&self) -> &'static str {
        match self {
            Self::Return(..) => "Return",
            Self::Call(_, procedure) => match procedure {
                Procedure::AreYouThere => "AreYouThere",
                Procedure::Halt => "Halt",
                Procedure::NewCoordinator => "NewCoordinator",
                Procedure::Ready => "Ready",
                Procedure::AreYouNormal => "AreYouNormal",
            },
        }
    }

    fn bytes(&self) -> u64 {
        json_size(self)
    }
}

/// A member.
#[derive(Debug)]
pub struct GarciaMolina {
    node: BaselineNode,
    status: Status,
    /// The member that has halted this one, or this one itself.
    halted_by: Option<NodeId>,
    /// The leader, or the one that has announced itself.
    coordinator: Option<NodeId>,
    /// The worse members that this one has halted.
    up: Vec<NodeId>,
    activity: Activity,
    /// The number and the recipient of the call that has not returned.
    call: Option<(u64, NodeId)>,
    calls: u64,
    /// The members to call after that.
    left: VecDeque<NodeId>,
    /// The end of the timeout of a call or, without a call, the time of the next check.
    due: Instant,
}

/// The state that other members see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Election,
    Reorganization,
    Normal,
}

/// The member's own use of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Activity {
    Idle,
    AsksBetter,
    Halts,
    Announces,
    EndsElection,
    ChecksMembers,
    ChecksLeader,
}

impl Activity {
    const fn procedure(self) -> Procedure {
        match self {
            Self::Idle | Self::AsksBetter | Self::ChecksLeader => Procedure::AreYouThere,
            Self::Halts => Procedure::Halt,
            Self::Announces => Procedure::NewCoordinator,
            Self::EndsElection => Procedure::Ready,
            Self::ChecksMembers => Procedure::AreYouNormal,
        }
    }
}

impl GarciaMolina {
    pub(super) fn new(node: BaselineNode) -> Self {
        Self {
            node: node.without_detector(),
            status: Status::Election,
            halted_by: None,
            coordinator: None,
            up: Vec::new(),
            activity: Activity::Idle,
            call: None,
            calls: 0,
            left: VecDeque::new(),
            due: Instant::from_nanos(0),
        }
    }

    /// Calls these members, one after the other.
    fn begin(
        &mut self,
        context: &mut Context<'_>,
        activity: Activity,
        members: impl IntoIterator<Item = NodeId>,
    ) {
        self.activity = activity;
        self.left = members.into_iter().collect();
        self.call_next(context);
    }

    fn call_next(&mut self, context: &mut Context<'_>) {
        let Some(to) = self.left.pop_front() else {
            return self.all_called(context);
        };
        self.calls += 1;
        self.call = Some((self.calls, to));
        let call = GarciaMolinaMessage::Call(self.calls, self.activity.procedure());
        context.send(to, call);
        self.due = context.sent() + self.node.timings.timeout;
    }

    fn all_called(&mut self, context: &mut Context<'_>) {
        match self.activity {
            Activity::AsksBetter => {
                self.stop(context, self.node.me);
                self.up.clear();
                self.begin(context, Activity::Halts, self.node.worse());
            }
            Activity::Halts => {
                let me = self.node.me;
                self.coordinator = Some(me);
                self.status = Status::Reorganization;
                self.node.set_leader(context, Some(me));
                self.begin(context, Activity::Announces, self.up.clone());
            }
            Activity::Announces => {
                self.begin(context, Activity::EndsElection, self.up.clone());
            }
            Activity::EndsElection => {
                self.status = Status::Normal;
                self.rest(context);
            }
            Activity::ChecksMembers | Activity::ChecksLeader | Activity::Idle => self.rest(context),
        }
    }

    fn elect(&mut self, context: &mut Context<'_>) {
        let better = self.node.better().into_iter().rev();
        self.begin(context, Activity::AsksBetter, better);
    }

    /// Ends the own activity, and waits for the election of this member.
    fn stop(&mut self, context: &mut Context<'_>, organiser: NodeId) {
        self.status = Status::Election;
        self.halted_by = Some(organiser);
        self.node.set_leader(context, None);
        self.rest(context);
    }

    fn rest(&mut self, context: &mut Context<'_>) {
        self.activity = Activity::Idle;
        self.call = None;
        self.left.clear();
        self.due = match self.status {
            Status::Normal => self.node.next_poll(context),
            // An organiser may wait for every other member, in each of its two next phases.
            Status::Election | Status::Reorganization => {
                context.now + self.node.timings.timeout * 2 * self.node.members.len() as u32
            }
        };
    }

    /// Executes a procedure that another member has called.
    fn execute(&mut self, context: &mut Context<'_>, from: NodeId, procedure: Procedure) {
        match procedure {
            Procedure::AreYouThere | Procedure::AreYouNormal => {}
            Procedure::Halt => self.stop(context, from),
            Procedure::NewCoordinator => {
                if self.halted_by == Some(from) && self.status == Status::Election {
                    self.coordinator = Some(from);
                    self.status = Status::Reorganization;
                    self.rest(context);
                }
            }
            Procedure::Ready => {
                if self.coordinator == Some(from) && self.status == Status::Reorganization {
                    self.settle_with(context, from);
                }
            }
        }
    }

    fn settle_with(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.coordinator = Some(leader);
        self.status = Status::Normal;
        self.node.set_leader(context, Some(leader));
        self.rest(context);
    }

    fn returned(&mut self, context: &mut Context<'_>, from: NodeId, is_normal: bool) {
        self.call = None;
        match self.activity {
            // The better member holds its own election, or leads.
            Activity::AsksBetter | Activity::ChecksLeader | Activity::Idle => self.rest(context),
            Activity::Halts => {
                self.up.push(from);
                self.call_next(context);
            }
            Activity::ChecksMembers if !is_normal => self.elect(context),
            Activity::Announces | Activity::EndsElection | Activity::ChecksMembers => {
                self.call_next(context);
            }
        }
    }

    fn handle_timeout(&mut self, context: &mut Context<'_>) {
        self.call = None;
        match self.activity {
            Activity::AsksBetter | Activity::Halts | Activity::ChecksMembers => {
                self.call_next(context);
            }
            Activity::Announces | Activity::EndsElection | Activity::ChecksLeader => {
                self.elect(context);
            }
            Activity::Idle => match (self.status, self.coordinator) {
                (Status::Normal, Some(leader)) if leader == self.node.me => {
                    self.begin(context, Activity::ChecksMembers, self.node.others());
                }
                (Status::Normal | Status::Reorganization, Some(leader)) => {
                    self.begin(context, Activity::ChecksLeader, [leader]);
                }
                _ => self.elect(context),
            },
        }
    }
}

impl Baseline for GarciaMolina {
    fn node(&self) -> &BaselineNode {
        &self.node
    }

    fn node_mut(&mut self) -> &mut BaselineNode {
        &mut self.node
    }

    fn start(&mut self, context: &mut Context<'_>) {
        self.elect(context);
    }

    fn settle(&mut self, context: &mut Context<'_>, leader: NodeId) {
        self.settle_with(context, leader);
    }

    fn step(&mut self, context: &mut Context<'_>, message: Option<(NodeId, Rc<dyn SimMessage>)>) {
        let message = message.as_ref().and_then(|(from, message)| {
            let message: &GarciaMolinaMessage = message.downcast_ref()?;
            Some((*from, *message))
        });
        match message {
            Some((from, GarciaMolinaMessage::Call(number, procedure))) => {
                let is_normal = self.status == Status::Normal;
                let done = GarciaMolinaMessage::Return(number, is_normal);
                self.execute(context, from, procedure);
                context.send(from, done);
            }
            Some((from, GarciaMolinaMessage::Return(number, normal)))
                if self.call == Some((number, from)) =>
            {
                self.returned(context, from, normal);
            }
            _ => {}
        }
        if context.now >= self.due {
            self.handle_timeout(context);
        }
    }

    fn due(&self) -> Option<Instant> {
        Some(self.due)
    }

    fn elect(&mut self, context: &mut Context<'_>) {
        Self::elect(self, context);
    }
}
