//! A server of one version takes over from a server of another one, in both directions.
//! `TENURE_OLD_BINARY` names the `tenure` of the other version; `.ci/older` builds one.

use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::needs::skipped;
use tenure_tests::process::{command_of, output, stdout};
use tenure_tests::receiver::now;

use super::{Bench, DEFAULT, part_of, pass, renewed_since, report, rounds};

fn version(binary: &Path) -> String {
    stdout(&output(&mut command_of(binary, &["--version"])))
}

/// Runs one server of each binary, with these settings. In each round each of them takes over from the
/// other one twice: after a hand-over, and after a kill.
fn mix(test: &str, settings: Settings, count: usize) {
    let settings = Settings {
        servers: 2,
        ..settings
    };
    let ownership = settings.ownership;
    let Some(other) = std::env::var_os("TENURE_OLD_BINARY").map(PathBuf::from) else {
        return skipped(
            test,
            "TENURE_OLD_BINARY does not name the tenure of another version",
        );
    };
    let Some(mut cluster) = Cluster::prepare(test, settings) else {
        return;
    };
    cluster.servers[0].binary = other;
    for server in &cluster.servers {
        let binary = &server.binary;
        eprint!("{}: {}", binary.display(), version(binary));
    }
    cluster.run();
    let mut bench = Bench::over(cluster);
    let mut times = Vec::new();
    // The binary that was active, and how it ended.
    let mut ended = Vec::new();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGTERM,
        Signal::SIGKILL,
        Signal::SIGKILL,
    ]
    .repeat(count)
    {
        pass(part_of(ownership));
        bench.load.wait_until_steady();
        let (active, generation) = bench.cluster.reign();
        let since = now();
        bench.cluster.servers[active].signal(signal);
        times.push(renewed_since(&bench.load.probe, since));
        let status = bench.cluster.servers[active].wait();
        assert_eq!(status.success(), signal == Signal::SIGTERM, "{status}");
        let next = bench.cluster.active();
        assert_eq!(next, 1 - active);
        assert!(bench.cluster.generation(next) > generation);
        bench.restart(active);
        bench.load.assert_terms_last();
        ended.push((active, signal));
    }
    let audited = bench.verify();
    assert!(
        audited.last >= audited.first + times.len() as u64,
        "{audited:?}"
    );
    for active in 0..2 {
        for signal in [Signal::SIGTERM, Signal::SIGKILL] {
            assert!(ended.contains(&(active, signal)), "{ended:?}");
        }
    }
    report(
        "from the end of a server of one binary to the first renewal at one of the other",
        ownership,
        &mut times,
    );
}

#[test]
fn servers_of_two_versions_take_over_from_each_other_over_etcd() {
    let test = "servers_of_two_versions_take_over_from_each_other_over_etcd";
    mix(test, Settings::short(DEFAULT), 1);
}

#[test]
fn servers_of_two_versions_take_over_from_each_other_over_postgresql() {
    let test = "servers_of_two_versions_take_over_from_each_other_over_postgresql";
    mix(test, Settings::short(DEFAULT).over_postgres(), 1);
}

#[test]
#[ignore = "about 3 minutes: 5 rounds over three members of etcd"]
fn servers_of_two_versions_take_over_from_each_other_often_over_etcd() {
    let test = "servers_of_two_versions_take_over_from_each_other_often_over_etcd";
    mix(test, Settings::long(DEFAULT), rounds(5));
}

#[test]
#[ignore = "about 3 minutes: 5 rounds over PostgreSQL"]
fn servers_of_two_versions_take_over_from_each_other_often_over_postgresql() {
    let test = "servers_of_two_versions_take_over_from_each_other_often_over_postgresql";
    mix(test, Settings::long(DEFAULT).over_postgres(), rounds(5));
}
