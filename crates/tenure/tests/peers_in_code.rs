//! An election among peers that is configured in code, by this crate alone.

#![cfg(feature = "peers")]

use std::net::TcpListener;
use std::time::Duration;

use tenure::config::{Bully, Peer, PeerKey, Strategy};
use tenure::observe::{Observed, Observer};
use tenure::{Candidate, Config, NodeId};

const PATIENCE: Duration = Duration::from_secs(20);

/// Returns a configuration with a lease of two seconds, so that members elect soon.
fn config(strategy: Strategy) -> Config {
    let config = Config::new("tests/in-code".parse().unwrap())
        .with_metadata([("address".to_owned(), "http://leader".to_owned())].into())
        .with_strategy(strategy)
        .with_adjusted_timings(|timings| timings.lease_duration = Some(Duration::from_secs(2)));
    config.unwrap()
}

#[tokio::test]
async fn members_configured_in_code_elect_a_leader_that_others_observe() {
    let folder = tempfile::tempdir().unwrap();
    // These ports were free a moment ago.
    let listeners = [1, 2, 3].map(|_| TcpListener::bind("127.0.0.1:0").unwrap());
    let addresses = listeners.map(|listener| listener.local_addr().unwrap());
    let peers = [1, 2, 3].map(|node| {
        let url = format!("http://{}", addresses[node as usize - 1]);
        Peer::new(NodeId(node), &url).unwrap()
    });
    let mut members = Vec::new();
    for node in [1, 2, 3] {
        let mut bully = Bully::new(NodeId(node), peers.clone());
        bully.key = Some(PeerKey::new("a secret of at least 16 bytes").unwrap());
        bully.listen = Some(addresses[node as usize - 1]);
        bully.state_dir = folder.path().join(node.to_string());
        let candidate = Candidate::start(config(Strategy::Bully(bully))).await;
        members.push(candidate.unwrap());
    }
    let observed = config(Strategy::Bully(Bully::for_observer(peers)));
    assert!(Candidate::start(observed.clone()).await.is_err());
    let mut observer = Observer::from_config(&observed).unwrap();

    let won = tokio::time::timeout(PATIENCE, members[0].campaign()).await;
    let guard = won.expect("a leader in time").unwrap();
    let seen = async {
        loop {
            if let Observed::Leader {
                candidate,
                epoch,
                metadata,
            } = observer.next().await
            {
                return (candidate, epoch, metadata);
            }
        }
    };
    let (candidate, epoch, metadata) = tokio::time::timeout(PATIENCE, seen).await.unwrap();
    assert_eq!((&candidate, epoch), (members[0].id(), guard.epoch()));
    assert_eq!(metadata["address"], "http://leader");
    guard.resign().await;
    let gone = async { while observer.next().await != Observed::NoLeader {} };
    tokio::time::timeout(PATIENCE, gone).await.unwrap();
}
