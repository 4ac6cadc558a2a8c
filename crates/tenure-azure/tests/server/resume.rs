//! The client of blobs takes a lease again for a term that has run without the service.

use std::time::Duration;

use serde_json::json;
use tenure_azure::client::{AzureAccount, AzureBlob, BlobCandidacy, BlobLease};
use tenure_core::Epoch;
use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::lease::{LeaseId, Metadata, State};
use tokio::time::{Instant, sleep};

use crate::client::{ACCOUNT, KEY, in_memory};
use crate::common::{Running, SOON, answer, assert_ok};

struct World {
    running: Running,
}

impl World {
    fn start() -> Self {
        let (running, _) = in_memory();
        Self { running }
    }

    fn candidate(&self, name: &str) -> BlobLease {
        let account = AzureAccount::with_key(ACCOUNT, KEY).unwrap();
        let url = format!("{}/{ACCOUNT}", self.running.api.origin);
        let account = account.with_url(&url).unwrap();
        let candidacy = BlobCandidacy {
            election: "leases/leader".parse().unwrap(),
            candidate: name.parse().unwrap(),
            lease_duration: Duration::from_secs(15),
            metadata: Metadata::new(),
        };
        let blob = AzureBlob::new(account, "leases", "leader").unwrap();
        BlobLease::new(self.running.api.http.clone(), blob, candidacy)
    }

    async fn native(&self, verb: &str, body: serde_json::Value) {
        let origin = &self.running.api.origin;
        let url = format!("{origin}/v1/namespaces/{ACCOUNT}.leases/leases/leader/{verb}");
        let request = self.running.api.http.post(url).json(&body);
        assert_ok(&answer(request.send().await.unwrap()).await);
    }

    /// Shortens the lease that this id holds, and waits until it has expired.
    async fn expire(&self, of: &BlobLease, number: u64) {
        let lease_id = lease_id(number).to_wire().to_string();
        let body = json!({"lease_id": lease_id, "duration_ms": 1_000});
        self.native("renew", body).await;
        let until = Instant::now() + SOON;
        while state(of).await != State::Expired {
            assert!(Instant::now() < until, "it does not expire");
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn lease_id(number: u64) -> LeaseId {
    LeaseId::from_random_bits(7, number)
}

async fn state(of: &BlobLease) -> State {
    of.view().await.unwrap().expect("a blob").state
}

async fn acquire(of: &BlobLease, number: u64) -> Epoch {
    let request = Request::Acquire {
        lease_id: lease_id(number),
        wait: Duration::ZERO,
        min_epoch: None,
    };
    match of.send(request, SOON).await {
        Answer::Held(epoch) => epoch,
        other => panic!("{other:?}"),
    }
}

async fn resume(of: &BlobLease, number: u64, epoch: Epoch) -> Answer {
    let request = Request::Resume {
        lease_id: lease_id(number),
        epoch,
        without_store: Duration::from_secs(1),
    };
    of.send(request, SOON).await
}

async fn release(of: &BlobLease, number: u64) {
    let request = Request::Release {
        lease_id: lease_id(number),
        reason: None,
    };
    assert_eq!(of.send(request, SOON).await, Answer::Released);
}

async fn shown(of: &BlobLease) -> (Option<String>, Option<u64>) {
    let view = of.view().await.unwrap().expect("a blob");
    (view.holder, view.epoch)
}

#[tokio::test]
async fn a_term_continues_after_its_lease_of_a_blob_expired() {
    let world = World::start();
    let candidate = world.candidate("a");
    // The blob exists. The native API can shorten a lease only if it has granted the lease.
    acquire(&candidate, 9).await;
    release(&candidate, 9).await;
    let id = lease_id(1).to_wire().to_string();
    let body = json!({"holder": "a", "lease_id": id, "duration_ms": 60_000});
    world.native("acquire", body).await;
    let epoch = acquire(&candidate, 1).await;
    world.expire(&candidate, 1).await;
    assert_eq!(resume(&candidate, 1, epoch).await, Answer::Held(epoch));
    let leader = (Some("a".to_owned()), Some(epoch.get()));
    assert_eq!(shown(&candidate).await, leader);
    assert_eq!(resume(&candidate, 1, epoch).await, Answer::Held(epoch));
    let renew = Request::Renew(lease_id(1));
    assert_eq!(candidate.send(renew, SOON).await, Answer::Held(epoch));
    // An epoch that a process wrote before it learned of it: another process of this candidate.
    let again = world.candidate("a");
    assert_eq!(resume(&again, 1, epoch).await, Answer::Held(epoch));
    release(&candidate, 1).await;
}
