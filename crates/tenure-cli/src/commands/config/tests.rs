//! The example has every key, with its default or with a value that is possible.

use std::io::Write;

use tenure_config::{Keys, Scope, Settings};

use super::effective;
use crate::settings::azure::AzureFlags;
use crate::settings::checked_store::CheckedStore;
use crate::settings::{ALL_KEYS, CANDIDATE, STORE};

/// Reads this text in this scope.
fn read(scope: Scope, text: &str) -> Settings {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    Settings::of_file(scope, file.path()).unwrap()
}

/// The text with each key that is commented out.
fn uncommented(keys: &Keys) -> String {
    let lines = keys.text().lines().map(|line| {
        let key = line.strip_prefix('#').filter(|rest| !rest.starts_with(' '));
        key.unwrap_or(line)
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_is_valid_and_has_every_key() {
    for (scope, keys) in [(CANDIDATE, ALL_KEYS[0]), (STORE, ALL_KEYS[1])] {
        let settings = read(scope, &uncommented(keys));
        for key in settings.keys() {
            assert!(settings.origin(&key.name).is_some(), "{}", key.name);
        }
    }
    let values = |settings| {
        let rows = effective::of_candidate(&settings).unwrap().into_iter();
        let rows = rows.filter(|row| row.key != "election");
        rows.map(|row| (row.key, row.value)).collect::<Vec<_>>()
    };
    let example = ALL_KEYS.map(|keys| keys.text()).join("\n");
    let (candidate, none) = (read(CANDIDATE, &example), Settings::new(CANDIDATE));
    assert_eq!(values(candidate), values(none));
    let store = |settings| CheckedStore::new(&settings, AzureFlags::default()).unwrap();
    let (example, none) = (store(read(STORE, &example)), store(Settings::new(STORE)));
    assert_eq!(format!("{example:?}"), format!("{none:?}"));
}

#[test]
fn a_default_in_the_example_is_read_as_the_value_of_its_key() {
    for (scope, keys) in [(CANDIDATE, ALL_KEYS[0]), (STORE, ALL_KEYS[1])] {
        let (all, none) = (read(scope, &uncommented(keys)), Settings::new(scope));
        let mut defaults = 0;
        for key in scope.keys().filter(|key| key.described_default().is_none()) {
            assert_eq!(all.shown(key), none.shown(key), "{}", key.name);
            defaults += 1;
        }
        assert!(defaults > 15, "{defaults}");
    }
}
