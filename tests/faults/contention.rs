//! Contention for one lease, and lost answers.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::json;
use tenure_tests::history::{self, Call, What};
use tenure_tests::process::Process;
use tenure_tests::proxy::Proxy;
use tenure_tests::receiver::{Link, now};
use tokio::task::JoinHandle;

use super::{Answer, Bench, Client, ELECTION, LEASE, id};

const CANDIDATES: u64 = 50;
const HAND_OVERS: u64 = 200;

/// A waiting client.
struct Waiter {
    priority: u64,
    /// The position in the order of arrival.
    arrived: u64,
    number: u64,
    answer: JoinHandle<Answer>,
}

#[test]
fn two_hundred_hand_overs_among_fifty_candidates_keep_the_order() {
    let bench = Bench::new();
    let client = bench.client();
    bench.runtime.block_on(async {
        let (status, first) = client.acquire(ELECTION, 0).await.unwrap();
        assert_eq!(status, 200, "{first}");
        let mut epoch = first["epoch"].as_u64().unwrap();
        let mut holder = 0;
        let mut queue: Vec<Waiter> = Vec::new();
        let mut slowest = Duration::ZERO;
        let receiver = bench.receiver.address();
        let mut held = Held::new(Link::connect(receiver, "c0"), epoch);
        for number in 1..CANDIDATES + HAND_OVERS {
            queue.push(enqueue(&client, number, queue.len() as u64 + 1).await);
            if number < CANDIDATES {
                continue;
            }
            let next = (0..queue.len())
                .min_by_key(|&at| (queue[at].priority, queue[at].arrived))
                .unwrap();
            let next = queue.remove(next);
            let begin = Instant::now();
            // The holder acts until the moment of its release.
            held.act();
            client.release(ELECTION, holder).await.unwrap();
            // The store would not repeat a lost wake-up within a minute.
            let granted = tokio::time::timeout(Duration::from_secs(10), next.answer).await;
            let (status, view) = granted.expect("a wake-up").unwrap().unwrap();
            slowest = slowest.max(begin.elapsed());
            assert_eq!(status, 200, "{view}");
            assert_eq!(view["holder"], format!("c{}", next.number));
            assert!(view["epoch"].as_u64().unwrap() > epoch, "{view}");
            epoch = view["epoch"].as_u64().unwrap();
            holder = next.number;
            held = Held::new(Link::connect(receiver, &format!("c{holder}")), epoch);
        }
        eprintln!("{HAND_OVERS} hand-overs, the slowest took {slowest:?}");
    });
    bench.verify();
}

/// A holder that acts at the receiver.
struct Held {
    link: Link,
    epoch: u64,
}

impl Held {
    fn new(link: Link, epoch: u64) -> Self {
        let mut held = Self { link, epoch };
        held.act();
        held
    }

    fn act(&mut self) {
        let now = now();
        assert!(self.link.act(self.epoch, now, now), "refused by the fence");
    }
}

/// Adds a waiter, and returns when it waits.
async fn enqueue(client: &Client, number: u64, waiters: u64) -> Waiter {
    let priority = [100, 7, 100, 50][number as usize % 4];
    let body = json!({"lease_id": id(number), "holder": format!("c{number}"),
        "duration_ms": 60_000, "wait_ms": 60_000, "priority": priority});
    let answer = tokio::spawn({
        let client = client.clone();
        async move { client.post(ELECTION, "acquire", body).await }
    });
    tenure_tests::wait_until("another waiter", async || {
        let (_, view) = client.view(ELECTION).await?;
        (view["waiters"] == waiters).then_some(())
    })
    .await;
    Waiter {
        priority,
        arrived: number,
        number,
        answer,
    }
}

#[test]
fn an_acquire_with_a_lost_answer_is_granted_once() {
    let bench = Bench::new();
    let proxy = bench
        .runtime
        .block_on(Proxy::start(bench.tap.address()))
        .unwrap();
    let client = Client::new(proxy.address());
    bench.runtime.block_on(async {
        let begin = Instant::now();
        let mut epochs = Vec::new();
        for number in 1..=10 {
            proxy.lose_replies(1);
            assert_eq!(client.acquire("tests/lossy", number).await, None);
            let (status, view) = client.acquire("tests/lossy", number).await.unwrap();
            assert_eq!(status, 200, "{view}");
            epochs.push((view["epoch"].as_u64(), view["revision"].as_u64()));
            client.release("tests/lossy", number).await.unwrap();
        }
        assert!(epochs.is_sorted());
        // Each round makes two revisions: one grant and one release.
        let revisions = epochs
            .windows(2)
            .map(|pair| pair[1].1.unwrap() - pair[0].1.unwrap());
        assert!(revisions.clone().all(|step| step == 2), "{epochs:?}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    });
    bench.tap.assert_possible();
}

#[test]
fn candidates_whose_grants_are_each_lost_once_lead_one_after_the_other() {
    /// A candidate that retries with another id, or not at all, would wait for the end of the
    /// lease.
    const LEASE: &str = "20000";
    const AT_MOST: Duration = Duration::from_secs(8);
    const COUNT: usize = 4;
    let bench = Bench::new();
    bench.tap.lose_grants();
    let address = bench.tap.address();
    let start = |id: &str| Process::spawn(&mut bench.candidate_with(id, address, LEASE));
    let mut candidates: Vec<_> = ["a", "b", "c", "d"].map(|id| (id, start(id))).into();
    assert_eq!(candidates.len(), COUNT);
    let mut led = vec![bench.receiver.next_leader(0)];
    while candidates.len() > 1 {
        let leader = led[led.len() - 1].clone();
        bench.wait_for_waiters(candidates.len() as u64 - 1);
        let index = candidates
            .iter()
            .position(|(id, _)| *id == leader.candidate);
        let (_, mut old) = candidates.remove(index.expect("a candidate that has not led yet"));
        old.signal(Signal::SIGTERM);
        let stopped = bench.receiver.note(&leader.candidate, "stopped");
        let next = bench.receiver.next_leader(leader.epoch);
        let gap = next.at.saturating_sub(stopped.at);
        eprintln!(
            "the next leader acted {gap:?} after the task ended, although its grant was lost"
        );
        assert!(gap < AT_MOST, "{gap:?}");
        assert!(old.wait().success());
        led.push(next);
    }
    // Each candidate was granted once, and each answer with a grant was lost.
    assert_eq!(bench.tap.lost_grants(), COUNT);
    let calls = bench.tap.calls();
    let asked = |call: &&Call| matches!(call.what, What::Acquire { .. });
    let epochs_in_answers = calls.iter().filter(asked).filter_map(granted);
    let mut epochs_in_answers: Vec<u64> = epochs_in_answers.collect();
    epochs_in_answers.dedup();
    let epochs: Vec<u64> = led.iter().map(|act| act.epoch).collect();
    assert_eq!(epochs_in_answers, epochs);
    bench.verify();
}

/// The epoch of the grant in this call's answer.
fn granted(call: &Call) -> Option<u64> {
    match &call.answer {
        Some((_, history::Answer::Done(seen))) => seen.epoch,
        _ => None,
    }
}

#[test]
fn a_candidate_whose_first_answer_is_lost_leads_well_before_the_lease_would_have_expired() {
    let bench = Bench::new();
    let proxy = bench
        .runtime
        .block_on(Proxy::start(bench.tap.address()))
        .unwrap();
    proxy.lose_replies(1);
    let mut command = bench.candidate_command("first", proxy.address());
    let _first = Process::spawn(&mut command);
    let act = bench.receiver.next_leader(0);
    assert_eq!(proxy.replies_to_lose(), 0);
    let calls = bench.tap.calls();
    let asked = Duration::from_nanos(calls[0].sent.as_nanos());
    eprintln!("led {:?} after its first request", act.at - asked);
    assert!(act.at - asked < LEASE, "{:?}", act.at - asked);
    // One grant: the lease keeps the epoch.
    let calls = bench.tap.calls();
    let mut epochs = calls.iter().filter_map(granted).collect::<Vec<_>>();
    epochs.dedup();
    assert_eq!(epochs, [act.epoch]);
    assert_eq!(bench.status()["epoch"], act.epoch);
    bench.verify();
}
