//! A store that is killed and started again.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::process::StoreProcess;

use super::{acquire, ask};

#[test]
fn a_leader_keeps_its_lease_over_a_kill_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = StoreProcess::start(folder.path());
    let granted = acquire(store.address(), "tests/job", "leader");
    store.process.signal(Signal::SIGKILL);
    store.process.wait();

    let store = StoreProcess::start_at(folder.path(), &store.address().to_string());
    let address = store.address();
    let (_, view) = ask(address, "GET", "tests/leases/job", &Value::Null);
    assert_eq!(view["holder"], "leader");
    assert_eq!(view["epoch"], granted["epoch"]);
    let rival = json!({"holder": "rival", "duration_ms": 60_000});
    let (status, _) = ask(address, "POST", "tests/leases/job/acquire", &rival);
    assert_eq!(status, 409);
    let proof = json!({"lease_id": granted["lease_id"]});
    let (status, view) = ask(address, "POST", "tests/leases/job/renew", &proof);
    assert_eq!((status, &view["epoch"]), (200, &granted["epoch"]), "{view}");
}

#[test]
fn epochs_go_on_over_kills_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let mut last = 0;
    for _ in 0..4 {
        let mut store = StoreProcess::start(folder.path());
        let granted = acquire(store.address(), "tests/job", "leader");
        let epoch = granted["epoch"].as_u64().unwrap();
        assert!(epoch > last, "{epoch} after {last}");
        last = epoch;
        let proof = json!({"lease_id": granted["lease_id"]});
        let (status, _) = ask(store.address(), "POST", "tests/leases/job/release", &proof);
        assert_eq!(status, 200);
        // Acknowledged changes are on disk.
        store.process.signal(Signal::SIGKILL);
        store.process.wait();
    }
}
