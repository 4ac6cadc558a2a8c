//! The synchronous standby of PostgreSQL is promoted under running servers.

use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::wrong::recover;
use super::{Bench, DEFAULT, SHORT, pass, renewed_since, rounds};

/// A primary and a synchronous standby.
fn pair(ownership: std::time::Duration, failover: &str) -> Settings {
    Settings {
        members: 2,
        parameters: format!("failover={failover}"),
        ..Settings::short(ownership).over_postgres()
    }
}

/// Grants a lease, so that the last commit before a promotion is known. Returns the epoch.
fn grant(cluster: &Cluster, number: u64) -> u64 {
    let client = cluster.client();
    let granted = wait_for("a grant", || {
        let name = format!("late/lease-{number}");
        let answer = cluster.runtime.block_on(client.acquire(&name, number));
        answer.filter(|(status, _)| *status == 200)
    });
    granted.1["epoch"].as_u64().expect("an epoch")
}

/// Reads the epoch of a lease.
fn epoch(cluster: &Cluster, number: u64) -> u64 {
    let client = cluster.client();
    let name = format!("late/lease-{number}");
    let (status, view) = wait_for("a view", || {
        let answer = cluster.runtime.block_on(client.view(&name));
        answer.filter(|(status, _)| *status < 500)
    });
    assert_eq!(status, 200, "{view}");
    view["epoch"].as_u64().expect("an epoch")
}

/// The primary crashes in the middle of appends, and its standby is promoted.
fn promote(test: &str, settings: Settings) {
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let granted = grant(&bench.cluster, 7);
    bench.cluster.databases().primary.crash();
    bench.cluster.databases().standby().promote();
    let since = now();
    let took = renewed_since(&bench.load.probe, since);
    eprintln!("renewed {took:?} after the promotion");
    // An append at the new primary, and not only an answer from memory.
    grant(&bench.cluster, 8);
    assert_eq!(epoch(&bench.cluster, 7), granted, "the grant was lost");
    for server in &bench.cluster.servers {
        server.wait_until_ready(&bench.cluster.runtime);
    }
    // The new primary is in use: a standby takes over there.
    let (active, generation) = bench.cluster.ownership();
    bench.cluster.servers[active].kill();
    let next = bench.cluster.active_beside(active);
    bench.restart(active);
    assert!(bench.cluster.generation(next) > generation);
    bench.load.probe.wait(now());
    bench.verify_without_terms();
}

#[test]
fn servers_go_on_at_a_promoted_standby_if_its_fail_over_is_declared_lossless() {
    let test = "servers_go_on_at_a_promoted_standby_if_its_fail_over_is_declared_lossless";
    promote(test, pair(SHORT, "lossless"));
}

#[test]
#[ignore = "about 10 s each: 20 promotions"]
fn servers_go_on_at_each_of_many_promoted_standbys() {
    let test = "servers_go_on_at_each_of_many_promoted_standbys";
    for _ in 0..rounds(20) {
        promote(test, pair(DEFAULT, "lossless"));
    }
}

#[test]
fn servers_refuse_a_promoted_standby_if_its_fail_over_is_not_declared_lossless() {
    let test = "servers_refuse_a_promoted_standby_if_its_fail_over_is_not_declared_lossless";
    let Some(mut bench) = Bench::start(test, pair(SHORT, "none")) else {
        return;
    };
    grant(&bench.cluster, 7);
    bench.cluster.databases().primary.crash();
    bench.cluster.databases().standby().promote();
    assert_refused(bench, PROMOTED);
}

/// The reason why a server refuses a promoted standby.
const PROMOTED: &str = "timeline 00000002): a restored or promoted server";

/// Checks that all servers refuse with this line, and that nobody answers or appends. Returns the
/// servers.
fn assert_refused(bench: Bench, line: &str) -> Cluster {
    for server in &bench.cluster.servers {
        server.wait_for_line(line);
        server.wait_for_role(&bench.cluster.runtime, "refusing");
    }
    let heads = bench.cluster.engine.links("c");
    let since = now();
    pass(2 * SHORT);
    let answer = bench.load.probe.first_since(since);
    assert!(answer.is_none(), "{answer:?}");
    for server in &bench.cluster.servers {
        let ready = server.must_get(&bench.cluster.runtime, "/readyz");
        assert_eq!(ready.0, 503);
    }
    assert_eq!(bench.cluster.engine.links("c"), heads, "nobody appends");
    let Bench { load, cluster } = bench;
    load.verify_answers(&cluster);
    cluster.servers[0].tap.assert_possible();
    let _ = cluster.audit("c");
    cluster
}

/// A standby is promoted that lacks acknowledged commits. All servers refuse with this line, and go on
/// after a recovery with greater epochs.
fn promote_without_commits(test: &str, failover: &str, line: &str) {
    let Some(mut bench) = Bench::start(test, pair(SHORT, failover)) else {
        return;
    };
    let kept = grant(&bench.cluster, 7);
    bench.cluster.databases().disconnect_standby();
    let client = bench.cluster.client();
    wait_for("a grant that the standby lacks", || {
        let granted = client.acquire("late/lease", 9);
        let granted = bench.cluster.runtime.block_on(granted);
        granted.filter(|(status, _)| *status == 200)
    });
    // A server that has not seen what is lost can't notice the loss.
    let cluster = &bench.cluster;
    let seen = |server: usize| {
        let view = cluster.servers[server].view(&cluster.runtime)?;
        view["sequence"].as_u64()
    };
    let lost = wait_for("a view", || seen(cluster.active()));
    for server in 0..cluster.servers.len() {
        wait_for("a standby that has seen the grant", || {
            (seen(server) >= Some(lost)).then_some(())
        });
    }
    bench.cluster.databases().primary.crash();
    bench.cluster.databases().standby().promote();
    let mut cluster = assert_refused(bench, line);
    recover(&mut cluster);
    assert_eq!(epoch(&cluster, 7), kept, "the standby had it");
}

#[test]
fn servers_refuse_a_promoted_standby_that_lacks_acknowledged_commits() {
    let test = "servers_refuse_a_promoted_standby_that_lacks_acknowledged_commits";
    promote_without_commits(test, "none", PROMOTED);
}

#[test]
fn servers_that_run_notice_that_a_fail_over_was_not_lossless() {
    let test = "servers_that_run_notice_that_a_fail_over_was_not_lossless";
    promote_without_commits(test, "lossless", "the home lost what it acknowledged");
}

/// The standby is promoted while the primary runs. The active server reaches only the former
/// primary, and the other servers only the new one.
fn isolate(test: &str, settings: Settings) {
    let ownership = settings.ownership;
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let granted = grant(&bench.cluster, 7);
    let (active, generation) = bench.cluster.ownership();
    // The members are the former and the new primary.
    for (number, server) in bench.cluster.servers.iter().enumerate() {
        server.engine[usize::from(number == active)].set(ProxyMode::Refuse);
    }
    bench.cluster.databases().standby().promote();
    // The standby may have confirmed an append until then, which counts: it has that append.
    let promoted = now();
    let former = bench
        .cluster
        .databases()
        .primary
        .query("select count(*) from pg_stat_replication");
    eprintln!("standbys of the former primary: {former}");
    let next = bench.cluster.active_beside(active);
    assert!(bench.cluster.generation(next) > generation);
    // Nothing that the former active server says counts any more.
    let client = bench.cluster.client_of(active);
    let until = now() + 3 * ownership;
    while now() < until {
        let asked = now();
        let view = bench.cluster.runtime.block_on(client.view("late/lease-7"));
        let answered = matches!(view, Some((200, _)));
        let late = asked > promoted + ownership * 5 / 6;
        assert!(!answered || !late, "{view:?} {:?} late", asked - promoted);
        let acquired = bench
            .cluster
            .runtime
            .block_on(client.acquire("late/other", 9));
        assert!(!matches!(acquired, Some((200, _))), "{acquired:?}");
    }
    bench.load.probe.wait(now());
    // Then all servers reach both, and the former primary still accepts sessions.
    for server in &bench.cluster.servers {
        server.engine.iter().for_each(|it| it.set(ProxyMode::Pass));
    }
    // A server that finds the former primary first sees an old head there.
    bench.cluster.wait_until_deposed(active, generation);
    pass(2 * ownership);
    bench.load.probe.wait(now());
    wait_for("one generation at all servers", || {
        let (_, generation) = bench.cluster.ownership();
        (bench.cluster.generation(active) == generation).then_some(())
    });
    bench.cluster.databases().primary.crash();
    for server in &bench.cluster.servers {
        server.wait_until_ready(&bench.cluster.runtime);
    }
    bench.load.probe.wait(now());
    assert_eq!(epoch(&bench.cluster, 7), granted, "the grant was lost");
    bench.verify_without_terms();
}

#[test]
fn a_server_at_an_isolated_former_primary_acknowledges_nothing() {
    let test = "a_server_at_an_isolated_former_primary_acknowledges_nothing";
    isolate(test, pair(2 * SHORT, "lossless"));
}

#[test]
#[ignore = "about 20 s each: 10 isolated primaries"]
fn servers_at_each_of_many_isolated_former_primaries_acknowledge_nothing() {
    let test = "servers_at_each_of_many_isolated_former_primaries_acknowledge_nothing";
    for _ in 0..rounds(10) {
        isolate(test, pair(DEFAULT, "lossless"));
    }
}
