//! The rule that decides whether a person should look at a lease.

use std::time::Duration;

use tenure_core::lease::{LeaseDuration, State};
use tenure_core::wire::LookReason;

/// The number of recent terms from which a lease flaps.
const MANY_TERMS: u32 = 3;

/// The duration that is assumed for an infinite lease.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state of a lease at one moment, as far as the rule needs it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) state: State,
    /// The lease's duration; if it has no holder, that of its last holder or of its first waiter.
    pub(super) duration: LeaseDuration,
    /// The remaining time; `None` if the lease is infinite or has no holder.
    pub(super) remaining: Option<Duration>,
    /// The time for which the lease has had no holder, as far as the store knows.
    pub(super) free_for: Option<Duration>,
    /// The longest time for which a candidate has waited; `None` if no candidate waits.
    pub(super) waited: Option<Duration>,
    /// The number of terms that began lately.
    pub(super) recent_terms: u32,
    /// Whether the settings say that the lease must always have a holder.
    pub(super) is_expected: bool,
}

/// The reasons why a person should look at a lease, as a set in one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Reasons(u8);

const ALL: [LookReason; 5] = [
    LookReason::NobodyLeads,
    LookReason::Expected,
    LookReason::Flapping,
    LookReason::RenewalLate,
    LookReason::Breaking,
];

impl Reasons {
    pub(super) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn iter(self) -> impl Iterator<Item = LookReason> {
        let has = move |reason: &LookReason| self.0 & (1 << *reason as u8) != 0;
        ALL.into_iter().filter(has)
    }
}

impl FromIterator<LookReason> for Reasons {
    fn from_iter<I: IntoIterator<Item = LookReason>>(reasons: I) -> Self {
        let reasons = reasons.into_iter();
        Self(reasons.fold(0, |set, reason| set | 1 << reason as u8))
    }
}

/// Returns the reasons why a person should look at a lease.
///
/// A lease that a candidate waits for is free for a moment whenever it changes hands, and for the
/// lock delay after an expiry. So a wait counts only from the end of the last term on.
pub(super) fn reasons(facts: Facts) -> Reasons {
    let duration = facts.duration.fixed();
    let patience = duration.unwrap_or(PATIENCE);
    let is_held = matches!(facts.state, State::Leased | State::Breaking);
    let waited = facts.waited.map(|waited| match facts.free_for {
        Some(free_for) => waited.min(free_for),
        None => waited,
    });
    // The time since the renewal is the duration without the remaining time.
    let is_late = |remaining: Duration| duration.is_some_and(|duration| remaining < duration / 3);
    let found = ALL.into_iter().filter(|reason| match reason {
        LookReason::NobodyLeads => !is_held && waited.is_some_and(|waited| waited > patience),
        LookReason::Expected => !is_held && facts.is_expected,
        LookReason::Flapping => facts.recent_terms >= MANY_TERMS,
        LookReason::RenewalLate => {
            facts.state == State::Leased && facts.remaining.is_some_and(is_late)
        }
        LookReason::Breaking => facts.state == State::Breaking,
        _ => false,
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    const HELD: Facts = Facts {
        state: State::Leased,
        duration: LeaseDuration::Fixed(secs(15)),
        remaining: Some(secs(12)),
        free_for: None,
        waited: None,
        recent_terms: 1,
        is_expected: true,
    };

    const FREE: Facts = Facts {
        state: State::Expired,
        remaining: None,
        free_for: Some(secs(600)),
        is_expected: false,
        ..HELD
    };

    #[track_caller]
    fn check(facts: Facts, expected: &[LookReason]) {
        let found: Vec<LookReason> = reasons(facts).iter().collect();
        assert_eq!(found, expected, "{facts:?}");
    }

    #[test]
    fn a_lease_that_is_led_and_renewed_needs_no_look() {
        check(HELD, &[]);
        let waited = Some(secs(3_600));
        check(Facts { waited, ..HELD }, &[]);
        let infinite = Facts {
            duration: LeaseDuration::Infinite,
            remaining: None,
            ..HELD
        };
        check(infinite, &[]);
        check(FREE, &[]);
    }

    #[test]
    fn a_free_lease_needs_a_look_when_a_candidate_has_waited_longer_than_the_duration() {
        let waiting = |waited: u64, free_for: Option<u64>| Facts {
            waited: Some(secs(waited)),
            free_for: free_for.map(secs),
            ..FREE
        };
        check(waiting(16, Some(600)), &[LookReason::NobodyLeads]);
        check(waiting(16, None), &[LookReason::NobodyLeads]);
        check(waiting(15, Some(600)), &[]);
        // The candidate waited while another one led.
        check(waiting(3_600, Some(5)), &[]);
        let infinite = |waited| Facts {
            duration: LeaseDuration::Infinite,
            ..waiting(waited, None)
        };
        check(infinite(61), &[LookReason::NobodyLeads]);
        check(infinite(60), &[]);
        for state in [State::Available, State::Broken, State::Expired] {
            let facts = waiting(16, None);
            check(Facts { state, ..facts }, &[LookReason::NobodyLeads]);
        }
    }

    #[test]
    fn an_expected_lease_needs_a_look_when_nobody_leads() {
        for state in [State::Available, State::Broken, State::Expired] {
            let facts = Facts {
                state,
                is_expected: true,
                ..FREE
            };
            check(facts, &[LookReason::Expected]);
        }
    }

    #[test]
    fn a_lease_with_three_recent_terms_needs_a_look() {
        let flapping = |recent_terms| Facts {
            recent_terms,
            ..HELD
        };
        check(flapping(2), &[]);
        check(flapping(3), &[LookReason::Flapping]);
        let free = Facts {
            recent_terms: 200,
            ..FREE
        };
        check(free, &[LookReason::Flapping]);
    }

    #[test]
    fn a_lease_whose_renewal_is_late_needs_a_look() {
        let left = |millis| Facts {
            remaining: Some(Duration::from_millis(millis)),
            ..HELD
        };
        check(left(5_000), &[]);
        check(left(4_999), &[LookReason::RenewalLate]);
        check(left(0), &[LookReason::RenewalLate]);
    }

    #[test]
    fn a_lease_with_a_break_in_progress_needs_a_look_for_that_reason_alone() {
        let breaking = Facts {
            state: State::Breaking,
            remaining: Some(secs(1)),
            ..HELD
        };
        check(breaking, &[LookReason::Breaking]);
    }

    #[test]
    fn a_lease_may_need_a_look_for_several_reasons() {
        let facts = Facts {
            waited: Some(secs(60)),
            recent_terms: 9,
            is_expected: true,
            ..FREE
        };
        let expected = [
            LookReason::NobodyLeads,
            LookReason::Expected,
            LookReason::Flapping,
        ];
        check(facts, &expected);
        assert!(!reasons(facts).is_empty() && Reasons::default().is_empty());
    }
}
