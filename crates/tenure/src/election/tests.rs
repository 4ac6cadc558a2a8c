//! Members in one process, with a clock that the test moves.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure_core::bully::{HardState, PeerCandidate};
use tenure_core::{Incarnation, NodeId};

use super::peers::Parts;
use super::term::Command;
use crate::api::candidate::{Candidate, LeadershipGuard};
use crate::api::candidate_runtime::CandidateRuntime;
use crate::base::clock::{Clock, ManualClock};
use crate::base::observed::Observed;
use crate::config::{Bully, Config, Peer, Strategy};
use crate::peers::transport::{Network, PeerEvent, PeerTransport};
use crate::testing::TestStore;
use crate::{EndReason, Guarantee, ProclaimError, RunError};

/// A time slightly longer than the lease duration of the default timings.
const LONG: Duration = Duration::from_secs(20);

struct World {
    time: ManualClock,
    network: Network,
    members: Vec<Candidate>,
}

/// Creates the parts of a member that starts for the first time.
fn parts(bully: &Bully, config: &Config, clock: &Clock, network: &Network) -> Parts {
    let incarnation = Incarnation(1);
    let plan = bully.plan(&config.timings).unwrap();
    let (rules, detection) = (plan.settings, plan.detection);
    Parts {
        detector: detection.detector(&rules.group(incarnation)),
        machine: PeerCandidate::new(rules, HardState::default(), clock.started()),
        transport: PeerTransport::InMemory(network.mailbox(bully.node.unwrap(), incarnation)),
        disk: None,
    }
}

impl World {
    fn new(members: u32, quorum: Option<bool>) -> Self {
        let (time, network) = (ManualClock::start(), Network::default());
        let clock = Clock::Manual(time.clone());
        let runtime = CandidateRuntime::start_with(clock.clone()).unwrap();
        let peers: Vec<Peer> = (1..=members)
            .map(|node| {
                format!("{node}=http://127.0.0.1:1")
                    .parse::<Peer>()
                    .unwrap()
            })
            .collect();
        let member = |node| {
            let mut bully = Bully::new(NodeId(node), peers.clone());
            bully.quorum = quorum;
            let config = Config::new("tests/job".parse().unwrap())
                .with_candidate(NodeId(node).into())
                .with_metadata(BTreeMap::from([(
                    "address".to_owned(),
                    format!("http://member-{node}"),
                )]))
                .with_strategy(Strategy::Bully(bully.clone()));
            let parts = parts(&bully, &config, &clock, &network);
            runtime.peer_candidate(config, parts, None)
        };
        Self {
            members: (1..=members).map(member).collect(),
            time,
            network,
        }
    }

    /// Advances the clock until one of these candidates leads. Returns its index and its guard.
    async fn elect(&self, competing: &[usize]) -> (usize, LeadershipGuard) {
        let campaigns = competing.iter().map(|&place| {
            Box::pin(async move { (place, self.members[place].campaign().await.unwrap()) })
        });
        let won = futures_util::future::select_all(campaigns);
        tokio::select! {
            (won, ..) = won => won,
            () = self.time.advance(Duration::from_secs(120)) => panic!("no leader was elected"),
        }
    }

    fn leaders(&self) -> Vec<usize> {
        let places = 0..self.members.len();
        places
            .filter(|&place| self.members[place].leadership().is_some())
            .collect()
    }
}

#[tokio::test]
async fn groups_of_three_and_five_elect_the_best_member_and_all_members_see_it() {
    for members in [3, 5] {
        let world = World::new(members, None);
        let mut observers: Vec<_> = world.members.iter().map(Candidate::observe).collect();
        let everybody: Vec<usize> = (0..members as usize).collect();
        let (leader, guard) = world.elect(&everybody).await;
        world.time.advance(Duration::from_secs(1)).await;
        assert_eq!(world.leaders(), [leader]);
        assert_eq!(world.members[leader].guarantee(), Guarantee::Quorum);
        for observer in &mut observers {
            let seen = async {
                loop {
                    if let Observed::Leader {
                        candidate, epoch, ..
                    } = observer.next().await
                    {
                        return (candidate, epoch);
                    }
                }
            };
            let seen = tokio::time::timeout(Duration::from_secs(5), seen)
                .await
                .unwrap();
            assert_eq!(seen, (world.members[leader].id().clone(), guard.epoch()));
        }
    }
}

/// Waits until an observer sees a leader whose metadata contain this address.
async fn sees(observer: &mut crate::api::observe::Observer, address: Option<&str>) {
    let seen = async {
        loop {
            if let Observed::Leader { metadata, .. } = observer.next().await
                && metadata.get("address").map(String::as_str) == address
            {
                return;
            }
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(5), seen).await;
    assert!(seen.is_ok(), "the observer does not see {address:?}");
}

#[tokio::test]
async fn a_leaders_metadata_reach_the_others_with_its_renewals() {
    let world = World::new(3, None);
    let mut observers: Vec<_> = world.members.iter().map(Candidate::observe).collect();
    let (leader, guard) = world.elect(&[0, 1, 2]).await;
    // These are the metadata of the configuration.
    world.time.advance(Duration::from_secs(1)).await;
    for observer in &mut observers {
        sees(observer, Some(&format!("http://member-{}", leader + 1))).await;
    }
    // One member is cut off. Later it receives the metadata with a renewal.
    let deaf = (0..3).find(|place| *place != leader).unwrap();
    world.network.cut(NodeId(u32::try_from(deaf).unwrap() + 1));
    let said = |text: &str| BTreeMap::from([("address".to_owned(), text.to_owned())]);
    guard.proclaim(said("elsewhere")).await.unwrap();
    world.network.heal();
    world.time.advance(Duration::from_secs(6)).await;
    for observer in &mut observers {
        sees(observer, Some("elsewhere")).await;
    }
    let much = guard.proclaim(said(&"x".repeat(5_000))).await.unwrap_err();
    assert!(
        matches!(&much, ProclaimError::Metadata(why) if why.contains("4096")),
        "{much}"
    );
    guard.proclaim(BTreeMap::new()).await.unwrap();
    world.time.advance(Duration::from_secs(1)).await;
    for observer in &mut observers {
        sees(observer, None).await;
    }
    assert_eq!(guard.resign().await, EndReason::Resigned);
}

#[tokio::test]
async fn after_a_leader_that_resigns_the_next_one_leads_at_once_with_a_greater_epoch() {
    let world = World::new(3, None);
    let (first, guard) = world.elect(&[0, 1, 2]).await;
    let epoch = guard.epoch();
    let begin = *world.time.time.borrow();
    assert_eq!(guard.resign().await, EndReason::Resigned);
    let others: Vec<usize> = (0..3).filter(|&place| place != first).collect();
    let (_, next) = world.elect(&others).await;
    assert!(next.epoch() > epoch);
    // A resignation must take only a fraction of the lease duration that a crash would cost.
    let took = world.time.time.borrow().since(begin);
    assert!(took < Duration::from_secs(5), "{took:?}");
}

#[tokio::test]
async fn a_leader_hands_over_to_the_member_that_it_names() {
    let world = World::new(3, None);
    let (first, guard) = world.elect(&[0]).await;
    assert_eq!(first, 0);
    guard.hand_over("nobody".parse().unwrap());
    guard.hand_over("3".parse().unwrap());
    assert_eq!(guard.lost().await, EndReason::HandedOver);
    let (next, _guard) = {
        let resigned = guard.resign();
        let (next, reason) = tokio::join!(world.elect(&[1, 2]), resigned);
        assert_eq!(reason, EndReason::HandedOver);
        next
    };
    assert_eq!(next, 2);
}

#[tokio::test]
async fn a_leader_that_is_cut_off_stops_before_another_one_leads() {
    let world = World::new(3, None);
    let (first, guard) = world.elect(&[0, 1, 2]).await;
    world.network.cut(NodeId(u32::try_from(first).unwrap() + 1));
    let others: Vec<usize> = (0..3).filter(|&place| place != first).collect();
    let (_, next) = world.elect(&others).await;
    assert!(!guard.is_valid(), "two members lead at the same time");
    assert_eq!(guard.lost().await, EndReason::RenewDeadline);
    assert!(next.is_valid() && next.epoch() > guard.epoch());
    world.network.heal();
    world.time.advance(LONG).await;
    assert!(
        next.is_valid(),
        "the leader does not change when the other one is back"
    );
}

#[tokio::test]
async fn without_a_majority_only_a_group_without_a_quorum_has_a_leader() {
    for (quorum, leads) in [(true, false), (false, true)] {
        let world = World::new(3, Some(quorum));
        world.network.cut(NodeId(3));
        let campaign = world.members[2].campaign();
        tokio::select! {
            won = campaign => assert!(leads, "{won:?}"),
            () = world.time.advance(LONG * 3) => assert!(!leads, "no leader was elected"),
        }
    }
}

#[tokio::test]
async fn a_machine_that_was_frozen_past_the_deadline_no_longer_leads() {
    let world = World::new(3, None);
    let (_, guard) = world.elect(&[0]).await;
    world.time.move_by(Duration::from_secs(11)).await;
    assert!(!guard.is_valid());
    assert_eq!(guard.lost().await, EndReason::Suspended);
}

#[tokio::test]
async fn a_duplicate_member_stops_and_reports_why() {
    let world = World::new(3, None);
    let (_, guard) = world.elect(&[0]).await;
    let duplicate = "member 2 says: another process is member 1, too".to_owned();
    world
        .network
        .deliver(NodeId(1), PeerEvent::Duplicate(duplicate));
    assert_eq!(guard.lost().await, EndReason::Superseded);
    drop(guard);
    world.time.advance(LONG).await;
    let error = world.members[0].campaign().await.unwrap_err();
    assert!(
        error.to_string().contains("another process is member 1"),
        "{error}"
    );
}

#[tokio::test]
async fn a_single_candidate_leads_whenever_it_competes_and_its_epochs_grow() {
    let time = ManualClock::start();
    let runtime = CandidateRuntime::start_with(Clock::Manual(time.clone())).unwrap();
    let config = Config::new("tests/job".parse().unwrap()).with_strategy(Strategy::Static);
    let candidate = runtime.start_candidate(config).await.unwrap();
    assert_eq!(candidate.guarantee(), Guarantee::BestEffort);
    let mut last = None;
    for _ in 0..3 {
        let guard = tokio::select! {
            guard = candidate.campaign() => guard.unwrap(),
            () = time.advance(LONG) => panic!("it does not lead"),
        };
        assert!(last < Some(guard.epoch()));
        last = Some(guard.epoch());
        time.advance(LONG).await;
        assert!(guard.is_valid());
        assert_eq!(guard.resign().await, EndReason::Resigned);
    }
}

#[tokio::test]
async fn a_candidate_by_lease_and_peers_has_one_epoch_in_both() {
    let (store, network) = (TestStore::start().unwrap(), Network::default());
    let election: tenure_core::ElectionName = "tests/job".parse().unwrap();
    let peers: Vec<Peer> = (1..=3)
        .map(|node| {
            format!("{node}=http://127.0.0.1:1")
                .parse::<Peer>()
                .unwrap()
        })
        .collect();
    let member = |node| {
        let bully = Bully::new(NodeId(node), peers.clone());
        let config = Config::new(election.clone())
            .with_candidate(NodeId(node).into())
            .with_strategy(Strategy::Both(bully.clone()));
        let parts = parts(
            &bully,
            &config,
            &Clock::Manual(store.time.clone()),
            &network,
        );
        let backend = store.store.backend(&config);
        (store.runtime).peer_candidate(config, parts, Some((backend.clone(), backend)))
    };
    let members = [1, 2, 3].map(member);
    let elect = async |place: usize| {
        tokio::select! {
            won = members[place].campaign() => won.unwrap(),
            () = store.advance(Duration::from_secs(120)) => panic!("no leader was elected"),
        }
    };
    let guard = elect(0).await;
    assert_eq!(members[0].guarantee(), Guarantee::FencedLease);
    let view = store.lease(&election).unwrap();
    assert_eq!(
        (view.epoch, view.holder.as_deref()),
        (Some(guard.epoch().get()), Some("1"))
    );
    // The metadata are visible in the store and among the peers.
    let mut observer = members[2].observe();
    let said = BTreeMap::from([("address".to_owned(), "here".to_owned())]);
    guard.proclaim(said.clone()).await.unwrap();
    sees(&mut observer, Some("here")).await;
    assert_eq!(store.lease(&election).unwrap().metadata, Some(said));
    // Both the lease and the leadership among the peers are handed over.
    guard.hand_over("2".parse().unwrap());
    let first = guard.epoch();
    let (next, reason) = tokio::join!(elect(1), guard.resign());
    assert_eq!(reason, EndReason::HandedOver);
    assert!(next.epoch() > first);
    // Without the store there is no leader, although the peers are available.
    store.set_reachable(false);
    store.advance(Duration::from_secs(11)).await;
    assert!(!next.is_valid());
    assert_eq!(next.lost().await, EndReason::RenewDeadline);
    let second = next.epoch();
    // The renewals of such a leader are those of its lease.
    let renewals = members[1].metrics().renewals;
    assert!(renewals.no_answer > 0, "{renewals:?}");
    drop(next);
    tokio::select! {
        won = members[2].campaign() => panic!("{won:?}"),
        () = store.advance(LONG * 2) => {}
    }
    store.set_reachable(true);
    assert!(elect(2).await.epoch() > second);
}

#[tokio::test]
async fn a_thread_that_panics_ends_its_terms_and_its_campaigns() {
    let store = TestStore::start().unwrap();
    let candidate = |name: &str| {
        let config = Config::new("tests/job".parse().unwrap());
        store.candidate(config.with_candidate(name.parse().unwrap()))
    };
    let (leader, other) = (candidate("leader"), candidate("other"));
    let guard = leader.campaign().await.unwrap();
    let running = tokio::spawn(async move {
        let waits = other.campaign().await;
        (waits.map(drop), other.campaign().await.map(drop))
    });
    tokio::task::yield_now().await;
    leader.driver.command(Command::Panic);
    let soon = Duration::from_secs(10);
    let lost = tokio::time::timeout(soon, guard.lost()).await.unwrap();
    assert_eq!(lost, EndReason::RenewDeadline);
    assert!(!guard.is_valid());
    let (waited, later) = tokio::time::timeout(soon, running).await.unwrap().unwrap();
    assert!(matches!(waited, Err(RunError::DriverGone)), "{waited:?}");
    assert!(matches!(later, Err(RunError::DriverGone)), "{later:?}");
}
