//! The example has every key with its default.

use std::collections::BTreeMap;
use std::io::Write;

use tenure::__cli::{EXAMPLE, Scope, Settings};

use super::effective;
use crate::settings::serve::StoreSettings;

/// The example, the example with every key that is commented out, and the latter without the table
/// `[fallback]`, which would be read beside the default strategy and names a file that must exist.
fn files() -> [String; 3] {
    let uncommented = EXAMPLE.lines().map(|line| {
        let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        key.unwrap_or(line)
    });
    let all = uncommented.collect::<Vec<_>>().join("\n");
    let (before, fallback) = all.split_once("[fallback]").unwrap();
    let (_, after) = fallback.split_once("\n[").unwrap();
    let without_fallback = format!("{before}[{after}");
    [EXAMPLE.to_owned(), all, without_fallback]
}

#[test]
fn the_example_is_valid_and_has_every_key_with_its_default() {
    let rows = files().map(|text| {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let of_file = |scope| Settings::of_file(scope, file.path()).unwrap();
        (of_file(Scope::Candidate), of_file(Scope::Store))
    });
    let [
        (candidate, store),
        (full_candidate, full_store),
        (simple, _),
    ] = rows;
    for settings in [&full_candidate, &full_store] {
        for key in settings.keys() {
            assert!(settings.origin(key).is_some(), "{key} is missing");
        }
    }
    assert!(candidate.origin("election").is_some());
    // A server of a cluster needs another engine than the default.
    let mut full_store = full_store;
    for key in full_store.keys() {
        if ["cluster.", "etcd.", "postgres."]
            .iter()
            .any(|table| key.starts_with(table))
        {
            full_store.unset(key);
        }
    }
    let shown = |store| format!("{:?}", StoreSettings::new(store).unwrap());
    assert_eq!(shown(&store), shown(&full_store));
    let without = |settings| {
        let rows = effective::of_candidate(settings).unwrap().into_iter();
        let mut values: BTreeMap<_, _> = rows.map(|row| (row.key, row.value)).collect();
        for key in ["candidate", "progress_deadline", "metadata"] {
            values.remove(key).unwrap();
        }
        // The keys of a single strategy have no default, or a default that follows from other keys.
        values.retain(|key, _| !key.contains('.'));
        values
    };
    assert_eq!(without(&candidate), without(&simple));
}
