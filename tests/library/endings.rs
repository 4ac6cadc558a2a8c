//! Every end of a term has its reason.

use std::future::{Future, pending};
use std::time::Instant;

use tenure::{Candidate, EndReason, Leadership, TaskResult, TermSummary};
use tenure_tests::proxy::ProxyMode;

use crate::world::{TaskRuns, World, brisk, leads, long, ms, stop_when_lost, timings};

/// Runs one term with this task; `then` runs once the task runs.
async fn term<Fut>(
    candidate: &Candidate,
    task: impl FnMut(Leadership) -> Fut,
    then: impl Future<Output = ()>,
) -> TermSummary
where
    Fut: Future<Output: TaskResult> + Send + 'static,
{
    let (term, ()) = tokio::join!(candidate.run_one_term(pending(), task), then);
    term.unwrap().unwrap()
}

async fn steady(world: &World) -> Candidate {
    let config = world.config("a").with_timings(long());
    Candidate::start(config).await.unwrap()
}

#[tokio::test]
async fn a_term_whose_task_returns_ends_as_task_returned() {
    let world = World::start();
    let candidate = steady(&world).await;
    let (sender, epoch) = std::sync::mpsc::channel();
    let task = |leadership: Leadership| {
        let sender = sender.clone();
        async move { sender.send(leadership.epoch()).unwrap() }
    };
    let term = term(&candidate, task, async {}).await;
    assert_eq!((term.reason, term.error), (EndReason::TaskReturned, None));
    assert_eq!(term.epoch, epoch.recv().unwrap());
    world.released().await;
}

#[tokio::test]
async fn a_term_whose_task_fails_ends_with_its_error() {
    let world = World::start();
    let candidate = steady(&world).await;
    let task = |_| async { Err::<(), _>("the disk is full") };
    let term = term(&candidate, task, async {}).await;
    assert_eq!(term.reason, EndReason::TaskFailed);
    assert_eq!(term.error.as_deref(), Some("the disk is full"));
    world.released().await;
}

#[tokio::test]
async fn a_term_whose_task_panics_ends_with_its_message() {
    let world = World::start();
    let candidate = steady(&world).await;
    let task = async |_| -> () { panic!("{} is not a number", "x") };
    let term = term(&candidate, task, async {}).await;
    assert_eq!(term.reason, EndReason::TaskPanicked);
    assert_eq!(term.error.as_deref(), Some("x is not a number"));
    world.released().await;
}

#[tokio::test]
async fn a_panic_while_the_task_is_created_propagates_and_leaves_no_lease_behind() {
    let world = World::start();
    let candidate = std::sync::Arc::new(steady(&world).await);
    let run = tokio::spawn({
        let candidate = candidate.clone();
        async move {
            let task = |_| -> std::future::Pending<()> { panic!("no task") };
            candidate.run_while_leader(pending(), task).await
        }
    });
    assert!(run.await.unwrap_err().is_panic());
    world.released().await;
}

#[tokio::test]
async fn a_term_that_its_task_or_its_candidate_resigns_ends_as_resigned() {
    let world = World::start();
    let candidate = steady(&world).await;
    let by_task = |leadership: Leadership| async move {
        leadership.resign();
        assert_eq!(leadership.lost().await, EndReason::Resigned);
    };
    let first = term(&candidate, by_task, async {}).await;
    assert_eq!((first.reason, first.error), (EndReason::Resigned, None));

    let resign = async {
        leads(&candidate).await;
        candidate.resign().await;
        // It waits until the lease is released.
        assert_eq!(world.holder().await, None);
    };
    let second = term(&candidate, stop_when_lost, resign).await;
    assert_eq!((second.reason, second.error), (EndReason::Resigned, None));
    assert!(first.epoch < second.epoch);
    // There is no term to resign, so this returns at once.
    candidate.resign().await;
}

#[tokio::test]
async fn a_term_that_cannot_be_renewed_ends_as_renew_deadline() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let cut = async {
        leads(&candidate).await;
        proxy.set(ProxyMode::Refuse);
    };
    let task =
        |leadership: Leadership| async move { Err::<(), _>(leadership.lost().await.to_string()) };
    let term = term(&candidate, task, cut).await;
    // The first reason stays; the later error of the task is reported beside it.
    assert_eq!(term.reason, EndReason::RenewDeadline);
    assert_eq!(term.error.as_deref(), Some("renew_deadline"));
}

#[tokio::test]
async fn a_task_stops_within_the_period_of_a_break() {
    let world = World::start();
    // A long term that a break shortens to a fraction.
    let candidate = Candidate::start(
        world
            .config("a")
            .with_timings(timings(6000, 300, 3000, 2500)),
    )
    .await
    .unwrap();
    let next = world.candidate("b").await;
    let period = ms(2000);
    for stops_by_itself in [true, false] {
        let runs = TaskRuns::default();
        let task = |leadership: Leadership| {
            let running = runs.begin(&leadership);
            async move {
                let _running = running;
                let reason = leadership.lost().await;
                // The time to stop is within the break period.
                assert!(leadership.time_to_stop() <= period);
                if !stops_by_itself {
                    pending::<()>().await;
                }
                Err::<(), _>(reason.to_string())
            }
        };
        let end = async {
            runs.begun(1).await;
            let follow = async {
                let guard = next.campaign().await.unwrap();
                drop(runs.begin(&guard));
                guard.resign().await;
            };
            let break_it = async {
                world.waiting(1).await;
                let now = Instant::now();
                world.break_lease(Some(period)).await;
                runs.begun(2).await;
                assert!(stops_by_itself || runs.all()[0].ended.unwrap() < now + period);
            };
            tokio::join!(follow, break_it);
        };
        let term = term(&candidate, task, end).await;
        assert_eq!(term.reason, EndReason::Broken);
        assert_eq!(term.error.as_deref(), stops_by_itself.then_some("broken"));
        runs.assert_one_at_a_time();
    }
}

#[tokio::test]
async fn a_term_that_is_broken_at_once_ends_at_once() {
    let world = World::start();
    let candidate = steady(&world).await;
    let break_it = async {
        leads(&candidate).await;
        world.break_lease(Some(ms(0))).await;
    };
    // The task ignores its end and would have a stop grace of twenty seconds, but the lease is
    // gone.
    let began = Instant::now();
    let term = term(&candidate, |_| pending::<()>(), break_it).await;
    assert_eq!((term.reason, term.error), (EndReason::Broken, None));
    assert!(began.elapsed() < long().stop_grace());
}

#[tokio::test]
async fn a_term_whose_lease_another_candidate_holds_ends_as_superseded() {
    let world = World::start();
    let candidate = steady(&world).await;
    let other = world.candidate("b").await;
    let supersede = async {
        leads(&candidate).await;
        let break_it = async {
            world.waiting(1).await;
            world.break_lease(Some(ms(0))).await;
        };
        let (guard, ()) = tokio::join!(other.campaign(), break_it);
        // The leadership is kept until the first candidate knows of it.
        let guard = guard.unwrap();
        tokio::time::sleep(2 * brisk().renew_interval()).await;
        assert!(guard.is_valid());
    };
    let term = term(&candidate, |_| pending::<()>(), supersede).await;
    assert_eq!((term.reason, term.error), (EndReason::Superseded, None));
}

#[tokio::test]
async fn a_term_that_is_shut_down_ends_as_shut_down() {
    let world = World::start();
    let candidate = steady(&world).await;
    let runs = TaskRuns::default();
    let task = |leadership: Leadership| {
        let running = runs.begin(&leadership);
        async move {
            let _running = running;
            leadership.lost().await;
        }
    };
    let shutdown = async {
        runs.begun(1).await;
    };
    let term = candidate.run_one_term(shutdown, task).await;
    assert_eq!(term.unwrap().unwrap().reason, EndReason::ShutDown);
    // After a shutdown has returned, the process may exit: it holds no lease.
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn a_leadership_value_that_outlives_its_term_is_invalid_and_does_not_affect_later_terms() {
    let world = World::start();
    let candidate = steady(&world).await;
    let guard = candidate.campaign().await.unwrap();
    let old = guard.clone();
    assert!(old.is_valid() && !old.is_at_risk());
    let token = old.cancellation();
    guard.resign().await;
    assert!(!old.is_valid() && token.is_cancelled());
    assert_eq!(old.check().unwrap_err().0, old.epoch());
    assert_eq!((old.remaining(), old.time_to_stop()), (ms(0), ms(0)));
    assert_eq!(old.lost().await, EndReason::Resigned);
    old.at_risk().await;

    let guard = candidate.campaign().await.unwrap();
    old.resign();
    // Commands run in order: if this one has no effect, neither had the one before.
    old.clone().resign();
    tokio::time::sleep(2 * long().renew_interval()).await;
    assert!(guard.is_valid() && !guard.cancellation().is_cancelled());
    assert_eq!(guard.resign().await, EndReason::Resigned);
    drop(candidate);
    old.resign();
    assert_eq!(old.lost().await, EndReason::Resigned);
}
