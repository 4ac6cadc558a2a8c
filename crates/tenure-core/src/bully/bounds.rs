//! The message cost and the duration of an election, calculated from the settings alone.

use core::fmt;
use core::time::Duration;

#[cfg(doc)]
use super::GroupTimings;
use super::{GroupGuarantee, GroupSettings};
use crate::detector::Detection;

/// The number of messages per follower and renew interval with a quorum: a renewal and its answer.
const RENEWALS: f64 = 2.0;

/// The number of messages per follower and renew interval without a quorum: the leader's `Norm`,
/// the follower's `Ack` and the answer to it, and the detector's ping and its answer.
const LOOKS: f64 = 5.0;

/// The message cost of an election while one member leads and all others follow, and the duration
/// of an election after the leader dies. The values assume that no message is lost and that none
/// takes longer than its lifetime. They help to choose timings; no safety rule depends on them.
///
/// A member computes them from its own detection, as if all members had the same one. In a group
/// with different detectors and without a quorum, the slowest one decides: a member that does not
/// suspect the leader yet refuses an election. So the bound of the group has the latest detection
/// and the longest question of any member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// The longest time from the leader's end until its followers suspect it, if every message
    /// takes its full lifetime.
    pub detection: Duration,
    /// The longest time from the leader's end until another member leads, if the next election
    /// succeeds at the first attempt.
    ///
    /// With a quorum, the promises to the dead leader must end first. With a store as a voter, the
    /// store may be lost at the same time ([`GroupTimings::worst_with_fallback`]). Without a quorum, the time is
    /// the sum of the detection, a question about the better members, a question about the worse
    /// members (some of them may also be down), and an exchange with each worse member.
    pub without_leader: Duration,
    /// The number of messages per second that all members send together. Over HTTP a message and
    /// its answer are one request.
    pub messages_per_second: f64,
}

impl Bounds {
    /// Returns the bounds for these settings and this failure detection.
    #[must_use]
    pub fn of(settings: &GroupSettings, detection: &Detection) -> Self {
        let timings = settings.timings();
        let lifetime = timings.message_lifetime();
        let members = settings.members().len() as u32;
        let detected = detection.detection_bound(lifetime);
        let (without_leader, rounds) = match settings.guarantee() {
            GroupGuarantee::Quorum if settings.quorums().with_store().is_some() => {
                (timings.worst_with_fallback(), RENEWALS)
            }
            GroupGuarantee::Quorum => (timings.worst_without_leader(), RENEWALS),
            GroupGuarantee::BestEffort => {
                let questions = detection.ask_timeout() * 2;
                (detected + questions + lifetime * members, LOOKS)
            }
        };
        let rounds = rounds / timings.term().renew_interval().as_secs_f64();
        let followers = f64::from(members - 1);
        // Beside a store, the leader renews its lease, too. If it needs no other member beside the
        // store, each of the others waits there, and no detector runs.
        let (of_detector, of_leader) = match settings.quorums().with_store() {
            None => (detection.messages_per_second(), 0.0),
            Some(1) => (0.0, rounds),
            Some(_) => (detection.messages_per_second(), rounds),
        };
        Self {
            detection: detected,
            without_leader,
            messages_per_second: followers * (of_detector + rounds) + of_leader,
        }
    }
}

/// Formats the bounds for the log at start.
impl fmt::Display for Bounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "by the detector of this member, a leader that is gone is suspected after {:.1?} at most, and \
             replaced after {:.1?} at most; {:.1} messages a second at rest",
            self.detection, self.without_leader, self.messages_per_second,
        )
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use alloc::format;
    use alloc::string::String;
    use std::println;

    use super::*;
    use crate::bully::{GroupTimings, GroupTimingsOptions, Member, Membership, NodeId, Quorums};
    use crate::detector::{DetectBy, DetectionOptions};
    use crate::lease::candidate::{Timings as TermTimings, TimingsOptions as TermOptions};

    const BULLY: &str = include_str!("../../../../docs/bully.md");
    const DETECTORS: &str = include_str!("../../../../docs/detectors.md");

    fn five(lease: u64, guarantee: GroupGuarantee) -> GroupSettings {
        let term = TermTimings::new(&TermOptions {
            lease_duration: Some(Duration::from_secs(lease)),
            ..TermOptions::default()
        });
        let timings = GroupTimings::new(term.unwrap(), &GroupTimingsOptions::default()).unwrap();
        let members = Membership::new((1..=5).map(|id| Member {
            id: NodeId(id),
            priority: 0,
        }));
        let settings = GroupSettings::new(NodeId(1), members.unwrap(), timings).unwrap();
        settings.with_guarantee(guarantee)
    }

    fn detection(settings: &GroupSettings, by: DetectBy) -> Detection {
        let options = DetectionOptions {
            by,
            ..DetectionOptions::default()
        };
        Detection::new(&options, settings.timings().message_lifetime()).unwrap()
    }

    #[test]
    fn the_bounds_in_the_docs_are_the_calculated_ones() {
        let of = |lease, guarantee| {
            let settings = five(lease, guarantee);
            let detection = detection(&settings, DetectBy::Push);
            (Bounds::of(&settings, &detection), detection)
        };
        let with = [15, 5].map(|lease| of(lease, GroupGuarantee::Quorum).0);
        let without = [15, 5].map(|lease| of(lease, GroupGuarantee::BestEffort).0);
        let confirm =
            [15, 5].map(|lease| of(lease, GroupGuarantee::BestEffort).1.confirm_timeout());
        let secs = |[long, short]: [Duration; 2]| {
            let (long, short) = (long.as_secs_f64(), short.as_secs_f64());
            format!("| {long:.1} s | {short:.1} s |")
        };
        let messages = |[long, short]: [Bounds; 2]| {
            let (long, short) = (long.messages_per_second, short.messages_per_second);
            format!("| {long:.1} | {short:.1} |")
        };
        let rows = [
            secs(with.map(|it| it.detection)),
            secs(with.map(|it| it.without_leader)),
            secs(without.map(|it| it.without_leader)),
            secs(confirm),
            messages(with),
            messages(without),
        ];
        rows.iter().for_each(|row| println!("{row}"));
        for row in rows {
            assert!(BULLY.contains(&row), "docs/bully.md lacks the row: {row}");
        }
    }

    #[test]
    fn with_a_fallback_the_bound_includes_the_notice_of_a_silent_store() {
        let of = |k| {
            let settings = five(15, GroupGuarantee::Quorum);
            let settings = settings.with_quorums(Quorums::fallback(5, k).unwrap());
            let detection = detection(&settings, DetectBy::Push);
            Bounds::of(&settings, &detection)
        };
        // The lease, a renew interval and six message lifetimes.
        assert_eq!(of(2).without_leader, Duration::from_secs(23));
        // With k = 1: five requests and five answers per renew interval.
        assert!((of(1).messages_per_second - 2.0).abs() < 0.01);
        assert!(of(2).messages_per_second > of(1).messages_per_second);
    }

    #[test]
    fn the_detection_times_in_the_docs_are_the_calculated_ones() {
        let settings = five(15, GroupGuarantee::BestEffort);
        for by in DetectBy::ALL {
            let detection = detection(&settings, by);
            let bound = |delay| detection.detection_bound(Duration::from_millis(delay));
            let row: String = format!(
                "| {:.1} s | {:.1} s | {:.1} |",
                bound(500).as_secs_f64(),
                bound(1).as_secs_f64(),
                detection.messages_per_second()
            );
            println!("{} {row}", by.name());
            let line = DETECTORS.lines().find(|line| {
                let name = format!("`{}`", by.name());
                line.ends_with(&row) && line.contains(&name)
            });
            assert!(
                line.is_some(),
                "docs/detectors.md lacks the row of {}: {row}",
                by.name()
            );
        }
    }
}
