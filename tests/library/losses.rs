//! Leaders that cannot renew, and lost answers.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tenure::store::TermEnd;
use tenure::testing::TestStore;
use tenure::{Candidate, Config, ElectionName};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;

use crate::world::{ELECTION, World, leads, stop_when_lost, timings};

#[tokio::test]
async fn a_leader_switches_to_another_address_within_its_term() {
    for mode in [ProxyMode::Refuse, ProxyMode::Hang] {
        let world = World::start();
        let (first, second) = (world.proxy().await, world.proxy().await);
        // Time for a lost attempt in each direction on a busy machine.
        let timings = timings(6000, 500, 4000, 1000);
        let config = world.config("a").with_timings(timings);
        let config = config.with_servers([endpoint(first.address()), endpoint(second.address())]);
        let candidate = Candidate::start(config).await.unwrap();
        let guard = candidate.campaign().await.unwrap();
        for (unreachable, reachable) in [(&first, &second), (&second, &first)] {
            reachable.set(ProxyMode::Pass);
            unreachable.set(mode);
            let before = candidate.metrics().renewals.ok;
            wait_until("renewals by the other address", async || {
                assert!(guard.is_valid());
                (candidate.metrics().renewals.ok >= before + 3).then_some(())
            })
            .await;
            assert_eq!(world.held_by("a").await, guard.epoch().get());
        }
    }
}

#[tokio::test]
async fn after_an_outage_a_candidate_leads_again_without_waiting_for_the_end_of_its_own_lease() {
    // In the second case the lease expires in the store before the outage is over, and the reason
    // comes too late.
    for (outage, end, reason) in [
        (11, TermEnd::Released, Some("renew_deadline")),
        (30, TermEnd::Expired, None),
    ] {
        let store = TestStore::start().unwrap();
        let election: ElectionName = ELECTION.parse().unwrap();
        let candidate = Arc::new(store.candidate(Config::new(election.clone())));
        let running = candidate.clone();
        let run = tokio::spawn(async move {
            let run = running.run_while_leader(pending(), stop_when_lost);
            run.await.unwrap();
        });
        store.advance_until(leads(&candidate)).await;
        let first = candidate.leadership().unwrap().epoch();
        store.set_reachable(false);
        store.advance(Duration::from_secs(outage)).await;
        assert!(candidate.leadership().is_none());
        store.set_reachable(true);
        // A release that is under way then gets no answer within the renew interval, and is repeated.
        store.advance(Duration::from_secs(10)).await;
        let next = candidate.leadership().expect("a term").epoch();
        assert!(next > first);
        let history = store.history(&election);
        assert_eq!(history.len(), 2);
        let ended = (history[1].end, history[1].reason.as_deref());
        assert_eq!(ended, (Some(end), reason));
        run.abort();
    }
}
