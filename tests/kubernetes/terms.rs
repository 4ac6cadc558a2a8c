//! Terms without faults, and what other programs see of them.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure::backend::LeaseService;
use tenure::observe::Observed;
use tenure::store::State;
use tenure::{EndReason, Guarantee};
use tenure_tests::Limit;

use super::api::{Api, Asked, Fate};
use super::{Bench, DURATION, assert_epochs_increase, candidate, config, holder};

#[test]
fn candidates_by_a_kubernetes_lease_lead_one_after_the_other_and_epochs_increase() {
    let bench = Bench::new();
    let mut candidates: BTreeMap<_, _> = ["first", "second", "third"]
        .map(|id| (id.to_owned(), bench.candidate(id)))
        .into();
    let mut epoch = 0;
    for _ in 0..3 {
        let leader = bench.receiver.next_leader(epoch);
        epoch = leader.epoch;
        let mut stopped = candidates.remove(&leader.candidate).expect("a new leader");
        stopped.signal(Signal::SIGTERM);
        assert!(stopped.wait().success());
    }
    // Each has released the object at its end, as client-go does.
    let lease = bench.api.lease().unwrap();
    assert_eq!(lease["spec"]["holderIdentity"], "");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 1);
    assert_eq!(lease["spec"]["leaseTransitions"], 2);
    bench.verify();
}

#[tokio::test]
async fn a_lease_object_shows_the_leader_as_kubectl_and_client_go_expect_it() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    assert_eq!(leader.guarantee(), Guarantee::FencedLease);
    let leadership = leader.campaign().await.unwrap();
    let lease = api.lease().unwrap();
    let spec = lease["spec"].clone();
    assert_eq!(holder(&lease), "leader");
    assert_eq!(spec["leaseDurationSeconds"], DURATION.as_secs());
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    let epoch = leadership.epoch().to_string();
    assert_eq!(lease["metadata"]["annotations"]["tenure/epoch"], epoch);
    // A renewal changes the time of the renewal only.
    let renewed = tenure_tests::wait_until("a renewal", async || {
        let renewed = api.lease().unwrap()["spec"].clone();
        (renewed != spec).then_some(renewed)
    });
    let mut renewed = renewed.await;
    assert!(renewed["renewTime"].as_str() > spec["renewTime"].as_str());
    renewed["renewTime"] = spec["renewTime"].clone();
    assert_eq!(renewed, spec);
    leadership.resign().await;
    // The next term counts one change of the holder.
    let next = leader.campaign().await.unwrap();
    assert!(next.epoch().to_string() > epoch);
    assert_eq!(api.lease().unwrap()["spec"]["leaseTransitions"], 1);
    next.resign().await;
    assert_epochs_increase(&api);
}

#[tokio::test]
async fn a_leader_by_a_kubernetes_lease_is_visible_with_its_metadata_until_the_end_of_its_term() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let service = LeaseService::from_config(&config("observer", &api));
    let service = service.unwrap().unwrap();
    assert_eq!(service.lease().await.unwrap(), None);
    let leader = candidate("leader", &api).await;
    let mut seen = candidate("follower", &api).await.observe();
    assert_eq!(seen.next().await, Observed::NoLeader);
    let leadership = leader.campaign().await.unwrap();
    let leader_with = |metadata: &BTreeMap<String, String>| Observed::Leader {
        candidate: "leader".parse().unwrap(),
        epoch: leadership.epoch(),
        metadata: metadata.clone(),
    };
    assert_eq!(seen.next().await, leader_with(&BTreeMap::new()));
    let metadata = BTreeMap::from([("address".to_owned(), "http://10.0.0.7 ä\n".to_owned())]);
    leadership.proclaim(metadata.clone()).await.unwrap();
    assert_eq!(seen.next().await, leader_with(&metadata));
    let lease = service.lease().await.unwrap().unwrap();
    assert_eq!(
        (lease.state, lease.holder.as_deref()),
        (State::Leased, Some("leader"))
    );
    assert_eq!(service.ping().await.unwrap().store, None);
    // The object can't be handed over to a chosen candidate: the term continues.
    leadership.hand_over("follower".parse().unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(leadership.is_valid());
    leadership.resign().await;
    assert_eq!(seen.next().await, Observed::NoLeader);
    let lease = service.lease().await.unwrap().unwrap();
    assert_eq!((lease.state, lease.holder), (State::Available, None));
}

#[tokio::test]
async fn an_observer_sees_a_dead_holder_until_the_object_was_unchanged_for_its_duration() {
    let _limit = Limit::start();
    let api = Api::start().await;
    held_by_another_program(&api).await;
    let service = LeaseService::from_config(&config("observer", &api));
    let service = service.unwrap().unwrap();
    let lease = service.lease().await.unwrap().unwrap();
    assert_eq!(
        (lease.state, lease.holder.as_deref()),
        (State::Leased, Some("go"))
    );
    // The epoch in the object is of an earlier term.
    assert_eq!(lease.epoch, None);
    tenure_tests::wait_until("the end of the lease", async || {
        let lease = service.lease().await.unwrap().unwrap();
        (lease.state == State::Expired && lease.holder.is_none()).then_some(())
    })
    .await;
}

/// Makes another program the holder, after a term of a candidate.
async fn held_by_another_program(api: &Api) {
    let leader = candidate("leader", api).await;
    leader.campaign().await.unwrap().resign().await;
    api.edit(|lease| {
        lease["spec"]["holderIdentity"] = "go".into();
        lease["spec"]["leaseDurationSeconds"] = 2.into();
        lease["spec"]["leaseTransitions"] = 1.into();
    });
}

#[tokio::test]
async fn a_leader_whose_object_another_program_takes_stops_at_once_and_writes_nothing_more() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let epoch = leadership.epoch();
    api.edit(|lease| {
        lease["spec"]["holderIdentity"] = "thief".into();
        lease["spec"]["leaseTransitions"] = 1.into();
    });
    let taken = api.lease().unwrap();
    assert_eq!(leadership.lost().await, EndReason::Superseded);
    drop(leadership);
    assert_eq!(api.lease().unwrap(), taken);
    // The thief never renews. The next epoch is greater than the one that is still in the object.
    let next = leader.campaign().await.unwrap();
    assert!(next.epoch() > epoch);
    assert_eq!(api.lease().unwrap()["spec"]["leaseTransitions"], 2);
    next.resign().await;
}

#[tokio::test]
async fn a_term_goes_on_when_its_holder_is_emptied_or_its_mark_is_removed_and_nobody_else_leads() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let leader = candidate("leader", &api).await;
    let leadership = leader.campaign().await.unwrap();
    let follower = candidate("follower", &api).await;
    let next = tokio::spawn(async move { follower.campaign().await.unwrap() });
    let service = LeaseService::from_config(&config("observer", &api));
    let service = service.unwrap().unwrap();
    let edits: [fn(&mut Value); 4] = [
        |lease| lease["spec"]["holderIdentity"] = "".into(),
        |lease| lease["metadata"]["annotations"] = json!({}),
        |lease| lease["spec"] = Value::Null,
        |lease| {
            lease["metadata"]["annotations"] = Value::Null;
            lease["spec"] = json!({ "leaseTransitions": 7 });
        },
    ];
    for edit in edits {
        api.edit(edit);
        let edited = api.lease().unwrap();
        if edited["metadata"]["annotations"]["tenure/term"].is_string() {
            // Observers see the term that goes on.
            let view = service.lease().await.unwrap().unwrap();
            assert_eq!(view.holder.as_deref(), Some("leader"), "{edited}");
            assert_eq!(view.state, State::Leased);
            assert_eq!(view.epoch, Some(leadership.epoch().get()));
        }
        tenure_tests::wait_until("the leader in its object", async || {
            let lease = api.lease().unwrap();
            let has_mark = lease["metadata"]["annotations"]["tenure/term"].is_string();
            (holder(&lease) == "leader" && has_mark).then_some(())
        })
        .await;
        assert!(leadership.is_valid());
        assert!(!next.is_finished(), "{edited}");
    }
    let epoch = leadership.epoch();
    assert_eq!(leadership.resign().await, EndReason::Resigned);
    let next = next.await.unwrap();
    assert!(next.epoch() > epoch);
    next.resign().await;
    assert_epochs_increase(&api);
}

#[tokio::test]
async fn a_candidate_with_the_name_of_the_leader_waits_for_it() {
    let _limit = Limit::start();
    let api = Api::start().await;
    let one = candidate("same", &api).await;
    let other = candidate("same", &api).await;
    let first = one.campaign().await.unwrap();
    let waits = tokio::time::timeout(2 * DURATION, other.campaign()).await;
    assert!(waits.is_err(), "two processes lead under one name");
    assert!(first.is_valid());
    first.resign().await;
}

#[tokio::test]
async fn a_campaign_that_is_given_up_leaves_no_lease_behind() {
    let _limit = Limit::start();
    let api = Api::start().await;
    // The answers to the writes are lost, so the candidate does not know that it holds the object.
    let is_create = |asked: &Asked| asked.method == "POST" && !asked.is_review();
    api.set_rule(move |asked: &Asked| match is_create(asked) {
        true => Fate::LosesAnswer,
        false => Fate::Passes,
    });
    let gone = candidate("gone", &api).await;
    let is_sent = tenure_tests::wait_until("a write", async || {
        api.asked().iter().any(is_create).then_some(())
    });
    tokio::select! {
        led = gone.campaign() => panic!("{led:?}"),
        () = is_sent => {}
    }
    tenure_tests::wait_until("the release", async || {
        let lease = api.lease()?;
        holder(&lease).is_empty().then_some(())
    })
    .await;
}
