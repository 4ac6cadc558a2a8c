//! The checks that every implementation of [`SharedLog`] must pass. A test of an implementation
//! calls [`check`] with a function that makes an empty log.

mod appends;
mod reads;
mod steady;

pub(crate) use steady::{Steady, until_definite};

use axum::body::Bytes;
use tenure_core::ownership::EngineId;

use super::log::{
    Append, Appended, Connect, Edit, LoggedBatch, Place, PlaceRange, SharedLog, Sighting,
};

/// A check of an empty log.
type Check = fn(&dyn Connect);

/// All checks. Their names are printed before they run, so a failure shows the last one.
const CHECKS: &[(&str, Check)] = &[
    (
        "only an append to an empty log creates the head",
        appends::creation,
    ),
    (
        "a head is replaced by its exact bytes only",
        appends::exact_bytes,
    ),
    (
        "a refused append writes nothing and shows the head",
        appends::refusals,
    ),
    ("an append is applied as a whole", appends::whole_appends),
    (
        "an append that is sent twice is applied once",
        appends::repetition,
    ),
    ("batches come in order and in pages", reads::batches),
    (
        "batches below `keep_from` are deleted and stay deleted",
        reads::keeping,
    ),
    ("ranges of places have limits and directions", reads::ranges),
    ("places come in pages", reads::pages),
    (
        "an append may be as large as its limits",
        appends::large_appends,
    ),
    (
        "appends of several connections form one chain",
        appends::one_chain,
    ),
];

/// Runs all checks, each with a new log.
pub(crate) fn check<C: Connect>(mut empty_log: impl FnMut() -> C) {
    for (name, check) in CHECKS {
        println!("{name}");
        check(&empty_log());
    }
}

fn open(connect: &dyn Connect) -> Box<dyn SharedLog> {
    Box::new(Steady(connect.connect().unwrap()))
}

fn append_of<'a>(expected: Option<&'a [u8]>, head: &'a [u8]) -> Append<'a> {
    Append {
        expected,
        head,
        batch: None,
        edits: &[],
        keep_from: 0,
    }
}

fn append(log: &mut dyn SharedLog, expected: Option<&[u8]>, head: &[u8]) -> Appended {
    log.append(&append_of(expected, head)).unwrap()
}

fn sighting(engine: EngineId, head: Option<&[u8]>) -> Sighting {
    Sighting {
        engine,
        head: head.map(Bytes::copy_from_slice),
    }
}

fn batch(sequence: u64, bytes: &[u8]) -> LoggedBatch {
    LoggedBatch {
        sequence,
        bytes: Bytes::copy_from_slice(bytes),
    }
}

fn place(key: &str, value: &str) -> Place {
    Place {
        key: key.to_owned(),
        value: Bytes::copy_from_slice(value.as_bytes()),
    }
}

fn put(key: &str, value: &str) -> Edit {
    Edit::Put(place(key, value))
}

/// Bytes that no compression makes small.
fn noise(seed: u64, size: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    std::iter::repeat_with(next).take(size).collect()
}

/// All batches after this one, as a server reads them.
fn all_batches(log: &mut dyn SharedLog, mut after: u64) -> Vec<LoggedBatch> {
    let mut all = Vec::new();
    loop {
        let page = log.batches(after).unwrap();
        let Some(last) = page.last() else {
            return all;
        };
        assert!(last.sequence > after, "batches are in order");
        after = last.sequence;
        all.extend(page);
    }
}

/// All places of a range, as a server reads them.
fn all_places(log: &mut dyn SharedLog, from: &str, to: &str) -> Vec<Place> {
    let mut all: Vec<Place> = Vec::new();
    let mut range = PlaceRange {
        from: from.to_owned(),
        to: to.to_owned(),
        descending: false,
        most: 1_000,
    };
    loop {
        let page = log.places(&range).unwrap();
        assert!(page.len() <= range.most);
        let Some(last) = page.last() else {
            return all;
        };
        assert!(last.key >= range.from, "places are in order");
        // No printable key is between a key and this one.
        range.from = format!("{} ", last.key);
        all.extend(page);
    }
}
