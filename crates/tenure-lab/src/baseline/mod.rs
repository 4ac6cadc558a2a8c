//! Older ways to elect among peers, to compare with. Nobody should elect anything with them.
//!
//! They have no epochs and no quorum, and number nothing but where their papers do. Each is driven
//! like the others: with the library's failure detector on demand, and a task that is told to stop
//! when its machine hears of another leader.

pub mod classic;
pub mod ring;
pub mod textbook;

mod published;

mod office;

pub use classic::Classic;
pub use published::PublishedMember;
pub use ring::Ring;
pub use textbook::Textbook;

use std::time::Duration;

/// What all of them are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// How often the leader is looked at, and looks at the others.
    pub poll: Duration,
}
