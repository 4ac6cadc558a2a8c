//! Contention for one lease, and lost answers.

use std::time::{Duration, Instant};

use serde_json::json;
use tenure_tests::proxy::Proxy;
use tenure_tests::receiver::{Link, now};
use tokio::task::JoinHandle;

use super::{Answer, Bench, Client, ELECTION, id};

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
