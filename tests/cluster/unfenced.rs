//! The judge of the chain sees servers that append without a fence.
//!
//! The servers are those of all other tests. The proxy between them and the engine replaces the
//! condition of each append by one that always holds, or the recorder in front of a bucket leaves it
//! out, as if their build compared nothing.

use std::thread;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::bucket::BucketServer;
use tenure_tests::chain::audit;
use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::wait_for;

use super::{DEFAULT, SHORT};

/// The condition of an append over etcd: the slot has this revision. No key has a lease of etcd, so the
/// other condition, which is of leases, holds for each of them.
const IN_ETCD: [&[u8]; 2] = [br#""target":"MOD""#, br#""target":4    "#];

/// The condition over PostgreSQL.
const IN_POSTGRES: [&[u8]; 2] = [
    b"where r.key = $1 and (r.version = $2",
    b"where r.key = $1 and ($2::text > '' ",
];

/// Stops the active server until another one has taken over, and lets it continue; again if that
/// makes no violation. Returns what the judge finds then, if the servers append after `unfence`.
fn judge(test: &str, settings: Settings, unfence: impl FnOnce(&mut Cluster)) -> Option<String> {
    let settings = Settings {
        servers: 2,
        ..settings
    };
    let mut cluster = Cluster::prepare(test, settings)?;
    unfence(&mut cluster);
    // Without a fence, two servers that start at the same moment would both begin the log.
    cluster.servers[0].spawn();
    let active = cluster.active();
    cluster.engine.prepare();
    cluster.servers[1].spawn();
    cluster.servers[1].wait_until_ready(&cluster.runtime);
    // In the first round an entry is created, which has a condition of its own.
    let client = cluster.client();
    let mut number = 0;
    wait_for("a round of the ring", || {
        for _ in 0..100 {
            number += 1;
            let name = format!("tests/round-{number}");
            let _ = cluster.runtime.block_on(client.acquire(&name, 7));
        }
        (cluster.engine.links("c").len() > 260).then_some(())
    });
    // One active server makes a chain without any fence.
    wait_for("a chain", || {
        let audited = audit(&cluster.engine.links("c"));
        audited.is_ok_and(|it| it.entries > 3).then_some(())
    });
    // A server that reads the log first when it continues follows it, so one stop may not be enough.
    let mut active = active;
    Some(wait_for("a violation", || {
        cluster.servers[active].signal(Signal::SIGSTOP);
        let next = cluster.active_beside(active);
        cluster.servers[active].signal(Signal::SIGCONT);
        active = next;
        let mut audits = (0..100).map(|_| {
            thread::sleep(Duration::from_millis(20));
            audit(&cluster.engine.links("c")).err()
        });
        audits.find_map(|violation| violation)
    }))
}

/// Replaces a condition in all requests.
fn replace(condition: [&'static [u8]; 2]) -> impl FnOnce(&mut Cluster) {
    move |cluster| {
        for proxy in cluster.servers.iter().flat_map(|it| &it.engine) {
            proxy.replace_in_requests(condition[0], condition[1]);
        }
    }
}

/// The entries of two servers alternate.
#[track_caller]
fn assert_forked(violation: Option<String>) {
    if let Some(violation) = violation {
        let expected = [
            "the sequence has a gap",
            "the generation went back",
            "the entry does not follow",
        ];
        let is_expected = expected.iter().any(|it| violation.starts_with(it));
        assert!(is_expected, "{violation}");
    }
}

#[test]
fn the_judge_finds_appends_to_etcd_without_a_fence() {
    let test = "the_judge_finds_appends_to_etcd_without_a_fence";
    assert_forked(judge(test, Settings::short(SHORT), replace(IN_ETCD)));
}

#[test]
fn the_judge_finds_appends_to_postgresql_without_a_fence() {
    let test = "the_judge_finds_appends_to_postgresql_without_a_fence";
    let settings = Settings::short(DEFAULT).over_postgres();
    assert_forked(judge(test, settings, replace(IN_POSTGRES)));
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn the_judge_finds_appends_to_a_bucket_without_a_fence() {
    let test = "the_judge_finds_appends_to_a_bucket_without_a_fence";
    let settings = Settings::short(DEFAULT).over_bucket(BucketServer::VersityGw);
    let unfence = |cluster: &mut Cluster| cluster.bucket().drop_conditions();
    assert_forked(judge(test, settings, unfence));
}
