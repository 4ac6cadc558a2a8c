//! Traces of a candidate: each output and its time as a line of text.

mod campaigns;
mod endings;
mod health;
mod looks;
mod losses;

mod properties;

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use super::*;
use crate::election::{CampaignFailure, ElectionMachine as _, Output, TermEvent};
use crate::lease::LeaseId;
use crate::{Epoch, Instant, Random};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn at(millis: u64) -> Instant {
    Instant::default() + Duration::from_millis(millis)
}

fn held(epoch: u64) -> Answer {
    Answer::Held(Epoch::new(epoch).unwrap())
}

fn held_by_b() -> Answer {
    Answer::HeldByAnother(Some(("b".parse().unwrap(), Epoch::new(3).unwrap())))
}

/// A random source that returns numbers near the middle of the range, so that a jittered time
/// equals the time without jitter. Each number differs from the last, so that lease ids differ.
struct Middle(u64);

impl Random for Middle {
    fn next_u64(&mut self) -> u64 {
        self.0 += 1;
        (1 << 63) + self.0
    }
}

/// A candidate with the default timings and its driver: a lease of 15 s, renewed every 5 s, given
/// up after 10 s, stopped after 14 s, and an abort allowance of 250 ms.
///
/// A request without an answer within its timeout is answered as unknown, as a driver does it.
struct Bench {
    machine: LeaseCandidate,
    now: Instant,
    random: Middle,
    /// The request in flight, and the time of its timeout.
    in_flight: Option<(u64, Instant)>,
    /// Lease ids in the order in which they were first sent.
    lease_ids: Vec<LeaseId>,
    lines: Vec<String>,
}

impl Bench {
    /// Creates a candidate that campaigns since 0 s.
    fn campaigning() -> Self {
        Self::campaigning_with(Timings::default())
    }

    fn campaigning_with(timings: Timings) -> Self {
        Self::campaigning_of(LeaseCandidate::new(timings))
    }

    fn campaigning_of(machine: LeaseCandidate) -> Self {
        let mut bench = Self {
            machine,
            now: at(0),
            random: Middle(0),
            in_flight: None,
            lease_ids: Vec::new(),
            lines: Vec::new(),
        };
        bench.campaign();
        bench
    }

    /// Creates a candidate that leads under epoch 7 since 0.01 s, by a request that was sent at 0
    /// s. Its trace begins after that.
    fn leading() -> Self {
        Self::leading_with(Timings::default())
    }

    fn leading_with(timings: Timings) -> Self {
        Self::leading_of(LeaseCandidate::new(timings))
    }

    fn leading_of(machine: LeaseCandidate) -> Self {
        let mut bench = Self::campaigning_of(machine);
        bench.wait_until(10).answer(1, held(7));
        bench.assert_trace(
            "0.000 #1 acquire id1, wait 15s, within 20s
             0.010 began 7",
        );
        bench
    }

    /// Advances time to `millis` after the start, with the candidate and the driver running.
    fn wait_until(&mut self, millis: u64) -> &mut Self {
        let end = at(millis);
        loop {
            let times_out = self.in_flight.map(|(_, times_out)| times_out);
            let timer = self.machine.poll_timeout();
            let Some(next) = timer.into_iter().chain(times_out).min() else {
                break;
            };
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            if let Some((attempt, times_out)) = self.in_flight
                && times_out <= self.now
            {
                self.answer(attempt, Answer::Unknown("no answer".to_owned()));
            } else {
                self.tick();
            }
            let woken_again = self.machine.poll_timeout();
            assert!(woken_again.is_none_or(|next| next > self.now), "it spins");
        }
        self.now = end;
        self
    }

    /// Suspends the machine until `millis` after the start, and then ticks the candidate.
    fn jump_to(&mut self, millis: u64) -> &mut Self {
        self.now = at(millis);
        self.tick();
        self
    }

    fn tick(&mut self) {
        self.machine.handle_timeout(self.now, &mut self.random);
        self.drain();
    }

    fn answer(&mut self, attempt: u64, answer: Answer) -> &mut Self {
        if self
            .in_flight
            .is_some_and(|(awaited, _)| awaited == attempt)
        {
            self.in_flight = None;
        }
        self.machine
            .handle_message(self.now, (attempt, answer), &mut self.random);
        self.drain();
        self
    }

    fn campaign(&mut self) -> &mut Self {
        self.machine.campaign(self.now, &mut self.random);
        self.drain();
        self
    }

    fn resign(&mut self, reason: EndReason) -> &mut Self {
        self.machine.resign(self.now, reason, &mut self.random);
        self.drain();
        self
    }

    fn renew_early(&mut self) -> &mut Self {
        self.machine.renew_early(self.now, &mut self.random);
        self.drain();
        self
    }

    fn task_ended(&mut self, end: TaskEnd) -> &mut Self {
        self.machine.task_ended(self.now, end, &mut self.random);
        self.drain();
        self
    }

    fn standing(&self) -> Standing {
        self.machine.standing(self.now)
    }

    fn leads(&self) -> bool {
        matches!(self.standing(), Standing::Leading { .. })
    }

    fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            if let Output::Effect(LeaseEffect::Send {
                attempt, timeout, ..
            }) = output
            {
                self.in_flight = Some((attempt, self.now + timeout));
            }
            let line = self.render(output);
            let seconds = Duration::from_nanos(self.now.as_nanos()).as_secs_f64();
            self.lines.push(format!("{seconds:.3} {line}"));
        }
    }

    fn render(&mut self, output: Output<LeaseEffect>) -> String {
        match output {
            Output::Effect(LeaseEffect::Send {
                attempt,
                request,
                timeout,
            }) => {
                let request = match request {
                    Request::Acquire { lease_id, wait, .. } => {
                        format!("acquire {}, wait {wait:?}", self.name(lease_id))
                    }
                    Request::Renew(lease_id) => format!("renew {}", self.name(lease_id)),
                    Request::Look(lease_id) => format!("look {}", self.name(lease_id)),
                    Request::Resume {
                        lease_id, epoch, ..
                    } => format!("resume {} under {epoch}", self.name(lease_id)),
                    Request::Release { lease_id, reason } => {
                        let reason =
                            reason.map_or_else(String::new, |reason| format!(" as {reason}"));
                        format!("release {}{reason}", self.name(lease_id))
                    }
                    Request::HandOver {
                        lease_id,
                        to,
                        within,
                    } => {
                        format!(
                            "hand over {} to {to} within {within:?}",
                            self.name(lease_id)
                        )
                    }
                };
                // The format shows microseconds, because timeouts are thirds of the remaining time.
                let timeout = Duration::from_micros(timeout.as_micros() as u64);
                format!("#{attempt} {request}, within {timeout:?}")
            }
            Output::Term(TermEvent::Began(epoch)) => format!("began {epoch}"),
            Output::Term(TermEvent::AtRisk(true)) => "at risk".to_owned(),
            Output::Term(TermEvent::AtRisk(false)) => "safe again".to_owned(),
            Output::Term(TermEvent::Cancel(reason)) => format!("cancel: {reason}"),
            Output::Term(TermEvent::Abort) => "abort".to_owned(),
            Output::Term(TermEvent::Lingering) => "lingering".to_owned(),
            Output::Term(TermEvent::Overrun) => "overrun".to_owned(),
            Output::Term(TermEvent::Ended(epoch, reason)) => format!("ended {epoch}: {reason}"),
            Output::Term(TermEvent::Withdrawn) => "withdrawn".to_owned(),
            Output::Term(TermEvent::Failed(CampaignFailure::Refused(why))) => {
                format!("failed: {why}")
            }
            Output::Term(TermEvent::Failed(why)) => panic!("{why:?}"),
            Output::Term(TermEvent::LeaderSeen(Some((holder, epoch)))) => {
                format!("seen {holder} {epoch}")
            }
            Output::Term(TermEvent::LeaderSeen(None)) => "seen nobody".to_owned(),
            Output::Effect(LeaseEffect::Retrying(why, None)) => why,
            Output::Effect(LeaseEffect::Retrying(why, Some(delay))) => {
                format!("{why}; trying again in {delay:.1?}")
            }
        }
    }

    fn name(&mut self, lease_id: LeaseId) -> String {
        let known = self.lease_ids.iter().position(|&known| known == lease_id);
        let place = known.unwrap_or_else(|| {
            self.lease_ids.push(lease_id);
            self.lease_ids.len() - 1
        });
        format!("id{}", place + 1)
    }

    /// Checks that the outputs since the last call are exactly these.
    #[track_caller]
    fn assert_trace(&mut self, expected: &str) -> &mut Self {
        let expected: Vec<_> = expected.lines().map(str::trim).collect();
        let lines = core::mem::take(&mut self.lines);
        assert_eq!(lines, expected, "\n{}", lines.join("\n"));
        self
    }
}
