//! The files of a store, and changes that fill them.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the newest file of this kind, `log` or `snapshot`, in a data directory.
///
/// # Panics
///
/// If there is none.
#[must_use]
pub fn newest(data: &Path, kind: &str) -> PathBuf {
    let names = fs::read_dir(data).expect("a data directory").flatten();
    let names = names.map(|file| file.file_name().into_string().expect("a name"));
    let newest = names
        .filter(|name| name.starts_with(&format!("{kind}-")))
        .max();
    data.join(newest.expect("a store"))
}

/// Returns the number of bytes of a log before the zeros that reserve its space.
///
/// # Panics
///
/// If the file can't be read.
#[must_use]
pub fn used(log: &Path) -> usize {
    let bytes = fs::read(log).expect("a log");
    bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1)
}

/// Returns a text of this length that no compression makes much shorter, another one for each
/// number.
#[must_use]
pub fn incompressible(number: u64, len: usize) -> String {
    let mut state = number;
    let letters = (0..len).map(|_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'0' + (state >> 58) as u8)
    });
    letters.collect()
}
