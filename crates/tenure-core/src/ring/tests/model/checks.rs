//! Searches through all states, and random walks.

use super::std::{self, println};
use alloc::format;
use alloc::string::String;

use stateright::{Checker, HasDiscoveries, Model as _, UniformChooser};

use super::events::*;
use super::state::Left;

fn report(bounds: &Bounds, checker: &impl Checker<Bounds>) -> Result<(), String> {
    println!(
        "{} states, {} steps: {bounds:?}",
        checker.unique_state_count(),
        checker.state_count()
    );
    if let Some(path) = checker.discovery(RIGHT) {
        let mut words = format!("broken: {}\n", path.last_state().broken.unwrap_or("?"));
        for (number, step) in path.into_actions().into_iter().enumerate() {
            words += &format!("{:>3}. {step:?}\n", number + 1);
        }
        return Err(words);
    }
    for (name, _) in EVENTS {
        println!(
            "    {}: {name}",
            if checker.discovery(name).is_some() {
                "found"
            } else {
                "not found"
            }
        );
    }
    Ok(())
}

const NONE: Left = Left {
    ticks: 0,
    changes: 0,
    bases: 0,
    losses: 0,
    failures: 0,
    crashes: 0,
};

#[test]
fn the_log_keeps_its_promises_in_every_order_of_events() {
    let bounds = Bounds {
        servers: 2,
        slots: 1,
        entries: 3,
        ownership: 2,
        left: Left {
            ticks: 3,
            changes: 2,
            bases: 1,
            ..NONE
        },
        begin: &[],
        deletes_slots: false,
    };
    for bounds in [
        bounds,
        Bounds {
            slots: 2,
            entries: 4,
            ..bounds
        },
    ] {
        let began = std::time::Instant::now();
        let search = bounds
            .checker()
            .threads(2)
            .finish_when(HasDiscoveries::AnyFailures);
        let checker = search.target_state_count(3_000_000).spawn_bfs().join();
        println!("{:?}", began.elapsed());
        if let Err(broken) = report(&bounds, &checker) {
            panic!("{broken}");
        }
    }
    let _ = UniformChooser;
}
