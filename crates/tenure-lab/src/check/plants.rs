//! Mistakes on purpose, each on the ground on which it shows.

use tenure_core::bully::Mutation;

use super::{Course, Ground};
use crate::contestant::Contestant;
use crate::fault::Planted;

/// Which mistakes show in a storm, and over whom it comes.
const STORMS: &[(&str, &[Planted])] = &[
    (
        "lease",
        &[
            Planted::DeadlineFromReply,
            Planted::LeasesForgotten,
            Planted::WallClockExpiry,
            Planted::EpochInMemory,
            Planted::ReleaseWithoutId,
            Planted::AnswerBeforeDisk,
            Planted::RenewAfterRegrant,
            Planted::LateSweep,
            Planted::FreshIdOnRetry,
            Planted::NoMargin,
            Planted::RetiredIdGranted,
            Planted::GiveBackUnchecked,
            Planted::RenewerOnTaskRuntime,
            Planted::ReleaseBeforeTaskEnd,
            Planted::ClockStopsWhenSuspended,
        ],
    ),
    (
        "bully",
        &[
            Planted::VoteForgotten,
            Planted::ClockStopsWhenSuspended,
            Planted::RenewerOnTaskRuntime,
            Planted::Without(Mutation::Promise),
            Planted::Without(Mutation::Quarantine),
            Planted::Without(Mutation::Majority),
        ],
    ),
    (
        "bully-no-quorum",
        &[
            Planted::Without(Mutation::CompletionEverywhere),
            Planted::Without(Mutation::HaltAgain),
            Planted::Without(Mutation::ObeyOnce),
            Planted::Without(Mutation::FreshElection),
            Planted::Without(Mutation::OneAfterTheOther),
            Planted::Without(Mutation::OwnRound),
        ],
    ),
];

/// Which mistakes need a few messages in one certain order, and in which course they come so.
const COURSES: &[(&str, Planted)] = &[
    ("vote-before-disk", Planted::SayBeforeDisk),
    ("voters-restart", Planted::Without(Mutation::DurablePromise)),
    ("late-votes", Planted::Without(Mutation::CountFromRequest)),
    ("late-renewals", Planted::Without(Mutation::CountFromRound)),
    ("late-release", Planted::Without(Mutation::ReleaseOwn)),
    ("last-one", Planted::Without(Mutation::AskAgain)),
    ("two-organisers", Planted::ObeyAnybody),
    ("short-memory", Planted::ObeyedForgotten),
    ("old-acks", Planted::AckOfAny),
    ("lost-notice", Planted::StaleDownList),
    (
        "one-after-the-other-down",
        Planted::Without(Mutation::SameRound),
    ),
    ("quick-restarts", Planted::NoNotice),
    ("late-verdicts", Planted::LateVerdict),
    ("parted", Planted::BlindLeaders),
    ("worse-leader", Planted::Without(Mutation::MissAnyLeader)),
    ("followers-restart", Planted::Without(Mutation::Join)),
    ("better-ones-restart", Planted::Without(Mutation::Spare)),
];

pub(super) fn plants() -> Vec<Ground> {
    let storms = STORMS.iter().flat_map(|(name, planted)| {
        let contestant = Contestant::of_name(name).expect("one that there is");
        let ground = Ground::new(contestant);
        planted
            .iter()
            .map(move |&it| ground.clone().with_planted(it))
    });
    let courses = COURSES.iter().map(|(name, planted)| {
        let course = Course::of_name(name).expect("one that there is");
        Ground::on(course).with_planted(*planted)
    });
    storms.chain(courses).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_mistake_that_has_a_name_is_made() {
        let made: BTreeSet<_> = plants().iter().filter_map(|it| it.planted).collect();
        assert_eq!(made, Planted::ALL.iter().copied().collect());
        for planted in made {
            assert_eq!(Planted::of_name(planted.name()), Ok(planted));
        }
    }

    #[test]
    fn an_unknown_mistake_or_course_is_told_the_nearest_one() {
        let error = Planted::of_name("no-margn").unwrap_err();
        assert!(error.to_string().ends_with("did you mean \"no-margin\"?"));
        let error = Course::of_name("late-vote").unwrap_err();
        assert!(error.to_string().ends_with("did you mean \"late-votes\"?"));
    }

    /// Whoever copies the command that replays what was found gets just that.
    #[test]
    fn the_command_that_shows_a_seed_again_names_all_that_matters() {
        let course = Ground::on(Course::of_name("parted").unwrap());
        assert_eq!(
            course.command(7),
            "tenure compare check --seeds 7..8 --course parted --trace"
        );
        let storm = Ground {
            nodes: 3,
            ..Ground::new(Contestant::of_name("bully").unwrap())
        };
        assert_eq!(
            storm.with_planted(Planted::VoteForgotten).command(7),
            "cargo run --features planted --bin tenure -- compare check --seeds 7..8 --contestant bully \
             --members 3 --planted vote-forgotten --trace"
        );
    }
}
