//! The case that catches each mutation.

use tenure_core::bully::DisabledRule as Rule;
use tenure_core::ownership::DisabledOwnershipRule as Owned;

use super::{CheckCase, FaultScript};
use crate::contestant::Contestant;
use crate::mutation::Mutation::{self, OwnedWithout, Without};

/// Mutations that random faults catch, by contestant.
const RANDOM: &[(&str, &[Mutation])] = &[
    (
        "lease",
        &[
            Mutation::DeadlineFromReply,
            Mutation::LeasesForgotten,
            Mutation::WallClockExpiry,
            Mutation::EpochInMemory,
            Mutation::ReleaseWithoutId,
            Mutation::AnswerBeforeDisk,
            Mutation::RenewAfterRegrant,
            Mutation::LateSweep,
            Mutation::FreshIdOnRetry,
            Mutation::NoMargin,
            Mutation::RetiredIdGranted,
            Mutation::GiveBackUnchecked,
            Mutation::RenewerOnTaskRuntime,
            Mutation::ReleaseBeforeTaskEnd,
            Mutation::ClockStopsWhenSuspended,
        ],
    ),
    (
        "cluster",
        &[
            Mutation::UnfencedAppend,
            Mutation::UndoAfterUnknown,
            Mutation::FloorLostAtTakeOver,
            Mutation::CheckBeforeLook,
            Mutation::RevisionRestarts,
            Mutation::OlderPlaceWins,
            Mutation::OlderBatchWins,
            Mutation::GraceFromSighting,
            Mutation::LeasesForgotten,
            Mutation::ClockStopsWhenSuspended,
            OwnedWithout(Owned::CountFromSend),
            OwnedWithout(Owned::CountFromFirstSend),
            OwnedWithout(Owned::Deadline),
            OwnedWithout(Owned::UnknownIsNotDone),
        ],
    ),
    ("both", &[Mutation::ReleaseBeforeTaskEnd]),
    (
        "bully",
        &[
            Mutation::VoteForgotten,
            Mutation::ClockStopsWhenSuspended,
            Mutation::RenewerOnTaskRuntime,
            Without(Rule::Promise),
            Without(Rule::Quarantine),
            Without(Rule::Majority),
        ],
    ),
    (
        "bully-no-quorum",
        &[
            Without(Rule::CompletionEverywhere),
            Without(Rule::HaltAgain),
            Without(Rule::ObeyOnce),
            Without(Rule::FreshElection),
            Without(Rule::OneAfterTheOther),
            Without(Rule::OwnRound),
        ],
    ),
    ("bully-mixed-no-quorum", &[Mutation::SubscriptionsIgnored]),
];

/// Mutations that storms catch, by contestant and number of hosts.
const STORMS: &[(&str, u32, &[Mutation])] = &[
    (
        "fallback-k1",
        3,
        &[
            Mutation::ResumeAfterRegrant,
            Without(Rule::Intersection),
            Without(Rule::CountFromStoreRequest),
            Without(Rule::ClaimUnbound),
        ],
    ),
    ("fallback-k2", 3, &[Without(Rule::MembersBesideStore)]),
    ("fallback-k2", 5, &[Without(Rule::Intersection)]),
];

/// Mutations that only a certain order of a few messages reveals, by fault script.
const SCRIPTED: &[(&str, Mutation)] = &[
    ("change-of-strategy", Mutation::PeersIgnored),
    ("change-of-strategy", Mutation::LeaseIgnored),
    ("change-of-strategy", Mutation::GrantOfAnyEpoch),
    ("vote-before-disk", Mutation::SayBeforeDisk),
    ("voters-restart", Without(Rule::DurablePromise)),
    ("late-votes", Without(Rule::CountFromRequest)),
    ("late-renewals", Without(Rule::CountFromRound)),
    ("late-release", Without(Rule::ReleaseOwn)),
    ("last-one", Without(Rule::AskAgain)),
    ("two-organisers", Mutation::ObeyAnybody),
    ("short-memory", Mutation::ObeyedForgotten),
    ("old-acks", Mutation::AckOfAny),
    ("lost-notice", Mutation::StaleDownList),
    ("one-after-the-other-down", Without(Rule::SameRound)),
    ("quick-restarts", Mutation::NoNotice),
    ("late-verdicts", Mutation::LateVerdict),
    ("parted", Mutation::BlindLeaders),
    ("worse-leader", Without(Rule::MissAnyLeader)),
    ("followers-restart", Without(Rule::Join)),
    ("better-ones-restart", Without(Rule::Spare)),
];

pub(super) fn mutations() -> Vec<CheckCase> {
    let random = RANDOM.iter().flat_map(|(name, mutations)| {
        let contestant = Contestant::of_name(name).expect("a name of the list");
        let case = CheckCase::new(contestant);
        mutations
            .iter()
            .map(move |&it| case.clone().with_mutation(it))
    });
    let scripted = SCRIPTED.iter().map(|(name, mutation)| {
        let script = FaultScript::of_name(name).expect("a name of the list");
        CheckCase::on(script).with_mutation(*mutation)
    });
    let storms = STORMS.iter().flat_map(|(name, nodes, mutations)| {
        let contestant = Contestant::of_name(name).expect("a name of the list");
        let case = CheckCase {
            storm: true,
            nodes: *nodes,
            ..CheckCase::new(contestant)
        };
        mutations
            .iter()
            .map(move |&it| case.clone().with_mutation(it))
    });
    random.chain(scripted).chain(storms).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::mutation_of_name;
    use super::*;

    #[test]
    fn every_mutation_has_a_name_of_its_own() {
        let mutations: BTreeSet<_> = mutations().iter().filter_map(|it| it.mutation).collect();
        for mutation in mutations {
            assert_eq!(mutation_of_name(&mutation.to_string()), Ok(mutation));
        }
        let names = [Mutation::NoMargin, Without(Rule::SameRound)].map(|it| it.to_string());
        assert_eq!(names, ["no-margin", "without-same-round"]);
    }

    #[test]
    fn the_error_for_an_unknown_mutation_or_script_names_the_nearest_one() {
        let error = mutation_of_name("no-margn").unwrap_err();
        assert!(error.to_string().ends_with("did you mean \"no-margin\"?"));
        let error = FaultScript::of_name("late-vote").unwrap_err();
        assert!(error.to_string().ends_with("did you mean \"late-votes\"?"));
    }

    #[test]
    fn the_command_that_replays_a_seed_contains_everything_that_the_run_depends_on() {
        let script = CheckCase::on(FaultScript::of_name("parted").unwrap());
        assert_eq!(
            script.command(7),
            "tenure-lab compare check --seeds 7..8 --script parted --trace"
        );
        let schedule = CheckCase {
            nodes: 3,
            ..CheckCase::new(Contestant::of_name("bully").unwrap())
        };
        assert_eq!(
            schedule.with_mutation(Mutation::VoteForgotten).command(7),
            "cargo run -p tenure-lab --features mutations -- compare check --seeds 7..8 \
             --contestant bully --members 3 --mutation vote-forgotten --trace"
        );
    }
}
