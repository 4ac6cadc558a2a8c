//! Mistakes that the random elections must find.

use super::elect::LinkElection;
use super::forest::{DisabledForestRule as Rule, ForestSettings};
use super::graph::LinkNetwork;
use super::random::RandomElection;
use super::shape::GraphShape;

/// The most seeds until a mistake must be found.
const SEEDS: u64 = 20_000;

/// A mistake in the machine, in its settings or in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkMistake {
    /// All processes ignore a rule.
    Without(Rule),
    /// Links deliver out of order.
    OutOfOrder,
    /// Links that work in one direction are used without a handshake.
    NoHandshake,
    /// All processes know half of the number of nodes.
    HalfTheSize,
}

const MISTAKES: [LinkMistake; 13] = [
    LinkMistake::Without(Rule::FrozenNeverWins),
    LinkMistake::Without(Rule::FrozenNeverRaises),
    LinkMistake::Without(Rule::CompareLabels),
    LinkMistake::Without(Rule::StrictMajority),
    LinkMistake::Without(Rule::MoreThanOneToken),
    LinkMistake::Without(Rule::TokensForBothEnds),
    LinkMistake::Without(Rule::OneTokenMore),
    LinkMistake::Without(Rule::Defer),
    LinkMistake::Without(Rule::RejectedStays),
    LinkMistake::Without(Rule::TellSilent),
    LinkMistake::OutOfOrder,
    LinkMistake::NoHandshake,
    LinkMistake::HalfTheSize,
];

/// Searches for each mistake, and returns what was found: the seed with what is wrong.
#[must_use]
pub fn find_link_mistakes() -> Vec<(LinkMistake, Option<String>)> {
    let found = MISTAKES.iter().map(|&mistake| (mistake, mistake.find()));
    found.collect()
}

impl LinkMistake {
    fn find(self) -> Option<String> {
        if self == Self::Without(Rule::RejectedStays) {
            // It costs messages only.
            return rejected_again();
        }
        (0..SEEDS).find_map(|seed| self.plant(RandomElection::new(seed)).check().err())
    }

    fn plant(self, mut random: RandomElection) -> RandomElection {
        let network = &random.network;
        match self {
            Self::Without(rule) => random.election.without = Some(rule),
            Self::OutOfOrder => random.election.in_order = false,
            Self::NoHandshake => {
                random.election.settings = ForestSettings::new(network.nodes(), network.faulty());
            }
            Self::HalfTheSize => {
                let settings = ForestSettings::new(network.nodes() / 2, network.faulty());
                random.election.settings = settings.with_handshake();
            }
        }
        random
    }
}

/// Compares the messages of a complete network, in which nearly all links are rejected, with those
/// of the same election with the rule.
fn rejected_again() -> Option<String> {
    let network = LinkNetwork::new(GraphShape::Complete, 128, 1).ok()?;
    let growing = |without| {
        let election = LinkElection {
            without,
            ..LinkElection::on(&network, 1)
        };
        Some(election.run(&network).ok()?.traffic.growing)
    };
    let (with, without) = (growing(None)?, growing(Some(Rule::RejectedStays))?);
    (without > with).then(|| format!("{without} messages instead of {with}"))
}
