//! The terms of leases, before and after checkpoints.

use super::*;

/// Returns the number of rows in the table of terms.
fn segments(engine: &Embedded) -> usize {
    let count = "SELECT count(*) FROM term_rows";
    let count = engine.connection.query_row(count, [], |row| row.get(0));
    count.unwrap()
}

#[test]
fn old_terms_are_forgotten_when_newer_ones_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    for epoch in 1..=2 * BEGIN_AT.changes as u64 {
        commit(&mut engine, &[end(epoch, epoch)]).unwrap();
        engine.checkpoint(Load::Busy).unwrap();
        assert!(batch_count(&engine) as usize <= BEGIN_AT.changes);
        assert!(segments(&engine) <= 2);
    }
    commit(&mut engine, &[end(9_000, 9_000)]).unwrap();
    engine.close().unwrap();
    drop(engine);
    // All rows match their checksums.
    let (_, engine) = open(folder.path(), MOST).unwrap();
    assert_eq!(epochs(&engine)[0], 9_000);
}

#[test]
fn a_record_of_a_term_counts_the_same_before_and_after_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let (_, mut engine) = open(folder.path(), MOST).unwrap();
    let told = |engine: &Embedded| {
        let terms = engine.terms();
        let terms = terms.terms(&LeaseKey::of_text("ns/job-1"), Epoch::MAX, 9);
        terms.unwrap()
    };
    let note = |revision, epoch, reason: Option<&str>, has_ended: bool| {
        let mut write = end(revision, epoch);
        let term = write.term.as_mut().unwrap();
        term.reason = reason.map(Into::into);
        term.ended = term.ended.filter(|_| has_ended);
        write
    };
    // One request gives a reason for the end. Then the term ends, and another reason is given.
    let first = note(2, 7, Some("broken"), false);
    commit(&mut engine, &[write(1, 10), first]).unwrap();
    assert_eq!(told(&engine)[0].ended, None);
    let put_in_place = |engine: &mut Embedded| {
        engine.checkpoint(Load::Idle).unwrap();
        assert_eq!(batch_count(engine), 0);
    };
    drop(engine);
    for is_put_in_place in [false, true] {
        // A start writes the record to the table.
        let folder = tempfile::tempdir().unwrap();
        let (_, mut engine) = open(folder.path(), MOST).unwrap();
        let first = note(2, 7, Some("broken"), false);
        commit(&mut engine, &[write(1, 10), first]).unwrap();
        if is_put_in_place {
            put_in_place(&mut engine);
        }
        let again = note(4, 7, Some("gave up"), true);
        commit(&mut engine, &[again, note(5, 9, None, true)]).unwrap();
        let before = told(&engine);
        put_in_place(&mut engine);
        assert_eq!(told(&engine), before);
        let reasons: Vec<_> = before.iter().map(|term| term.reason.as_deref()).collect();
        assert_eq!(reasons, [None, Some("broken")]);
        assert!(before.iter().all(|term| term.ended.is_some()));
    }
}
