//! The active server is stopped for a while, as by a debugger or an overloaded host.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure_tests::client::id;
use tenure_tests::cluster::Settings;
use tenure_tests::wait_for;

use super::{Bench, SHORT, part_of, pass, rounds};

/// Stops the active server this number of times, for half of the ownership duration to five times
/// of it.
pub(super) fn stop(test: &str, settings: Settings, count: usize) {
    let ownership = settings.ownership;
    let Some(bench) = Bench::start(test, settings) else {
        return;
    };
    let mut taken_over = 0;
    let mut words = BTreeMap::new();
    for round in 0..count {
        let (active, generation) = bench.cluster.ownership();
        // Short and long stops alternate. The first one is long.
        let duration = match round % 3 {
            0 => ownership * 2 + part_of(3 * ownership),
            1 => ownership / 2 + part_of(ownership / 4),
            _ => ownership / 2 + part_of(ownership * 2),
        };
        bench.cluster.servers[active].signal(Signal::SIGSTOP);
        // These requests arrive while the server is stopped, so they are the first that it handles.
        let questions: Vec<_> = (0..4)
            .map(|number| {
                let client = tenure_tests::client::Client::of(
                    &[bench.cluster.servers[active].tap.address()],
                    duration + 10 * super::DEFAULT,
                );
                let renew = json!({"lease_id": id(1), "holder": "probe", "duration_ms": 15_000});
                bench.cluster.runtime.spawn(async move {
                    match number % 2 {
                        0 => client.post("probe/lease", "acquire", renew).await,
                        _ => client.view("probe/lease").await,
                    }
                })
            })
            .collect();
        pass(duration);
        let other = match round % 3 {
            // On a busy machine the take-over comes late.
            0 => Some(bench.cluster.active_beside(active)),
            _ => (bench.standbys(active).into_iter())
                .find(|it| bench.cluster.servers[*it].role(&bench.cluster.runtime) == "active"),
        };
        let other = other.map(|it| (it, bench.cluster.generation(it)));
        // On a busy machine it may also take over again, after the other one was late.
        let is_again = |taken: u64| bench.cluster.generation(active) > taken;
        bench.cluster.servers[active].signal(Signal::SIGCONT);
        for question in questions {
            let answer = bench.cluster.runtime.block_on(question).expect("a client");
            // A server that is deposed may also close a connection.
            if let (Some((_, taken)), Some((status, body))) = (other, answer) {
                if status != 503 && is_again(taken) {
                    continue;
                }
                assert_eq!(status, 503, "after a take-over: {body}");
                let code = body["code"].as_str().unwrap_or_default();
                // Before its next append is refused, it only knows that it was away for too long.
                let is_expected = ["not_active", "home_unavailable"].contains(&code);
                assert!(is_expected, "{body}");
                *words.entry(code.to_owned()).or_insert(0) += 1;
            }
        }
        if let Some((_, taken)) = other {
            taken_over += 1;
            bench.cluster.wait_until_deposed(active, generation);
            assert!(taken > generation);
            let client = bench.cluster.client_of(active);
            // The role is published a moment before the reason of all refusals changes.
            let (status, body) = wait_for("an answer of a server that knows its role", || {
                let answer = bench.cluster.runtime.block_on(client.view("probe/lease"));
                answer.filter(|(_, body)| body["code"] != "home_unavailable")
            });
            if is_again(taken) {
                continue;
            }
            assert_eq!(
                (status, &body["code"]),
                (503, &"not_active".into()),
                "{body}"
            );
            let mut urls = bench.cluster.urls();
            urls.remove(active);
            assert!(
                urls.iter().any(|url| body["active"] == url.as_str()),
                "{body}"
            );
        } else {
            bench.cluster.active();
        }
    }
    eprintln!("first answers after {taken_over} take-overs: {words:?}");
    assert!(taken_over > 0, "no stop was long enough");
    // Stops of several seconds and a fail-over may take longer than leaders can wait.
    bench.verify_without_terms();
}

#[test]
fn a_server_that_was_stopped_for_too_long_acknowledges_nothing_when_it_continues() {
    let test = "a_server_that_was_stopped_for_too_long_acknowledges_nothing_when_it_continues";
    stop(test, Settings::short(SHORT), 3);
}

#[test]
#[ignore = "about 6 minutes: 50 stops over three members of etcd"]
fn a_server_that_is_stopped_many_times_acknowledges_nothing_after_a_take_over() {
    let test = "a_server_that_is_stopped_many_times_acknowledges_nothing_after_a_take_over";
    let ownership = Duration::from_millis(1_500);
    stop(test, Settings::long(ownership), rounds(50));
}
