//! Consecutive terms, credentials, and visible state.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure::config::{AzureAccount, AzureBlob};
use tenure::observe::Observed;
use tenure::store::State;
use tenure::{Candidate, Guarantee, RunError};

use super::{World, blob, config, lead_by_odd_name, lead_in_turns};

/// Shared access signatures of the development account: to read, write and create for a hundred
/// years; to read only for a hundred years; and as the first, but expired in 2020. HMAC-SHA256 over
/// "devstoreaccount1", sp, ss, srt, st, se, sip, spr, sv and ses, each with a line feed.
const GOOD: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwc&se=2126-01-01T00%3A00%3A00Z\
                    &sig=%2FkvwtDHtpCbsI1sXapFqCfdn%2B36J9EzpcVXgm3%2B8TSA%3D";
const READ_ONLY: &str = "sv=2021-12-02&ss=b&srt=sco&sp=r&se=2126-01-01T00%3A00%3A00Z\
                         &sig=Wpj6FcNgVaBm1KTtWfImsanQTQ8bAT8BhEj40GDVG68%3D";
const EXPIRED: &str = "sv=2021-12-02&ss=b&srt=sco&sp=rwc&se=2020-01-01T00%3A00%3A00Z\
                       &sig=WgcIsLEqvesdCInWxktcIWSZoGbeHlx%2FlCwIqFkmLsA%3D";

#[tokio::test]
async fn candidates_by_a_blob_lead_one_after_the_other_and_epochs_increase() {
    let world = World::start();
    let journal = lead_in_turns(world.store.address(), 6).await;
    journal.assert_one_at_a_time();
    // Each candidate has released the lease at its end.
    let lease = world.lease().await.expect("a blob");
    assert_eq!(lease.state, State::Available);
}

#[tokio::test]
async fn a_blob_may_have_any_name() {
    let world = World::start();
    lead_by_odd_name(world.store.address()).await;
}

#[tokio::test]
async fn a_leader_by_a_blob_is_visible_with_its_metadata_until_the_end_of_its_term() {
    let world = World::start();
    let leader = world.candidate("leader").await;
    assert_eq!(leader.guarantee(), Guarantee::FencedLease);
    let mut seen = world.candidate("follower").await.observe();
    assert_eq!(seen.next().await, Observed::NoLeader);
    let leadership = leader.campaign().await.unwrap();
    let leader_with = |metadata: &BTreeMap<String, String>| Observed::Leader {
        candidate: "leader".parse().unwrap(),
        epoch: leadership.epoch(),
        metadata: metadata.clone(),
    };
    assert_eq!(seen.next().await, leader_with(&BTreeMap::new()));
    let address = [("address".to_owned(), "http://10.0.0.7:8080 ä".to_owned())];
    let metadata = BTreeMap::from(address);
    leadership.proclaim(metadata.clone()).await.unwrap();
    assert_eq!(seen.next().await, leader_with(&metadata));
    // The lease of a blob cannot be handed over to a chosen candidate: the term continues.
    leadership.hand_over("follower".parse().unwrap());
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(leadership.is_valid() && !leadership.cancellation().is_cancelled());
    leadership.resign().await;
    assert_eq!(seen.next().await, Observed::NoLeader);
}

fn signed(world: &World, signature: &str) -> AzureBlob {
    let url = format!("http://{}/devstoreaccount1", world.store.address());
    blob(AzureAccount::with_signature(&url, signature).unwrap())
}

#[tokio::test]
async fn a_signature_with_enough_permissions_works_and_others_are_refused_with_the_reason() {
    let world = World::start();
    let refused = async |blob: AzureBlob| {
        let candidate = Candidate::start(config("stranger", blob)).await.unwrap();
        match candidate.campaign().await {
            Err(RunError::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    };
    let why = refused(signed(&world, EXPIRED)).await;
    assert!(why.contains("403 AuthenticationFailed"), "{why}");
    assert!(!why.contains("sig=") && !why.contains("WgcIs"), "{why}");

    let good = Candidate::start(config("good", signed(&world, GOOD))).await;
    let good = good.unwrap();
    let leadership = good.campaign().await.unwrap();
    assert!(leadership.is_valid());
    leadership.resign().await;

    let why = refused(signed(&world, READ_ONLY)).await;
    assert!(why.contains("403 AuthorizationPermissionMismatch"), "{why}");
    assert!(why.contains("acquiring the lease"), "{why}");
    assert!(why.contains("must grant read and write"), "{why}");
}
