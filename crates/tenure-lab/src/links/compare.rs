//! The comparison of the algorithms on one network.

use serde::Serialize;

use super::bully::{BullyLinks, run_bully};
use super::elect::{LinkElection, LinkIds, LinkOutcome};
use super::graph::LinkNetwork;

/// The most attempts with random identifiers.
const ATTEMPTS: u32 = 100;

/// The result of one algorithm on a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LinkRow {
    /// The name of the algorithm.
    pub algorithm: &'static str,
    /// All messages over links; `None` if the algorithm can't run with this number of nodes.
    pub messages: Option<u64>,
    /// Their bits in a plain binary form; `None` if the algorithm has no such form.
    pub bits: Option<u64>,
    /// The time until no message is left, in mean delays of a message; `None` if the time follows
    /// from timeouts.
    pub rounds: Option<f64>,
    /// The number of leaders.
    pub leaders: Option<u32>,
    /// The number of nodes that know the leader.
    pub knowing: Option<u32>,
    /// Whether the nodes that know the leader also know that the election is over.
    pub knows_the_end: bool,
}

/// The results of all algorithms on a network.
#[derive(Clone, Debug)]
pub struct LinkComparison {
    /// A row for each algorithm.
    pub rows: Vec<LinkRow>,
    /// The result of aFLEU.
    pub afleu: LinkOutcome,
    /// The number of attempts of aFLEA.
    pub aflea_attempts: u32,
}

/// Runs aFLEU, aFLEA, flooding and Bully on a network. `domain` is that of the random identifiers
/// of aFLEA, or `None` for 128 bits.
///
/// # Errors
///
/// As [`LinkElection::run`].
pub fn compare_on_links(
    network: &LinkNetwork,
    election: &LinkElection,
    domain: Option<u128>,
) -> Result<LinkComparison, String> {
    let afleu = election.run(network)?;
    let random = LinkElection {
        ids: LinkIds::Random(domain),
        ..*election
    };
    // Where given identifiers elect no leader, no draw does.
    let attempts = if afleu.is_elected() { ATTEMPTS } else { 1 };
    let (aflea, aflea_attempts, aflea_messages) = random.run_until_elected(network, attempts)?;
    let flooding = election.run_flooding(network);
    let mut rows = vec![
        row("aFLEU", &afleu),
        LinkRow {
            messages: Some(aflea_messages),
            ..row("aFLEA", &aflea)
        },
        LinkRow {
            knows_the_end: false,
            ..row("flooding", &flooding)
        },
    ];
    for (algorithm, links) in [
        ("bully, direct", BullyLinks::Direct),
        ("bully, relayed", BullyLinks::Relayed),
    ] {
        let found = run_bully(network, links, election.seed);
        rows.push(LinkRow {
            algorithm,
            messages: found.map(|it| it.messages),
            bits: None,
            rounds: None,
            leaders: found.map(|it| it.leaders),
            knowing: found.map(|it| it.knowing),
            knows_the_end: found.is_some_and(|it| it.leaders > 0),
        });
    }
    Ok(LinkComparison {
        rows,
        afleu,
        aflea_attempts,
    })
}

fn row(algorithm: &'static str, outcome: &LinkOutcome) -> LinkRow {
    LinkRow {
        algorithm,
        messages: Some(outcome.traffic.all()),
        bits: Some(outcome.bits),
        rounds: Some(outcome.rounds),
        leaders: Some(outcome.leaders.len() as u32),
        knowing: Some(outcome.knowing),
        knows_the_end: !outcome.leaders.is_empty(),
    }
}

impl LinkComparison {
    /// Says why aFLEU has elected no leader; `None` if it has.
    #[must_use]
    pub fn why_no_leader(&self, network: &LinkNetwork, election: &LinkElection) -> Option<String> {
        let (nodes, part) = (network.nodes(), network.largest_part());
        let (silent, bound) = (self.afleu.silent_ports, election.faulty);
        match () {
            () if !self.afleu.leaders.is_empty() => None,
            () if part <= nodes / 2 => Some(format!(
                "no leader: the working links connect {part} of {nodes} nodes at most, which is no majority"
            )),
            () if silent > 2 * bound => Some(format!(
                "no leader: {silent} ports are silent, and f = {bound} allows {}; more than f links are silent",
                2 * bound
            )),
            () if !self.afleu.is_at_rest => Some("no leader: the messages never end".into()),
            () => Some("no leader: no message is left".into()),
        }
    }

    /// Says which algorithm fits this network.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        let elects = |algorithm: &str| {
            let mut rows = self.rows.iter();
            rows.any(|row| row.algorithm == algorithm && row.leaders == Some(1))
        };
        if elects("bully, direct") {
            "a member reaches a majority directly: use the strategy bully, or a lease if all reach a store"
        } else if elects("bully, relayed") {
            "no member reaches a majority directly: use a lease if all reach a store, else Bully with \
             relayed messages, or aFLEU if delays have no bound"
        } else if elects("aFLEU") {
            "use a lease if all reach a store, and aFLEU otherwise: a group of peers has 31 members at most"
        } else {
            "no majority can talk, or f is too small: use a lease if all reach a store"
        }
    }
}
