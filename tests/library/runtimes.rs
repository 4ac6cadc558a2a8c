//! Several elections of one process on one thread.

use tenure::{CandidateRuntime, ElectionName};

use crate::world::{World, brisk, ms};

#[tokio::test]
async fn elections_of_one_process_are_renewed_together_and_each_keeps_its_lease() {
    let world = World::start();
    let runtime = CandidateRuntime::start().unwrap();
    let elections = ["a/one", "a/two", "a/three", "b/one", "b/two"];
    let elections = elections.map(|name| name.parse::<ElectionName>().unwrap());
    let mut guards = Vec::new();
    for election in elections.clone() {
        let config = tenure::Config::new(election)
            .with_servers([world.store.endpoint()])
            .with_timings(brisk());
        let candidate = runtime.start_candidate(config).await.unwrap();
        guards.push(candidate.campaign().await.unwrap());
    }
    // After several lease durations a lease without renewals is lost.
    tokio::time::sleep(brisk().lease_duration() * 3 + ms(100)).await;
    for (election, guard) in elections.iter().zip(&guards) {
        assert!(guard.is_valid() && !guard.is_at_risk(), "{election}");
        let lease = world.client.lease(election).await.unwrap().unwrap();
        assert_eq!(lease.epoch, Some(guard.epoch().get()), "{election}");
    }
    // The end of one term does not end the others.
    let first = guards.remove(0);
    first.resign().await;
    tokio::time::sleep(brisk().lease_duration()).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
}
