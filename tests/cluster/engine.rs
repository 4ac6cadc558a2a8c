//! Faults of etcd itself.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure_tests::cluster::Settings;
use tenure_tests::etcd::Etcd;
use tenure_tests::network::{Network, Packets, is_in_own_network};
use tenure_tests::receiver::now;
use tenure_tests::strace::{has_strace, inject};

use super::{Bench, DEFAULT, pass};

/// Members of etcd are killed and stopped. `stopped` is the time for which its leader is stopped,
/// and `away` the time for which its majority is.
fn members(test: &str, settings: Settings, stopped: Duration, away: Duration) {
    let ownership = settings.ownership;
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let (_, generation) = bench.cluster.ownership();
    let gap = |bench: &Bench, fault: &str, since| {
        bench.load.probe.wait(now());
        let gap = bench.load.probe.longest_gap(since);
        eprintln!("{fault}: no renewal for {gap:?}");
        bench.load.assert_terms_last();
        let active = bench.cluster.active();
        assert_eq!(bench.cluster.generation(active), generation, "{fault}");
    };

    let since = now();
    let leader = bench.cluster.etcd().leader();
    bench.cluster.etcd_mut().kill(leader);
    let _ = bench.cluster.etcd().leader();
    pass(ownership);
    gap(&bench, "the leader of etcd was killed", since);
    bench.cluster.etcd_mut().spawn(leader);
    bench.cluster.etcd_mut().wait_until_ready(leader);

    let since = now();
    let leader = bench.cluster.etcd().leader();
    bench.cluster.etcd().signal(leader, Signal::SIGSTOP);
    pass(stopped);
    bench.cluster.etcd().signal(leader, Signal::SIGCONT);
    gap(&bench, "the leader of etcd was stopped", since);

    let since = now();
    let follower = (bench.cluster.etcd().leader() + 1) % 3;
    bench.cluster.etcd_mut().kill(follower);
    pass(ownership);
    bench.cluster.etcd_mut().spawn(follower);
    bench.cluster.etcd_mut().wait_until_ready(follower);
    gap(&bench, "a follower of etcd was killed", since);

    if has_strace(test) {
        let since = now();
        let before = quickest_put(bench.cluster.etcd());
        let all = (0..3).map(|member| bench.cluster.etcd().pid(member));
        let slow: Vec<_> = all
            .map(|pid| inject(pid, &[], "fdatasync", "delay_exit=200000"))
            .collect();
        let during = quickest_put(bench.cluster.etcd());
        let delay = Duration::from_millis(150);
        assert!(during > before + delay, "{before:?}, and then {during:?}");
        pass(3 * ownership);
        drop(slow);
        gap(&bench, "the disks of etcd were slow", since);
    }

    // Without a majority nobody answers, and then the same server goes on.
    let leader = bench.cluster.etcd().leader();
    let followers = [(leader + 1) % 3, (leader + 2) % 3];
    for member in followers {
        bench.cluster.etcd().signal(member, Signal::SIGSTOP);
    }
    // An append may still have been confirmed before the second one stopped.
    let since = now();
    pass(ownership * 5 / 6);
    let silent = now();
    pass(away.saturating_sub(now() - since));
    let answer = bench.load.probe.first_since(silent);
    assert!(answer.is_none(), "without a majority: {answer:?}");
    for member in followers {
        bench.cluster.etcd().signal(member, Signal::SIGCONT);
    }
    bench.load.probe.wait(now());
    let active = bench.cluster.active();
    assert_eq!(bench.cluster.generation(active), generation);
    // Leaders have this time left when they begin to renew.
    let slack = bench.cluster.settings.lease * 3 / 10;
    let audited = if away < slack {
        bench.verify()
    } else {
        bench.verify_without_terms()
    };
    assert_eq!(audited.first, audited.last);
}

/// The time of the quickest of some writes.
fn quickest_put(etcd: &Etcd) -> Duration {
    let write = json!({"key": "ZGlzaw==", "value": "MQ=="});
    let times = (0..5).map(|_| {
        let since = now();
        etcd.must("/v3/kv/put", &write);
        now() - since
    });
    times.min().unwrap_or_default()
}

#[test]
fn faults_of_members_of_etcd_change_no_generation() {
    let test = "faults_of_members_of_etcd_change_no_generation";
    // On a busy machine the members need time to find a leader, and to catch up.
    let settings = Settings {
        members: 3,
        ..Settings::short(2 * DEFAULT)
    };
    let (stopped, away) = (Duration::from_secs(2), Duration::from_secs(8));
    members(test, settings, stopped, away);
}

#[test]
#[ignore = "about a minute"]
fn long_faults_of_members_of_etcd_change_no_generation() {
    let test = "long_faults_of_members_of_etcd_change_no_generation";
    let (stopped, away) = (Duration::from_secs(7), Duration::from_secs(20));
    members(test, Settings::long(DEFAULT), stopped, away);
}

/// A cut of the network around a member of etcd. The servers reach the member except in the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    FromPeers,
    WhatItSendsToPeers,
    WhatPeersSendToIt,
    FromAll,
}

impl Cut {
    /// Makes or mends the cut.
    fn set(self, network: &Network, member: usize, packets: Packets) {
        if self == Self::FromAll {
            network.set_host(member, packets);
            return;
        }
        for peer in [(member + 1) % 3, (member + 2) % 3] {
            if self != Self::WhatPeersSendToIt {
                network.set(member, peer, packets);
            }
            if self != Self::WhatItSendsToPeers {
                network.set(peer, member, packets);
            }
        }
    }
}

/// The leader of etcd is cut from the other members. Each cut lasts for this time after another
/// leader was elected.
fn cut_leader(test: &str, settings: Settings, time: Duration) {
    if !is_in_own_network(test, &format!("engine::{test}")) {
        return;
    }
    let network = Network::new(3);
    let settings = Settings {
        hosts: network.hosts(),
        ..settings
    };
    let Some(bench) = Bench::start(test, settings) else {
        return;
    };
    let (_, generation) = bench.cluster.ownership();
    for cut in [
        Cut::FromPeers,
        Cut::WhatItSendsToPeers,
        Cut::WhatPeersSendToIt,
        Cut::FromAll,
    ] {
        let etcd = bench.cluster.etcd();
        let leader = etcd.leader();
        let since = now();
        cut.set(&network, leader, Packets::AreLost);
        let _ = etcd.leader_of(|member| member != leader);
        let elected = now() - since;
        pass(time);
        cut.set(&network, leader, Packets::Arrive);
        let _ = etcd.leader();
        bench.load.probe.wait(now());
        let gap = bench.load.probe.longest_gap(since);
        eprintln!("{cut:?}: another leader after {elected:.1?}, no renewal for {gap:?}");
        bench.load.assert_terms_last();
        let active = bench.cluster.active();
        assert_eq!(bench.cluster.generation(active), generation, "{cut:?}");
    }
    let audited = bench.verify();
    assert_eq!(audited.first, audited.last);
}

#[test]
fn a_leader_of_etcd_that_is_cut_from_its_peers_changes_no_generation() {
    let test = "a_leader_of_etcd_that_is_cut_from_its_peers_changes_no_generation";
    cut_leader(test, Settings::short(2 * DEFAULT), Duration::from_secs(2));
}

#[test]
#[ignore = "about a minute"]
fn a_leader_of_etcd_that_is_cut_for_long_changes_no_generation() {
    let test = "a_leader_of_etcd_that_is_cut_for_long_changes_no_generation";
    cut_leader(test, Settings::long(DEFAULT), Duration::from_secs(10));
}

/// Loses each of these parts of the answers of the engine, and half of others, each for this time.
pub(super) fn lose_answers(test: &str, settings: Settings, parts: [u64; 3], time: Duration) {
    let ownership = settings.ownership;
    let Some(bench) = Bench::start(test, settings) else {
        return;
    };
    let (active, generation) = bench.cluster.ownership();
    let proxies = || bench.cluster.servers.iter().flat_map(|it| &it.engine);
    for every in parts {
        proxies().for_each(|it| it.lose_every(Some(every)));
        pass(time);
    }
    proxies().for_each(|it| it.lose_every(None));
    let until = now() + time;
    while now() < until {
        proxies().for_each(|it| it.cut_replies(1));
        // Longer than the time after which an append is repeated.
        pass(ownership / 5);
    }
    bench.load.probe.wait(now());
    assert_eq!(bench.cluster.active(), active);
    assert_eq!(bench.cluster.generation(active), generation);
    let audited = bench.verify();
    assert!(audited.changes > 0, "{audited:?}");
}

/// Every second, third and fifth answer of etcd is lost.
const PARTS: [u64; 3] = [2, 3, 5];

#[test]
fn appends_whose_answers_are_lost_are_neither_lost_nor_repeated() {
    let test = "appends_whose_answers_are_lost_are_neither_lost_nor_repeated";
    let settings = Settings::short(2 * DEFAULT);
    lose_answers(test, settings, PARTS, Duration::from_secs(2));
}

#[test]
#[ignore = "about 4 minutes"]
fn many_appends_whose_answers_are_lost_are_neither_lost_nor_repeated() {
    let test = "many_appends_whose_answers_are_lost_are_neither_lost_nor_repeated";
    let settings = Settings::long(DEFAULT);
    lose_answers(test, settings, PARTS, Duration::from_secs(60));
}

/// Each answer of etcd takes this much longer, for some time, while many leases begin and end their
/// terms. In the middle of it the active server is killed, so that its successor has to read the terms
/// of all leases before it writes them.
fn slow(test: &str, settings: Settings, late: Duration, time: Duration) {
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let (active, generation) = bench.cluster.ownership();
    let client = bench.cluster.client();
    let until = now() + time;
    let clients = (1..=40).map(|number| {
        let client = client.clone();
        bench.cluster.runtime.spawn(async move {
            for turn in 0.. {
                let name = format!("many/lease-{}", number + 40 * (turn % 4));
                let own = 5_000_000 + number * 1_000 + turn;
                client.acquire(&name, own).await;
                client.release(&name, own).await;
                if now() > until {
                    return;
                }
            }
        })
    });
    let clients: Vec<_> = clients.collect();
    for server in &bench.cluster.servers {
        let proxies = &server.engine;
        proxies.iter().for_each(|it| it.delay(Duration::ZERO, late));
    }
    pass(time / 2);
    let until_killed = bench.cluster.generation(bench.cluster.active());
    bench.cluster.servers[active].kill();
    bench.restart(active);
    for client in clients {
        bench.cluster.runtime.block_on(client).expect("a client");
    }
    for server in &bench.cluster.servers {
        let proxies = &server.engine;
        (proxies.iter()).for_each(|it| it.delay(Duration::ZERO, Duration::ZERO));
    }
    bench.load.probe.wait(now());
    assert_eq!(until_killed, generation);
    let active = bench.cluster.active();
    assert_eq!(bench.cluster.generation(active), generation + 1);
    bench.verify();
}

#[test]
fn a_slow_etcd_changes_no_generation() {
    let test = "a_slow_etcd_changes_no_generation";
    let ownership = 2 * DEFAULT;
    slow(
        test,
        Settings::short(ownership),
        ownership / 15,
        3 * ownership,
    );
}

#[test]
#[ignore = "about a minute"]
fn an_etcd_that_is_slow_for_long_changes_no_generation() {
    let test = "an_etcd_that_is_slow_for_long_changes_no_generation";
    let settings = Settings::long(DEFAULT);
    slow(test, settings, DEFAULT / 10, 20 * DEFAULT);
}
