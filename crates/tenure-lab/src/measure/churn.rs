//! The comparison under churn, by the number of members.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::Serialize;
use tenure_core::NodeId;
use tenure_sim::contestant::{Contestant, SERVERS};
use tenure_sim::map_parallel;
use tenure_sim::scenario::{CHURN, SETTLED};
use tenure_sim::sim::{HistoryEvent, HistoryEventKind, Time, Traffic};

use super::new_world;
use super::watch::Machine;

/// The measurement of one contestant with one number of members. Shares and rates are those of the
/// time in which members crash and return; `None` if every run ended before it because of too many
/// messages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChurnRow {
    /// The contestant.
    pub contestant: String,
    /// The number of members.
    pub members: u32,
    /// The number of runs.
    pub seeds: u64,
    /// The share of the time with a leader, in percent.
    pub led_percent: Option<f64>,
    /// The share of the time in which all running members follow the same leader, which leads.
    pub agreed_percent: Option<f64>,
    /// The share of the time in which two or more leaders acted.
    pub overlap_percent: Option<f64>,
    /// The elections per minute that ended with a leader.
    pub elections_per_minute: Option<f64>,
    /// The election messages per minute.
    pub election_messages_per_minute: Option<f64>,
    /// All messages per minute, including those of failure detectors.
    pub messages_per_minute: Option<f64>,
    /// The number of runs that ended because of too many messages. Their figures count until then.
    pub floods: u64,
}

/// The largest number of messages in a run: in a run with more, messages only cause more messages.
const MOST_MESSAGES: u64 = 5_000_000;

/// Runs `churn` with each contestant and each number of members, on all processors, and calls `done`
/// after each run.
pub fn churn(
    contestants: &[Contestant],
    sizes: &[u32],
    seeds: &Range<u64>,
    done: impl Fn() + Sync,
) -> Vec<ChurnRow> {
    let pairs = sizes.iter().flat_map(|&members| {
        let all = contestants.iter();
        all.map(move |contestant| (contestant, members))
    });
    map_parallel(pairs.collect::<Vec<_>>(), |(contestant, members)| {
        let runs = seeds.clone().map(|seed| {
            let run = Run::of(contestant, members, seed);
            done();
            run
        });
        let total = runs.fold(Run::default(), Run::add);
        total.row(contestant, members, seeds.end - seeds.start)
    })
}

/// The sums of one run or more, from the first fault on.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    shares: Shares,
    sent: Traffic,
    floods: u64,
}

/// How long a state lasted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shares {
    all: Duration,
    led: Duration,
    agreed: Duration,
    overlap: Duration,
    elections: u64,
}

impl Run {
    fn of(contestant: &Contestant, members: u32, seed: u64) -> Self {
        let mut world = new_world(contestant, &CHURN, members, seed, MOST_MESSAGES);
        world.run_until(SETTLED);
        let before = world.traffic;
        world.run_until(CHURN.lasts);
        world.finish();
        let flood = |it: &&HistoryEvent| it.kind == HistoryEventKind::MessageFlood;
        Self {
            shares: shares(&world.history, Time::after(SETTLED)),
            sent: world.traffic - before,
            floods: world.history.iter().filter(flood).count() as u64,
        }
    }

    fn add(self, other: Self) -> Self {
        let (one, two) = (self.shares, other.shares);
        Self {
            shares: Shares {
                all: one.all + two.all,
                led: one.led + two.led,
                agreed: one.agreed + two.agreed,
                overlap: one.overlap + two.overlap,
                elections: one.elections + two.elections,
            },
            sent: Traffic {
                election: self.sent.election + other.sent.election,
                messages: self.sent.messages + other.sent.messages,
                ..Traffic::default()
            },
            floods: self.floods + other.floods,
        }
    }

    fn row(&self, contestant: &Contestant, members: u32, seeds: u64) -> ChurnRow {
        let all = self.shares.all.as_secs_f64();
        let share = |it: f64| (all > 0.0).then(|| it / all);
        let percent = |it: Duration| share(it.as_secs_f64() * 100.0);
        let per_minute = |it: u64| share(it as f64 * 60.0);
        ChurnRow {
            contestant: contestant.name.clone(),
            members,
            seeds,
            led_percent: percent(self.shares.led),
            agreed_percent: percent(self.shares.agreed),
            overlap_percent: percent(self.shares.overlap),
            elections_per_minute: per_minute(self.shares.elections),
            election_messages_per_minute: per_minute(self.sent.election),
            messages_per_minute: per_minute(self.sent.messages),
            floods: self.floods,
        }
    }
}

/// Adds up the states of a run from this time on.
fn shares(history: &[HistoryEvent], from: Time) -> Shares {
    let mut shares = Shares::default();
    let mut machines: BTreeMap<NodeId, Machine> = BTreeMap::new();
    // The members that are up, and the leader that each of them sees.
    let mut seen: BTreeMap<NodeId, Option<NodeId>> = BTreeMap::new();
    let mut before = from;
    for event in history {
        if event.at > before {
            // Since `before`, claims may have expired, and nothing else has changed.
            let until = |it: &Machine| it.claims_until.filter(|_| !it.frozen).unwrap_or_default();
            let lasted = |end: Time| end.clamp(before, event.at).since(before);
            let led_until = machines.values().map(until).max().unwrap_or_default();
            let mut leaders = seen.values();
            let leader = leaders.next().copied().flatten();
            let agree = leaders.all(|it| *it == leader);
            let leads_until = leader.and_then(|it| machines.get(&it)).map(until);
            shares.all += event.at.since(before);
            shares.led += lasted(led_until);
            shares.agreed += lasted(leads_until.filter(|_| agree).unwrap_or_default());
            if machines.values().filter(|it| it.acts && !it.frozen).count() > 1 {
                shares.overlap += event.at.since(before);
            }
            before = event.at;
        }
        machines.entry(event.node).or_default().apply(&event.kind);
        match event.kind {
            HistoryEventKind::Started if !is_store(event.node) => {
                seen.insert(event.node, None);
            }
            HistoryEventKind::SeesLeader(leader) => {
                seen.insert(event.node, leader);
            }
            HistoryEventKind::Stopped => {
                seen.remove(&event.node);
            }
            HistoryEventKind::TaskStarted(_) if event.at >= from => shares.elections += 1,
            _ => {}
        }
    }
    shares
}

fn is_store(node: NodeId) -> bool {
    node == NodeId(0) || SERVERS.contains(&node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_from_the_given_time_on() {
        let claims = |secs| HistoryEventKind::Claims(None, Time::after(Duration::from_secs(secs)));
        let sees = |leader| HistoryEventKind::SeesLeader(Some(NodeId(leader)));
        let events = [
            (0, 1, HistoryEventKind::Started),
            (0, 2, HistoryEventKind::Started),
            (0, 1, sees(1)),
            (0, 1, claims(100)),
            (5, 2, sees(1)),
            // Two leaders act.
            (20, 1, HistoryEventKind::TaskStarted(None)),
            (20, 2, HistoryEventKind::TaskStarted(None)),
            (22, 2, HistoryEventKind::TaskEnded(None)),
            // Member 2 disagrees.
            (30, 2, sees(2)),
            (40, 1, HistoryEventKind::Stopped),
            (50, 0, HistoryEventKind::RunEnded),
        ];
        let history = events.map(|(secs, node, kind)| HistoryEvent {
            at: Time::after(Duration::from_secs(secs)),
            node: NodeId(node),
            kind,
        });
        let secs = Duration::from_secs;
        let expected = Shares {
            all: secs(40),
            led: secs(30),
            agreed: secs(20),
            overlap: secs(2),
            elections: 2,
        };
        assert_eq!(shares(&history, Time::after(secs(10))), expected);
    }

    #[test]
    fn members_that_crash_and_return_have_a_leader_most_of_the_time() {
        let of = |name| crate::contestant_of_name(name).expect("a contestant");
        let contestants = ["garcia-molina", "bully-no-quorum", "bully"].map(of);
        for row in churn(&contestants, &[5], &(0..2), || {}) {
            assert!(row.led_percent > Some(50.0) && row.floods == 0, "{row:?}");
            assert!(row.elections_per_minute > Some(0.0), "{row:?}");
            let at_most_one = row.contestant == "bully";
            assert!(!at_most_one || row.overlap_percent == Some(0.0), "{row:?}");
        }
    }
}
