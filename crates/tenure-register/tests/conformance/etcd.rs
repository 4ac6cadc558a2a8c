//! A real etcd, with one member and with three.

use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_register::etcd::{EtcdAccess, EtcdHome};
use tenure_register::{Failure, Register};
use tokio::time::timeout;

use crate::checks::{self, absent, create, done, found, put};
use crate::support::etcd::Etcd;

const ATTEMPT: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn etcd_passes_all_checks() {
    let Some(etcd) = Etcd::start("etcd_passes_all_checks", 3) else {
        return;
    };
    let open = || EtcdHome::new(EtcdAccess::new(etcd.endpoints()), ATTEMPT).unwrap();
    let homes = [open(), open(), open(), open()];
    let connections: Vec<&dyn Register> = homes.iter().map(|home| home as _).collect();
    checks::pass(&connections, "part").await;
    // Homes with another prefix share nothing.
    let mut other = EtcdAccess::new(etcd.endpoints());
    other.prefix = "other/".to_owned();
    let other = EtcdHome::new(other, ATTEMPT).unwrap();
    checks::pass(&[&other, &other], "part").await;
}

#[tokio::test]
async fn a_request_that_is_given_up_delays_no_other() {
    let Some(etcd) = Etcd::start("a_request_that_is_given_up_delays_no_other", 1) else {
        return;
    };
    let home = EtcdHome::new(EtcdAccess::new(etcd.endpoints()), ATTEMPT).unwrap();
    let key = "a/b".parse().unwrap();
    let identity = absent(&home, &key).await;
    etcd.signal(0, Signal::SIGSTOP);
    let mut hanging = home.read(&key, None);
    let pause = Duration::from_millis(200);
    assert!(timeout(pause, &mut hanging).await.is_err());
    etcd.signal(0, Signal::SIGCONT);
    // The first request has not been read to its end, and the next ones do not wait for it.
    let first = done(create(&home, &key, &identity, "first").await);
    done(put(&home, &key, &identity, &first, "second").await);
    drop(hanging);
    assert_eq!(found(home.read(&key, None).await.unwrap()).1, "second");
}

#[tokio::test]
async fn another_cluster_behind_the_same_address_is_another_home() {
    let test = "another_cluster_behind_the_same_address_is_another_home";
    let (Some(one), Some(two)) = (Etcd::start(test, 1), Etcd::start(test, 1)) else {
        return;
    };
    let home = |etcd: &Etcd| EtcdHome::new(EtcdAccess::new(etcd.endpoints()), ATTEMPT).unwrap();
    let key = "a/b".parse().unwrap();
    let (one, two) = (home(&one), home(&two));
    let identity = absent(&one, &key).await;
    let first = done(create(&one, &key, &identity, "first").await);
    // Both clusters are as old, so the key has the same version in both.
    let other = absent(&two, &key).await;
    assert_ne!(other, identity);
    assert_eq!(done(create(&two, &key, &other, "copy").await), first);
    let refused = checks::changed(put(&two, &key, &identity, &first, "x").await);
    assert_eq!(*refused.identity(), other);
    assert_eq!(found(refused).1, "copy");
}

#[tokio::test]
async fn without_an_etcd_the_outcome_says_what_is_known() {
    // No request is sent, because no connection is accepted.
    let config = EtcdAccess::new(vec!["http://127.0.0.1:1".to_owned()]);
    let home = EtcdHome::new(config, ATTEMPT).unwrap();
    let key = "a".parse().unwrap();
    let failure = home.read(&key, None).await.unwrap_err();
    assert!(failure.to_string().contains("127.0.0.1:1"), "{failure}");
    let wrong = EtcdHome::new(EtcdAccess::new(vec!["etcd:2379".to_owned()]), ATTEMPT);
    match wrong {
        Err(Failure::Misconfigured(text)) => assert!(text.contains("etcd:2379"), "{text}"),
        other => panic!("{other:?}"),
    }
}
