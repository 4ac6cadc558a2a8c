//! Servers that start at the same moment on an empty log.

use std::time::Duration;

use tenure_tests::cluster::{Cluster, Server, Settings};

use super::{DEFAULT, SHORT, rounds};

/// Starts three servers on an empty log at the same moment, this number of times. Their ownership
/// durations are these.
pub(super) fn start(test: &str, settings: Settings, ownership: [Duration; 3], count: usize) {
    let none = Settings {
        servers: 0,
        ..settings
    };
    let Some(mut cluster) = Cluster::prepare(test, none) else {
        return;
    };
    for round in 0..count {
        // Two clusters in one home. The second one has the name of a beginning of the first.
        let names = [format!("r{round}x"), format!("r{round}")];
        for name in &names {
            for (number, ownership) in ownership.iter().enumerate() {
                cluster.add(&format!("s{number}"), name, *ownership);
            }
        }
        for server in &mut cluster.servers {
            server.spawn();
        }
        for server in &cluster.servers {
            server.wait_until_ready(&cluster.runtime);
        }
        for (servers, name) in cluster.servers.chunks(3).zip(&names) {
            let views: Vec<_> = tenure_tests::wait_for("one active server", || {
                let views = servers.iter().map(|it| it.view(&cluster.runtime));
                let views: Vec<_> = views.collect::<Option<_>>()?;
                let agree = |field: &str| views.iter().all(|it| it[field] == views[0][field]);
                let active = views.iter().filter(|it| it["role"] == "active").count();
                (active == 1 && agree("active") && agree("store")).then_some(views)
            });
            let audited = cluster.audit(name);
            // On a busy machine a server may be late, and another one takes over and says so.
            let is_late = |it: &Server| it.log().contains("was not heard of for");
            if !servers.iter().any(is_late) {
                assert!(views.iter().all(|it| it["generation"] == 1), "{views:?}");
                assert_eq!((audited.first, audited.last), (1, 1), "{audited:?}");
            }
        }
        for server in &mut cluster.servers {
            server.kill();
        }
        cluster.servers.clear();
    }
}

#[test]
fn three_servers_that_start_at_the_same_moment_make_one_chain() {
    let test = "three_servers_that_start_at_the_same_moment_make_one_chain";
    let ownership = [DEFAULT, DEFAULT + SHORT, 2 * DEFAULT];
    start(test, Settings::short(SHORT), ownership, 3);
}

#[test]
#[ignore = "about 2 minutes: 100 starts"]
fn three_servers_that_start_many_times_at_the_same_moment_make_one_chain() {
    let test = "three_servers_that_start_many_times_at_the_same_moment_make_one_chain";
    start(test, Settings::short(SHORT), [DEFAULT; 3], rounds(100));
    start(
        test,
        Settings::short(SHORT),
        [DEFAULT, DEFAULT + SHORT, 2 * DEFAULT],
        rounds(100) / 4,
    );
}
