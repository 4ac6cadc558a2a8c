//! A damaged data directory is refused and not changed.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::signal::Signal;
use tempfile::TempDir;
use tenure_tests::data_dir::{newest, used};
use tenure_tests::process::{StoreProcess, run};

use super::{acquire, stderr};

/// The data directory of a store that has granted leases and stopped cleanly.
fn used_folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut store = StoreProcess::start(folder.path());
    for lease in ["tests/one", "tests/two", "more/three"] {
        acquire(store.address(), lease, "holder");
    }
    store.process.signal(Signal::SIGTERM);
    assert!(store.process.wait().success());
    folder
}

/// All files of a directory except those that only mark its use by a store.
fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    folder
        .read_dir()
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(path).unwrap())
        })
        .filter(|(name, _)| name != "lock")
        .collect()
}

/// Damages the newest file of each kind in a data directory, and expects that a store refuses it
/// twice and names the file.
fn refuses(damage: impl Fn(&Path)) {
    for kind in ["snapshot", "log"] {
        let folder = used_folder();
        let file = newest(folder.path(), kind);
        damage(&file);
        let before = contents(folder.path());
        for _ in 0..2 {
            let data = folder.path().to_str().unwrap();
            let output = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(65), "{said}");
            assert!(output.stdout.is_empty(), "it never listened");
            assert!(said.contains(file.to_str().unwrap()), "{said}");
            assert!(contents(folder.path()) == before, "the folder was changed");
        }
    }
}

fn open(path: &Path) -> File {
    OpenOptions::new().write(true).open(path).unwrap()
}

#[test]
fn a_truncated_file_is_refused() {
    refuses(|path| {
        let length = path.metadata().unwrap().len();
        open(path).set_len(length / 2).unwrap();
    });
}

#[test]
fn a_file_that_lost_a_byte_is_refused() {
    refuses(|path| {
        let length = path.metadata().unwrap().len();
        open(path).set_len(length - 1).unwrap();
    });
}

#[test]
fn a_file_with_an_overwritten_part_is_refused() {
    refuses(|path| open(path).write_all_at(&[0xA5; 64], 64).unwrap());
}

#[test]
fn a_file_with_one_changed_byte_is_refused() {
    refuses(|path| {
        let middle = used(path) / 2;
        let byte = fs::read(path).unwrap()[middle] ^ 1;
        open(path).write_all_at(&[byte], middle as u64).unwrap();
    });
}

#[test]
fn an_empty_file_is_refused() {
    refuses(|path| open(path).set_len(0).unwrap());
}

#[test]
fn a_file_that_is_gone_is_refused() {
    refuses(|path| fs::remove_file(path).unwrap());
}

#[test]
fn a_file_of_another_program_is_refused() {
    refuses(|path| fs::write(path, "shopping list\n").unwrap());
}

#[test]
fn a_data_directory_that_is_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a-file");
    fs::write(&file, "words").unwrap();
    for (data, code) in [(file.clone(), 2), (file.join("below"), 1)] {
        let data = data.to_str().unwrap();
        let output = run(&["serve", "--listen", "127.0.0.1:0", "--data-dir", data]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(data), "{}", stderr(&output));
    }
    assert_eq!(fs::read(&file).unwrap(), b"words");
}
