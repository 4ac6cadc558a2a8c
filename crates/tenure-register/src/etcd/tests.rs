//! The periodic work at a real etcd, at times that a test chooses.

use std::time::{Duration, Instant};

use base64::Engine as _;
use serde_json::{Value, json};

use super::{Compaction, EtcdAccess, EtcdHome};
use crate::Register;
use crate::support::etcd::Etcd;

const ATTEMPT: Duration = Duration::from_secs(60);

/// A home whose periodic work is done at times after the start.
struct Owner {
    home: EtcdHome,
    start: Instant,
}

impl Owner {
    fn new(etcd: &Etcd, compact: Compaction) -> Self {
        let mut access = EtcdAccess::new(etcd.endpoints());
        access.compact = compact;
        Self {
            home: EtcdHome::new(access, ATTEMPT).unwrap(),
            start: Instant::now(),
        }
    }

    /// Sees the revision of etcd, does the work that is due, and returns the warnings.
    async fn run(&self, seconds: u64) -> Vec<String> {
        let key = "a".parse().unwrap();
        self.home.read(&key, None).await.unwrap();
        let now = self.start + Duration::from_secs(seconds);
        self.home.maintain_at(now).await;
        self.home.facts().warnings
    }
}

/// The answer of etcd to a read of this revision.
fn read_at(etcd: &Etcd, revision: &str) -> Value {
    let request = json!({"key": "eA==", "revision": revision});
    etcd.answer("/v3/kv/range", &request).1
}

#[tokio::test]
async fn etcd_is_compacted_unless_others_use_it() {
    let Some(etcd) = Etcd::start("etcd_is_compacted_unless_others_use_it", 1) else {
        return;
    };
    let put = |key: &str| {
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        etcd.must("/v3/kv/put", &json!({"key": key, "value": ""}));
    };
    let compacted = "etcdserver: mvcc: required revision has been compacted";
    // The revision of an empty etcd is 1.
    (0..5).for_each(|_| put("tenure/register/a"));
    let owner = Owner::new(&etcd, Compaction::Auto);
    owner.run(0).await;
    (0..5).for_each(|_| put("tenure/other"));
    owner.run(299).await;
    assert!(read_at(&etcd, "5").get("error").is_none());
    let warnings = owner.run(300).await;
    assert!(
        !warnings.iter().any(|it| it.contains("not compacted")),
        "{warnings:?}"
    );
    assert_eq!(read_at(&etcd, "5")["error"], compacted);
    assert!(read_at(&etcd, "6").get("error").is_none());

    put("tenurf");
    let warning = "etcd is not compacted by tenure, because it has keys that do not begin with \
                   tenure/: set etcd's option --auto-compaction-retention, and write compact=off into home";
    let warnings = owner.run(600).await;
    assert!(warnings.iter().any(|it| it == warning), "{warnings:?}");
    assert!(read_at(&etcd, "6").get("error").is_none());

    // An operator may ask for it in spite of other keys.
    let owner = Owner::new(&etcd, Compaction::Every(Duration::from_secs(10)));
    owner.run(0).await;
    owner.run(10).await;
    assert_eq!(read_at(&etcd, "8")["error"], compacted);
}

#[tokio::test]
async fn the_size_of_etcd_is_watched() {
    let test = "the_size_of_etcd_is_watched";
    let Some(etcd) = Etcd::start_with(test, 1, &["--quota-backend-bytes", "1000000"]) else {
        return;
    };
    let owner = Owner::new(&etcd, Compaction::Off);
    owner.run(0).await;
    assert!(owner.home.facts().version.is_some());
    let value = "A".repeat(1_080_000);
    etcd.must("/v3/kv/put", &json!({"key": "eA==", "value": value}));
    // etcd writes its database several times a second.
    for minute in 1.. {
        owner.run(60 * minute).await;
        let facts = owner.home.facts();
        assert_eq!(facts.quota_bytes, Some(1_000_000));
        if (800_000..1_000_000).contains(&facts.bytes.unwrap()) {
            break;
        }
        assert!(minute < 3_000, "{facts:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
