//! Fenced receivers over real sockets, with leaders of a real store.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use nix::sys::signal::Signal;
use reqwest::{Client, RequestBuilder, Response};
use serde_json::Value;
use tenure::fence::{ELECTION_HEADER, EPOCH_HEADER, FenceLayer, Fenced, Gate};
use tenure::{Candidate, Config};
use tenure_tests::postgres::Postgres;
use tenure_tests::process::{Process, StoreProcess, built};
use tenure_tests::store::LocalStore;
use tenure_tests::wait_for;

/// A service behind a fence that counts its calls and keeps the headers of the last one.
struct Receiver {
    address: SocketAddr,
    calls: Arc<AtomicUsize>,
    headers: Arc<Mutex<HeaderMap>>,
}

impl Receiver {
    async fn start(fence: FenceLayer) -> Self {
        let (calls, headers) = (Arc::<AtomicUsize>::default(), Arc::<Mutex<_>>::default());
        let (counter, keeper) = (calls.clone(), headers.clone());
        let write = move |headers: HeaderMap| async move {
            counter.fetch_add(1, Ordering::SeqCst);
            *keeper.lock().unwrap_or_else(PoisonError::into_inner) = headers;
            StatusCode::NO_CONTENT
        };
        let router = Router::new().route("/", post(write)).layer(fence);
        Self {
            address: serve(router).await,
            calls,
            headers,
        }
    }

    fn request(&self) -> RequestBuilder {
        Client::new().post(format!("http://{}/", self.address))
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn header(&self, name: &str) -> String {
        let headers = self.headers.lock().unwrap_or_else(PoisonError::into_inner);
        assert_eq!(headers.get_all(name).iter().count(), 1, "{name}");
        headers[name].to_str().expect("text").to_owned()
    }
}

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

async fn problem(response: Response) -> Value {
    assert_eq!(
        response.headers()["content-type"],
        "application/problem+json"
    );
    let status = response.status().as_u16();
    let problem: Value = response.json().await.expect("JSON");
    assert_eq!(problem["status"], status);
    assert!(problem["type"].is_string() && problem["title"].is_string());
    problem
}

async fn candidate(store: &LocalStore, name: &str) -> Candidate {
    let config = Config::new("billing/nightly".parse().expect("a name"))
        .with_candidate(name.parse().expect("an id"))
        .with_servers([store.endpoint()]);
    Candidate::start(config).await.expect("a candidate")
}

#[tokio::test]
async fn a_stale_request_is_refused_and_changes_nothing() {
    let receiver = Receiver::start(FenceLayer::new(Gate::new())).await;
    for epoch in [7_u64, 7, 9] {
        let answer = receiver.request().header(EPOCH_HEADER, epoch).send().await;
        assert_eq!(answer.expect("an answer").status(), StatusCode::NO_CONTENT);
    }
    let answer = receiver.request().header(EPOCH_HEADER, 8).body("late");
    let answer = answer.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    let problem = problem(answer).await;
    assert_eq!(problem["code"], "stale_epoch");
    assert_eq!(problem["type"], "urn:tenure:problem:stale_epoch");
    assert_eq!(problem["epoch"], 9);
    assert_eq!(receiver.calls(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_carry_the_leaders_epoch_and_those_of_an_old_leader_are_refused() {
    let store = LocalStore::start();
    let election = "billing/nightly".parse().expect("a name");
    let gate = Arc::new(Gate::new());
    let receiver = Receiver::start(FenceLayer::by_election([(election, gate.clone())])).await;

    let first = candidate(&store, "first").await;
    let term = first.campaign().await.expect("a term");
    let old = (*term).clone();
    let request = receiver.request().header(EPOCH_HEADER, "another one");
    let answer = request.fenced(&old).expect("a leader").send().await;
    assert_eq!(answer.expect("an answer").status(), StatusCode::NO_CONTENT);
    assert_eq!(receiver.header(EPOCH_HEADER), old.epoch().to_string());
    assert_eq!(receiver.header(ELECTION_HEADER), "billing/nightly");
    assert_eq!(gate.current(), old.epoch());

    // Created during the term, and sent much later.
    let late = receiver.request().fenced(&old).expect("a leader");
    term.resign().await;
    let refused = receiver
        .request()
        .fenced(&old)
        .expect_err("the term is over");
    assert_eq!(refused, tenure::NotLeading(old.epoch()));

    let second = candidate(&store, "second").await;
    let new = second.campaign().await.expect("a term");
    assert!(new.epoch() > old.epoch());
    let answer = receiver.request().fenced(&new).expect("a leader").send();
    let answer = answer.await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::NO_CONTENT);

    let answer = late.send().await.expect("an answer");
    assert_eq!(answer.status(), StatusCode::CONFLICT);
    assert_eq!(problem(answer).await["epoch"], new.epoch().get());
    assert_eq!(receiver.calls(), 2);
}

/// The statements of `docs/fencing.md` from one text to the end of another.
fn recipe(from: &str, to: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/fencing.md");
    let page = std::fs::read_to_string(page).expect("a page");
    let begin = page.find(from).expect("the begin of the recipe");
    let end = page[begin..].find(to).expect("the end of the recipe");
    page[begin..begin + end + to.len()].replace("billing/nightly", ELECTION)
}

const ELECTION: &str = "tests/job";

/// The lease duration, which is also the longest idle time inside a transaction.
const LEASE: Duration = Duration::from_secs(2);

#[test]
fn a_leader_that_is_frozen_in_its_transaction_does_not_keep_its_successor_from_writing() {
    let test =
        "a_leader_that_is_frozen_in_its_transaction_does_not_keep_its_successor_from_writing";
    let Some(database) = Postgres::start(test, "") else {
        return;
    };
    database.query(&recipe("CREATE TABLE fences", "plpgsql;"));
    database.query("CREATE ROLE billing LOGIN PASSWORD 'secret'");
    database.query(&recipe("ALTER ROLE billing SET idle", "'1s';"));
    database.query(
        "CREATE TABLE entries (id serial PRIMARY KEY, epoch bigint);
         CREATE TABLE total (id int PRIMARY KEY, entries int); INSERT INTO total VALUES (1, 0);
         GRANT ALL ON ALL TABLES IN SCHEMA public TO billing;
         GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO billing",
    );
    // The recipe's timeout bounds the wait for a row that both leaders write. A leader that writes
    // other rows does not wait.
    let at_once = Duration::from_millis(1_000);
    for (shared, idle, limit, end) in [
        ("", "1h", at_once, "is stale"),
        (SHARED, "2s", LEASE + at_once, "stopped: Err"),
    ] {
        let timeout =
            format!("ALTER ROLE billing SET idle_in_transaction_session_timeout = '{idle}'");
        database.query(&timeout);
        let write = format!("INSERT INTO entries (epoch) VALUES ($EPOCH); {shared}");
        let (waited, old) = first_write_of_a_successor(&database, &write);
        assert!(old.contains(end), "{old}");
        eprintln!("the successor's first write came {waited:?} after its term began");
        assert!(waited < limit, "{waited:?}");
    }
}

/// A statement that locks a row which all leaders write.
const SHARED: &str = "UPDATE total SET entries = entries + 1";

/// Freezes a leader inside a transaction, and returns how long after its election the next leader
/// commits its first row. Then lets the old leader continue, checks that it commits nothing, and
/// returns what it says.
fn first_write_of_a_successor(database: &Postgres, write: &str) -> (Duration, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let store = StoreProcess::start(folder.path());
    let leader = |name: &str| {
        let mut command = Command::new(built("tenure-test-sql-leader"));
        command.arg(database.url("billing", "secret")).arg(write);
        command.arg(folder.path().join(format!("freeze-{name}")));
        command.env("TENURE_ELECTION", ELECTION);
        command.env("TENURE_CANDIDATE", name);
        command.env("TENURE_SERVERS", store.url());
        command.env("TENURE_LEASE_DURATION", format!("{LEASE:?}"));
        Process::spawn(&mut command)
    };
    let newest = || {
        let rows = database.query("SELECT coalesce(max(epoch), 0) FROM entries");
        rows.parse::<u64>().expect("an epoch")
    };
    let count = |epoch: u64| {
        database.query(&format!(
            "SELECT count(*) FROM entries WHERE epoch = {epoch}"
        ))
    };
    let before = newest();
    let first = leader("first");
    let old = wait_for("a row of the first leader", || {
        Some(newest()).filter(|newest| *newest > before)
    });
    let second = leader("second");
    std::fs::write(folder.path().join("freeze-first"), "").expect("a file");
    wait_for("the election of the second leader", || {
        second.stdout().contains("leads").then_some(())
    });
    let elected = Instant::now();
    let new = wait_for("a row of the second leader", || {
        Some(newest()).filter(|newest| *newest > old)
    });
    let waited = elected.elapsed();
    let rows = count(old);
    first.signal(Signal::SIGCONT);
    wait_for("the end of the old term", || {
        first.stdout().contains("stopped").then_some(())
    });
    assert_eq!(count(old), rows, "the frozen transaction was committed");
    assert_eq!(newest(), new);
    (waited, first.stdout())
}
