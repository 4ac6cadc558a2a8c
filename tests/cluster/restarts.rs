//! The servers are restarted in turn, as by an upgrade.

use std::collections::BTreeSet;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure_tests::cluster::{Server, Settings};
use tenure_tests::engine::Kind;
use tenure_tests::receiver::now;

use super::{Bench, DEFAULT, part_of, pass, renewed_since, report, rounds};

/// The longest time without an active server in 99 of 100 hand-overs.
pub(super) const MOST_GAP: Duration = Duration::from_millis(500);

/// Restarts every server this number of times. Returns the 99th percentile of the times without an
/// active server; `None` if the test cannot run.
pub(super) fn restart(test: &str, settings: Settings, count: usize) -> Option<Duration> {
    let ownership = settings.ownership;
    let members = match settings.kind {
        Kind::Etcd => settings.members,
        Kind::Postgres | Kind::Bucket(_) => 0,
    };
    let mut bench = Bench::start(test, settings)?;
    let before = bench.load.failures();
    let mut times = Vec::new();
    for _ in 0..count {
        // The standbys first, as the manual says, and then the active server.
        let active = bench.cluster.active();
        let mut order = bench.standbys(active);
        order.push(active);
        for server in order {
            pass(part_of(ownership / 10));
            let since = now();
            bench.cluster.servers[server].signal(Signal::SIGTERM);
            if server == active {
                times.push(renewed_since(&bench.load.probe, since));
            }
            let status = bench.cluster.servers[server].wait();
            let log = bench.cluster.servers[server].log();
            assert!(status.success(), "{status}:\n{log}");
            bench.restart(server);
            bench.load.assert_terms_last();
        }
    }
    let failures = bench.load.failures();
    let new = failures
        .keys()
        .filter(|code| failures[*code] > before.get(*code).copied().unwrap_or_default());
    let codes: BTreeSet<_> = new.map(String::as_str).collect();
    let mut expected = BTreeSet::from(["not_active", "stopping", "none"]);
    // The servers say so if the machine was too slow for an append, or for a hand-over.
    let logs: String = bench.cluster.servers.iter().map(Server::log).collect();
    if logs.contains("answering nobody until it works") {
        expected.insert("home_unavailable");
    }
    assert!(codes.is_subset(&expected), "{failures:?}");
    if members > 1 {
        for member in 0..members {
            bench.cluster.etcd_mut().kill(member);
            bench.cluster.etcd_mut().spawn(member);
            bench.cluster.etcd_mut().wait_until_ready(member);
            let _ = bench.cluster.etcd().leader();
            bench.load.probe.wait(now());
        }
        bench.load.assert_terms_last();
    }
    let audited = bench.verify();
    assert!(audited.last >= audited.first + count as u64, "{audited:?}");
    let is_late = audited.last > audited.first + count as u64
        || logs.contains("the leases were not handed over");
    assert!(audited.vacated == count || is_late, "{audited:?}");
    // Without a hand-over, a take-over takes at least five sixths of the ownership duration. A busy
    // machine delays single hand-overs, and not all of them.
    let quickest = times.iter().min().expect("a time");
    assert!(*quickest <= ownership / 2, "{times:?}");
    let what = "from SIGTERM to the first renewal at the successor";
    Some(report(what, ownership, &mut times))
}

#[test]
fn a_rolling_restart_ends_no_term_and_hands_over_at_once() {
    let test = "a_rolling_restart_ends_no_term_and_hands_over_at_once";
    restart(test, Settings::short(DEFAULT), 2);
}

#[test]
#[ignore = "about 4 minutes: 20 rolling restarts over three members of etcd"]
fn many_rolling_restarts_end_no_term() {
    let test = "many_rolling_restarts_end_no_term";
    let p99 = restart(test, Settings::long(DEFAULT), rounds(20));
    assert!(p99 <= Some(MOST_GAP), "{p99:?}");
}
