//! Leaders that cannot renew, and lost answers.

use std::future::pending;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use tenure::observe::Observed;
use tenure::store::TermEnd;
use tenure::testing::TestStore;
use tenure::{Candidate, Config, ElectionName, EndReason, Leadership};
use tenure_tests::proxy::ProxyMode;
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;
use tokio::net::TcpListener;

use crate::world::{ELECTION, TaskRuns, World, brisk, leads, long, ms, stop_when_lost, timings};

/// What a task observed at the end of its term.
struct Lost {
    at_risk: Instant,
    lost: Instant,
    reason: EndReason,
    was_valid: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_store_hangs_is_at_risk_then_lost_before_its_lease_ends() {
    check_that_a_leader_stops_in_time(ProxyMode::Hang).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_store_refuses_connections_is_at_risk_then_lost_before_its_lease_ends() {
    check_that_a_leader_stops_in_time(ProxyMode::Refuse).await;
}

async fn check_that_a_leader_stops_in_time(mode: ProxyMode) {
    let world = World::start();
    let proxy = world.proxy().await;
    let (a, b) = (
        world.candidate_behind(&proxy, "a").await,
        world.candidate("b").await,
    );
    let runs = TaskRuns::default();
    let (ended, end) = mpsc::channel();
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        let (ended, began) = (ended.clone(), began.clone());
        async move {
            let _running = running;
            began.send(leadership.clone()).unwrap();
            leadership.at_risk().await;
            let at_risk = Instant::now();
            let reason = leadership.lost().await;
            let (lost, was_valid) = (Instant::now(), leadership.is_valid());
            let _ = ended.send(Lost {
                at_risk,
                lost,
                reason,
                was_valid,
            });
            // The task does not stop, so that the hard stop must end it before another candidate
            // leads.
            pending::<()>().await;
        }
    };
    let run = a.run_while_leader(pending(), task);
    let test = async {
        let leadership = begun.recv().await.unwrap();
        let next = tokio::spawn({
            let runs = runs.clone();
            async move {
                let lead = |leadership: Leadership| {
                    let running = runs.begin(&leadership);
                    async move {
                        tokio::time::sleep(ms(50)).await;
                        drop(running);
                    }
                };
                b.run_one_term(pending(), lead).await.unwrap().unwrap()
            }
        });
        world.waiting(1).await;
        let at_least = Instant::now() + leadership.remaining();
        proxy.set(mode);
        let expiry = world.earliest_expiry().await;
        next.await.unwrap();
        proxy.set(ProxyMode::Pass);

        let lost = end
            .try_recv()
            .expect("the task was cancelled before another candidate led");
        assert_eq!(lost.reason, EndReason::RenewDeadline);
        assert!(!lost.was_valid);
        assert!(
            lost.at_risk < lost.lost,
            "there was no warning before the loss"
        );
        // The term ends at the renew deadline after the last success, and not at the first failure.
        assert!(lost.lost + ms(1) >= at_least);
        assert!(lost.lost < expiry);
        // The task ignored its cancellation and was gone before the store granted the next term.
        let gone = runs.ended(1).await.ended.unwrap();
        assert!(gone < expiry);
        // The first candidate campaigns again as soon as possible.
        runs.begun(3).await;
        runs.assert_one_at_a_time();
    };
    tokio::select! {
        ended = run => panic!("the run ended: {ended:?}"),
        () = test => {}
    }
}

#[tokio::test]
async fn a_term_survives_a_store_that_is_unreachable_for_a_short_time() {
    let world = World::start();
    let proxy = world.proxy().await;
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(proxy.address())]);
    let candidate = Candidate::start(config).await.unwrap();
    let guard = candidate.campaign().await.unwrap();
    proxy.set(ProxyMode::Refuse);
    guard.at_risk().await;
    assert!(guard.is_at_risk() && guard.is_valid());
    proxy.set(ProxyMode::Pass);
    wait_until("safety", async || (!guard.is_at_risk()).then_some(())).await;
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    assert_eq!(guard.resign().await, EndReason::Resigned);
}

#[tokio::test]
async fn an_acquire_with_a_lost_answer_is_repeated_and_succeeds_at_once() {
    let world = World::start();
    let earlier = world.candidate("earlier").await;
    earlier.campaign().await.unwrap().resign().await;
    let before = world.lease().await.unwrap();

    let proxy = world.proxy().await;
    // If the store took the repeated request for that of another candidate, it would wait for two
    // minutes.
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(proxy.address())]);
    let candidate = Candidate::start(config).await.unwrap();
    proxy.lose_replies(2);
    let guard = candidate.campaign().await.unwrap();
    assert_eq!(proxy.replies_to_lose(), 0);
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    // Three requests have led to one grant.
    let after = world.lease().await.unwrap();
    assert_eq!(after.revision, before.revision + 1);
}

#[tokio::test]
async fn a_renewal_and_a_release_with_lost_answers_have_no_bad_effect() {
    let world = World::start();
    let proxy = world.proxy().await;
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(proxy.address())]);
    let candidate = Candidate::start(config).await.unwrap();
    let guard = candidate.campaign().await.unwrap();
    proxy.lose_replies(2);
    guard.at_risk().await;
    wait_until("safety", async || {
        (proxy.replies_to_lose() == 0 && !guard.is_at_risk()).then_some(())
    })
    .await;
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    proxy.lose_replies(1);
    assert_eq!(guard.resign().await, EndReason::Resigned);
    world.released().await;
}

#[tokio::test]
async fn a_candidate_with_an_unreachable_first_address_leads_through_the_second() {
    let world = World::start();
    let unused = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(unused), world.store.endpoint()]);
    let candidate = Candidate::start(config).await.unwrap();
    let mut observer = candidate.observe();
    let guard = candidate.campaign().await.unwrap();
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    // An observer reports no error for a failed address while another address works.
    let seen = observer.next().await;
    assert!(!matches!(seen, Observed::Unknown(_)), "{seen:?}");
}

#[tokio::test]
async fn a_leader_switches_to_another_address_within_its_term() {
    for mode in [ProxyMode::Refuse, ProxyMode::Hang] {
        let world = World::start();
        let (first, second) = (world.proxy().await, world.proxy().await);
        // Time for a lost attempt in each direction on a busy machine.
        let timings = timings(6000, 500, 4000, 1000);
        let config = world.config("a").with_timings(timings);
        let config = config.with_servers([endpoint(first.address()), endpoint(second.address())]);
        let candidate = Candidate::start(config).await.unwrap();
        let guard = candidate.campaign().await.unwrap();
        for (unreachable, reachable) in [(&first, &second), (&second, &first)] {
            reachable.set(ProxyMode::Pass);
            unreachable.set(mode);
            let before = candidate.metrics().renewals.ok;
            wait_until("renewals by the other address", async || {
                assert!(guard.is_valid());
                (candidate.metrics().renewals.ok >= before + 3).then_some(())
            })
            .await;
            assert_eq!(world.held_by("a").await, guard.epoch().get());
        }
    }
}

#[tokio::test]
async fn a_leader_that_resigns_after_a_loss_reports_the_reason_of_the_loss() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let guard = candidate.campaign().await.unwrap();
    proxy.set(ProxyMode::Hang);
    assert_eq!(guard.lost().await, EndReason::RenewDeadline);
    assert!(guard.check().is_err());
    assert_eq!(guard.resign().await, EndReason::RenewDeadline);
    // The next campaign waits for the store, and succeeds when it is reachable again.
    let back = async {
        tokio::time::sleep(brisk().renew_interval()).await;
        proxy.set(ProxyMode::Pass);
    };
    let (guard, ()) = tokio::join!(candidate.campaign(), back);
    drop(guard.unwrap());
    let term = candidate.run_one_term(std::future::ready(()), stop_when_lost);
    assert_eq!(term.await, Ok(None));
}

#[tokio::test]
async fn after_an_outage_a_candidate_leads_again_without_waiting_for_the_end_of_its_own_lease() {
    // In the second case the lease expires in the store before the outage is over, and the reason
    // comes too late.
    for (outage, end, reason) in [
        (11, TermEnd::Released, Some("renew_deadline")),
        (30, TermEnd::Expired, None),
    ] {
        let store = TestStore::start().unwrap();
        let election: ElectionName = ELECTION.parse().unwrap();
        let candidate = Arc::new(store.candidate(Config::new(election.clone())));
        let running = candidate.clone();
        let run = tokio::spawn(async move {
            let run = running.run_while_leader(pending(), stop_when_lost);
            run.await.unwrap();
        });
        store.advance_until(leads(&candidate)).await;
        let first = candidate.leadership().unwrap().epoch();
        store.set_reachable(false);
        store.advance(Duration::from_secs(outage)).await;
        assert!(candidate.leadership().is_none());
        store.set_reachable(true);
        // A release that is under way then gets no answer within the renew interval, and is repeated.
        store.advance(Duration::from_secs(10)).await;
        let next = candidate.leadership().expect("a term").epoch();
        assert!(next > first);
        let history = store.history(&election);
        assert_eq!(history.len(), 2);
        let ended = (history[1].end, history[1].reason.as_deref());
        assert_eq!(ended, (Some(end), reason));
        run.abort();
    }
}

#[tokio::test]
async fn after_an_outage_the_store_shows_why_the_term_ended_and_grants_the_lease_at_once() {
    // The lease would last for a minute.
    for mode in [ProxyMode::Refuse, ProxyMode::Hang] {
        let world = World::start();
        let proxy = world.proxy().await;
        let config = |name| {
            let config = world.config(name).with_servers([endpoint(proxy.address())]);
            config.with_timings(timings(60_000, 300, 1_000, 300))
        };
        let candidates = [
            Candidate::start(config("a")).await.unwrap(),
            Candidate::start(config("b")).await.unwrap(),
        ];
        let runs = TaskRuns::default();
        let task = |leadership: Leadership| {
            let running = runs.begin(&leadership);
            async move {
                let _running = running;
                leadership.lost().await;
            }
        };
        let [a, b] = candidates
            .each_ref()
            .map(|candidate| candidate.run_while_leader(pending(), task));
        let test = async {
            runs.begun(1).await;
            proxy.set(mode);
            runs.ended(1).await;
            tokio::time::sleep(ms(2_000)).await;
            proxy.set(ProxyMode::Pass);
            let back = Instant::now();
            runs.begun(2).await;
            assert!(
                back.elapsed() < Duration::from_secs(20),
                "{:?}",
                back.elapsed()
            );
            runs.assert_one_at_a_time();
            let election = ELECTION.parse().unwrap();
            let history = world.client.history(&election).await.unwrap().unwrap();
            let [now, before] = &history.terms[..] else {
                panic!("{history:?}")
            };
            assert!(now.epoch > before.epoch);
            let ended = (before.end, before.reason.as_deref());
            assert_eq!(ended, (Some(TermEnd::Released), Some("renew_deadline")));
        };
        tokio::select! {
            ended = a => panic!("the run ended: {ended:?}"),
            ended = b => panic!("the run ended: {ended:?}"),
            () = test => {}
        }
    }
}
