//! Servers are cut off from the engine.

use std::time::Duration;

use tenure_tests::cluster::Settings;
use tenure_tests::proxy::ProxyMode;
use tenure_tests::receiver::now;
use tokio::task::JoinHandle;

use super::{Bench, DEFAULT, SHORT, pass, rounds};

/// Asks one server all the time, and returns the last time at which it was asked a question that it
/// did not refuse.
fn ask_all_the_time(bench: &Bench, server: usize, until: Duration) -> JoinHandle<Duration> {
    let client = bench.cluster.client_of(server);
    bench.cluster.runtime.spawn(async move {
        let mut last = Duration::ZERO;
        while now() < until {
            let sent = now();
            if let Some((200, _)) = client.view("probe/lease").await {
                last = sent;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        last
    })
}

/// The time until a cut is in force: bytes that a proxy has read already pass.
const CUT: Duration = Duration::from_millis(150);

/// Cuts the active server off from the engine, in each of these ways.
pub(super) fn cut(test: &str, settings: Settings, modes: &[ProxyMode]) {
    let ownership = settings.ownership;
    let Some(bench) = Bench::start(test, settings) else {
        return;
    };
    for mode in modes {
        bench.load.wait_until_steady();
        let (active, generation) = bench.cluster.ownership();
        bench.cluster.cut(active, *mode);
        // Its last append that it knows to be done was sent before.
        let since = now() + CUT;
        let answers = ask_all_the_time(&bench, active, since + 2 * ownership);
        let next = bench.cluster.active_beside(active);
        let last = bench.cluster.runtime.block_on(answers).expect("a client");
        let silent = last.saturating_sub(since);
        eprintln!("{mode:?}: the last answer was to a request {silent:?} after the cut");
        assert!(
            silent <= ownership * 5 / 6,
            "{mode:?}: answered after {silent:?}"
        );
        // Late bytes of its appends arrive now.
        bench.cluster.cut(active, ProxyMode::Pass);
        bench.cluster.wait_until_deposed(active, generation);
        assert!(bench.cluster.generation(next) > generation);
        bench.load.probe.wait(now());
        bench.load.assert_terms_last();
    }
    bench.verify();
}

pub(super) const MODES: [ProxyMode; 5] = [
    ProxyMode::HangReplies,
    ProxyMode::HangRequests,
    ProxyMode::LoseReplies,
    ProxyMode::Hang,
    ProxyMode::Refuse,
];

#[test]
fn an_active_server_that_is_cut_off_from_etcd_is_silent_before_another_takes_over() {
    let test = "an_active_server_that_is_cut_off_from_etcd_is_silent_before_another_takes_over";
    cut(test, Settings::short(SHORT), &MODES[..3]);
}

#[test]
#[ignore = "about 3 minutes: 20 cuts over three members of etcd"]
fn an_active_server_that_is_cut_off_in_all_ways_is_silent_before_another_takes_over() {
    let test = "an_active_server_that_is_cut_off_in_all_ways_is_silent_before_another_takes_over";
    let modes: Vec<_> = MODES.into_iter().cycle().take(rounds(20)).collect();
    cut(test, Settings::long(DEFAULT), &modes);
}

/// Cuts standbys off from the engine for this many ownership durations. Clients get answers all the
/// time, with gaps of less than `most_gap`.
fn cut_standbys(test: &str, settings: Settings, times: u32, most_gap: Duration) {
    let ownership = settings.ownership;
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let (active, generation) = bench.cluster.ownership();
    let [one, other] = bench.standbys(active)[..] else {
        panic!("two standbys");
    };
    let cuts: [(&[usize], ProxyMode); 4] = [
        (&[one], ProxyMode::Hang),
        (&[other], ProxyMode::HangReplies),
        (&[one, other], ProxyMode::Refuse),
        (&[one, other], ProxyMode::HangRequests),
    ];
    for (servers, mode) in cuts {
        let since = now();
        servers.iter().for_each(|it| bench.cluster.cut(*it, mode));
        pass(ownership * times / 2);
        (servers.iter()).for_each(|it| bench.cluster.cut(*it, ProxyMode::Pass));
        pass(ownership * times / 2);
        let gap = bench.load.probe.longest_gap(since);
        assert!(gap < most_gap, "{mode:?}: no answer for {gap:?}");
    }
    assert_eq!(bench.cluster.active(), active);
    assert_eq!(bench.cluster.generation(active), generation);
    // They follow again: one of them takes over.
    bench.cluster.servers[active].kill();
    bench.cluster.active_beside(active);
    bench.restart(active);
    assert!(bench.verify().last > generation);
}

#[test]
fn standbys_that_are_cut_off_from_etcd_change_nothing() {
    let test = "standbys_that_are_cut_off_from_etcd_change_nothing";
    // A busy machine delays answers. The long form checks that nothing else does.
    cut_standbys(test, Settings::short(2 * DEFAULT), 1, 10 * DEFAULT);
}

#[test]
#[ignore = "about 2 minutes: longer cuts over three members of etcd"]
fn standbys_that_are_cut_off_from_etcd_for_long_change_nothing() {
    let test = "standbys_that_are_cut_off_from_etcd_for_long_change_nothing";
    cut_standbys(test, Settings::long(DEFAULT), 8, DEFAULT);
}
