//! Every end of a term has its reason.

use std::future::{Future, pending};
use std::time::Instant;

use tenure::{Candidate, EndReason, Leadership, TaskResult, TermSummary};
use tenure_tests::proxy::Mode;

use crate::world::{Reigns, World, brisk, leads, long, ms, obedient, timings};

/// One term of this task, in which `then` happens once the task runs.
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
    let (told, epoch) = std::sync::mpsc::channel();
    let task = |leadership: Leadership| {
        let told = told.clone();
        async move { told.send(leadership.epoch()).unwrap() }
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
async fn a_panic_on_the_way_to_the_task_goes_through_and_leaves_nothing_held() {
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
        // It waits until the lease is given back.
        assert_eq!(world.holder().await, None);
    };
    let second = term(&candidate, obedient, resign).await;
    assert_eq!((second.reason, second.error), (EndReason::Resigned, None));
    assert!(first.epoch < second.epoch);
    // There is nothing to resign, and nothing to wait for.
    candidate.resign().await;
}

#[tokio::test]
async fn a_term_that_can_not_be_renewed_ends_as_renew_deadline() {
    let world = World::start();
    let proxy = world.proxy().await;
    let candidate = world.candidate_behind(&proxy, "a").await;
    let cut = async {
        leads(&candidate).await;
        proxy.set(Mode::Refuse);
    };
    let task =
        |leadership: Leadership| async move { Err::<(), _>(leadership.lost().await.to_string()) };
    let term = term(&candidate, task, cut).await;
    // What ended the term stays; that the task then failed is told beside it.
    assert_eq!(term.reason, EndReason::RenewDeadline);
    assert_eq!(term.error.as_deref(), Some("renew_deadline"));
}

#[tokio::test]
async fn a_task_whose_lease_is_broken_with_a_period_stops_within_it() {
    let world = World::start();
    // A long term, of which a break leaves little.
    let candidate = Candidate::start(
        world
            .config("a")
            .with_timings(timings(6000, 300, 3000, 2500)),
    )
    .await
    .unwrap();
    let next = world.candidate("b").await;
    let period = ms(2000);
    for obeys in [true, false] {
        let reigns = Reigns::default();
        let task = |leadership: Leadership| {
            let reigning = reigns.begin(&leadership);
            async move {
                let _reigning = reigning;
                let reason = leadership.lost().await;
                // Time to stop in, within the break.
                assert!(leadership.time_to_stop() <= period);
                if !obeys {
                    pending::<()>().await;
                }
                Err::<(), _>(reason.to_string())
            }
        };
        let end = async {
            reigns.begun(1).await;
            let follow = async {
                let guard = next.campaign().await.unwrap();
                drop(reigns.begin(&guard));
                guard.resign().await;
            };
            let break_it = async {
                world.waiting(1).await;
                let now = Instant::now();
                world.break_lease(Some(period)).await;
                reigns.begun(2).await;
                assert!(obeys || reigns.all()[0].ended.unwrap() < now + period);
            };
            tokio::join!(follow, break_it);
        };
        let term = term(&candidate, task, end).await;
        assert_eq!(term.reason, EndReason::Broken);
        assert_eq!(term.error.as_deref(), obeys.then_some("broken"));
        reigns.assert_one_at_a_time();
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
    // It ignores its end and has a grace of twenty seconds by its timings, but no lease any more.
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
        // It is kept until the first has heard of it.
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
    let reigns = Reigns::default();
    let task = |leadership: Leadership| {
        let reigning = reigns.begin(&leadership);
        async move {
            let _reigning = reigning;
            leadership.lost().await;
        }
    };
    let shutdown = async {
        reigns.begun(1).await;
    };
    let term = candidate.run_one_term(shutdown, task).await;
    assert_eq!(term.unwrap().unwrap().reason, EndReason::ShutDown);
    // Whoever comes back from a shutdown may let its process end: nothing is held any more.
    assert_eq!(world.holder().await, None);
}

#[tokio::test]
async fn a_leadership_kept_after_its_term_is_invalid_and_disturbs_no_later_term() {
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
    // Commands are obeyed in order: if this one does nothing, neither did the one before.
    old.clone().resign();
    tokio::time::sleep(2 * long().renew_interval()).await;
    assert!(guard.is_valid() && !guard.cancellation().is_cancelled());
    assert_eq!(guard.resign().await, EndReason::Resigned);
    drop(candidate);
    old.resign();
    assert_eq!(old.lost().await, EndReason::Resigned);
}
