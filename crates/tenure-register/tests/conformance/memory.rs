//! The home in memory, and its faults.

use tenure_register::memory::MemoryHome;
use tenure_register::{Expected, Failure, Register, RegisterKey, Replaced};

use crate::checks::{self, absent, create, done, found, put};

#[tokio::test]
async fn the_home_in_memory_passes_all_checks() {
    let home = MemoryHome::default();
    let clone = home.clone();
    checks::pass(&[&home, &clone, &home, &clone], "part").await;
}

#[tokio::test]
async fn a_late_replace_changes_nothing_after_another_one_was_applied() {
    let (home, key) = (MemoryHome::default(), key("a"));
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    for _ in 0..2 {
        home.delay_next();
    }
    let expected = Expected {
        version: Some(first.clone()),
        identity: identity.clone(),
    };
    for _ in 0..2 {
        let late = home.replace(&key, &expected, "late".into()).await;
        assert!(matches!(late, Err(Failure::Unknown(_))), "{late:?}");
    }
    assert_eq!(home.deliver(), Some(true));
    let (late, _) = found(home.read(&key, None).await.unwrap());
    done(put(&home, &key, &identity, &late, "next").await);
    assert_eq!(home.deliver(), Some(false));
    assert_eq!(home.deliver(), None);
    assert_eq!(found(home.read(&key, None).await.unwrap()).1, "next");
}

#[tokio::test]
async fn a_replace_that_was_sent_before_a_promotion_is_refused_after_it() {
    let (home, key) = (MemoryHome::default(), key("a"));
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    home.delay_next();
    let expected = Expected {
        version: Some(first.clone()),
        identity: identity.clone(),
    };
    assert!(home.replace(&key, &expected, "late".into()).await.is_err());
    // The promoted home has lost the last write, so it has the version that the late replace names.
    done(put(&home, &key, &identity, &first, "second").await);
    home.promote(1);
    assert_eq!(found(home.read(&key, None).await.unwrap()).0, first);
    assert_eq!(home.deliver(), Some(false));
    let read = home.read(&key, None).await.unwrap();
    assert_ne!(*read.identity(), identity);
    assert_eq!(found(read).1, "first");
}

#[tokio::test]
async fn a_home_that_goes_back_keeps_its_identity_and_chooses_new_versions() {
    let (home, key) = (MemoryHome::default(), key("a"));
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    let second = done(put(&home, &key, &identity, &first, "second").await);
    home.go_back(1);
    let read = home.read(&key, None).await.unwrap();
    assert_eq!(*read.identity(), identity);
    assert_eq!(found(read).0, first);
    let other = match put(&home, &key, &identity, &first, "other").await {
        Replaced::Done(version) => version,
        changed => panic!("{changed:?}"),
    };
    assert_ne!(other, second);
}

fn key(text: &str) -> RegisterKey {
    text.parse().unwrap()
}
