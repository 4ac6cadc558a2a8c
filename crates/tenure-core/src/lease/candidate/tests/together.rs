//! Several keepers against one lease, over ways that delay, lose and repeat.

use proptest::collection;
use proptest::prelude::*;

use super::*;
use crate::lease::{self, Acquire, Change, LeaseDuration, Operation, Record, Rejection, Rules};
use crate::{CandidateId, UnixMillis};

const KEEPERS: usize = 3;

/// How often the world is looked at.
const TICK: Duration = Duration::from_millis(50);

/// What the ways do to one request: how long it and its answer take, in milliseconds; `None` is
/// lost. A repeated request arrives a second time, so much later.
#[derive(Clone, Copy, Debug)]
struct Way {
    there: Option<u64>,
    back: Option<u64>,
    repeated_after: Option<u64>,
}

/// What happens now and then to one of the keepers.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Nothing,
    StandStill(u64),
    Resign,
    TaskFails,
    /// Somebody breaks the lease, and lets it run out what it has left.
    Break,
}

/// A keeper, its task and its clock, which stands for the same time as the store's.
struct Node {
    keeper: LeaseCandidate,
    random: Middle,
    asleep_until: Instant,
    /// Whether it stood still since its term began.
    stood_still: bool,
    task: Task,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    None,
    Going(Epoch),
    /// Told to stop; it takes its time, until it is aborted.
    Stopping(Epoch, Instant),
}

enum Parcel {
    Request {
        from: usize,
        attempt: u64,
        request: Request,
        back: Option<u64>,
    },
    Answer {
        to: usize,
        attempt: u64,
        answer: Answer,
    },
}

struct World {
    now: Instant,
    record: Record,
    nodes: Vec<Node>,
    under_way: Vec<(Instant, Parcel)>,
    ways: Vec<Way>,
    sent: usize,
}

impl World {
    fn new(ways: Vec<Way>) -> Self {
        let node = |number| Node {
            keeper: LeaseCandidate::new(Timings::default()),
            random: Middle(number << 32),
            asleep_until: at(0),
            stood_still: false,
            task: Task::None,
        };
        Self {
            now: at(0),
            record: Record::default(),
            nodes: (0..KEEPERS as u64).map(node).collect(),
            under_way: Vec::new(),
            ways,
            sent: 0,
        }
    }

    fn run(&mut self, fates: &[(u64, usize, Fate)]) {
        let mut fates = fates.iter();
        let mut next = fates.next();
        let mut due = self.now;
        for _ in 0..6_000 {
            self.now = self.now + TICK;
            if let Some(&(pause, whose, fate)) = next
                && self.now >= due + millis(pause)
            {
                self.strike(whose, fate);
                due = self.now;
                next = fates.next();
            }
            self.deliver();
            for number in 0..KEEPERS {
                self.turn(number);
            }
            self.check();
        }
    }

    fn strike(&mut self, whose: usize, fate: Fate) {
        let (now, node) = (self.now, &mut self.nodes[whose]);
        match fate {
            Fate::Nothing => {}
            Fate::StandStill(pause) => {
                node.asleep_until = now + millis(pause);
                node.stood_still = true;
            }
            Fate::Resign => {
                if now >= node.asleep_until {
                    node.keeper
                        .resign(now, EndReason::Resigned, &mut node.random);
                }
            }
            Fate::TaskFails => {
                if now >= node.asleep_until && node.task != Task::None {
                    node.task = Task::None;
                    node.keeper
                        .task_ended(now, TaskEnd::Failed, &mut node.random);
                }
            }
            Fate::Break => {
                let _ = lease::apply(
                    &mut self.record,
                    &Operation::Break(None),
                    now,
                    &Rules::NATIVE,
                );
            }
        }
    }

    /// What has arrived by now, in the order of arrival.
    fn deliver(&mut self) {
        self.under_way.sort_by_key(|&(arrival, _)| arrival);
        while self
            .under_way
            .first()
            .is_some_and(|&(arrival, _)| arrival <= self.now)
        {
            let (arrival, parcel) = self.under_way.remove(0);
            match parcel {
                Parcel::Request {
                    from,
                    attempt,
                    request,
                    back,
                } => {
                    let answer = self.serve(from, request);
                    if let Some(back) = back {
                        let answer = Parcel::Answer {
                            to: from,
                            attempt,
                            answer,
                        };
                        self.under_way.push((arrival + millis(back), answer));
                        self.under_way.sort_by_key(|&(arrival, _)| arrival);
                    }
                }
                Parcel::Answer {
                    to,
                    attempt,
                    answer,
                } => {
                    let node = &mut self.nodes[to];
                    if self.now >= node.asleep_until {
                        let random = &mut node.random;
                        node.keeper
                            .handle_message(self.now, (attempt, answer), random);
                    } else {
                        let answer = Parcel::Answer {
                            to,
                            attempt,
                            answer,
                        };
                        self.under_way.push((node.asleep_until, answer));
                        self.under_way.sort_by_key(|&(arrival, _)| arrival);
                    }
                }
            }
        }
    }

    /// The store's part. It does not let anybody wait.
    fn serve(&mut self, from: usize, request: Request) -> Answer {
        let operation = match request {
            Request::Acquire { lease_id, .. } => Operation::Acquire(
                Acquire {
                    lease_id,
                    holder: candidate(from),
                    duration: LeaseDuration::Fixed(Timings::default().lease_duration()),
                    lock_delay: Duration::ZERO,
                    min_epoch: None,
                    metadata: lease::Metadata::new(),
                },
                UnixMillis::new(1),
            ),
            Request::Renew(lease_id) => Operation::Renew(lease_id, None),
            Request::Release { lease_id, .. } => Operation::Release(lease_id),
            Request::HandOver {
                lease_id,
                to,
                within,
            } => Operation::HandOver {
                lease_id,
                to,
                within,
            },
        };
        match lease::apply(&mut self.record, &operation, self.now, &Rules::NATIVE) {
            Ok(applied) => match applied.change {
                Change::Granted(epoch) | Change::Renewed(epoch) => Answer::Held(epoch),
                _ => Answer::Released,
            },
            Err(Rejection::Held { holder, epoch, .. }) => Answer::HeldByAnother {
                holder: Some(holder),
                epoch: Some(epoch),
            },
            Err(Rejection::Broken { remaining } | Rejection::Breaking { remaining }) => {
                Answer::Broken { remaining }
            }
            Err(Rejection::Expired) => Answer::Expired,
            Err(Rejection::IdRetired) => Answer::IdRetired,
            Err(_) => Answer::Superseded,
        }
    }

    /// One keeper's driver looks at the clock and does what the keeper says.
    fn turn(&mut self, number: usize) {
        let (now, node) = (self.now, &mut self.nodes[number]);
        if now < node.asleep_until {
            return;
        }
        if node.keeper.standing(now) == Standing::Idle {
            node.keeper.campaign(now, &mut node.random);
        }
        node.keeper.handle_timeout(now, &mut node.random);
        if let Task::Stopping(_, stops_at) = node.task
            && now >= stops_at
        {
            node.task = Task::None;
            node.keeper
                .task_ended(now, TaskEnd::Returned, &mut node.random);
        }
        while let Some(output) = self.nodes[number].keeper.poll_output() {
            self.obey(number, &output);
        }
    }

    fn obey(&mut self, number: usize, output: &Output<LeaseEffect>) {
        let (now, node) = (self.now, &mut self.nodes[number]);
        match output {
            Output::Term(TermEvent::Began(epoch)) => {
                node.task = Task::Going(*epoch);
                node.stood_still = false;
            }
            Output::Term(TermEvent::Cancel(_)) => {
                // The slowest task there is: it uses up the stop grace, and is aborted.
                if let Task::Going(epoch) = node.task {
                    let never = now + Timings::default().lease_duration() * 100;
                    node.task = Task::Stopping(epoch, never);
                }
            }
            Output::Term(TermEvent::Abort) => {
                // After a standstill the abort may come later than any promise: what the task then
                // does in its allowance is for the epoch to fence off.
                if node.stood_still {
                    node.task = Task::None;
                    let random = &mut node.random;
                    node.keeper.task_ended(now, TaskEnd::Aborted, random);
                } else if let Task::Stopping(epoch, _) = node.task {
                    let gone = now + Timings::default().abort_allowance();
                    node.task = Task::Stopping(epoch, gone);
                }
            }
            Output::Effect(LeaseEffect::Send {
                attempt,
                request,
                timeout,
            }) => {
                self.send(number, *attempt, request, *timeout);
            }
            _ => {}
        }
    }

    fn send(&mut self, from: usize, attempt: u64, request: &Request, timeout: Duration) {
        let way = self.ways[self.sent % self.ways.len()];
        self.sent += 1;
        if let Some(there) = way.there {
            let request = |back| Parcel::Request {
                from,
                attempt,
                request: request.clone(),
                back,
            };
            let arrival = self.now + millis(there);
            self.under_way.push((arrival, request(way.back)));
            if let Some(later) = way.repeated_after {
                self.under_way
                    .push((arrival + millis(later), request(None)));
            }
        }
        // The driver's own timeout; it is too late if the answer was in time.
        let answer = Answer::Unknown("no answer".to_owned());
        let timed_out = Parcel::Answer {
            to: from,
            attempt,
            answer,
        };
        self.under_way.push((self.now + timeout, timed_out));
    }

    fn check(&self) {
        let leading: Vec<_> = self
            .nodes
            .iter()
            .map(|node| node.keeper.standing(self.now))
            .filter(|standing| matches!(standing, Standing::Leading { .. }))
            .collect();
        assert!(leading.len() <= 1, "at {:?}: {leading:?}", self.now);
        // A machine that stands still runs no task.
        let tasks: Vec<_> = self
            .nodes
            .iter()
            .filter(|node| self.now >= node.asleep_until)
            .map(|node| node.task)
            .filter(|&task| task != Task::None)
            .collect();
        assert!(tasks.len() <= 1, "at {:?}: {tasks:?}", self.now);
    }
}

fn candidate(number: usize) -> CandidateId {
    format!("candidate-{number}").parse().unwrap()
}

fn a_way() -> impl Strategy<Value = Way> {
    let leg = || {
        prop_oneof![
            6 => (1..100_u64).prop_map(Some),
            2 => (1..8_000_u64).prop_map(Some),
            1 => Just(None),
        ]
    };
    let repeated_after = prop_oneof![8 => Just(None), 1 => (1..30_000_u64).prop_map(Some)];
    (leg(), leg(), repeated_after).prop_map(|(there, back, repeated_after)| Way {
        there,
        back,
        repeated_after,
    })
}

fn a_fate() -> impl Strategy<Value = (u64, usize, Fate)> {
    let fate = prop_oneof![
        Just(Fate::Nothing),
        (0..40_000_u64).prop_map(Fate::StandStill),
        Just(Fate::Resign),
        Just(Fate::TaskFails),
        Just(Fate::Break),
    ];
    (0..20_000_u64, 0..KEEPERS, fate)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_two_keepers_lead_and_no_two_tasks_run_at_once(
        ways in collection::vec(a_way(), 1..40),
        fates in collection::vec(a_fate(), 0..20),
    ) {
        World::new(ways).run(&fates);
    }
}
