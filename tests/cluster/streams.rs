//! Event streams, long polls and histories across fail-overs.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::signal::Signal;
use reqwest::Method;
use tenure_tests::client::Client;
use tenure_tests::cluster::Settings;
use tenure_tests::history::{Answer, What};
use tenure_tests::receiver::now;
use tenure_tests::wait_for;

use super::{Bench, SHORT, pass, rounds};

/// The events of a stream that was continued at another server after each failure.
#[derive(Debug, Default)]
struct Heard {
    /// The revisions of all events with one, in the order of their arrival.
    revisions: Vec<u64>,
    resets: usize,
    /// The number of times at which a server accepted the request for the stream.
    streams: Arc<AtomicUsize>,
}

/// Reads the stream of all events, and continues at the next server after each failure.
async fn listen(
    servers: Vec<SocketAddr>,
    streams: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
) -> Heard {
    let http = tenure_tests::client::plain_http()
        .build()
        .expect("a client");
    let mut heard = Heard {
        streams,
        ..Heard::default()
    };
    let mut last: Option<u64> = None;
    for server in servers.iter().cycle() {
        if stop.load(Ordering::SeqCst) {
            break;
        }
        let mut request = http.get(format!("http://{server}/v1/events"));
        if let Some(last) = last {
            request = request.header("last-event-id", last.to_string());
        }
        let answer = tokio::time::timeout(SHORT, request.send()).await;
        let Ok(Ok(mut answer)) = answer else { continue };
        if answer.status() != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
            continue;
        }
        heard.streams.fetch_add(1, Ordering::SeqCst);
        let mut text = String::new();
        // A server that was killed ends the stream; the load produces events all the time.
        while let Ok(Ok(Some(chunk))) = tokio::time::timeout(3 * SHORT, answer.chunk()).await {
            text += &String::from_utf8_lossy(&chunk);
            while let Some((event, rest)) = text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|line| line.trim_start().to_owned())
                };
                let id = field("id:").and_then(|id| id.parse().ok());
                match (field("event:").as_deref(), id) {
                    (Some("reset"), Some(id)) => {
                        assert!(Some(id) >= last, "a reset to {id} after {last:?}");
                        heard.resets += 1;
                        last = Some(id);
                    }
                    (Some(kind), Some(id)) => {
                        let expected = last.map(|last: u64| last + 1);
                        assert_eq!(Some(id), expected, "{kind} after {last:?}");
                        heard.revisions.push(id);
                        last = Some(id);
                    }
                    _ => {}
                }
                text = rest.to_owned();
            }
            if stop.load(Ordering::SeqCst) {
                break;
            }
        }
    }
    heard
}

/// Waits for each change of a lease, at any server. Returns the revisions.
async fn poll(client: Client, stop: Arc<AtomicBool>) -> Vec<u64> {
    let mut revisions: Vec<u64> = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let after = revisions.last().copied().unwrap_or_default();
        let verb = format!("?after={after}&wait_ms=500");
        let name = "tests/contended-0";
        if let Some((200, view)) = client.ask(Method::GET, name, &verb, None).await {
            let revision = view["revision"].as_u64().expect("a revision");
            assert!(revision >= after, "{revision} after {after}");
            if revision > after {
                revisions.push(revision);
            }
        } else {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    revisions
}

fn fail_over(test: &str, settings: Settings, count: usize) {
    let ownership = settings.ownership;
    let Some(mut bench) = Bench::start(test, settings) else {
        return;
    };
    let stop = Arc::<AtomicBool>::default();
    let servers: Vec<_> = bench.cluster.servers.iter().map(|it| it.address).collect();
    let runtime = bench.cluster.runtime.handle().clone();
    let streams = [(); 3].map(|()| Arc::<AtomicUsize>::default());
    let listeners: Vec<_> = (streams.iter())
        .map(|it| runtime.spawn(listen(servers.clone(), it.clone(), stop.clone())))
        .collect();
    let accepted = || streams.each_ref().map(|it| it.load(Ordering::SeqCst));
    let wait_for_more = |before: [usize; 3]| {
        wait_for("a stream of each listener", || {
            let mut pairs = accepted().into_iter().zip(before);
            pairs.all(|(now, before)| now > before).then_some(())
        });
    };
    let polls = runtime.spawn(poll(bench.cluster.client(), stop.clone()));
    wait_for_more([0; 3]);
    pass(ownership);
    for round in 0..count {
        let before = accepted();
        let active = bench.cluster.active();
        let signal = [Signal::SIGKILL, Signal::SIGTERM][round % 2];
        bench.cluster.servers[active].signal(signal);
        let _ = bench.cluster.servers[active].wait();
        bench.load.probe.wait(now());
        bench.restart(active);
        wait_for_more(before);
        pass(ownership);
    }
    stop.store(true, Ordering::SeqCst);
    for listener in listeners {
        let heard = runtime.block_on(listener).expect("a stream in order");
        let streams = heard.streams.load(Ordering::SeqCst);
        eprintln!(
            "a stream heard {} revisions in {streams} parts, with {} resets",
            heard.revisions.len(),
            heard.resets
        );
        assert!(streams > count, "{heard:?}");
        assert!(heard.resets <= streams, "{heard:?}");
        assert!(!heard.revisions.is_empty());
    }
    let polled = runtime.block_on(polls).expect("polls in order");
    assert!(!polled.is_empty());
    // The history has each acknowledged grant once.
    for lease in ["tests/contended-0", "tests/contended-1", "tests/job"] {
        let client = bench.cluster.client_of(bench.cluster.active());
        let history = wait_for("a history", || {
            // A read that etcd answers too late is refused, and may be repeated.
            let answer = client.ask(Method::GET, lease, "/history", None);
            let (status, history) = runtime.block_on(answer)?;
            (status == 200).then_some(history)
        });
        let terms = history["terms"].as_array().expect("terms");
        let epochs: Vec<_> = terms.iter().filter_map(|it| it["epoch"].as_u64()).collect();
        let recorded: BTreeSet<_> = epochs.iter().copied().collect();
        assert_eq!(
            recorded.len(),
            epochs.len(),
            "{lease}: a term is there twice"
        );
        let first = recorded.first().copied().unwrap_or_default();
        let calls = bench.cluster.servers[0].tap.calls();
        let granted = calls
            .iter()
            .filter(|call| call.lease == lease && matches!(call.what, What::Acquire { .. }));
        for call in granted {
            let Some((_, Answer::Done(seen))) = &call.answer else {
                continue;
            };
            // Terms since the request may be missing in the answer above, and old ones are deleted.
            let epoch = seen.epoch.unwrap_or_default();
            let newest = recorded.last().copied().unwrap_or_default();
            let is_missing = (first..=newest).contains(&epoch) && !recorded.contains(&epoch);
            assert!(!is_missing, "{lease}: the term {epoch} is missing");
        }
    }
    bench.verify_without_terms();
}

#[test]
fn streams_polls_and_histories_go_on_in_order_across_fail_overs() {
    let test = "streams_polls_and_histories_go_on_in_order_across_fail_overs";
    fail_over(test, Settings::short(SHORT), 3);
}

#[test]
#[ignore = "about 2 minutes: 20 fail-overs"]
fn streams_polls_and_histories_go_on_in_order_across_many_fail_overs() {
    let test = "streams_polls_and_histories_go_on_in_order_across_many_fail_overs";
    fail_over(test, Settings::long(SHORT), rounds(20));
}
