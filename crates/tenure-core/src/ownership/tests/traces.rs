//! Exact traces of one machine.

use super::*;
use alloc::string::ToString;

// O1: one chain.

#[test]
fn the_first_server_of_an_empty_log_appends_generation_1() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 1))]);
    assert_eq!(machine.known(), None);
    assert_eq!(machine.role(at(0)), OwnershipRole::Taking);
    assert_eq!(
        machine.handle_appended(at(1), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(
        outputs(&mut machine),
        [OwnershipOutput::Took { generation: 1 }]
    );
    assert_eq!(machine.known(), Some(mine(1, 1)));
}

#[test]
fn of_two_first_servers_the_slower_one_follows() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    outputs(&mut machine);
    assert!(matches!(
        machine.handle_appended(at(1), refused(tail(1, 1))),
        AppendOutcome::Superseded(_)
    ));
    assert_eq!(machine.role(at(1)), OwnershipRole::Following);
    assert_eq!(machine.known(), Some(tail(1, 1)));
    assert_eq!(outputs(&mut machine), []);
    assert_eq!(follow(&mut machine, 2, 12, look(tail(1, 1))), []);
    assert_eq!(machine.next_timeout(), Some(at(13)), "T after the refusal");
    machine.handle_timeout(at(13));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(2, 2))]);
}

#[test]
fn each_append_adds_one_to_the_sequence_and_a_take_over_one_to_the_generation() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(4, 70)));
    assert_eq!(
        follow(&mut machine, 1, 12, look(tail(4, 70))),
        [OwnershipOutput::Append(mine(5, 71))]
    );
    assert_eq!(
        machine.handle_appended(at(12), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    outputs(&mut machine);
    machine.handle_loaded(at(12), 5);
    assert_eq!(machine.append(at(12)), Some(mine(5, 72)));
    assert_eq!(machine.append(at(12)), None, "an append is under way");
    assert_eq!(
        machine.handle_appended(at(12), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(machine.append(at(13)), Some(mine(5, 73)));
}

// O2: a server that was shown a foreign tail is not active.

#[test]
fn a_refused_append_deposes_the_owner_at_once() {
    let mut machine = active();
    assert_eq!(machine.append(at(1)), Some(mine(1, 2)));
    assert!(matches!(
        machine.handle_appended(at(1), refused(tail(2, 2))),
        AppendOutcome::Superseded(_)
    ));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Deposed]);
    assert_eq!(machine.serves_until(), None);
    assert_eq!(machine.role(at(1)), OwnershipRole::Following);
    assert_eq!(machine.append(at(1)), None);
    machine.handle_loaded(at(1), 1);
    assert_eq!(machine.role(at(1)), OwnershipRole::Following);
}

#[test]
fn a_load_that_ends_after_the_next_take_over_does_not_count_for_it() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    let done = machine.handle_appended(at(0), AppendOutcome::Committed);
    assert_eq!(done, AppendOutcome::Committed);
    machine.handle_timeout(at(2));
    let vacant = in_state(TailState::Vacant, tail(2, 2));
    assert!(matches!(
        machine.handle_appended(at(2), refused(vacant)),
        AppendOutcome::Superseded(_)
    ));
    assert_eq!(machine.next_timeout(), Some(at(2)));
    machine.handle_timeout(at(2));
    assert_eq!(
        machine.handle_appended(at(2), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(machine.known(), Some(mine(3, 3)));
    machine.handle_loaded(at(3), 1);
    assert_eq!(machine.role(at(3)), OwnershipRole::Loading);
    machine.handle_loaded(at(3), 3);
    assert_eq!(machine.role(at(3)), OwnershipRole::Active);
}

// O3: every acceptance is before the next generation.

#[test]
fn the_owner_counts_from_the_send_of_its_last_append_less_a_margin() {
    let mut machine = active();
    assert_eq!(machine.serves_until(), Some(at(10)));
    assert!(machine.append(at(1)).is_some());
    assert_eq!(
        machine.serves_until(),
        Some(at(10)),
        "not before it is done"
    );
    assert_eq!(
        machine.handle_appended(at(3), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(machine.serves_until(), Some(at(11)));
    assert_eq!(machine.role(at_millis(10_999)), OwnershipRole::Active);
    assert_eq!(machine.role(at(11)), OwnershipRole::Lapsed);
}

#[test]
fn a_repeated_append_counts_from_its_first_send() {
    let mut machine = active();
    assert_eq!(machine.append(at(1)), Some(mine(1, 2)));
    for (now, outcome) in [(3, AppendOutcome::Unknown), (5, AppendOutcome::Unknown)] {
        assert_eq!(
            machine.handle_appended(at(now), outcome),
            AppendOutcome::Unknown
        );
        assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
    }
    assert_eq!(
        machine.handle_appended(at(6), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(machine.serves_until(), Some(at(11)));
}

#[test]
fn a_follower_counts_from_the_arrival_of_the_first_answer_with_this_tail() {
    let mut machine = started();
    machine.handle_tail(at(1), look(tail(1, 1)));
    assert_eq!(follow(&mut machine, 2, 9, look(tail(1, 1))), []);
    // Another tail begins the count again.
    assert_eq!(follow(&mut machine, 10, 21, look(tail(1, 2))), []);
    assert_eq!(machine.next_timeout(), Some(at(22)));
    assert_eq!(
        follow(&mut machine, 22, 22, look(tail(1, 2))),
        [OwnershipOutput::Append(mine(2, 3))]
    );
}

#[test]
fn a_follower_waits_for_the_longer_one_of_two_ownership_durations() {
    for (own, wait) in [(12, 24), (36, 36)] {
        let mut machine = Ownership::new(timings(own), ME, at(0));
        outputs(&mut machine);
        let tail = Tail {
            ownership: Duration::from_secs(24),
            ..tail(1, 1)
        };
        machine.handle_tail(at(0), look(tail));
        assert_eq!(follow(&mut machine, 1, wait - 1, look(tail)), []);
        let taken = follow(&mut machine, wait, wait, look(tail));
        assert!(
            matches!(taken[..], [OwnershipOutput::Append(_)]),
            "{taken:?}"
        );
    }
}

#[test]
fn a_take_over_whose_outcome_was_unknown_for_long_serves_only_after_another_append() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    outputs(&mut machine);
    for second in 1..=12 {
        let unknown = machine.handle_appended(at(second), AppendOutcome::Unknown);
        assert_eq!(unknown, AppendOutcome::Unknown);
        assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 1))]);
    }
    let own = refused(mine(1, 1));
    assert_eq!(
        machine.handle_appended(at(13), own),
        AppendOutcome::Committed
    );
    assert_eq!(
        outputs(&mut machine),
        [OwnershipOutput::Took { generation: 1 }]
    );
    machine.handle_loaded(at(14), 1);
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Lapsed]);
    assert_eq!(machine.role(at(14)), OwnershipRole::Lapsed);
    machine.handle_timeout(at(14));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
    assert_eq!(
        machine.handle_appended(at(15), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Resumed]);
    assert_eq!(machine.serves_until(), Some(at(14 + 10)));
}

// O4 needs no rule of the machine: an append that was sent after a look succeeds only if no other
// server has taken over before.

#[test]
fn an_owner_that_lapsed_resumes_with_its_next_append() {
    let mut machine = active();
    machine.handle_timeout(at(2));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
    for second in [4, 6, 8] {
        let unknown = machine.handle_appended(at(second), AppendOutcome::Unknown);
        assert_eq!(unknown, AppendOutcome::Unknown);
        assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
    }
    assert_eq!(machine.next_timeout(), Some(at(10)));
    machine.handle_timeout(at(10));
    machine.handle_timeout(at(11));
    assert_eq!(
        outputs(&mut machine),
        [OwnershipOutput::Lapsed],
        "told once"
    );
    // The outcome shows that the append was done at last, but it was sent at 2 s.
    let done = machine.handle_appended(at(14), AppendOutcome::Committed);
    assert_eq!(done, AppendOutcome::Committed);
    assert_eq!(machine.role(at(14)), OwnershipRole::Lapsed);
    machine.handle_timeout(at(14));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 3))]);
    assert_eq!(
        machine.handle_appended(at(15), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Resumed]);
    assert_eq!(machine.role(at(15)), OwnershipRole::Active);
}

#[test]
fn an_owner_beats_while_it_loads_and_accepts_only_afterwards() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    outputs(&mut machine);
    assert_eq!(
        machine.handle_appended(at(0), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    outputs(&mut machine);
    assert_eq!(machine.append(at(0)), None, "nothing to append yet");
    for sequence in 2..20 {
        let now = at((sequence - 1) * 2);
        assert_eq!(machine.next_timeout(), Some(now));
        machine.handle_timeout(now);
        assert_eq!(
            outputs(&mut machine),
            [OwnershipOutput::Append(mine(1, sequence))]
        );
        assert_eq!(
            machine.handle_appended(now, AppendOutcome::Committed),
            AppendOutcome::Committed
        );
        assert_eq!(machine.role(now), OwnershipRole::Loading);
        assert_eq!(machine.serves_until(), None);
    }
    machine.handle_loaded(at(37), 1);
    assert_eq!(machine.serves_until(), Some(at(36 + 10)));
}

// O5: an unknown append is neither done nor undone.

#[test]
fn an_append_of_unknown_outcome_is_repeated_until_a_refusal_shows_its_own_tail() {
    let mut machine = active();
    assert_eq!(machine.append(at(1)), Some(mine(1, 2)));
    assert_eq!(
        machine.handle_appended(at(3), AppendOutcome::Unknown),
        AppendOutcome::Unknown
    );
    assert_eq!(machine.append(at(3)), None);
    assert_eq!(machine.vacate(at(3)), None);
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
    let done = machine.handle_appended(at(4), refused(mine(1, 2)));
    assert_eq!(done, AppendOutcome::Committed);
    assert_eq!(machine.known(), Some(mine(1, 2)));
}

#[test]
fn a_definite_failure_undoes_an_append_only_if_no_attempt_of_it_is_unknown() {
    let mut machine = active();
    assert_eq!(machine.append(at(1)), Some(mine(1, 2)));
    let undone = machine.handle_appended(at(1), AppendOutcome::Refused);
    assert_eq!(undone, AppendOutcome::Refused);
    let next = Tail {
        undone: 1,
        ..mine(1, 2)
    };
    assert_eq!(machine.append(at(1)), Some(next), "the next batch");
    for (now, outcome) in [
        (2, AppendOutcome::Unknown),
        (3, AppendOutcome::Refused),
        (4, AppendOutcome::Refused),
    ] {
        assert_eq!(
            machine.handle_appended(at(now), outcome),
            AppendOutcome::Unknown
        );
        assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(next)]);
    }
}

#[test]
fn attempts_of_an_append_are_a_poll_apart() {
    let mut machine = active();
    assert!(machine.append(at(1)).is_some());
    let unknown = machine.handle_appended(at(1), AppendOutcome::Unknown);
    assert_eq!(unknown, AppendOutcome::Unknown);
    assert_eq!(outputs(&mut machine), []);
    assert_eq!(machine.next_timeout(), Some(at(2)));
    machine.handle_timeout(at(2));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Append(mine(1, 2))]);
}

#[test]
fn an_unknown_append_of_an_owner_that_is_deposed_is_lost() {
    let mut machine = active();
    assert!(machine.append(at(1)).is_some());
    let unknown = machine.handle_appended(at(3), AppendOutcome::Unknown);
    assert_eq!(unknown, AppendOutcome::Unknown);
    outputs(&mut machine);
    // The other server took over after the append, or instead of it.
    let lost = machine.handle_appended(at(4), refused(tail(2, 3)));
    assert!(matches!(lost, AppendOutcome::Superseded(_)));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Deposed]);
    // There is no append any more.
    let late = machine.handle_appended(at(4), AppendOutcome::Committed);
    assert_eq!(late, AppendOutcome::Unknown);
    assert_eq!(machine.role(at(4)), OwnershipRole::Following);
}

// O6 and O7 are properties of several servers; see the module `peace`.

#[test]
fn a_follower_takes_over_only_after_its_reads_have_succeeded_for_a_third_of_t() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(1, 1)));
    assert_eq!(follow(&mut machine, 1, 30, Look::Failed), []);
    assert_eq!(follow(&mut machine, 31, 34, look(tail(1, 1))), []);
    let taken = follow(&mut machine, 35, 35, look(tail(1, 1)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 2))]);
}

#[test]
fn a_follower_that_was_paused_reads_again_before_it_takes_over() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(1, 1)));
    machine.handle_timeout(at(60));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Look]);
    machine.handle_tail(at(60), look(tail(1, 1)));
    assert_eq!(follow(&mut machine, 61, 63, look(tail(1, 1))), []);
    let taken = follow(&mut machine, 64, 64, look(tail(1, 1)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 2))]);
}

#[test]
fn a_take_over_that_failed_definitely_begins_again_with_reads() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    outputs(&mut machine);
    let undone = machine.handle_appended(at(0), AppendOutcome::Refused);
    assert_eq!(undone, AppendOutcome::Refused);
    assert_eq!(machine.role(at(0)), OwnershipRole::Following);
    assert_eq!(machine.next_timeout(), Some(at(1)));
    assert_eq!(
        follow(&mut machine, 1, 1, EMPTY),
        [OwnershipOutput::Append(Tail {
            undone: 1,
            ..mine(1, 1)
        })]
    );
}

// O8: vacant tails and resignations.

#[test]
fn a_vacant_tail_is_taken_over_at_the_next_poll() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(1, 1)));
    assert_eq!(follow(&mut machine, 1, 1, look(tail(1, 1))), []);
    let vacant = look(in_state(TailState::Vacant, tail(1, 2)));
    assert_eq!(
        follow(&mut machine, 2, 2, vacant),
        [OwnershipOutput::Append(mine(2, 3))]
    );
}

#[test]
fn a_server_that_resigned_accepts_nothing_commits_the_rest_and_vacates_the_log() {
    let mut machine = active();
    machine.resign();
    assert_eq!(machine.serves_until(), None);
    assert_eq!(machine.role(at(0)), OwnershipRole::Resigned);
    assert_eq!(machine.append(at(1)), Some(mine(1, 2)), "the last batch");
    assert_eq!(machine.vacate(at(1)), None, "the batch is under way");
    assert_eq!(
        machine.handle_appended(at(1), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    let vacant = in_state(TailState::Vacant, mine(1, 3));
    assert_eq!(machine.vacate(at(2)), Some(vacant));
    assert_eq!(
        machine.handle_appended(at(2), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(machine.append(at(2)), None);
    assert_eq!(machine.next_timeout(), None);
    assert_eq!(outputs(&mut machine), []);
}

#[test]
fn a_server_that_handed_over_takes_its_own_vacant_tail_only_after_t() {
    let mut machine = active();
    let vacant = in_state(TailState::Vacant, mine(1, 2));
    assert_eq!(machine.vacate(at(1)), Some(vacant));
    machine.stand_by(at(1));
    assert_eq!(
        machine.role(at(1)),
        OwnershipRole::Resigned,
        "not vacated yet"
    );
    assert_eq!(
        machine.handle_appended(at(1), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    machine.stand_by(at(1));
    assert_eq!(machine.role(at(1)), OwnershipRole::Following);
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Look]);
    machine.handle_tail(at(1), look(vacant));
    assert_eq!(follow(&mut machine, 2, 12, look(vacant)), []);
    let taken = follow(&mut machine, 13, 13, look(vacant));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 3))]);
}

#[test]
fn a_server_that_resigns_while_it_takes_over_vacates_the_log_unloaded() {
    let mut machine = started();
    machine.handle_tail(at(0), EMPTY);
    outputs(&mut machine);
    machine.resign();
    assert_eq!(machine.vacate(at(0)), None);
    assert_eq!(
        machine.handle_appended(at(1), AppendOutcome::Committed),
        AppendOutcome::Committed
    );
    assert_eq!(outputs(&mut machine), []);
    let vacant = in_state(TailState::Vacant, mine(1, 2));
    assert_eq!(machine.vacate(at(1)), Some(vacant));
}

#[test]
fn a_follower_that_resigned_takes_nothing_over() {
    let mut machine = started();
    machine.resign();
    machine.handle_tail(at(0), EMPTY);
    assert_eq!(outputs(&mut machine), []);
    assert_eq!(machine.next_timeout(), None);
}

// O9: a log that is not in order.

#[test]
fn a_server_that_can_not_load_the_content_reads_on_and_takes_nothing_over() {
    let mut machine = started();
    machine.bar(true);
    machine.handle_tail(at(0), look(tail(3, 9)));
    assert_eq!(machine.role(at(0)), OwnershipRole::Refusing);
    assert_eq!(follow(&mut machine, 1, 40, look(tail(3, 9))), []);
    // It notices the tails of others meanwhile, and a log that went back.
    assert_eq!(follow(&mut machine, 41, 42, look(tail(4, 12))), []);
    assert_eq!(machine.known(), Some(tail(4, 12)));
    machine.bar(false);
    assert_eq!(machine.role(at(42)), OwnershipRole::Following);
    assert_eq!(
        follow(&mut machine, 43, 60, look(tail(4, 12))),
        [OwnershipOutput::Append(mine(5, 13))]
    );

    let mut machine = started();
    machine.handle_tail(at(0), look(tail(3, 9)));
    machine.bar(true);
    follow(&mut machine, 1, 40, look(tail(3, 5)));
    assert!(matches!(machine.refusal(), Some(Refusal::WentBack { .. })));
    machine.bar(false);
    assert_eq!(machine.role(at(40)), OwnershipRole::Refusing);
}

#[test]
fn a_log_that_is_being_restored_or_was_moved_is_never_taken_over() {
    for state in [TailState::Restoring, TailState::Retired] {
        let mut machine = started();
        let tail = in_state(state, tail(1, 1));
        machine.handle_tail(at(0), look(tail));
        assert_eq!(follow(&mut machine, 1, 100, look(tail)), []);
        assert_eq!(machine.role(at(100)), OwnershipRole::Following);
    }
}

#[test]
fn a_tail_that_was_written_in_another_service_is_refused() {
    let mut machine = started();
    let other = Tail {
        home: HomeId(8),
        ..tail(1, 1)
    };
    machine.handle_tail(at(0), look(other));
    let outputs = outputs(&mut machine);
    let [OwnershipOutput::Refuses(refusal)] = outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(
        refusal.to_string(),
        "the log was written in home 8 and this is 7"
    );
    assert_eq!(follow(&mut machine, 1, 40, look(other)), [], "told once");
    assert_eq!(machine.role(at(40)), OwnershipRole::Refusing);
    // The address was wrong, and is corrected.
    assert_eq!(follow(&mut machine, 41, 52, look(tail(1, 1))), []);
    assert_eq!(machine.role(at(52)), OwnershipRole::Following);
    let taken = follow(&mut machine, 53, 53, look(tail(1, 1)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 2))]);
}

#[test]
fn another_service_is_refused_even_if_its_log_is_empty() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(1, 1)));
    let elsewhere = Look::Found(Observation {
        home: HomeId(8),
        found: Found::Empty,
    });
    let refused = OwnershipOutput::Refuses(Refusal::OtherHome {
        written: ENGINE,
        answering: HomeId(8),
    });
    assert_eq!(follow(&mut machine, 1, 60, elsewhere), [refused]);
}

#[test]
fn an_owner_that_meets_an_older_tail_follows_again_and_refuses_after_t() {
    let met = || {
        let mut machine = active();
        assert!(machine.append(at(1)).is_some());
        assert_eq!(
            machine.handle_appended(at(1), AppendOutcome::Committed),
            AppendOutcome::Committed
        );
        machine.handle_timeout(at(3));
        outputs(&mut machine);
        assert!(matches!(
            machine.handle_appended(at(3), refused(mine(1, 1))),
            AppendOutcome::Superseded(_)
        ));
        assert_eq!(outputs(&mut machine), [OwnershipOutput::Deposed]);
        assert_eq!(machine.serves_until(), None);
        assert_eq!(machine.role(at(3)), OwnershipRole::Following);
        machine
    };
    // The answer was stale. Nobody has taken over for T since the server's last append.
    let mut machine = met();
    assert_eq!(follow(&mut machine, 4, 12, look(mine(1, 2))), []);
    let taken = follow(&mut machine, 13, 13, look(mine(1, 2)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 3))]);
    // The home lost the entry.
    let mut machine = met();
    let taken = follow(&mut machine, 4, 13, look(mine(1, 1)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(2, 3))]);
    let _ = machine.handle_appended(at(13), refused(mine(1, 1)));
    let outputs = follow(&mut machine, 14, 15, look(mine(1, 1)));
    let [OwnershipOutput::Refuses(refusal)] = outputs[..] else {
        panic!("{outputs:?}");
    };
    assert_eq!(
        refusal.to_string(),
        "generation 1, sequence 2 was here and now it is generation 1, sequence 1: the home \
         lost what it acknowledged"
    );
    assert_eq!(machine.role(at(15)), OwnershipRole::Refusing);
}

#[test]
fn a_read_that_shows_an_older_tail_is_stale_unless_it_does_so_for_t() {
    let mut machine = started();
    machine.handle_tail(at(0), look(tail(3, 30)));
    assert_eq!(follow(&mut machine, 1, 5, look(tail(2, 29))), []);
    assert_eq!(machine.role(at(5)), OwnershipRole::Following);
    assert_eq!(machine.known(), Some(tail(3, 30)));
    assert_eq!(follow(&mut machine, 6, 6, look(tail(3, 31))), []);
    assert_eq!(follow(&mut machine, 7, 17, look(tail(3, 30))), []);
    // The tail did not change for T, so the machine tries.
    let taken = follow(&mut machine, 18, 18, look(tail(3, 30)));
    assert_eq!(taken, [OwnershipOutput::Append(mine(4, 32))]);
    let lost = machine.handle_appended(at(18), refused(tail(3, 30)));
    assert!(matches!(lost, AppendOutcome::Superseded(_)));
    assert_eq!(outputs(&mut machine), []);
    machine.handle_timeout(at(19));
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Look]);
    machine.handle_tail(at(19), look(tail(3, 30)));
    let refusal = Refusal::WentBack {
        known: tail(3, 31),
        found: Some(tail(3, 30)),
    };
    assert_eq!(outputs(&mut machine), [OwnershipOutput::Refuses(refusal)]);
}

#[test]
fn a_log_that_became_empty_is_refused_after_t() {
    let retired = in_state(TailState::Retired, tail(1, 5));
    let mut machine = started();
    machine.handle_tail(at(0), look(retired));
    assert_eq!(follow(&mut machine, 1, 12, EMPTY), []);
    let refusal = Refusal::WentBack {
        known: retired,
        found: None,
    };
    assert_eq!(
        follow(&mut machine, 13, 60, EMPTY),
        [OwnershipOutput::Refuses(refusal)]
    );
    assert!(refusal.to_string().contains("now it is not: "));
}

#[test]
fn a_tail_of_another_chain_is_refused_at_once() {
    // A restored service in which another server took over.
    for other in [tail(4, 29), tail(2, 31), tail(4, 30), mine(3, 31)] {
        let mut machine = started();
        machine.handle_tail(at(0), look(tail(3, 30)));
        let refusal = Refusal::WentBack {
            known: tail(3, 30),
            found: Some(other),
        };
        assert_eq!(
            follow(&mut machine, 1, 40, look(other)),
            [OwnershipOutput::Refuses(refusal)],
            "{other:?}"
        );
        assert_eq!(machine.role(at(40)), OwnershipRole::Refusing);
    }
}

#[test]
fn a_server_that_saw_the_log_go_back_refuses_also_when_the_log_has_grown_past_what_it_knew() {
    // The service was restored, and a server that was started later went on there.
    let run = |mut machine: Ownership| {
        machine.handle_tail(at(0), look(tail(3, 30)));
        let mut shown = follow(&mut machine, 1, 20, look(tail(4, 9)));
        for (later, begin) in [(tail(4, 30), 21), (tail(4, 31), 41), (tail(5, 99), 61)] {
            shown.extend(follow(&mut machine, begin, begin + 19, look(later)));
        }
        (shown, machine.role(at(80)))
    };
    let refusal = Refusal::WentBack {
        known: tail(3, 30),
        found: Some(tail(4, 9)),
    };
    let (shown, role) = run(started());
    assert_eq!(shown, [OwnershipOutput::Refuses(refusal)]);
    assert_eq!(role, OwnershipRole::Refusing);
}

#[test]
fn a_tail_in_a_newer_format_is_refused() {
    let refusal = Refusal::NewerFormat { found: 2 };
    let newer = observation(Found::Unusable(refusal));
    let mut follower = started();
    follower.handle_tail(at(0), Look::Found(newer));
    assert_eq!(outputs(&mut follower), [OwnershipOutput::Refuses(refusal)]);
    let mut owner = active();
    owner.handle_timeout(at(2));
    outputs(&mut owner);
    let lost = owner.handle_appended(at(2), AppendOutcome::Superseded(newer));
    assert!(matches!(lost, AppendOutcome::Superseded(_)));
    assert_eq!(
        outputs(&mut owner),
        [OwnershipOutput::Deposed, OwnershipOutput::Refuses(refusal)]
    );
    assert_eq!(
        refusal.to_string(),
        "the log has format 2, which this version does not know"
    );
}

#[test]
fn the_times_are_fractions_of_the_ownership_duration() {
    let times = timings(T);
    let shown = [
        times.beat(),
        times.margin(),
        times.attempt(),
        times.poll(),
        times.settle(),
    ];
    assert_eq!(shown.map(|it| it.as_secs()), [2, 2, 2, 1, 4]);
    for millis in [0, 999, 60_001] {
        let error = OwnershipTimings::new(Duration::from_millis(millis)).unwrap_err();
        assert!(error.to_string().ends_with("must be 1s to 60s"), "{error}");
    }
}
