//! The status listener itself: its routes, its limits, its settings and its end.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::StatusCode;
use tenure_tests::process::{command, output, stderr};
use tenure_tests::wait_for;

use crate::{Bench, Candidate};

/// The limits of the listener.
const MAX_CONNECTIONS: usize = 64;
const CONNECTION_TIME: Duration = Duration::from_secs(10);

#[test]
fn the_listener_serves_its_four_routes_and_nothing_else() {
    let bench = Bench::new();
    let leader = bench.leader("one");
    for path in [
        "/",
        "/v1/whoami",
        "/v1/namespaces/tests/leases/job",
        "/metrics/",
        "/ui/",
    ] {
        let (status, body) = bench.web.get(leader.status, path).expect("an answer");
        assert_eq!(
            (status, body.as_str()),
            (StatusCode::NOT_FOUND, ""),
            "{path}"
        );
    }
    for path in ["/metrics", "/leader", "/livez", "/readyz"] {
        let status = bench.web.post(leader.status, path);
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
}

#[test]
fn silent_and_many_clients_neither_stop_the_answers_nor_cost_a_renewal() {
    let bench = Bench::new();
    // The candidate has two seconds for a renewal, also on a busy machine.
    let mut leader = bench.command("one");
    leader.env("TENURE_LEASE_DURATION", "9s");
    let leader = Candidate::spawn(leader.args(["--", "sleep", "1000"]));
    bench.web.wait_until_leads(leader.status, true);
    // More than the limit. The oldest ones are closed before their time is over.
    let begin = Instant::now();
    let silent: Vec<_> = (0..MAX_CONNECTIONS + 100)
        .map(|_| TcpStream::connect(leader.status).expect("a connection"))
        .collect();
    wait_for("the end of the oldest connections", || {
        let closed = silent.iter().filter(|stream| is_closed(stream)).count();
        (closed >= 100).then_some(())
    });
    assert!(begin.elapsed() < CONNECTION_TIME, "closed over the limit");
    let renewals = "candidate_renewals_total{result=\"ok\"}";
    let before = bench.web.metrics(leader.status).get(renewals);
    // This asks again and again, without a pause.
    let until = Instant::now() + Duration::from_secs(30);
    while bench.web.metrics(leader.status).get(renewals) < before + 2.0 {
        assert!(Instant::now() < until, "no renewals");
    }
    let metrics = bench.web.metrics(leader.status);
    assert_eq!(
        metrics.get("candidate_renewals_total{result=\"no_answer\"}"),
        0.0
    );
    assert_eq!(metrics.get("candidate_at_risk_total"), 0.0);
    wait_for("the end of all silent connections", || {
        silent.iter().all(is_closed).then_some(())
    });
}

#[test]
fn the_listener_answers_for_its_names_only() {
    let bench = Bench::new();
    let mut leader = bench.command("one");
    leader.env("TENURE_HOSTS", "worker.lan,other.lan");
    let leader = Candidate::spawn(leader.args(["--", "sleep", "1000"]));
    let status_for = |host: &str, path: &str| {
        let mut stream = TcpStream::connect(leader.status).expect("a connection");
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").expect("a request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        answer
    };
    for host in [
        "127.0.0.1:7410",
        "localhost",
        "[::1]",
        "worker.lan:7410",
        "OTHER.lan",
    ] {
        let answer = status_for(host, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
    for host in ["evil.example", "worker.lan.evil.example:7410", "lan"] {
        for path in ["/metrics", "/leader", "/nothing"] {
            let answer = status_for(host, path);
            assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
            assert!(!answer.contains("tests/"), "{host}: {answer}");
        }
        // Probes tell nothing, and name any host.
        let answer = status_for(host, "/livez");
        assert!(answer.starts_with("HTTP/1.1 200"), "{host}: {answer}");
    }
}

/// Whether the other end has closed this connection.
fn is_closed(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    match (&mut &*stream).read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn a_busy_port_is_an_error_of_the_configuration_before_the_campaign() {
    let bench = Bench::new();
    let busy = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = busy.local_addr().expect("an address").to_string();
    let file = bench.folder.path().join("tenure.toml");
    fs::write(&file, format!("status_listen = \"{address}\"\n")).expect("a file");
    let file = file.to_str().expect("a path of text");
    let run = |flags: &[&str], variable: Option<&str>| {
        let mut run = command(&[
            "run",
            "--election",
            "tests/busy",
            "--server",
            &bench.store.url(),
        ]);
        run.args(flags).args(["--", "true"]);
        if let Some(address) = variable {
            run.env("TENURE_STATUS_LISTEN", address);
        }
        output(&mut run)
    };
    let busy = |output, origin: &str| {
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}");
        for words in [origin, "status_listen", &address, "in use", "port 0"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(!text.contains("leadership"), "{text}");
    };
    busy(run(&["--status-listen", &address], None), "--status-listen");
    busy(run(&[], Some(&address)), "TENURE_STATUS_LISTEN");
    busy(run(&["--config", file], None), "tenure.toml:1");

    let wrong = run(&["--status-listen", "7410"], None);
    let text = stderr(&wrong);
    assert_eq!(wrong.status.code(), Some(2), "{text}");
    assert!(text.contains("such as 127.0.0.1:7410"), "{text}");
    // An empty value is no listener, also if a file sets one.
    let mut none = command(&[
        "run",
        "--once",
        "--election",
        "tests/none",
        "--config",
        file,
    ]);
    none.args(["--server", &bench.store.url(), "--", "true"]);
    let none = output(none.env("TENURE_STATUS_LISTEN", ""));
    assert_eq!(none.status.code(), Some(0), "{}", stderr(&none));
}

#[test]
fn the_process_ends_at_once_with_open_connections_and_frees_the_port() {
    let bench = Bench::new();
    let mut leader = bench.leader("one");
    let silent = TcpStream::connect(leader.status).expect("a connection");
    let mut half = TcpStream::connect(leader.status).expect("a connection");
    half.write_all(b"GET /metrics HTTP/1.1\r\n")
        .expect("half a request");
    leader.process.signal(Signal::SIGTERM);
    assert_eq!(leader.process.wait().code(), Some(0));
    let log = leader.process.stderr();
    assert!(!log.contains("panicked") && !log.contains("ERROR"), "{log}");
    drop((silent, half));
    // The next process has the same address.
    let address = leader.status.to_string();
    let mut next = bench.command_at(&address, "two");
    let next = Candidate::spawn(next.args(["--", "sleep", "1000"]));
    assert_eq!(next.status, leader.status);
    bench.web.wait_until_leads(next.status, true);
}

#[test]
fn a_run_that_ends_by_itself_ends_with_its_listener() {
    let bench = Bench::new();
    let mut once = bench.command("one");
    let mut once = Candidate::spawn(once.args(["--once", "--", "sh", "-c", "exit 7"]));
    assert_eq!(once.process.wait().code(), Some(7));
    assert_eq!(bench.web.get(once.status, "/livez"), None);
}
