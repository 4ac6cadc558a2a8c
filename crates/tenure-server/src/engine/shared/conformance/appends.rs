//! Checks of appends.

use std::thread;

use axum::body::Bytes;

use super::super::log::{Append, Appended, Connect, Edit, MOST_BYTES, MOST_EDITS, SharedLog};
use super::{
    Steady, all_batches, all_places, append, append_of, batch, noise, open, place, put, sighting,
    until_definite,
};

pub(super) fn creation(connect: &dyn Connect) {
    let mut log = open(connect);
    let engine = log.head().unwrap().engine;
    assert_eq!(log.head(), Ok(sighting(engine, None)));
    assert_eq!(
        append(&mut *log, Some(b"other"), b"one"),
        Appended::Refused(sighting(engine, None)),
    );
    assert_eq!(append(&mut *log, None, b"one"), Appended::Done);
    for head in [&b"one"[..], b"two"] {
        assert_eq!(
            append(&mut *log, None, head),
            Appended::Refused(sighting(engine, Some(b"one"))),
        );
    }
    assert_eq!(open(connect).head(), Ok(sighting(engine, Some(b"one"))));
}

pub(super) fn exact_bytes(connect: &dyn Connect) {
    let mut log = open(connect);
    let engine = log.head().unwrap().engine;
    let head = "{\"format\": 1, \"name\": \"b\u{fc}ro\", \"at\": 1}".as_bytes();
    assert_eq!(append(&mut *log, None, head), Appended::Done);
    for similar in [
        "",
        "{\"format\": 1, \"name\": \"b\u{fc}ro\", \"at\": 1} ",
        "{\"format\": 1, \"name\": \"b\u{fc}ro\", \"at\": 1",
        "{\"format\":1, \"name\": \"b\u{fc}ro\", \"at\": 1}",
        "{\"format\": 1, \"at\": 1, \"name\": \"b\u{fc}ro\"}",
        "{\"format\": 1, \"name\": \"b\u{fc}ro\", \"at\": 1.0}",
        "{\"format\": 1, \"name\": \"B\u{fc}ro\", \"at\": 1}",
        "{\"format\": 1, \"name\": \"bu\u{308}ro\", \"at\": 1}",
    ] {
        assert_eq!(
            append(&mut *log, Some(similar.as_bytes()), b"{}"),
            Appended::Refused(sighting(engine, Some(head))),
            "{similar}",
        );
    }
    let mut expected = head;
    let every_byte: Vec<u8> = (0..=255).collect();
    for head in [&b"{ }"[..], &every_byte, b"{}"] {
        assert_eq!(append(&mut *log, Some(expected), head), Appended::Done);
        assert_eq!(log.head(), Ok(sighting(engine, Some(head))));
        expected = head;
    }
}

pub(super) fn refusals(connect: &dyn Connect) {
    let mut log = open(connect);
    let first = Append {
        batch: Some(batch(1, b"first")),
        edits: &[put("lease/a/a", "{\"epoch\": 1}")],
        ..append_of(None, b"one")
    };
    assert_eq!(log.append(&first), Ok(Appended::Done));
    let engine = log.head().unwrap().engine;
    for expected in [None, Some(&b"zero"[..])] {
        let refused = Append {
            batch: Some(batch(2, b"second")),
            edits: &[
                put("lease/a/a", "{\"epoch\": 2}"),
                put("lease/a/b", "{\"epoch\": 2}"),
            ],
            keep_from: 2,
            ..append_of(expected, b"two")
        };
        let shown = Appended::Refused(sighting(engine, Some(b"one")));
        assert_eq!(log.append(&refused), Ok(shown));
        let deletes = Append {
            edits: &[Edit::Delete("lease/a/a".to_owned())],
            ..refused
        };
        assert!(matches!(log.append(&deletes), Ok(Appended::Refused(_))));
    }
    assert_eq!(all_batches(&mut *log, 0), [batch(1, b"first")]);
    assert_eq!(
        all_places(&mut *log, "lease/", "lease0"),
        [place("lease/a/a", "{\"epoch\": 1}")]
    );
}

pub(super) fn whole_appends(connect: &dyn Connect) {
    let mut log = open(connect);
    let every_byte: Vec<u8> = (0..=255).collect();
    let json = "{\"name\": \"b\u{fc}ro \\u0000 \\\"\",  \"n\": 18446744073709551615}";
    let first = Append {
        batch: Some(batch(1, &every_byte)),
        edits: &[
            put("lease/a/a", "{\"n\":1}"),
            put("lease/a/b", json),
            put("term/a/a/0000000000000001", "{\"n\":2}"),
            Edit::Delete("lease/a/never".to_owned()),
        ],
        ..append_of(None, b"one")
    };
    assert_eq!(log.append(&first), Ok(Appended::Done));
    assert_eq!(all_batches(&mut *log, 0), [batch(1, &every_byte)]);
    assert_eq!(
        all_places(&mut *log, "lease/", "lease0"),
        [place("lease/a/a", "{\"n\":1}"), place("lease/a/b", json)]
    );
    assert_eq!(
        all_places(&mut *log, "term/", "term0"),
        [place("term/a/a/0000000000000001", "{\"n\":2}")]
    );
    let second = Append {
        batch: Some(batch(2, b"")),
        edits: &[
            Edit::Delete("lease/a/a".to_owned()),
            put("lease/a/b", "{\"n\":3}"),
            put("lease/a/c", "{}"),
        ],
        ..append_of(Some(b"one"), b"two")
    };
    assert_eq!(log.append(&second), Ok(Appended::Done));
    // A new connection sees the same.
    let mut log = open(connect);
    assert_eq!(
        all_batches(&mut *log, 0),
        [batch(1, &every_byte), batch(2, b"")]
    );
    assert_eq!(
        all_places(&mut *log, "lease/", "lease0"),
        [place("lease/a/b", "{\"n\":3}"), place("lease/a/c", "{}")]
    );
}

pub(super) fn repetition(connect: &dyn Connect) {
    let [mut log, mut other] = [(); 2].map(|()| Steady(connect.connect().unwrap()));
    assert_eq!(append(&mut log, None, b"one"), Appended::Done);
    let engine = log.head().unwrap().engine;
    let repeated = Append {
        batch: Some(batch(1, b"batch")),
        edits: &[put("lease/a/a", "{}")],
        ..append_of(Some(b"one"), b"two")
    };
    assert_eq!(log.append(&repeated), Ok(Appended::Done));
    let own = Appended::Refused(sighting(engine, Some(b"two")));
    for log in [&mut log, &mut other] {
        assert_eq!(until_definite(|| log.0.append(&repeated)), Ok(own.clone()));
    }
    assert_eq!(all_batches(&mut log, 0), [batch(1, b"batch")]);
}

pub(super) fn large_appends(connect: &dyn Connect) {
    let mut log = open(connect);
    let first = b"a head of a usual size".repeat(20);
    let most_edits: Vec<Edit> = (0..MOST_EDITS)
        .map(|number| {
            let key = format!("lease/namespace/{number:0200}");
            let size = MOST_BYTES / 2 / MOST_EDITS - key.len();
            put(&key, &format!("{{\"{}\":1}}", "x".repeat(size - 6)))
        })
        .collect();
    let append = Append {
        batch: Some(batch(1, &noise(1, MOST_BYTES / 2))),
        edits: &most_edits,
        ..append_of(None, &first)
    };
    assert_eq!(log.append(&append), Ok(Appended::Done));
    assert_eq!(all_places(&mut *log, "lease/", "lease0").len(), MOST_EDITS);
    let largest = batch(2, &noise(2, MOST_BYTES));
    let append = Append {
        batch: Some(largest.clone()),
        keep_from: 2,
        ..append_of(Some(&first), b"second")
    };
    assert_eq!(log.append(&append), Ok(Appended::Done));
    assert!(all_batches(&mut *log, 0) == [largest]);
    let deletions: Vec<Edit> = most_edits
        .into_iter()
        .map(|edit| match edit {
            Edit::Put(place) => Edit::Delete(place.key),
            Edit::Delete(_) => edit,
        })
        .collect();
    let append = Append {
        batch: Some(batch(3, b"")),
        edits: &deletions,
        keep_from: 3,
        ..append_of(Some(b"second"), b"third")
    };
    assert_eq!(log.append(&append), Ok(Appended::Done));
    assert!(all_places(&mut *log, "lease/", "lease0").is_empty());
}

/// Four connections append at the same time. Each append names the head that it replaces, so the
/// batches tell the chain.
pub(super) fn one_chain(connect: &dyn Connect) {
    const EACH: usize = 10;
    assert_eq!(append(&mut *open(connect), None, b"0"), Appended::Done);
    thread::scope(|scope| {
        for connection in 0..4 {
            scope.spawn(move || append_to_chain(&mut *open(connect), connection, EACH));
        }
    });
    let batches = all_batches(&mut *open(connect), 0);
    let numbers = Vec::from_iter(batches.iter().map(|batch| batch.sequence));
    assert_eq!(numbers, Vec::from_iter(1..=4 * EACH as u64));
    let last = batches.last().map(|batch| batch.bytes.clone());
    assert_eq!(open(connect).head().unwrap().head, last);
    for pair in batches.windows(2) {
        let [before, after] = pair else { continue };
        let replaced = format!("{}>", String::from_utf8_lossy(&before.bytes));
        let replaced = replaced
            .rsplit_once(' ')
            .map_or(replaced.as_str(), |it| it.1);
        let text = String::from_utf8_lossy(&after.bytes);
        assert!(text.starts_with(replaced), "{replaced} before {text}");
    }
}

/// Appends this number of batches, whatever other connections append meanwhile. A head is the text
/// `REPLACED>SEQUENCE CONNECTION-SEQUENCE`, of which the last part is unique.
fn append_to_chain(log: &mut dyn SharedLog, connection: usize, count: usize) {
    let mut head = log.head().unwrap().head.unwrap();
    let mut appended = 0;
    while appended < count {
        let text = String::from_utf8(head.to_vec()).unwrap();
        let name = text.rsplit_once(' ').map_or(text.as_str(), |it| it.1);
        let sequence = name.rsplit('-').next().unwrap().parse::<u64>().unwrap() + 1;
        let next = format!("{name}>{sequence} {connection}-{sequence}");
        let append = Append {
            batch: Some(batch(sequence, next.as_bytes())),
            ..append_of(Some(&head), next.as_bytes())
        };
        match log.append(&append).unwrap() {
            Appended::Done => {
                head = Bytes::from(next);
                appended += 1;
            }
            Appended::Refused(shown) => head = shown.head.unwrap(),
        }
    }
}
