//! Finds the states from which no leader can be elected any more.
//!
//! The checker's own "eventually" property ignores states on a cycle. So this module explores the
//! same model forward over all actions, and then backward from every state with an elected leader
//! over the actions that need no fault. A state that the backward search does not reach hangs for
//! ever.

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::println;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use foldhash::quality::FixedState;
use stateright::Model;

use super::peers::{Action, Environment};
use super::*;

pub(super) struct Report {
    pub(super) states: usize,
    /// The number of states that violate agreement, and the shortest path to one.
    pub(super) disagreeing: usize,
    pub(super) to_disagreement: Option<String>,
    /// The number of states in which more than one member leads, and the shortest path to one.
    pub(super) doubled: usize,
    pub(super) to_double: Option<String>,
    /// The number of states from which no leader can be elected any more, and the shortest path to
    /// one.
    pub(super) hanging: usize,
    pub(super) to_hang: Option<String>,
}

/// The state before a state, and the action that led from the one to the other.
type Origin = Option<(u32, Action)>;

pub(super) fn explore(environment: &Environment) -> Report {
    let began = std::time::Instant::now();
    let first = environment.init_states().remove(0);
    // The explorer spends most of its time on hashes, and this hasher is fast.
    let hasher = FixedState::default();
    let mut known: HashMap<u64, u32, FixedState> = HashMap::default();
    known.insert(hasher.hash_one(&first), 0);
    let mut origins: Vec<Origin> = alloc::vec![None];
    let mut elected = alloc::vec![first.elected()];
    let (mut disagreeing, mut doubled) = (Vec::new(), Vec::new());
    // Steps that need no fault, backwards: from the later state to the earlier one.
    let mut back: Vec<(u32, u32)> = Vec::new();
    let mut open = VecDeque::from([(0_u32, first)]);
    let mut actions = Vec::new();
    while let Some((number, state)) = open.pop_front() {
        if !state.agrees() {
            disagreeing.push(number);
        }
        if state.leaders() > 1 {
            doubled.push(number);
        }
        environment.actions(&state, &mut actions);
        for action in actions.drain(..) {
            let Some(next) = environment.next_state(&state, action) else {
                continue;
            };
            let fresh = origins.len() as u32;
            let to = *known.entry(hasher.hash_one(&next)).or_insert(fresh);
            if !action.is_fault() {
                back.push((to, number));
            }
            if to == fresh {
                origins.push(Some((number, action)));
                elected.push(next.elected());
                open.push_back((fresh, next));
            }
        }
    }
    let hanging = hanging(elected, &mut back);
    let way_to = |state: Option<&u32>| state.map(|&state| replay(environment, &origins, state));
    let report = Report {
        states: origins.len(),
        disagreeing: disagreeing.len(),
        to_disagreement: way_to(disagreeing.first()),
        doubled: doubled.len(),
        to_double: way_to(doubled.first()),
        hanging: hanging.len(),
        to_hang: way_to(hanging.first()),
    };
    println!(
        "{} states, {} disagree, {} have two leaders, {} hang, in {:.1?}: {environment:?}",
        report.states,
        report.disagreeing,
        report.doubled,
        report.hanging,
        began.elapsed()
    );
    report
}

fn hanging(mut good: Vec<bool>, back: &mut [(u32, u32)]) -> Vec<u32> {
    back.sort_unstable();
    let numbers = 0..good.len() as u32;
    let mut open: Vec<u32> = numbers.filter(|&state| good[state as usize]).collect();
    while let Some(to) = open.pop() {
        let start = back.partition_point(|&(state, _)| state < to);
        for &(_, from) in back[start..].iter().take_while(|&&(state, _)| state == to) {
            if !core::mem::replace(&mut good[from as usize], true) {
                open.push(from);
            }
        }
    }
    let numbers = 0..good.len() as u32;
    numbers.filter(|&state| !good[state as usize]).collect()
}

/// Returns the shortest path to a state as text.
fn replay(environment: &Environment, origins: &[Origin], state: u32) -> String {
    let mut actions = Vec::new();
    let mut at = state;
    while let Some((from, action)) = origins[at as usize] {
        actions.push(action);
        at = from;
    }
    let mut state = environment.init_states().remove(0);
    let mut steps = alloc::vec![alloc::format!("at first: {state}")];
    for action in actions.into_iter().rev() {
        state = environment
            .next_state(&state, action)
            .expect("the step was possible before");
        steps.push(alloc::format!("{action}: {state}"));
    }
    in_words(steps)
}
