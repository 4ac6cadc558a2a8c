//! Older algorithms to compare with. Do not elect anything with them.
//!
//! They have no epochs and no quorum, and number elections only if their papers do. Each runs with the
//! library's failure detector on demand, and tells its task to stop when it learns of another leader.

pub mod classic;
pub mod ring;
pub mod textbook;

mod published;

mod node;

pub use classic::Classic;
pub use published::{
    Published, PublishedInput, PublishedMember, PublishedMessage, PublishedStatus,
};
pub use ring::Ring;
pub use textbook::Textbook;

use std::time::Duration;

use tenure_core::NodeId;

use crate::sim::{Context, Process};

/// The timings of all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaselineTimings {
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// How often a member checks the leader, and the leader the others.
    pub poll: Duration,
    /// The number of pings within the timeout.
    pub pings: u32,
    /// How long a verdict of down is valid without a new question.
    pub fresh: Duration,
}

/// A member that an experiment controls.
pub(crate) trait BaselineMember: Process {
    /// The member finds its leader down.
    fn elect(&mut self, context: &mut Context<'_>);

    /// The member asks its detector about these.
    fn ask_about(&mut self, _here: &mut Context<'_>, _nodes: &[NodeId]) {}
}
