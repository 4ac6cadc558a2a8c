//! Servers whose `failover` is changed, over a log that servers with the other value wrote.

use std::sync::Arc;

use super::*;
use crate::config::{ClusterConfig, Home};
use crate::engine::log::Log;
use crate::engine::shared::{FollowError, Follower, Stop, init, recover};
use crate::engine::{Existing, backup_shared};
use crate::model::HistoryLimits;

/// The configuration of a server.
fn cluster(url: &str, schema: &str, failover: Failover) -> ClusterConfig {
    let postgres = PostgresConfig {
        failover,
        ..config(url.to_owned(), schema)
    };
    ClusterConfig::new("store", "http://store", Home::Postgres(postgres))
}

/// A connection as a server with this configuration makes it.
fn connect_as(config: &ClusterConfig) -> Arc<PostgresConnect> {
    let Home::Postgres(postgres) = &config.home else {
        panic!("not PostgreSQL: {config:?}");
    };
    let connect = PostgresConnect::new(postgres.clone(), &config.name, ATTEMPT);
    Arc::new(connect.unwrap())
}

/// A server that starts.
fn start(config: &ClusterConfig) -> Result<Follower, FollowError> {
    let stop = Arc::<Stop>::default();
    let ends = Arc::clone(&stop);
    thread::spawn(move || {
        thread::sleep(PATIENCE);
        ends.set();
    });
    let mut follower = Follower::new(connect_as(config), config, HistoryLimits::NONE, stop)?;
    follower.look_first().map(|()| follower)
}

/// Why a server does not start.
fn refusal(config: &ClusterConfig) -> String {
    match start(config) {
        Err(FollowError::Refused(text)) => text,
        other => panic!("it starts: {other:?}"),
    }
}

/// Takes the log over and leaves it. Returns the generation.
fn reign(server: &mut Follower) -> u64 {
    let mut reign = server.run_until_owner().expect("a take-over in time");
    reign.engine.close().unwrap();
    reign.generation
}

#[test]
fn a_log_goes_on_at_a_promoted_standby_when_its_fail_over_is_declared_lossless_later() {
    let Some(mut primary) = Postgres::start("the late declaration", "") else {
        return;
    };
    let standby = primary.standby("second");
    primary.require_standby("second");
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.port(),
        standby.port()
    );
    let strict = cluster(&url, "tenure", Failover::None);
    let lossless = cluster(&url, "tenure", Failover::Lossless);
    init(&mut *connect_as(&strict).connect().unwrap(), thread::sleep).unwrap();

    // Before the promotion, servers with either value take over from each other.
    let mut early = start(&lossless).unwrap();
    let generations = [
        reign(&mut start(&strict).unwrap()),
        reign(&mut early),
        reign(&mut start(&strict).unwrap()),
    ];
    assert_eq!(generations, [2, 3, 4]);

    primary.crash();
    standby.promote();
    assert!(refusal(&strict).contains("(timeline 2, was 1)"));
    // A server that has run since before, and one that starts.
    assert_eq!(reign(&mut early), 5);
    assert_eq!(reign(&mut start(&lossless).unwrap()), 6);
    assert!(refusal(&strict).contains("(timeline 2, was 1)"));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("moved.db");
    let backup = |config| backup_shared(config, &file, Existing::Keep, true);
    assert!(backup(&strict).is_err());
    backup(&lossless).unwrap();
}

#[test]
fn a_log_of_lossless_servers_needs_a_recovery_before_others_use_it() {
    let Some(server) = shared_server("the withdrawn declaration") else {
        return;
    };
    let url = server.url("postgres", "");
    let strict = cluster(&url, "withdrawn", Failover::None);
    let lossless = cluster(&url, "withdrawn", Failover::Lossless);
    init(
        &mut *connect_as(&lossless).connect().unwrap(),
        thread::sleep,
    )
    .unwrap();
    assert_eq!(reign(&mut start(&lossless).unwrap()), 2);
    assert_eq!(
        refusal(&strict),
        "the log was written with postgres.failover = \"lossless\": keep that setting, or stop all \
         servers, then: tenure cluster recover"
    );

    recover(&mut *connect_as(&strict).connect().unwrap(), thread::sleep).unwrap();
    assert_eq!(reign(&mut start(&strict).unwrap()), 4);
    // The log names a timeline now, and the change back needs none of this.
    assert_eq!(reign(&mut start(&lossless).unwrap()), 5);

    // A head that is gone was lost, and is no sign of another engine.
    let mut log = connect_as(&lossless).connect().unwrap();
    let before = log.head().unwrap();
    assert!(before.head.is_some());
    server.query("delete from withdrawn.head");
    let after = log.head().unwrap();
    assert_eq!((after.engine, after.head), (before.engine, None));
}
