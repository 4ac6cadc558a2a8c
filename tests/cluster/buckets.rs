//! Buckets of servers of other projects: the registers in them, and the same faults of clusters as
//! over etcd.
//!
//! The gate builds none of these servers. `.ci/servers` runs the short forms.

#[path = "../../crates/tenure-register/tests/conformance/checks.rs"]
mod checks;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_register::Register;
use tenure_register::bucket::BucketHome;
use tenure_tests::PATIENCE;
use tenure_tests::bucket::{ACCESS, Bucket, BucketServer};
use tenure_tests::cluster::Settings;
use tenure_tests::engine::Engine;
use tenure_tests::process::{command, json_of, output};
use tenure_tests::receiver::now;
use tokio::runtime::Runtime;

use super::cuts::{MODES, cut};
use super::engine::lose_answers;
use super::kills::kill;
use super::moving::circle;
use super::restarts::restart;
use super::starts::start;
use super::stops::stop;
use super::{Bench, DEFAULT, SHORT, pass, renewed_since};

/// The number of probes. Each of them has two races.
const PROBES: usize = 40;

/// Checks the registers of a bucket. No server of tenure takes part.
fn check(test: &str, server: BucketServer) {
    let Some(bucket) = Bucket::start(test, server) else {
        return;
    };
    let homes = [(); 4].map(|()| BucketHome::new(&bucket.access(), PATIENCE).unwrap());
    Runtime::new().unwrap().block_on(async {
        for _ in 0..PROBES {
            assert_eq!(homes[0].probe().await, Ok(None));
        }
        let connections: Vec<&dyn Register> = homes.iter().map(|home| home as _).collect();
        checks::pass(&connections, "part").await;
    });
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn versitygw_passes_the_probe_and_all_checks() {
    let test = "versitygw_passes_the_probe_and_all_checks";
    check(test, BucketServer::VersityGw);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn seaweedfs_passes_the_probe_and_all_checks() {
    let test = "seaweedfs_passes_the_probe_and_all_checks";
    check(test, BucketServer::SeaweedFs);
}

/// Settings of a short test. An attempt takes several requests over new connections.
fn short(server: BucketServer) -> Settings {
    Settings::short(2 * SHORT).over_bucket(server)
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_killed_active_server_over_versitygw_has_a_successor_and_nothing_is_lost() {
    let test = "a_killed_active_server_over_versitygw_has_a_successor_and_nothing_is_lost";
    kill(test, short(BucketServer::VersityGw), 2);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_killed_active_server_over_seaweedfs_has_a_successor_and_nothing_is_lost() {
    let test = "a_killed_active_server_over_seaweedfs_has_a_successor_and_nothing_is_lost";
    kill(test, short(BucketServer::SeaweedFs), 2);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_server_over_versitygw_that_was_stopped_for_too_long_acknowledges_nothing() {
    let test = "a_server_over_versitygw_that_was_stopped_for_too_long_acknowledges_nothing";
    stop(test, short(BucketServer::VersityGw), 1);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_server_over_seaweedfs_that_was_stopped_for_too_long_acknowledges_nothing() {
    let test = "a_server_over_seaweedfs_that_was_stopped_for_too_long_acknowledges_nothing";
    stop(test, short(BucketServer::SeaweedFs), 1);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn an_active_server_that_is_cut_off_from_a_bucket_is_silent_before_another_takes_over() {
    let test = "an_active_server_that_is_cut_off_from_a_bucket_is_silent_before_another_takes_over";
    cut(test, short(BucketServer::VersityGw), &MODES[..3]);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn appends_whose_answers_from_a_bucket_are_lost_are_neither_lost_nor_repeated() {
    let test = "appends_whose_answers_from_a_bucket_are_lost_are_neither_lost_nor_repeated";
    let settings = Settings {
        ownership: 2 * DEFAULT,
        ..short(BucketServer::VersityGw)
    };
    lose_answers(test, settings, [2, 3, 5], Duration::from_secs(2));
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_rolling_restart_over_a_bucket_ends_no_term() {
    let test = "a_rolling_restart_over_a_bucket_ends_no_term";
    let settings = Settings {
        ownership: DEFAULT,
        ..short(BucketServer::VersityGw)
    };
    restart(test, settings, 1);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn three_servers_that_start_at_the_same_moment_on_a_bucket_make_one_chain() {
    let test = "three_servers_that_start_at_the_same_moment_on_a_bucket_make_one_chain";
    start(test, short(BucketServer::VersityGw), [DEFAULT; 3], 3);
}

/// The bucket's server hangs, and later it is killed. Both times nobody is answered, and then the
/// same server goes on.
fn away(test: &str, server: BucketServer) {
    let settings = short(server);
    let ownership = settings.ownership;
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    for is_killed in [false, true] {
        bench.load.wait_until_steady();
        let (_, generation) = bench.cluster.ownership();
        let bucket = bench.cluster.bucket();
        match is_killed {
            false => bucket.signal(Signal::SIGSTOP),
            true => bucket.kill(),
        }
        // An append may still have been confirmed before.
        pass(ownership * 5 / 6);
        let silent = now();
        pass(ownership);
        let answer = bench.load.probe.first_since(silent);
        assert!(answer.is_none(), "without the bucket: {answer:?}");
        let bucket = bench.cluster.bucket();
        match is_killed {
            false => bucket.signal(Signal::SIGCONT),
            true => bucket.spawn(),
        }
        bucket.wait_until_ready();
        let took = renewed_since(&bench.load.probe, now());
        eprintln!("{server:?}: renewed {took:?} after it was back, killed: {is_killed}");
        // The first server that can read again may be another one than the first that can write.
        let active = bench.cluster.active();
        assert!(bench.cluster.generation(active) <= generation + 1);
    }
    bench.verify_without_terms();
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn without_versitygw_nobody_is_answered_and_then_the_servers_go_on() {
    let test = "without_versitygw_nobody_is_answered_and_then_the_servers_go_on";
    away(test, BucketServer::VersityGw);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn without_seaweedfs_nobody_is_answered_and_then_the_servers_go_on() {
    let test = "without_seaweedfs_nobody_is_answered_and_then_the_servers_go_on";
    away(test, BucketServer::SeaweedFs);
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn a_store_moves_into_a_bucket_and_out_of_it_and_no_leader_loses_its_term() {
    let test = "a_store_moves_into_a_bucket_and_out_of_it_and_no_leader_loses_its_term";
    if let Some(bucket) = Bucket::start(test, BucketServer::VersityGw) {
        circle(test, 1, Some(&bucket), 1);
    }
}

#[test]
#[ignore = "its server takes minutes to build: .ci/servers"]
fn the_doctor_probes_a_bucket_while_servers_run_and_leaves_nothing_behind() {
    let test = "the_doctor_probes_a_bucket_while_servers_run_and_leaves_nothing_behind";
    let Some(bench) = Bench::start(test, short(BucketServer::VersityGw)) else {
        return;
    };
    let cluster = &bench.cluster;
    for server in &cluster.servers {
        let config = server.config().to_str().expect("a path in UTF-8");
        let mut doctor = command(&["doctor", "--json", "--config", config]);
        for url in cluster.urls() {
            doctor.args(["--server", &url]);
        }
        let report = json_of(&output(doctor.envs(ACCESS)));
        assert_eq!(report["home"]["error"], Value::Null, "{report}");
        assert_eq!(report["home"]["key"], "serve.home", "{report}");
    }
    let Engine::Bucket(bucket) = &cluster.engine else {
        unreachable!("these settings are of a bucket")
    };
    assert_eq!(bucket.objects("a/b/probe"), <[String; 0]>::default());
    bench.verify();
}

/// The long forms, which `.ci/servers` leaves out.
mod long {
    use std::collections::BTreeMap;
    use std::thread;
    use std::time::Duration;

    use tenure_tests::bucket::BucketServer;
    use tenure_tests::cluster::{Cluster, Settings};

    use super::super::kills::kill;
    use super::super::stops::stop;
    use super::super::{DEFAULT, pass, rounds};

    /// Kills active servers. A bucket is slower than etcd: with T = 10 s a successor may take 1.5 s longer.
    fn kills(test: &str, server: BucketServer, ownership: Duration, count: usize) {
        let mut settings = Settings::long(ownership).over_bucket(server);
        // Leaders keep their terms if three tenths of it are longer than a take-over.
        settings.lease = settings.lease.max(ownership * 9 / 2);
        if let Some(mut times) = kill(test, settings, rounds(count)) {
            times.sort();
            let p99 = times[(times.len() * 99).div_ceil(100) - 1];
            let most = ownership + ownership.mul_f64(0.15).max(Duration::from_secs(1));
            assert!(p99 <= most, "{p99:?}");
        }
    }

    fn stops(test: &str, server: BucketServer) {
        let settings = Settings::long(Duration::from_millis(1_500)).over_bucket(server);
        stop(test, settings, rounds(50));
    }

    #[test]
    #[ignore = "about 20 minutes: 200 kills with T = 3 s"]
    fn an_active_server_over_versitygw_that_is_killed_many_times_has_a_successor_in_time() {
        let test =
            "an_active_server_over_versitygw_that_is_killed_many_times_has_a_successor_in_time";
        kills(test, BucketServer::VersityGw, DEFAULT, 200);
    }

    #[test]
    #[ignore = "about 20 minutes: 200 kills with T = 3 s"]
    fn an_active_server_over_seaweedfs_that_is_killed_many_times_has_a_successor_in_time() {
        let test =
            "an_active_server_over_seaweedfs_that_is_killed_many_times_has_a_successor_in_time";
        kills(test, BucketServer::SeaweedFs, DEFAULT, 200);
    }

    #[test]
    #[ignore = "about 20 minutes: 50 kills with T = 10 s"]
    fn a_killed_server_over_a_bucket_with_a_long_ownership_has_a_successor_in_time() {
        let test = "a_killed_server_over_a_bucket_with_a_long_ownership_has_a_successor_in_time";
        let ownership = Duration::from_secs(10);
        kills(test, BucketServer::VersityGw, ownership, 50);
    }

    #[test]
    #[ignore = "about 6 minutes: 50 stops"]
    fn a_server_over_versitygw_that_is_stopped_many_times_acknowledges_nothing() {
        let test = "a_server_over_versitygw_that_is_stopped_many_times_acknowledges_nothing";
        stops(test, BucketServer::VersityGw);
    }

    #[test]
    #[ignore = "about 6 minutes: 50 stops"]
    fn a_server_over_seaweedfs_that_is_stopped_many_times_acknowledges_nothing() {
        let test = "a_server_over_seaweedfs_that_is_stopped_many_times_acknowledges_nothing";
        stops(test, BucketServer::SeaweedFs);
    }

    /// Counts the requests of two servers without changes for some minutes, and prints them for an hour.
    fn idle(test: &str, seconds: u64, minutes: usize) {
        let settings = Settings {
            servers: 2,
            ..Settings::long(Duration::from_secs(seconds))
        };
        let settings = settings.over_bucket(BucketServer::VersityGw);
        let Some(mut cluster) = Cluster::start(test, settings) else {
            return;
        };
        let before = cluster.bucket().requests();
        pass(Duration::from_secs(60) * u32::try_from(minutes).expect("minutes"));
        let after = cluster.bucket().requests();
        let in_an_hour = |method: &str| {
            let count = |counts: &BTreeMap<String, u64>| counts.get(method).copied().unwrap_or(0);
            (count(&after) - count(&before)) * 60 / minutes as u64
        };
        let [puts, gets, lists, deletes] = ["PUT", "GET", "LIST", "DELETE"].map(in_an_hour);
        eprintln!(
            "MEASURED requests of two idle servers in an hour, T = {seconds} s: {puts} PUT, {gets} GET, \
             {lists} LIST, {deletes} DELETE"
        );
        // Each standby has read slots while they were written.
        let audited = cluster.audit("c");
        eprintln!("{audited:?}");
        // In T the active server appends six entries, and reads two slots before each of them; it writes a
        // segment for 64 entries. The standby looks twelve times, and reads one slot more for each entry.
        let beats = 6 * 3_600 / seconds;
        assert!(puts <= beats * 65 / 64 + 60, "{puts} PUT");
        assert!(gets <= 5 * beats + 60, "{gets} GET");
        assert!(puts > beats * 3 / 4 && gets > beats * 4);
    }

    #[test]
    #[ignore = "about 20 minutes: the requests of idle servers with T = 5, 10 and 15 s"]
    fn idle_servers_over_a_bucket_send_no_more_requests_than_the_manual_says() {
        let test = "idle_servers_over_a_bucket_send_no_more_requests_than_the_manual_says";
        let minutes = rounds(20);
        thread::scope(|scope| {
            for seconds in [5, 10, 15] {
                scope.spawn(move || idle(test, seconds, minutes));
            }
        });
    }
}
