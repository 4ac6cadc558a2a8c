//! The export of traces: from candidate and store to a collector, and without it.

mod collector;
mod processes;
mod protobuf;

use std::thread;

use serde_json::json;

use collector::{Behaviour, Collector};
use processes::{Process, Store, candidate, tenure, wait_for};
use protobuf::Span;

const ACQUIRE: &str = "POST /v1/namespaces/{namespace}/leases/{lease}/acquire";
const RELEASE: &str = "POST /v1/namespaces/{namespace}/leases/{lease}/release";

/// Waits for a span of this name, and returns the last one.
fn span(collector: &Collector, name: &str) -> Span {
    wait_for(name, || {
        let mut spans = collector.spans().into_iter();
        spans.rfind(|span| span.name == name)
    })
}

fn attribute<'a>(span: &'a Span, name: &str) -> &'a str {
    let value = span.attributes.get(name);
    value.unwrap_or_else(|| panic!("{name} of {span:?}"))
}

#[test]
fn one_trace_spans_the_candidate_and_the_store() {
    let collector = Collector::start(Behaviour::Takes);
    let store = Store::start(&collector.url(), &[]);
    let print = ["--once", "--", "sh", "-c", "echo \"$TRACEPARENT\""];
    let mut leader = Process::start(&mut candidate(&collector.url(), &store, &print));
    assert_eq!(leader.wait().code(), Some(0), "{}", leader.stderr());
    let begin = span(&collector, "tenure.term.begin");

    let campaign = span(&collector, "tenure.campaign");
    let acquire = span(&collector, ACQUIRE);
    assert_eq!(campaign.parent, "", "{campaign:?}");
    for child in [&acquire, &begin] {
        let parent = (&child.trace, &child.parent);
        assert_eq!(parent, (&campaign.trace, &campaign.id), "{child:?}");
    }
    assert_eq!(campaign.service, "tenure-run");
    assert_eq!(acquire.service, "tenure-store");

    // The end of a term is a trace of its own, because a term may last for weeks.
    let (end, release) = (
        span(&collector, "tenure.term.end"),
        span(&collector, RELEASE),
    );
    assert_ne!(end.trace, begin.trace);
    assert_eq!(end.links, [(begin.trace.clone(), begin.id.clone())]);
    let parent = (&release.trace, &release.parent);
    assert_eq!(parent, (&end.trace, &end.id));
    assert_eq!(attribute(&end, "overrun"), "0");
    assert!(end.attributes.contains_key("stop_ms"), "{end:?}");

    let granted = store.process.line("granted");
    for span in [&campaign, &begin, &end] {
        assert_eq!(attribute(span, "election"), "tests/job");
        assert_eq!(attribute(span, "candidate"), "worker-1");
        assert_eq!(attribute(span, "epoch"), granted["epoch"].to_string());
    }
    for span in [&acquire, &release] {
        assert_eq!(attribute(span, "election"), "tests/job");
        assert_eq!(attribute(span, "http.response.status_code"), "200");
        assert_eq!(attribute(span, "request").len(), 16);
    }

    // Log lines have the traces, and the command has the beginning of its term.
    let released = store.process.line("released");
    let (gained, lost) = (
        leader.line("leadership gained"),
        leader.line("leadership lost"),
    );
    for line in [&granted, &gained] {
        assert_eq!(line["trace_id"], json!(begin.trace), "{line}");
    }
    for line in [&released, &lost] {
        assert_eq!(line["trace_id"], json!(end.trace), "{line}");
    }
    let context = format!("00-{}-{}-01\n", begin.trace, begin.id);
    assert_eq!(leader.stdout(), context);
}

#[test]
fn failed_renewals_are_events_of_a_short_span() {
    let collector = Collector::start(Behaviour::Takes);
    let store = Store::start(&collector.url(), &[]);
    let command = ["--lease-duration", "3s", "--", "sleep", "600"];
    let mut run = candidate(&collector.url(), &store, &command);
    let mut leader = Process::start(&mut run);
    let begin = span(&collector, "tenure.term.begin");
    drop(store);
    leader.line("leadership lost");
    let _ = leader.stop();
    let at_risk = span(&collector, "tenure.at_risk");
    assert_eq!(at_risk.links, [(begin.trace.clone(), begin.id)]);
    assert_eq!(attribute(&at_risk, "election"), "tests/job");
    let errors = at_risk.events.iter();
    let errors: Vec<_> = errors.filter_map(|event| event.get("error")).collect();
    assert!(!errors.is_empty(), "{at_risk:?}");
    assert!(
        errors.iter().all(|error| error.contains("renew")),
        "{errors:?}"
    );
    // The renew deadline is two seconds after the last renewal.
    assert!(at_risk.took_ms < 30_000, "{at_risk:?}");
    let end = span(&collector, "tenure.term.end");
    assert_eq!(attribute(&end, "reason"), "renew_deadline", "{end:?}");
}

#[test]
fn renewals_do_not_depend_on_the_collector() {
    let down = || {
        // The port is free again when the listener is dropped here.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        format!("http://{}", listener.local_addr().expect("an address"))
    };
    let collectors = [
        ("is down", None),
        ("refuses", Some(Collector::start(Behaviour::Refuses(503)))),
        (
            "refuses for ever",
            Some(Collector::start(Behaviour::Refuses(403))),
        ),
        ("hangs", Some(Collector::start(Behaviour::Hangs))),
    ];
    thread::scope(|scope| {
        for (name, collector) in &collectors {
            let url = collector.as_ref().map_or_else(down, Collector::url);
            scope.spawn(move || {
                renew_without(name, &url);
                if let Some(collector) = collector {
                    assert!(collector.requests() > 0, "{name}");
                }
            });
        }
    });
}

/// Leads for five renewals while the collector of the candidate and of the store fails.
fn renew_without(name: &str, collector: &str) {
    // At this level each renewal has a span, and the queue is full after the third one.
    let environment = [("TENURE_LOG", "debug"), ("OTEL_BSP_MAX_QUEUE_SIZE", "3")];
    let mut store = Store::start(collector, &environment);
    let command = ["--lease-duration", "6s", "--", "sleep", "600"];
    let mut run = candidate(collector, &store, &command);
    let mut leader = Process::start(run.envs(environment));
    wait_for("five renewals", || {
        let lines = leader.lines().into_iter();
        let renewals = lines.filter(|line| line["operation"] == "renew");
        (renewals.count() >= 5).then_some(())
    });
    let has = |process: &Process, message: &str| {
        let lines = process.lines().into_iter();
        lines.filter(|line| line["message"] == message).count()
    };
    for wrong in ["retrying", "leadership lost"] {
        assert_eq!(has(&leader, wrong), 0, "{name}: {}", leader.stderr());
    }
    assert_eq!(leader.stop().code(), Some(0), "{name}");
    assert_eq!(store.process.stop().code(), Some(0), "{name}");
    assert_eq!(has(&store.process, "released"), 1, "{name}");
    // A campaign, and the beginning and the end of the term; an acquire, five renewals and a release.
    for (process, spans) in [(&leader, 3), (&store.process, 7)] {
        // All spans were dropped. Those that are on their way to a collector that hangs have no count.
        let lines = process.lines().into_iter();
        let counts = lines.flat_map(|line| {
            ["dropped", "dropped_span_count"].map(|count| line[count].as_u64().unwrap_or(0))
        });
        let is_late = has(process, "BatchSpanProcessor shutdown timing out.") == 1;
        let all = counts.sum::<u64>() >= spans;
        assert!(all || is_late, "{name}: {}", process.stderr());
        let took_none = "spans were dropped: the collector did not take them";
        assert!(has(process, took_none) <= 2, "{name}: {}", process.stderr());
    }
}

#[test]
fn no_secret_is_in_a_span() {
    const ID: &str = "c0ffee01-1111-4111-8111-00000000cafe";
    const TOKEN: &str = "tnr1_aaaaaaaa_canarycanarycanarycanary";
    let collector = Collector::start(Behaviour::Takes);
    let mut store = Store::start(&collector.url(), &[("TENURE_LOG", "trace")]);
    let authorization = format!("authorization: Bearer {TOKEN}");
    let lease = "/v1/namespaces/tests/leases/job";
    let id = json!({"lease_id": ID}).to_string();
    let acquire = json!({"lease_id": ID, "holder": "me", "duration_ms": 60_000}).to_string();
    for (method, path, body) in [
        ("POST", format!("{lease}/acquire"), &acquire),
        ("POST", format!("{lease}/renew"), &id),
        ("GET", format!("{lease}?after={TOKEN}"), &String::new()),
        ("GET", format!("/v1/nowhere/{TOKEN}"), &String::new()),
        ("POST", format!("/v1/nowhere/{TOKEN}?{TOKEN}={ID}"), &id),
        ("POST", format!("{lease}/release"), &id),
    ] {
        let _ = store.send(method, &path, &[&authorization], body);
    }
    assert_eq!(store.process.stop().code(), Some(0));
    assert_eq!(collector.spans().len(), 6);
    let sent = collector.text().to_lowercase();
    for secret in [ID, &ID.replace('-', ""), TOKEN, "canary"] {
        assert!(!sent.contains(secret), "{secret}: {sent}");
    }
}

#[test]
fn a_collector_that_is_configured_wrongly_causes_a_warning() {
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "many"),
    ] {
        let store = Store::start("http://127.0.0.1:1", &[(variable, value)]);
        let line = store.process.line("no traces are exported");
        let error = line["error"].as_str().expect("an error");
        let names_both = error.contains(variable) && error.contains(value);
        assert!(names_both, "{error}");
    }
}

#[test]
fn without_a_collector_nothing_is_exported() {
    let collector = Collector::start(Behaviour::Takes);
    for (variable, value) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let mut store = Store::start(&collector.url(), &[(variable, value)]);
        let acquire = json!({"holder": "me", "duration_ms": 60_000}).to_string();
        let path = "/v1/namespaces/tests/leases/job/acquire";
        assert_eq!(store.send("POST", path, &[], &acquire), 200);
        assert_eq!(store.process.stop().code(), Some(0));
        assert!(!store.process.stderr().contains("spans"), "{variable}");
    }
    // A command that is not a service exports nothing.
    let mut list = tenure(&collector.url(), &["context", "list"]);
    let _ = Process::start(&mut list).wait();
    assert_eq!(collector.requests(), 0);
}
