//! The same candidates with Azurite, if it is installed.

#[path = "../../crates/tenure-register/tests/conformance/checks.rs"]
mod checks;

use tenure::store::State;
use tenure_register::bucket::{BucketAccess, BucketHome};
use tenure_tests::azurite::Azurite;
use tenure_tests::{Limit, PATIENCE};

use super::{ACCOUNT, KEY, candidate, client, lead_by_odd_name, lead_in_turns};

#[tokio::test]
async fn candidates_lead_one_after_the_other_with_azurite() {
    let Some(azurite) = Azurite::start("candidates_lead_one_after_the_other_with_azurite") else {
        return;
    };
    let _limit = Limit::start();
    lead_by_odd_name(azurite.address()).await;
    let journal = lead_in_turns(azurite.address(), 4).await;
    journal.assert_one_at_a_time();
    let client = client(azurite.address());
    let lease = async || client.lease().await.unwrap().unwrap();
    assert_eq!(lease().await.state, State::Available);

    let leader = candidate("leader", azurite.address()).await;
    let leadership = leader.campaign().await.unwrap();
    let metadata = [("address".to_owned(), "http://10.0.0.7:8080 ä".to_owned())];
    leadership.proclaim(metadata.clone().into()).await.unwrap();
    let seen = lease().await;
    assert_eq!(seen.holder.as_deref(), Some("leader"));
    assert_eq!(seen.epoch, Some(leadership.epoch().get()));
    assert_eq!(seen.metadata, Some(metadata.into()));
    // This is longer than the lease lasts without a renewal.
    tokio::time::sleep(std::time::Duration::from_secs(17)).await;
    assert!(leadership.is_valid());
    assert_eq!(lease().await.state, State::Leased);
}

#[tokio::test]
async fn a_container_of_azurite_keeps_registers() {
    let Some(azurite) = Azurite::start("a_container_of_azurite_keeps_registers") else {
        return;
    };
    // A candidate creates its container.
    let leader = candidate("leader", azurite.address()).await;
    drop(leader.campaign().await.unwrap());
    let mut access = BucketAccess::new(format!("az://{ACCOUNT}/tests/a/b"));
    let endpoint = format!("http://{}/{ACCOUNT}", azurite.address());
    access.settings = vec![
        ("AZURE_STORAGE_ENDPOINT".into(), endpoint),
        ("AZURE_ALLOW_HTTP".into(), "true".into()),
        ("AZURE_STORAGE_ACCOUNT_KEY".into(), KEY.into()),
    ];
    let homes = [(); 2].map(|()| BucketHome::new(&access, PATIENCE).unwrap());
    assert_eq!(homes[0].probe().await, Ok(None));
    checks::pass(&[&homes[0], &homes[1]], "part").await;
}
