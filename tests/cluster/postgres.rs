//! The same faults as over etcd, over PostgreSQL, and a PostgreSQL that refuses or restarts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use tenure_tests::cluster::{Cluster, Settings};
use tenure_tests::engine::{connection_string, url_file};
use tenure_tests::needs::SmallDisk;
use tenure_tests::proxy::Proxy;
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::cuts::{MODES, cut};
use super::engine::lose_answers;
use super::kills::kill;
use super::restarts::{MOST_GAP, restart};
use super::stops::stop;
use super::wrong::{refuse, refuse_and};
use super::{Bench, DEFAULT, SHORT, pass, renewed_since, rounds};

/// Settings of a short test: one PostgreSQL.
fn short(ownership: Duration) -> Settings {
    Settings::short(ownership).over_postgres()
}

/// Settings of a long test: a primary and a synchronous standby.
fn long(ownership: Duration) -> Settings {
    Settings::long(ownership).over_postgres()
}

#[test]
fn a_killed_active_server_over_postgresql_has_a_successor_and_nothing_is_lost() {
    let test = "a_killed_active_server_over_postgresql_has_a_successor_and_nothing_is_lost";
    kill(test, short(SHORT), 2);
}

#[test]
#[ignore = "about 20 minutes: 200 kills with the default ownership duration"]
fn an_active_server_over_postgresql_that_is_killed_many_times_has_a_successor_in_time() {
    let test = "an_active_server_over_postgresql_that_is_killed_many_times_has_a_successor_in_time";
    if let Some(mut times) = kill(test, long(DEFAULT), rounds(200)) {
        times.sort();
        let p99 = times[(times.len() * 99).div_ceil(100) - 1];
        assert!(p99 <= DEFAULT + Duration::from_secs(1), "{p99:?}");
    }
}

#[test]
fn a_server_over_postgresql_that_was_stopped_for_too_long_acknowledges_nothing() {
    let test = "a_server_over_postgresql_that_was_stopped_for_too_long_acknowledges_nothing";
    stop(test, short(2 * SHORT), 1);
}

#[test]
#[ignore = "about 6 minutes: 50 stops"]
fn a_server_over_postgresql_that_is_stopped_many_times_acknowledges_nothing() {
    let test = "a_server_over_postgresql_that_is_stopped_many_times_acknowledges_nothing";
    stop(test, long(Duration::from_millis(1_500)), rounds(50));
}

#[test]
fn an_active_server_that_is_cut_off_from_postgresql_is_silent_before_another_takes_over() {
    let test =
        "an_active_server_that_is_cut_off_from_postgresql_is_silent_before_another_takes_over";
    cut(test, short(SHORT), &MODES[..3]);
}

#[test]
#[ignore = "about 3 minutes: 20 cuts"]
fn an_active_server_that_is_cut_off_from_postgresql_in_all_ways_is_silent_in_time() {
    let test = "an_active_server_that_is_cut_off_from_postgresql_in_all_ways_is_silent_in_time";
    let modes: Vec<_> = MODES.into_iter().cycle().take(rounds(20)).collect();
    cut(test, long(DEFAULT), &modes);
}

/// A new session needs about ten answers until its first append, so most answers must arrive.
const PARTS: [u64; 3] = [13, 17, 23];

#[test]
fn appends_whose_answers_from_postgresql_are_lost_are_neither_lost_nor_repeated() {
    let test = "appends_whose_answers_from_postgresql_are_lost_are_neither_lost_nor_repeated";
    // A busy machine takes long for a new session.
    let time = Duration::from_secs(3);
    lose_answers(test, short(2 * DEFAULT), PARTS, time);
}

#[test]
#[ignore = "about 4 minutes"]
fn many_appends_whose_answers_from_postgresql_are_lost_are_neither_lost_nor_repeated() {
    let test = "many_appends_whose_answers_from_postgresql_are_lost_are_neither_lost_nor_repeated";
    let time = Duration::from_secs(60);
    lose_answers(test, long(DEFAULT), PARTS, time);
}

#[test]
fn a_rolling_restart_over_postgresql_ends_no_term() {
    let test = "a_rolling_restart_over_postgresql_ends_no_term";
    restart(test, short(DEFAULT), 1);
}

#[test]
#[ignore = "about 4 minutes: 20 rolling restarts"]
fn many_rolling_restarts_over_postgresql_end_no_term() {
    let test = "many_rolling_restarts_over_postgresql_end_no_term";
    let p99 = restart(test, long(DEFAULT), rounds(20));
    assert!(p99 <= Some(MOST_GAP), "{p99:?}");
}

/// Ends the sessions of all servers, so that they need new ones.
pub(super) const END_SESSIONS: &str =
    "select pg_terminate_backend(pid) from pg_stat_activity where usename = 'tenure'";

/// Writes the connection strings of all servers anew.
fn set_password(cluster: &Cluster, password: &str) {
    for server in &cluster.servers {
        let addresses: Vec<_> = server.engine.iter().map(Proxy::address).collect();
        let text = connection_string(&addresses, password);
        fs::write(url_file(server.config()), text).expect("a file");
    }
}

#[test]
fn changes_are_refused_while_the_disk_of_postgresql_is_full_and_renewals_go_on() {
    let test = "changes_are_refused_while_the_disk_of_postgresql_is_full_and_renewals_go_on";
    let Some(disk) = SmallDisk::mount(test, 8_192) else {
        return;
    };
    let Some(mut bench) = Bench::start(test, short(2 * DEFAULT)) else {
        return;
    };
    let (active, generation) = bench.cluster.ownership();
    // The table of files is on a small disk. The slots and the log of PostgreSQL are not.
    let place = disk.path().join("space");
    fs::create_dir(&place).expect("a folder");
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    let primary = &bench.cluster.databases().primary;
    primary.own(&place);
    let place = place.display();
    primary.query(&format!("create tablespace small location '{place}'"));
    wait_for("the table on the small disk", || {
        let moved = "alter table tenure.file set tablespace small";
        primary.try_query(moved).ok()
    });
    let ballast = disk.fill();
    let client = bench.cluster.client();
    let cluster = &bench.cluster;
    let change = |number: u64| {
        let name = format!("tests/full-{number}");
        cluster.runtime.block_on(client.acquire(&name, number))
    };
    let mut number = 0;
    let refused = wait_for("a refusal", || {
        number += 1;
        change(number).filter(|(status, _)| *status == 507)
    });
    assert_eq!(refused.1["code"], "disk_full", "{refused:?}");
    cluster.servers[active].wait_for_line("the log can't be shortened: ");
    bench.load.probe.wait(now());
    fs::remove_file(ballast).expect("a file");
    wait_for("a change", || {
        change(0).filter(|(status, _)| *status == 200)
    });
    // Heartbeats went through, so the same server is active.
    assert_eq!(bench.cluster.ownership(), (active, generation));
    bench.verify();
}

#[test]
fn servers_that_postgresql_refuses_say_why_and_go_on_when_it_is_mended() {
    let test = "servers_that_postgresql_refuses_say_why_and_go_on_when_it_is_mended";
    let Some(mut bench) = Bench::start(test, short(DEFAULT)) else {
        return;
    };
    let run = |cluster: &mut Cluster, statements: &[&str]| {
        for statement in statements {
            cluster.databases().primary.query(statement);
        }
    };
    let mut used = refuse(
        &mut bench,
        "Check user and password in the connection string",
        |cluster| {
            let change = "alter role tenure password 'second'";
            run(cluster, &[change, END_SESSIONS]);
        },
        |cluster| set_password(cluster, "second"),
    );
    used += refuse(
        &mut bench,
        "The user needs the rights select, insert, update and delete",
        |cluster| run(cluster, &["revoke all on tenure.register from tenure"]),
        |cluster| run(cluster, &["grant all on tenure.register to tenure"]),
    );
    // After each fault the first server that gets a new session in time goes on, which is the same
    // one unless the machine is busy.
    assert!(used <= 2, "{used} generations");
    let reload = "select pg_reload_conf()";
    let reason = "is read-only (default_transaction_read_only)";
    let used = refuse_and(
        &mut bench,
        reason,
        // An operator may do this on purpose for a while, so it is no line in the log of a standby.
        |server, runtime| {
            wait_for(reason, || {
                let view = server.view(runtime)?;
                let said = view["reason"].as_str().unwrap_or_default();
                said.contains(reason).then_some(())
            });
        },
        |cluster| {
            let change = "alter system set default_transaction_read_only = on";
            run(cluster, &[change, reload]);
        },
        |cluster| {
            let change = "alter system reset default_transaction_read_only";
            run(cluster, &[change, reload]);
        },
    );
    assert!(used <= 1, "{used} generations");

    let (_, generation) = bench.cluster.ownership();
    bench.cluster.databases().primary.crash();
    let since = now();
    pass(DEFAULT * 5 / 6);
    let silent = now();
    pass(DEFAULT / 2);
    let answer = bench.load.probe.first_since(silent);
    assert!(answer.is_none(), "without PostgreSQL: {answer:?}");
    bench.cluster.databases().primary.restart();
    let took = renewed_since(&bench.load.probe, since);
    eprintln!("renewed {took:?} after the crash of PostgreSQL");
    let active = bench.cluster.active();
    assert!(bench.cluster.generation(active) <= generation + 1);
    bench.verify_without_terms();
}
