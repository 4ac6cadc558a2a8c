//! Older ways to elect among peers, to compare with. Nobody should elect anything with them.
//!
//! They have no epochs and no quorum, and number nothing but where their papers do. Each is driven
//! like the others: with the library's failure detector on demand, and a task that is told to stop
//! when its machine hears of another leader.

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

/// What all of them are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BaselineTimings {
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// How often the leader is looked at, and looks at the others.
    pub poll: Duration,
    /// How often somebody is asked within the timeout before he is down.
    pub pings: u32,
    /// How long somebody who was found down is down without being asked again.
    pub fresh: Duration,
}

/// What an experiment tells a member to do.
pub(crate) trait BaselineMember: Process {
    /// It finds its leader gone.
    fn elect(&mut self, context: &mut Context<'_>);

    /// It is to learn who of these is down.
    fn ask_about(&mut self, _here: &mut Context<'_>, _nodes: &[NodeId]) {}
}
