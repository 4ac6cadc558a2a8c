//! What operators, load balancers and candidates see of a cluster, and the hand-over by command.

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_tests::client::plain_http;
use tenure_tests::cluster::{Cluster, Server, Settings};
use tenure_tests::process::{json_of, run, stderr, stdout};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::{Bench, DEFAULT};

/// Runs a command of `tenure cluster` for all addresses.
fn ask(urls: &[String], arguments: &[&str]) -> std::process::Output {
    let servers = urls.iter().flat_map(|url| ["--server", url]);
    let all: Vec<_> = ["cluster"].iter().chain(arguments).copied().collect();
    run(&all.into_iter().chain(servers).collect::<Vec<_>>())
}

/// The report of `tenure cluster status`, which ends with this code.
#[track_caller]
fn status(urls: &[String], code: i32) -> Value {
    let output = ask(urls, &["status", "--json"]);
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    json_of(&output)
}

#[test]
fn operators_see_each_server_and_hand_the_cluster_over_without_a_lost_term() {
    let test = "operators_see_each_server_and_hand_the_cluster_over_without_a_lost_term";
    let Some(mut bench) = Bench::start(test, Settings::short(DEFAULT)) else {
        return;
    };
    let urls = bench.cluster.urls();
    for round in 0..2 {
        let active = bench.cluster.active();
        let report = status(&urls, 0);
        let name = bench.cluster.servers[active].name.clone();
        assert_eq!(report["active"], json!(name), "{report}");
        let roles: Vec<_> = (0..3)
            .map(|it| {
                report["servers"][it]["view"]["role"]
                    .as_str()
                    .expect("a role")
            })
            .collect();
        for (number, role) in roles.iter().enumerate() {
            let expected = if number == active {
                "active"
            } else {
                "following"
            };
            assert_eq!(*role, expected, "{report}");
            let server = &bench.cluster.servers[number];
            let answer = server.must_get(&bench.cluster.runtime, "/active");
            assert_eq!(answer.0, if number == active { 200 } else { 503 });
            // On a busy machine a server may not see the log in time, and be not ready for a moment.
            wait_for("a ready server", || {
                let answer = server.must_get(&bench.cluster.runtime, "/readyz");
                (answer.0 == 200).then_some(())
            });
        }

        let to = (active + 1 + round) % 3;
        let named = bench.cluster.servers[to].name.clone();
        let since = now();
        let output = ask(&urls, &["hand-over", "--to", &named]);
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stdout(&output), format!("{named} is active\n"));
        bench.load.probe.wait(since);
        assert_eq!(bench.cluster.active(), to);
        // A server that is active already stays it.
        let again = ask(&urls, &["hand-over", "--to", &named]);
        assert!(again.status.success(), "{}", stderr(&again));
        bench.load.assert_terms_last();
    }
    let output = ask(&urls, &["hand-over", "--to", "s9"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");

    // The route of the HTTP API answers as soon as the server gives its part up.
    let active = bench.cluster.active();
    let answered = bench.cluster.runtime.block_on(async {
        let http = plain_http().build().expect("a client");
        let url = format!("{}/v1/cluster/hand-over", urls[active]);
        http.post(url).send().await.expect("an answer").status()
    });
    assert_eq!(answered, 202);
    let since = now();
    let _ = bench.cluster.active_beside(active);
    bench.load.probe.wait(since);

    // At the address of the active server alone, no standby answers.
    let active = bench.cluster.active();
    let alone = ["cluster", "hand-over", "--server", &urls[active]];
    let refused = run(&alone);
    assert_eq!(refused.status.code(), Some(3), "{refused:?}");
    assert!(
        stderr(&refused).contains("no standby answers"),
        "{refused:?}"
    );
    let forced = run(&[&alone[..], &["--force"]].concat());
    assert!(forced.status.success(), "{forced:?}");
    let next = bench.cluster.active_beside(active);
    let named = &bench.cluster.servers[next].name;
    assert_eq!(stdout(&forced), format!("{named} is active\n"));
    bench.load.probe.wait(now());

    // A standby refuses, names the active server, and ends the connection.
    let active = bench.cluster.active();
    let standby = bench.cluster.servers[(active + 1) % 3].address;
    let http = plain_http().build().expect("a client");
    let url = format!("http://{standby}/v1/namespaces/tests/leases/job");
    // It sees the hand-over when it looks for the next time.
    wait_for("the name of the active server", || {
        let (closes, problem) = bench.cluster.runtime.block_on(async {
            let answer = http.get(&url).send().await.expect("an answer");
            let closes = answer.headers().get("connection").cloned();
            (closes, answer.json::<Value>().await.expect("JSON"))
        });
        assert_eq!(problem["code"], "not_active", "{problem}");
        assert_eq!(closes.expect("a header"), "close");
        (problem["active"] == json!(urls[active])).then_some(())
    });

    // The servers of another cluster behind the same list of addresses.
    bench.cluster.add("o1", "other", DEFAULT);
    bench.cluster.servers[3].spawn();
    bench.cluster.servers[3].wait_for_role(&bench.cluster.runtime, "active");
    let output = ask(&bench.cluster.urls(), &["status"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(stderr(&output).contains("several stores"), "{output:?}");
    let mut other = bench.cluster.servers.pop().expect("a server");
    other.signal(Signal::SIGTERM);
    assert!(other.wait().success());
    bench.verify();
}

#[test]
fn a_log_that_was_begun_by_an_operator_is_taken_over_and_not_begun_again() {
    let test = "a_log_that_was_begun_by_an_operator_is_taken_over_and_not_begun_again";
    let Some(mut cluster) = Cluster::prepare(test, Settings::short(DEFAULT)) else {
        return;
    };
    let config = cluster.servers[0]
        .config()
        .to_str()
        .expect("UTF-8")
        .to_owned();
    let begun = json_of(&run(&["cluster", "init", "--config", &config, "--json"]));
    let again = run(&["cluster", "init", "--config", &config]);
    assert_eq!(again.status.code(), Some(3), "{again:?}");
    cluster.run();
    let report = status(&cluster.urls(), 0);
    for server in 0..3 {
        assert_eq!(report["servers"][server]["view"]["store"], begun["store"]);
    }
    for server in &mut cluster.servers {
        server.signal(Signal::SIGTERM);
        assert!(server.wait().success());
    }
    for command in ["status", "hand-over"] {
        let none = ask(&cluster.urls(), &[command]);
        assert_eq!(none.status.code(), Some(69), "{none:?}");
    }
}

#[test]
fn each_server_names_its_store_and_its_ownership_and_refuses_a_hand_over_to_no_server() {
    let test = "each_server_names_its_store_and_its_ownership_and_refuses_a_hand_over_to_no_server";
    let Some(mut cluster) = Cluster::start(test, Settings::short(DEFAULT)) else {
        return;
    };
    let active = cluster.active();
    let name = cluster.servers[active].name.clone();
    let urls = cluster.urls();
    let http = plain_http().build().expect("a client");
    // The proxies of the test pass no such header on.
    let headers = |server: &Server| {
        let get = http.get(format!("http://{}/livez", server.address)).send();
        let answer = cluster.runtime.block_on(get).expect("an answer");
        ["tenure-store", "tenure-ownership-ms"].map(|name| {
            answer
                .headers()
                .get(name)
                .expect(name)
                .to_str()
                .expect("text")
                .to_owned()
        })
    };
    let told: Vec<_> = cluster.servers.iter().map(headers).collect();
    assert!(told.iter().all(|it| *it == told[0]), "{told:?}");
    assert_eq!(told[0][1], "3000");

    let hand_over = |to: &str| {
        let url = format!("{}/v1/cluster/hand-over", urls[active]);
        let post = http.post(url).json(&json!({"to": to}));
        cluster.runtime.block_on(async {
            let answer = post.send().await.expect("an answer");
            (
                answer.status().as_u16(),
                answer.json::<Value>().await.expect("JSON"),
            )
        })
    };
    let long = "s".repeat(129);
    for to in ["", "s2\nWARN planted", "s 2", long.as_str(), name.as_str()] {
        let (status, problem) = hand_over(to);
        assert_eq!(
            (status, &problem["code"]),
            (400, &json!("invalid_name")),
            "{to:?}: {problem}"
        );
    }
    let log = cluster.servers[active].log();
    assert!(!log.contains("planted"), "{log}");
    assert_eq!(cluster.active(), active);

    // A candidate whose timings do not survive a take-over is told so, once.
    let mut candidate =
        tenure_tests::process::command(&["run", "--once", "--election", "tests/short"]);
    for server in &cluster.servers {
        candidate.args(["--server", &format!("http://{}", server.address)]);
    }
    candidate.args(["--lease-duration", "9s", "--", "sleep", "5"]);
    let output = tenure_tests::process::output(&mut candidate);
    assert!(output.status.success(), "{output:?}");
    let warning = "takes over up to 3.8s after a crash, and a leader has 3.0s between";
    assert_eq!(stderr(&output).matches(warning).count(), 1, "{output:?}");

    // The last term of a server that was killed alone is its own.
    for server in (0..3).filter(|it| *it != active) {
        cluster.servers[server].signal(Signal::SIGTERM);
        let status = cluster.servers[server].wait();
        assert!(status.success(), "{status}");
    }
    cluster.servers[active].kill();
    cluster.servers[active].spawn();
    let server = &cluster.servers[active];
    server.wait_for_line("this server's own last term was not heard of for 3.0 s");
    assert!(!server.log().contains(&format!("{name} was not heard of")));
}
