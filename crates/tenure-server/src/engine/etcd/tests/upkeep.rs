//! Compaction and the watch on the size.

use std::time::Instant;

use serde_json::{Value, json};

use super::super::gateway::{Gateway, WarnedOf};
use super::super::upkeep::Upkeep;
use super::*;

/// The answer of etcd to a read of this revision.
fn read_at(etcd: &Etcd, revision: &str) -> Value {
    let request = json!({"key": "eA==", "revision": revision});
    etcd.answer("/v3/kv/range", &request).1
}

/// The upkeep of a log, at times that a test chooses.
struct Owner {
    gateway: Gateway,
    upkeep: Upkeep,
    start: Instant,
}

impl Owner {
    fn new(config: &EtcdConfig) -> Self {
        let start = Instant::now();
        Self {
            gateway: Gateway::open(config, PATIENT, WarnedOf::default()).unwrap(),
            upkeep: Upkeep::new(config, start),
            start,
        }
    }

    /// Runs the upkeep this long after the start, and returns its log lines.
    fn run(&mut self, seconds: u64, revision: u64) -> String {
        self.upkeep.saw_revision(revision);
        let now = self.start + Duration::from_secs(seconds);
        log_lines(|| self.upkeep.run(&mut self.gateway, now))
    }
}

#[test]
fn the_owner_compacts_etcd_unless_others_use_it() {
    let Some(etcd) = Etcd::start("the_owner_compacts_etcd_unless_others_use_it", 1) else {
        return;
    };
    let put = |key: &str| {
        use base64::Engine as _;
        let key = base64::engine::general_purpose::STANDARD.encode(key);
        etcd.must("/v3/kv/put", &json!({"key": key, "value": ""}));
    };
    for _ in 0..10 {
        put("tenure/default/0/head");
        put("tenure/other/0/head");
    }
    let mut config = config(etcd.endpoints());
    config.compact = Compaction::Auto;
    let mut owner = Owner::new(&config);
    owner.run(0, 5);
    owner.run(299, 10);
    assert!(read_at(&etcd, "4").get("kvs").is_none());
    assert!(read_at(&etcd, "4").get("error").is_none());
    let lines = owner.run(300, 12);
    assert!(!lines.contains("not compacted"), "{lines}");
    let error = "etcdserver: mvcc: required revision has been compacted";
    assert_eq!(read_at(&etcd, "4")["error"], error);
    assert!(read_at(&etcd, "6").get("error").is_none());

    put("tenurf");
    let lines = owner.run(600, 14);
    let warning = "etcd is not compacted by tenure, because it has keys that do not begin with \
                   tenure/: set etcd's option --auto-compaction-retention, and etcd.compact = \"off\"";
    assert!(lines.contains(warning), "{lines}");
    assert!(read_at(&etcd, "6").get("error").is_none());
    let lines = owner.run(900, 16);
    assert!(!lines.contains(warning), "once: {lines}");

    // An operator may ask for it in spite of other keys.
    config.compact = Compaction::Every(Duration::from_secs(10));
    let mut owner = Owner::new(&config);
    owner.run(0, 9);
    owner.run(10, 12);
    assert_eq!(read_at(&etcd, "8")["error"], error);
}
