//! Candidates with a fallback: a term goes on while the store is away.

use std::net::SocketAddr;
use std::time::Duration;

use tenure::config::{BesideStore, Bully, Fallback, Peer, PeerKey};
use tenure::{Candidate, Config, Guarantee, Leadership, NodeId, OnOverrun, QuorumKind};
use tenure_tests::ports::free_address;
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::store::{LocalStore, endpoint};
use tenure_tests::{Limit, wait_until};

use crate::world::{ELECTION, World, timings};

/// Three members, and the proxy between each of them and its store.
struct Group {
    candidates: Vec<Candidate>,
    proxies: Vec<Proxy>,
    _folders: Vec<tempfile::TempDir>,
}

/// Three addresses that no other process uses.
fn addresses() -> [SocketAddr; 3] {
    [0; 3].map(|_| free_address())
}

impl Group {
    /// Starts members whose stores listen on these addresses.
    async fn start(stores: [SocketAddr; 3]) -> Self {
        let peers: Vec<Peer> = (1..)
            .zip(addresses())
            .map(|(node, address)| Peer::new(NodeId(node), &format!("http://{address}")).unwrap())
            .collect();
        let mut group = Self {
            candidates: Vec::new(),
            proxies: Vec::new(),
            _folders: Vec::new(),
        };
        for (node, store) in (1..).zip(stores) {
            let proxy = Proxy::start(store).await.unwrap();
            let folder = tempfile::tempdir().unwrap();
            let mut members = Bully::new(NodeId(node), peers.clone());
            members.key = Some(PeerKey::new("a secret of at least 16 bytes").unwrap());
            members.state_dir = folder.path().into();
            let config = Config::new(ELECTION.parse().unwrap())
                .with_servers([endpoint(proxy.address())])
                .with_timings(timings(3000, 500, 1500, 500))
                .with_on_overrun(OnOverrun::Report)
                .with_fallback(Fallback::new(members).with_k(BesideStore::Lease));
            assert_eq!(config.guarantee(), Guarantee::StoreOrMembers);
            group
                .candidates
                .push(Candidate::start(config).await.unwrap());
            group.proxies.push(proxy);
            group._folders.push(folder);
        }
        group
    }

    fn set_all(&self, mode: ProxyMode) {
        self.proxies.iter().for_each(|proxy| proxy.set(mode));
    }
}

async fn is_carried_by(leadership: &Leadership, kind: QuorumKind) {
    wait_until("the kind of quorum", async || {
        assert!(leadership.is_valid(), "the term is over");
        (leadership.carried_by()?.kind == kind).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_store_ends_no_term_and_takes_the_same_epoch_again_when_it_returns() {
    let world = World::start();
    let group = Group::start([world.store.address(); 3]).await;
    let leader = group.candidates[0].campaign().await.unwrap();
    let epoch = leader.epoch();
    is_carried_by(&leader, QuorumKind::Store).await;
    assert_eq!(leader.carried_by().unwrap().further_losses, 2);
    assert_eq!(leader.carried_by().unwrap().store_silent_since, None);
    group.set_all(ProxyMode::Refuse);
    is_carried_by(&leader, QuorumKind::Members).await;
    assert!(leader.carried_by().unwrap().store_silent_since.is_some());
    // The lease expires in the store, and the term goes on.
    world.free().await;
    assert!(leader.is_valid());
    assert_eq!(leader.carried_by().unwrap().further_losses, 0);
    group.set_all(ProxyMode::Pass);
    is_carried_by(&leader, QuorumKind::Store).await;
    assert_eq!(leader.epoch(), epoch);
    assert_eq!(world.holder().await, Some(("1".into(), epoch.get())));
    leader.resign().await;
    world.released().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_ends_without_the_store_does_not_wait_for_it() {
    let world = World::start();
    let group = Group::start([world.store.address(); 3]).await;
    let leader = group.candidates[0].campaign().await.unwrap();
    group.set_all(ProxyMode::Hang);
    is_carried_by(&leader, QuorumKind::Members).await;
    let ended = tokio::time::timeout(Duration::from_secs(20), leader.resign()).await;
    assert!(ended.is_ok(), "the release waits for the store");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_with_another_store_never_leads_by_the_lease_of_that_store() {
    let _limit = Limit::start();
    let (right, wrong) = (LocalStore::start(), LocalStore::start());
    let [one, two] = [right.address(), wrong.address()];
    let group = Group::start([one, one, two]).await;
    let leader = group.candidates[0].campaign().await.unwrap();
    let elsewhere = tokio::time::timeout(Duration::from_secs(4), group.candidates[2].campaign());
    assert!(elsewhere.await.is_err(), "two members lead by two stores");
    assert!(leader.is_valid());
    let client = tenure::store::StoreClient::new(&[wrong.endpoint()]).unwrap();
    let lease = client.lease(&ELECTION.parse().unwrap()).await.unwrap();
    assert_eq!(lease, None, "the other store was asked for a lease");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_whose_group_had_other_settings_starts_only_if_the_operator_accepts_them() {
    let _limit = Limit::start();
    let store = LocalStore::start();
    let folder = tempfile::tempdir().unwrap();
    let peers = addresses().map(|address| format!("http://{address}"));
    let peers = [1, 2, 3].map(|node| Peer::new(NodeId(node), &peers[node as usize - 1]).unwrap());
    let config = |k, accept_changes| {
        let mut members = Bully::new(NodeId(1), peers.clone());
        members.state_dir = folder.path().into();
        let mut fallback = Fallback::new(members).with_k(BesideStore::Members(k));
        fallback.accept_changes = accept_changes;
        Config::new(ELECTION.parse().unwrap())
            .with_servers([store.endpoint()])
            .with_timings(timings(1500, 300, 700, 300))
            .with_fallback(fallback)
    };
    let start = async |k, accept_changes| {
        // The directory is free again when the thread of the last start has ended.
        let started = Candidate::start(config(k, accept_changes)).await;
        started.map(drop).map_err(|error| {
            let cause = std::error::Error::source(&error);
            format!(
                "{error}: {}",
                cause.map(ToString::to_string).unwrap_or_default()
            )
        })
    };
    start(1, false).await.unwrap();
    let refused = start(2, false).await.unwrap_err();
    for part in ["k = 1", "k = 2", "--accept-changes"] {
        assert!(refused.contains(part), "{refused}");
    }
    start(1, false).await.unwrap();
    let before = std::time::Instant::now();
    start(2, true).await.unwrap();
    assert!(
        before.elapsed() >= Duration::from_millis(1500),
        "promises may still be valid"
    );
    start(2, false).await.unwrap();
}
