//! The comparison of the algorithms on one network.

use serde::Serialize;
use tenure_core::bully::{MAX_MEMBERS, RECOMMENDED_RELAY_MEMBERS};

use super::bully::{BullyLinks, run_bully};
use super::elect::{LinkElection, LinkIds, LinkOutcome};
use super::graph::LinkNetwork;

/// The most attempts with random identifiers.
const ATTEMPTS: u32 = 100;

const BULLY_DIRECT: &str = "bully, direct";
const BULLY_RELAYED: &str = "bully, relayed";

/// The result of one algorithm on a network. Messages, bits and rounds of aFLEA are those of all
/// its attempts.
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

impl LinkRow {
    /// Returns the row as text, on a network with this number of nodes.
    #[must_use]
    pub fn cells(&self, nodes: u32) -> [String; 7] {
        let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        [
            self.algorithm.into(),
            or_dash(self.messages.map(|it| it.to_string())),
            or_dash(self.bits.map(|it| it.to_string())),
            or_dash(self.rounds.map(|it| format!("{it:.1}"))),
            or_dash(self.leaders.map(|it| it.to_string())),
            or_dash(self.knowing.map(|it| format!("{it}/{nodes}"))),
            if self.knows_the_end { "yes" } else { "no" }.into(),
        ]
    }
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
    let aflea = random.run_until_elected(network, attempts)?;
    let flooding = election.run_flooding(network);
    let mut rows = vec![
        row("aFLEU", &afleu),
        LinkRow {
            messages: Some(aflea.messages),
            bits: Some(aflea.bits),
            rounds: Some(aflea.rounds),
            ..row("aFLEA", &aflea.last)
        },
        LinkRow {
            knows_the_end: false,
            ..row("flooding", &flooding)
        },
    ];
    for (algorithm, links) in [
        (BULLY_DIRECT, BullyLinks::Direct),
        (BULLY_RELAYED, BullyLinks::Relayed),
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
        aflea_attempts: aflea.attempts,
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

    /// Says which algorithm fits this network, by the table in `docs/links.md`.
    #[must_use]
    pub fn advice(&self) -> String {
        let nodes = self.afleu.next_to_leader.len();
        let knowing = |algorithm: &str| {
            let row = self.rows.iter().find(|row| row.algorithm == algorithm)?;
            row.knowing.filter(|_| row.leaders == Some(1))
        };
        let lease = "use a lease if all reach a store";
        if knowing(BULLY_DIRECT) == Some(nodes as u32) {
            return format!(
                "all members have one leader over direct links: {lease}, else the strategy bully"
            );
        }
        match knowing(BULLY_RELAYED) {
            Some(knowing) if nodes <= RECOMMENDED_RELAY_MEMBERS => {
                let connected = match knowing as usize == nodes {
                    true => "not all members have a leader over direct links".into(),
                    false => format!(
                        "only {knowing} of {nodes} members are connected and can have a leader"
                    ),
                };
                format!(
                    "{connected}: {lease}, else the strategy bully with relay = true in [bully]"
                )
            }
            Some(_) => format!(
                "not all members have a leader over direct links, and {nodes} are too many for relays: \
                 {lease}, else the strategy bully over a network that routes between all members"
            ),
            None if !self.afleu.leaders.is_empty() => {
                let no_bully = match nodes > MAX_MEMBERS {
                    true => {
                        format!("a group of the strategy bully has {MAX_MEMBERS} members at most")
                    }
                    false => "the strategy bully elects no leader here".into(),
                };
                format!(
                    "{no_bully}: {lease}, else aFLEU, which is no strategy of tenure and needs links and \
                     processes that do not fail while it runs"
                )
            }
            None => format!("no majority can talk, or f is too small: {lease}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::GraphShape;
    use super::*;

    fn advice_on(network: &LinkNetwork) -> String {
        let election = LinkElection::on(network, 1);
        let comparison = compare_on_links(network, &election, None).unwrap();
        comparison.advice()
    }

    fn advice(shape: &str, nodes: u32) -> String {
        let shape: GraphShape = shape.parse().unwrap();
        advice_on(&LinkNetwork::new(shape, nodes, 1).unwrap())
    }

    const RELAY: &str = "else the strategy bully with relay = true in [bully]";

    #[test]
    fn direct_bully_is_advised_only_if_all_members_learn_the_leader() {
        assert!(advice("complete", 16).ends_with("else the strategy bully"));
        // Node 1 reaches a majority directly, and its leadership is unknown to 5.
        let network = LinkNetwork::parse("1 2\n1 3\n2 3\n1 4\n2 4\n3 4\n4 5").unwrap();
        let direct = run_bully(&network, BullyLinks::Direct, 1).unwrap();
        assert!(direct.leaders == 1 && direct.knowing < 5, "{direct:?}");
        assert!(advice_on(&network).ends_with(RELAY));
    }

    #[test]
    fn relays_are_advised_for_ten_members_and_not_for_eleven() {
        assert!(advice("ring", 10).ends_with(RELAY));
        for nodes in [11, 16, 31] {
            let advice = advice("ring", nodes);
            assert!(
                advice.contains("a network that routes"),
                "{nodes}: {advice}"
            );
            assert!(!advice.contains("relay ="), "{nodes}: {advice}");
        }
        assert!(advice("ring", 32).contains("aFLEU, which is no strategy"));
    }

    #[test]
    fn all_figures_of_random_identifiers_are_of_all_attempts() {
        let network = LinkNetwork::new(GraphShape::Ring, 16, 1).unwrap();
        let network = network.with_faults(1, 0, false, 1).unwrap();
        let on = |seed| LinkElection::on(&network, seed);
        let compared = |seed| {
            (
                seed,
                compare_on_links(&network, &on(seed), Some(16)).unwrap(),
            )
        };
        let mut all = (0..100).map(compared);
        let (seed, found) = all.find(|(_, found)| found.aflea_attempts > 2).unwrap();
        let (mut messages, mut bits, mut rounds) = (0, 0, 0.0);
        for attempt in 0..u64::from(found.aflea_attempts) {
            let random = LinkElection {
                ids: LinkIds::Random(Some(16)),
                ..on(seed ^ attempt << 40)
            };
            let outcome = random.run(&network).unwrap();
            messages += outcome.traffic.all();
            bits += outcome.bits;
            rounds += outcome.rounds;
        }
        let row = found.rows.iter().find(|row| row.algorithm == "aFLEA");
        let row = row.map(|row| (row.messages, row.bits, row.rounds));
        assert_eq!(row, Some((Some(messages), Some(bits), Some(rounds))));
    }

    #[test]
    fn members_that_are_not_connected_are_named() {
        let parted = LinkNetwork::parse("1 2\n2 3\n3 4 dead\n4 5").unwrap();
        let advice = advice_on(&parted);
        assert!(advice.starts_with("only 3 of 5 members"), "{advice}");
        assert!(advice.ends_with(RELAY), "{advice}");
        let halves = LinkNetwork::parse("1 2\n2 3 dead\n3 4").unwrap();
        assert!(advice_on(&halves).starts_with("no majority"));
    }
}
