//! The settings of an election.

/// What all processes of an election know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForestSettings {
    members: u32,
    faulty: u32,
    handshake: bool,
    quotas: bool,
    raise_by_count: bool,
}

/// The part of a process in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForestRole {
    /// Begins an election, and may become the leader.
    Initiator,
    /// Takes part when a message wakes it, and never leads.
    Follower,
}

impl ForestSettings {
    /// Creates the settings for `members` processes and at most `faulty` faulty links.
    ///
    /// A number of members that is too small can cause two leaders. A number of faulty links that
    /// is too small can cause that no process is elected; one that is too large costs messages
    /// only.
    #[must_use]
    pub const fn new(members: u32, faulty: u32) -> Self {
        Self {
            members,
            faulty,
            handshake: false,
            quotas: true,
            raise_by_count: false,
        }
    }

    /// Answers each `Hello`, and uses a link only after its answer. Links that work in one
    /// direction need this. It costs two messages for each link.
    #[must_use]
    pub const fn with_handshake(self) -> Self {
        Self {
            handshake: true,
            ..self
        }
    }

    /// Lets every region report every change at once, to measure what the quotas save.
    #[must_use]
    pub const fn without_quotas(self) -> Self {
        Self {
            quotas: false,
            ..self
        }
    }

    /// Raises the level also when the count reaches 2^(level + 1), as the paper does.
    #[must_use]
    pub const fn with_raise_by_count(self) -> Self {
        Self {
            raise_by_count: true,
            ..self
        }
    }

    /// Returns the number of nodes that elects a leader: a strict majority. With n/2 nodes, as the
    /// paper has it, two processes that never connect are two leaders.
    #[must_use]
    pub fn majority(&self) -> u32 {
        self.members / 2 + 1
    }

    /// Returns the number of tokens that count, 2f + 1. The two ends of f links stay silent at
    /// most, so with one token more the count passes them.
    #[must_use]
    pub fn tokens(&self) -> u32 {
        self.faulty.saturating_mul(2).saturating_add(1)
    }

    pub(super) const fn has_handshake(&self) -> bool {
        self.handshake
    }

    pub(super) const fn has_quotas(&self) -> bool {
        self.quotas
    }

    pub(super) const fn raises_by_count(&self) -> bool {
        self.raise_by_count
    }
}
