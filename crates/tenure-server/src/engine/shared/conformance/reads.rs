//! Checks of batches and places.

use super::super::log::{
    Append, Appended, Connect, Edit, LoggedBatch, MOST_EDITS, PlaceRange, SharedLog,
};
use super::{all_batches, all_places, append_of, batch, noise, open, place, put};

pub(super) fn batches(connect: &dyn Connect) {
    let mut log = open(connect);
    assert_eq!(log.batches(0), Ok(Vec::new()));
    // The numbers get another digit, and the batches are larger than one answer should be.
    let sizes = (95..).zip([1, 70_000, 0, 900_000, 3, 900_000, 900_000, 900_000]);
    let expected: Vec<LoggedBatch> = sizes
        .map(|(sequence, size)| batch(sequence, &noise(sequence, size)))
        .collect();
    let mut previous: Option<Vec<u8>> = None;
    for batch in &expected {
        let head = batch.sequence.to_string().into_bytes();
        let append = Append {
            batch: Some(batch.clone()),
            ..append_of(previous.as_deref(), &head)
        };
        assert_eq!(log.append(&append), Ok(Appended::Done));
        previous = Some(head);
    }
    for after in [0, 94, 95, 99, 101, 102, i64::MAX as u64] {
        let found = all_batches(&mut *log, after);
        let later = expected.iter().filter(|batch| batch.sequence > after);
        assert!(later.eq(&found), "after {after}");
    }
}

pub(super) fn keeping(connect: &dyn Connect) {
    let mut log = open(connect);
    let mut previous: Option<Vec<u8>> = None;
    let mut append = |log: &mut dyn SharedLog, sequence: u64, keep_from: u64| {
        let head = sequence.to_string().into_bytes();
        let append = Append {
            batch: Some(batch(sequence, b"batch")),
            edits: &[put("lease/a/a", &format!("{{\"n\":{sequence}}}"))],
            keep_from,
            ..append_of(previous.as_deref(), &head)
        };
        assert_eq!(log.append(&append), Ok(Appended::Done));
        previous = Some(head);
    };
    let kept = |log: &mut dyn SharedLog| {
        let batches = all_batches(log, 0);
        Vec::from_iter(batches.iter().map(|batch| batch.sequence))
    };
    append(&mut *log, 8, 0);
    append(&mut *log, 9, 8);
    append(&mut *log, 10, 8);
    assert_eq!(kept(&mut *log), [8, 9, 10]);
    append(&mut *log, 11, 10);
    assert_eq!(kept(&mut *log), [10, 11]);
    append(&mut *log, 12, 10);
    append(&mut *log, 13, 9);
    assert_eq!(kept(&mut *log), [10, 11, 12, 13]);
    // A new connection does not know the earlier values.
    let mut log = open(connect);
    append(&mut *log, 14, 10);
    append(&mut *log, 15, 14);
    assert_eq!(kept(&mut *log), [14, 15]);
    // The batch of this append stays, even if all others go.
    append(&mut *log, 16, 16);
    assert_eq!(kept(&mut *log), [16]);
    assert_eq!(
        all_places(&mut *log, "lease/", "lease0"),
        [place("lease/a/a", "{\"n\":16}")]
    );
}

pub(super) fn ranges(connect: &dyn Connect) {
    let mut log = open(connect);
    let keys = [
        "lease/a/B",
        "lease/a/a",
        "lease/a/a.b",
        "lease/a/aa",
        "lease/a/b",
        "lease/ab/a",
        "term/a/1",
    ];
    let edits = keys.map(|key| put(key, &format!("{{\"key\":\"{key}\"}}")));
    let append = Append {
        batch: Some(batch(1, b"batch")),
        edits: &edits,
        ..append_of(None, b"one")
    };
    assert_eq!(log.append(&append), Ok(Appended::Done));
    let mut keys_in = |from: &str, to: &str, descending, most| {
        let range = PlaceRange {
            from: from.to_owned(),
            to: to.to_owned(),
            descending,
            most,
        };
        let places = log.places(&range).unwrap();
        for place in &places {
            let value = format!("{{\"key\":\"{}\"}}", place.key);
            assert_eq!(place.value, value.as_bytes());
        }
        Vec::from_iter(places.into_iter().map(|place| place.key))
    };
    // In the order of bytes, in which capital letters come first and `.` before `/`.
    assert_eq!(keys_in("lease/", "lease0", false, 100), keys[..6]);
    assert_eq!(keys_in("term/", "term0", false, 100), keys[6..]);
    assert_eq!(keys_in("lease/a/a", "lease/a/b", false, 100), keys[1..4]);
    assert_eq!(keys_in("lease/a/a ", "lease/a/b", false, 100), keys[2..4]);
    assert_eq!(keys_in("lease/a/", "lease/a0", false, 1), keys[..1]);
    assert_eq!(keys_in("lease/a/", "lease/a0", true, 2), [keys[4], keys[3]]);
    assert_eq!(
        keys_in("lease/a/a", "lease/a/b", true, 100),
        [keys[3], keys[2], keys[1]]
    );
    assert!(keys_in("lease/b/", "lease/b0", false, 100).is_empty());
    assert!(keys_in("lease/b/", "lease/b0", true, 100).is_empty());
}

pub(super) fn pages(connect: &dyn Connect) {
    let mut log = open(connect);
    let mut previous: Option<Vec<u8>> = None;
    let mut expected = Vec::new();
    for number in 0..30 {
        let edits: Vec<Edit> = (0..MOST_EDITS)
            .map(|edit| put(&format!("lease/a/{number:02}-{edit:03}"), "{\"n\":1}"))
            .collect();
        let head = number.to_string().into_bytes();
        let append = Append {
            edits: &edits,
            ..append_of(previous.as_deref(), &head)
        };
        assert_eq!(log.append(&append), Ok(Appended::Done));
        previous = Some(head);
        expected.extend(edits.into_iter().map(|edit| match edit {
            Edit::Put(place) => place,
            Edit::Delete(key) => panic!("{key} is not written"),
        }));
    }
    assert!(all_places(&mut *log, "lease/", "lease0") == expected);
    // Several ranges, each to its end.
    let range = |number: usize| PlaceRange {
        from: format!("lease/a/{:02}", 6 * number),
        to: format!("lease/a/{:02}", 6 * number + 6),
        descending: false,
        most: 250,
    };
    let mut ranges: Vec<_> = (0..5).map(range).collect();
    let mut found = Vec::new();
    while !ranges.is_empty() {
        let pages = log.pages(&ranges);
        assert!((1..=ranges.len()).contains(&pages.len()));
        let read: Vec<_> = ranges.drain(..pages.len()).collect();
        for (mut range, page) in read.into_iter().zip(pages) {
            let page = page.unwrap();
            assert!(page.places.len() <= range.most);
            match page.places.last() {
                Some(last) if !page.is_last => {
                    range.from = format!("{} ", last.key);
                    ranges.push(range);
                }
                _ => {}
            }
            found.extend(page.places);
        }
    }
    found.sort_by(|one, other| one.key.cmp(&other.key));
    assert!(found == expected);
    assert!(log.ranges(100_000) >= log.ranges(0));
    assert!(log.ranges(0) > 0);
}
