//! Several elections of one process with one renewal thread.

use tenure::{ElectionName, Renewer};

use crate::world::{World, brisk, ms};

#[tokio::test]
async fn elections_of_one_process_are_renewed_together_and_each_keeps_its_lease() {
    let world = World::start();
    let renewer = Renewer::start().unwrap();
    let elections = ["a/one", "a/two", "a/three", "b/one", "b/two"];
    let elections = elections.map(|name| name.parse::<ElectionName>().unwrap());
    let candidates = elections.clone().map(|election| {
        let config = tenure::Config::new(election)
            .with_servers([world.store.url()])
            .with_timings(brisk());
        renewer.candidate(config).unwrap()
    });
    let mut guards = Vec::new();
    for candidate in &candidates {
        guards.push(candidate.campaign().await.unwrap());
    }
    // Several lease durations: a lease without renewals would be lost by now.
    tokio::time::sleep(brisk().lease_duration() * 3 + ms(100)).await;
    for (election, guard) in elections.iter().zip(&guards) {
        assert!(guard.is_valid() && !guard.is_at_risk(), "{election}");
        let lease = world.client.lease(election).await.unwrap().unwrap();
        assert_eq!(lease.epoch, Some(guard.epoch().get()), "{election}");
    }
    // The end of one term does not affect the others.
    let first = guards.remove(0);
    first.resign().await;
    tokio::time::sleep(brisk().lease_duration()).await;
    assert!(guards.iter().all(|guard| guard.is_valid()));
}
