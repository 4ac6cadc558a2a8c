//! A leader that can't renew, and an answer that is lost.

use std::future::pending;
use std::sync::mpsc;
use std::time::Instant;

use tenure::observe::Observed;
use tenure::{Candidate, EndReason, Leadership};
use tenure_tests::proxy::Mode;
use tenure_tests::store::endpoint;
use tenure_tests::wait_until;
use tokio::net::TcpListener;

use crate::world::{Reigns, World, brisk, long, ms, obedient, timings};

/// What a task saw of its end.
struct Lost {
    at_risk: Instant,
    lost: Instant,
    reason: EndReason,
    was_valid: bool,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_store_hangs_is_at_risk_then_lost_before_its_lease_ends() {
    loses_in_time(Mode::Hang).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_whose_store_refuses_connections_is_at_risk_then_lost_before_its_lease_ends() {
    loses_in_time(Mode::Refuse).await;
}

async fn loses_in_time(mode: Mode) {
    let world = World::start();
    let proxy = world.proxy().await;
    let (a, b) = (
        world.candidate_behind(&proxy, "a").await,
        world.candidate("b").await,
    );
    let reigns = Reigns::default();
    let (ended, end) = mpsc::channel();
    let (began, mut begun) = tokio::sync::mpsc::unbounded_channel();
    let task = |leadership: Leadership| {
        let reigning = reigns.begin(&leadership);
        let (ended, began) = (ended.clone(), began.clone());
        async move {
            let _reigning = reigning;
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
            // It does not stop, so that it is the hard stop that makes room for another.
            pending::<()>().await;
        }
    };
    let run = a.run_while_leader(pending(), task);
    let test = async {
        let leadership = begun.recv().await.unwrap();
        let next = tokio::spawn({
            let reigns = reigns.clone();
            async move {
                let lead = |leadership: Leadership| {
                    let reigning = reigns.begin(&leadership);
                    async move {
                        tokio::time::sleep(ms(50)).await;
                        drop(reigning);
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
        proxy.set(Mode::Pass);

        let lost = end.try_recv().expect("it was told before another led");
        assert_eq!(lost.reason, EndReason::RenewDeadline);
        assert!(!lost.was_valid);
        assert!(lost.at_risk < lost.lost, "no warning came before");
        // Not at the first failure: at the renew deadline after the last success.
        assert!(lost.lost + ms(1) >= at_least);
        assert!(lost.lost < expiry);
        // The task that ignored that was gone before the store let another in.
        let gone = reigns.ended(1).await.ended.unwrap();
        assert!(gone < expiry);
        // It competes again as soon as it can.
        reigns.begun(3).await;
        reigns.assert_one_at_a_time();
    };
    tokio::select! {
        ended = run => panic!("it stopped: {ended:?}"),
        () = test => {}
    }
}

#[tokio::test]
async fn a_store_that_comes_back_in_time_saves_the_term() {
    let world = World::start();
    let proxy = world.proxy().await;
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(proxy.address())]);
    let candidate = Candidate::start(config).await.unwrap();
    let guard = candidate.campaign().await.unwrap();
    proxy.set(Mode::Refuse);
    guard.at_risk().await;
    assert!(guard.is_at_risk() && guard.is_valid());
    proxy.set(Mode::Pass);
    wait_until("safety", async || (!guard.is_at_risk()).then_some(())).await;
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    assert_eq!(guard.resign().await, EndReason::Resigned);
}

#[tokio::test]
async fn an_acquire_without_an_answer_is_sent_again_and_wins_at_once() {
    let world = World::start();
    let earlier = world.candidate("earlier").await;
    earlier.campaign().await.unwrap().resign().await;
    let before = world.lease().await.unwrap();

    let proxy = world.proxy().await;
    // If it competed with itself it would wait for two minutes.
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(proxy.address())]);
    let candidate = Candidate::start(config).await.unwrap();
    proxy.lose_replies(2);
    let guard = candidate.campaign().await.unwrap();
    assert_eq!(proxy.replies_to_lose(), 0);
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    // The store has made one grant of three requests.
    let after = world.lease().await.unwrap();
    assert_eq!(after.revision, before.revision + 1);
}

#[tokio::test]
async fn lost_answers_to_a_renewal_and_a_release_do_no_harm() {
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
async fn a_candidate_whose_first_address_is_dead_leads_by_the_second() {
    let world = World::start();
    let nobody = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let config = world.config("a").with_timings(long());
    let config = config.with_servers([endpoint(nobody), world.store.endpoint()]);
    let candidate = Candidate::start(config).await.unwrap();
    let mut observer = candidate.observe();
    let guard = candidate.campaign().await.unwrap();
    assert_eq!(world.held_by("a").await, guard.epoch().get());
    // Who watches is not told of an address that another one makes up for.
    let seen = observer.next().await;
    assert!(!matches!(seen, Observed::Unknown(_)), "{seen:?}");
}

#[tokio::test]
async fn a_leader_goes_to_another_address_within_its_term_when_one_dies() {
    for mode in [Mode::Refuse, Mode::Hang] {
        let world = World::start();
        let (first, second) = (world.proxy().await, world.proxy().await);
        // Room for a lost attempt in each direction on a busy machine.
        let timings = timings(6000, 500, 4000, 1000);
        let config = world.config("a").with_timings(timings);
        let config = config.with_servers([endpoint(first.address()), endpoint(second.address())]);
        let candidate = Candidate::start(config).await.unwrap();
        let guard = candidate.campaign().await.unwrap();
        for (dies, lives) in [(&first, &second), (&second, &first)] {
            lives.set(Mode::Pass);
            dies.set(mode);
            guard.at_risk().await;
            wait_until("safety", async || {
                assert!(guard.is_valid());
                (!guard.is_at_risk()).then_some(())
            })
            .await;
            assert_eq!(world.held_by("a").await, guard.epoch().get());
        }
    }
}

#[tokio::test]
async fn a_leader_that_resigns_after_a_loss_reports_the_loss() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let guard = candidate.campaign().await.unwrap();
    proxy.set(Mode::Hang);
    assert_eq!(guard.lost().await, EndReason::RenewDeadline);
    assert!(guard.check().is_err());
    assert_eq!(guard.resign().await, EndReason::RenewDeadline);
    // The next campaign waits for the store, and has it when it is back.
    let back = async {
        tokio::time::sleep(brisk().renew_interval()).await;
        proxy.set(Mode::Pass);
    };
    let (guard, ()) = tokio::join!(candidate.campaign(), back);
    drop(guard.unwrap());
    let term = candidate.run_one_term(std::future::ready(()), obedient);
    assert_eq!(term.await, Ok(None));
}
