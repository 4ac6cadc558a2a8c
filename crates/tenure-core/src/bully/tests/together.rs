//! Members in a world of chance: thousands of worlds, each from its seed.

extern crate std;

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::world::{Climate, Fault, World};
use super::*;

/// How many worlds each test makes. More of them: `TENURE_SEEDS=20000 cargo nextest run -p
/// tenure-core together`; the only one of a seed: `TENURE_SEED=...`.
const SEEDS: u64 = 150;

const ALL: &[Fault] = &[
    Fault::Crash,
    Fault::Freeze,
    Fault::Part,
    Fault::Resign,
    Fault::TaskFails,
];

const ROUGH: Climate = Climate {
    members: 3,
    guarantee: GroupGuarantee::Quorum,
    preempt: false,
    loss: 20,
    delay: 4_000,
    mistakes: 10,
    drift: 20,
    trouble: 90_000,
    faults: ALL,
    without: None,
};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Runs worlds of this climate, until one goes wrong.
fn worlds(climate: Climate, check: impl Fn(&mut World)) -> Result<(), std::string::String> {
    let seeds = match number("TENURE_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TENURE_SEEDS").unwrap_or(SEEDS),
    };
    for seed in seeds {
        let mut world = World::new(climate, seed);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            world.run_until(climate.trouble);
            check(&mut world);
        }));
        if let Err(panic) = outcome {
            let said = panic.downcast_ref::<std::string::String>().cloned();
            let log = world.log[world.log.len().saturating_sub(40)..].join("\n");
            return Err(std::format!(
                "TENURE_SEED={seed} at {}: {}\n{log}",
                world.now,
                said.unwrap_or_default()
            ));
        }
    }
    Ok(())
}

/// There is one leader, everybody knows it, and it stays.
fn agrees(world: &mut World) {
    // With preemption the best one may get the place in several steps, each after a hold-down.
    world.settle(60_000);
    let leaders = world.leaders();
    assert_eq!(
        leaders.len(),
        1,
        "leaders: {leaders:?}, seen: {:?}",
        world.opinions()
    );
    let opinions = world.opinions();
    assert!(
        opinions.iter().all(|seen| *seen == Some(leaders[0])),
        "{leaders:?} leads, and they see {opinions:?}"
    );
    let (led, greatest) = (world.epoch_of(leaders[0]), world.epochs.iter().max());
    assert_eq!(led.as_ref(), greatest, "receivers would refuse its writes");
    let terms = world.epochs.len();
    world.run_until(world.now + 60_000);
    assert_eq!(world.epochs.len(), terms, "the leader stays");
}

#[track_caller]
fn holds(climate: Climate) {
    if let Err(wrong) = worlds(climate, agrees) {
        panic!("{wrong}");
    }
}

#[test]
fn three_with_a_quorum_have_one_leader_at_a_time_whatever_happens() {
    holds(ROUGH);
}

#[test]
fn five_with_a_quorum_have_one_leader_at_a_time_whatever_happens() {
    holds(Climate {
        members: 5,
        ..ROUGH
    });
}

#[test]
fn better_members_that_take_over_keep_to_one_leader_at_a_time() {
    holds(Climate {
        preempt: true,
        ..ROUGH
    });
}

#[test]
fn three_without_a_quorum_agree_again_when_the_trouble_is_over() {
    holds(Climate {
        guarantee: GroupGuarantee::BestEffort,
        delay: 200,
        ..ROUGH
    });
}

#[test]
fn five_without_a_quorum_agree_again_when_the_trouble_is_over() {
    holds(Climate {
        members: 5,
        guarantee: GroupGuarantee::BestEffort,
        preempt: true,
        delay: 200,
        ..ROUGH
    });
}

#[test]
fn two_without_a_quorum_survive_one() {
    holds(Climate {
        members: 2,
        guarantee: GroupGuarantee::BestEffort,
        delay: 200,
        ..ROUGH
    });
}

/// The worlds are rough enough: a guard that lacks one of its rules does not get through them.
#[test]
fn a_guard_without_one_of_its_rules_is_found_out() {
    for fix in [
        DisabledRule::Promise,
        DisabledRule::Majority,
        DisabledRule::Quarantine,
    ] {
        let wrong = worlds(
            Climate {
                without: Some(fix),
                ..ROUGH
            },
            |_| {},
        );
        assert!(wrong.is_err(), "nothing goes wrong without {fix:?}");
    }
}
