//! Properties that hold for all answers of the store, all losses, and all jumps of the clock.

use proptest::collection;
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// Time passes while the driver runs.
    Wait(Duration),
    /// Time passes while the machine is suspended.
    Jump(Duration),
    /// The request in flight is answered.
    Answer(Answer),
    /// A request that was given up is answered; the number counts attempts backward.
    Stale(u64, Answer),
    Campaign,
    Resign(EndReason),
    TaskEnded(TaskEnd),
}

/// The stages that a term has reached.
#[derive(Debug, Default)]
struct Life {
    cancelled: Option<EndReason>,
    aborted: bool,
    lingering: bool,
    overrun: bool,
    task_ended: bool,
}

/// A candidate, and the checks of its outputs.
struct Watch {
    machine: LeaseCandidate,
    timings: Timings,
    now: Instant,
    random: Middle,
    attempts: u64,
    /// The newest request, until its answer.
    in_flight: Option<(u64, Instant, Request)>,
    /// The time at which the newest request that succeeded was sent.
    renewed: Option<Instant>,
    /// The term, from `Began` to `Ended`.
    term: Option<Life>,
    /// The lease ids that were released.
    released: Vec<LeaseId>,
    /// Whether the last release has got no answer.
    is_unreleased: bool,
}

impl Watch {
    fn new(looks: bool) -> Self {
        Self {
            machine: LeaseCandidate::new(Timings::default()).with_looks(looks),
            timings: Timings::default(),
            now: at(0),
            random: Middle(0),
            attempts: 0,
            in_flight: None,
            renewed: None,
            term: None,
            released: Vec::new(),
            is_unreleased: false,
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Wait(duration) => self.wait(*duration),
            Step::Jump(duration) => {
                self.now = self.now + *duration;
                self.check_standing();
                self.tick();
            }
            Step::Answer(answer) => self.answer(answer.clone()),
            Step::Stale(age, answer) => {
                let stale = self.attempts.saturating_sub(*age);
                if self
                    .in_flight
                    .as_ref()
                    .is_none_or(|&(newest, ..)| newest != stale)
                {
                    self.hand_in(stale, answer.clone());
                }
            }
            Step::Campaign => self.machine.campaign(self.now, &mut self.random),
            Step::Resign(reason) => self.machine.resign(self.now, *reason, &mut self.random),
            Step::TaskEnded(end) => {
                if let Some(term) = &mut self.term {
                    term.task_ended = true;
                }
                self.machine.task_ended(self.now, *end, &mut self.random);
            }
        }
        self.drain();
        self.check_standing();
    }

    fn wait(&mut self, duration: Duration) {
        let end = self.now + duration;
        while let Some(next) = self.machine.poll_timeout().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.tick();
        }
        self.now = end;
    }

    fn tick(&mut self) {
        self.machine.handle_timeout(self.now, &mut self.random);
        self.drain();
        self.check_standing();
        self.check_step_down();
        let next = self.machine.poll_timeout();
        assert!(
            next.is_none_or(|next| next > self.now),
            "the next timer must be in the future"
        );
    }

    fn answer(&mut self, answer: Answer) {
        let Some((attempt, sent, request)) = self.in_flight.take() else {
            return;
        };
        if let Answer::Held(_) = answer
            && matches!(request, Request::Acquire { .. } | Request::Renew(_))
        {
            self.renewed = Some(sent);
        }
        if let Request::Release { .. } = request {
            self.is_unreleased = matches!(answer, Answer::Unknown(_));
        }
        self.hand_in(attempt, answer);
    }

    fn hand_in(&mut self, attempt: u64, answer: Answer) {
        self.machine
            .handle_message(self.now, (attempt, answer), &mut self.random);
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            self.watch(&output);
        }
    }

    fn watch(&mut self, output: &Output<LeaseEffect>) {
        match *output {
            Output::Effect(LeaseEffect::Send {
                attempt,
                ref request,
                ..
            }) => {
                assert_eq!(attempt, self.attempts + 1, "attempts are numbered in order");
                self.attempts = attempt;
                self.in_flight = Some((attempt, self.now, request.clone()));
                let task_is_going = self.term.as_ref().is_some_and(|term| !term.task_ended);
                let expected = match request {
                    Request::Acquire { lease_id, .. } => {
                        assert!(!self.released.contains(lease_id), "an id is used again");
                        assert!(!self.is_unreleased, "two ids compete");
                        self.term.is_none()
                    }
                    Request::Renew(_) | Request::Look(_) => task_is_going,
                    Request::Release { .. } | Request::HandOver { .. } => !task_is_going,
                    // Only a candidate that peers elect resumes a term.
                    Request::Resume { .. } => false,
                };
                if let Request::Release { lease_id, .. } = request {
                    self.released.push(*lease_id);
                    self.is_unreleased = true;
                }
                assert!(expected, "{request:?} while {:?}", self.term);
            }
            Output::Term(TermEvent::Began(_)) => {
                assert!(self.term.is_none(), "a term began within another");
                let sent = self.renewed.expect("a term began without a grant");
                assert!(self.now < sent + self.timings.renew_interval());
                self.term = Some(Life::default());
            }
            Output::Term(TermEvent::Cancel(reason)) => {
                let term = self.term.as_mut().expect("nothing to cancel");
                assert_eq!(term.cancelled.replace(reason), None, "cancelled twice");
            }
            Output::Term(TermEvent::Abort) => {
                let term = self.term.as_mut().expect("nothing to abort");
                assert!(term.cancelled.is_some() && !term.task_ended);
                assert!(
                    !core::mem::replace(&mut term.aborted, true),
                    "aborted twice"
                );
            }
            Output::Term(TermEvent::Overrun) => {
                let term = self.term.as_mut().expect("nothing to overrun");
                assert!(term.aborted, "overrun without an abort");
                let standing = self.machine.standing(self.now);
                assert_eq!(standing, Standing::Ending, "the term is still renewed");
                assert!(!core::mem::replace(&mut term.overrun, true));
            }
            Output::Term(TermEvent::Lingering) => {
                let term = self.term.as_mut().expect("nothing to linger");
                assert!(term.aborted, "lingering without an abort");
                assert!(!term.overrun, "the term is not renewed any more");
                assert!(!core::mem::replace(&mut term.lingering, true));
            }
            Output::Term(TermEvent::Ended(_, reason)) => {
                let term = self.term.take().expect("nothing to end");
                assert!(term.task_ended, "the term ended while its task ran");
                assert_eq!(term.cancelled, Some(reason));
                self.renewed = None;
            }
            Output::Term(TermEvent::Withdrawn | TermEvent::Failed(_)) => {
                assert!(self.term.is_none());
                self.renewed = None;
            }
            Output::Term(TermEvent::AtRisk(_) | TermEvent::LeaderSeen(_))
            | Output::Effect(LeaseEffect::Retrying(..)) => {}
        }
    }

    fn check_standing(&self) {
        let Standing::Leading { until, .. } = self.machine.standing(self.now) else {
            return;
        };
        let term = self
            .term
            .as_ref()
            .expect("the candidate leads without a term");
        let renewed = self.renewed.expect("the candidate leads without a grant");
        assert!(self.now < renewed + self.timings.renew_deadline());
        assert!(self.now < until && until <= renewed + self.timings.renew_deadline());
        let lost = matches!(
            term.cancelled,
            Some(
                EndReason::RenewDeadline
                    | EndReason::Suspended
                    | EndReason::Broken
                    | EndReason::Superseded
            )
        );
        assert!(!lost, "the candidate leads after the term was lost");
    }

    /// Checks that after a tick the step-down has reached the stage that the time requires.
    fn check_step_down(&self) {
        if let (Some(term), Some(renewed)) = (&self.term, self.renewed)
            && !term.task_ended
        {
            let since = self.now.since(renewed);
            assert!(since < self.timings.renew_deadline() || term.cancelled.is_some());
            assert!(since < self.timings.hard_stop() || term.aborted);
            // Before the store may grant the lease again, whatever the reason for the end is.
            let last = self.timings.hard_stop() + self.timings.abort_allowance();
            assert!(last < self.timings.lease_duration());
            assert!(since < last || term.overrun);
        }
    }
}

fn a_step() -> impl Strategy<Value = Step> {
    let millis = |range: core::ops::Range<u64>| range.prop_map(Duration::from_millis);
    prop_oneof![
        4 => prop_oneof![millis(0..500), millis(0..7_000), millis(0..20_000)].prop_map(Step::Wait),
        1 => prop_oneof![millis(0..3_000), millis(0..30_000)].prop_map(Step::Jump),
        8 => Just(Step::Answer(held(7))),
        3 => an_answer().prop_map(Step::Answer),
        1 => (1..3_u64, prop_oneof![Just(held(7)), an_answer()])
            .prop_map(|(age, answer)| Step::Stale(age, answer)),
        3 => Just(Step::Campaign),
        1 => prop_oneof![Just(EndReason::Resigned), Just(EndReason::ShutDown)]
            .prop_map(Step::Resign),
        2 => prop_oneof![
            Just(TaskEnd::Returned),
            Just(TaskEnd::Failed),
            Just(TaskEnd::Panicked),
            Just(TaskEnd::Aborted),
        ]
        .prop_map(Step::TaskEnded),
    ]
}

fn an_answer() -> impl Strategy<Value = Answer> {
    prop_oneof![
        4 => Just(Answer::Unknown("no answer".to_owned())),
        2 => Just(held_by_b()),
        1 => Just(held(8)),
        1 => Just(Answer::Released),
        1 => Just(Answer::IdRetired),
        1 => (0..20_000_u64).prop_map(|left| Answer::Broken { remaining: millis(left) }),
        1 => Just(Answer::Expired),
        1 => Just(Answer::Superseded),
        1 => Just(Answer::Refused("no permission".to_owned())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn a_candidate_leads_only_until_its_renew_deadline_and_steps_down_in_order(
        steps in collection::vec(a_step(), 1..80),
        looks in any::<bool>(),
    ) {
        let mut watch = Watch::new(looks);
        watch.step(&Step::Campaign);
        for step in &steps {
            watch.step(step);
        }
    }
}
