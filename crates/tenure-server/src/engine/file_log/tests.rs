//! The log in a data directory: crashes, torn ends, damage, and snapshots.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use tempfile::TempDir;
use tenure_core::Epoch;

use super::*;
use crate::clock;
use crate::engine::LeaseList;
use crate::engine::entry::ChangedLeases;
use crate::engine::tests::batches;
use crate::engine::tests::log_lines::LogLines;
use crate::model::LeaseKey;

/// A data directory, and the content that it should have.
struct Bench {
    folder: TempDir,
    content: Loaded,
    leases: ChangedLeases,
}

/// The content of a log in a form that can be compared.
#[derive(Debug, PartialEq)]
struct State {
    leases: Vec<LoadedLease>,
    terms: Vec<(LeaseKey, Epoch)>,
    floor: Option<Epoch>,
}

impl State {
    fn of(content: &Loaded, leases: impl Iterator<Item = LoadedLease>) -> Self {
        let terms = content.history.iter();
        Self {
            leases: leases.collect(),
            terms: terms.map(|(key, term)| (key.clone(), term.epoch)).collect(),
            floor: content.floors.greatest(),
        }
    }
}

/// The limits are reached, so that terms are forgotten.
const HISTORY: HistoryLimits = HistoryLimits {
    of_lease: 5,
    in_all: 100,
};

fn open(folder: &Path) -> Result<(State, FileLog), OpenError> {
    let mut leases = LeaseList::new();
    let (loaded, log) = super::open(folder, HISTORY, 0, &mut leases)?;
    assert_eq!(loaded.revision, log.revision);
    Ok((State::of(&loaded, leases.into_iter()), log))
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            folder: tempfile::tempdir().unwrap(),
            content: Loaded::default(),
            leases: ChangedLeases::new(),
        };
        bench.content.history.limit(HISTORY);
        bench
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Commits some changes.
    fn commit(&mut self, log: &mut FileLog, revisions: u64) {
        let first = log.revision + 1;
        let (batches, _) = batches(30, first..first + revisions);
        for sets in batches {
            let mut batch = Batch::default();
            batch.encode(log.revision, &sets);
            log.append(&batch, &sets).unwrap();
            self.content.revision = batch.previous;
            self.content.apply(&batch, &mut self.leases).unwrap();
        }
    }

    /// Returns the content of the committed changes.
    fn expected(&self) -> State {
        let leases = self.leases.iter();
        let leases = leases.filter_map(|(key, lease)| lease.as_ref()?.decode(key).ok());
        State::of(&self.content, leases)
    }

    /// Checks that a start after a kill has the committed changes.
    #[track_caller]
    fn check(&self) {
        let (found, _log) = open(copy(self.path()).path()).unwrap();
        assert_eq!(found, self.expected());
    }
}

/// Returns a copy of the directory, as a kill would leave it.
fn copy(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
    }
    // It has the place of the directory, of which this is a copy.
    fs::write(copy.path().join("lock"), "").unwrap();
    copy
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name != "lock").collect();
    names.sort();
    names
}

fn write_at(path: &Path, at: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

/// Checks that the directory is refused as damaged, with the name of this file, and left as it is.
#[track_caller]
fn refused(folder: &Path, file: &str, how: &str) {
    let contents = || {
        let names = names(folder).into_iter();
        names
            .map(|name| fs::read(folder.join(name)).unwrap())
            .collect::<Vec<_>>()
    };
    let before = contents();
    let error = open(folder).map(|_| ()).expect_err(how);
    assert!(matches!(error, OpenError::Damaged { .. }), "{how}: {error}");
    assert!(error.to_string().contains(file), "{how}: {error}");
    assert!(contents() == before, "{how}: a file was changed");
}

#[test]
fn everything_that_was_appended_is_read_after_a_kill_and_after_a_stop() {
    let mut bench = Bench::new();
    for _ in 0..4 {
        let (_, mut log) = open(bench.path()).unwrap();
        bench.commit(&mut log, 70);
        bench.check();
        log.close().unwrap();
        drop(log);
        bench.check();
    }
    // Each start begins a file, and cuts the one before.
    let logs = Folder::peek(bench.path()).files().unwrap().logs;
    assert_eq!(logs.len(), 4);
    let length = |path: &Path| fs::metadata(path).unwrap().len();
    assert!(logs[..3].iter().all(|(_, path)| length(path) < 60_000));
    assert_eq!(length(&logs[3].1), 64 << 10);
}

#[test]
fn a_power_cut_at_each_byte_of_the_last_entry_loses_at_most_that_entry() {
    let mut bench = Bench::new();
    let (_, mut log) = open(bench.path()).unwrap();
    bench.commit(&mut log, 30);
    let before = bench.expected();
    let start = log.file.at;
    bench.commit(&mut log, 1);
    let (after, end) = (bench.expected(), log.file.at);
    assert_ne!(before, after);
    let path = log.file.path.clone();
    let name = path.file_name().unwrap();
    drop(log);
    let whole = fs::read(&path).unwrap()[start as usize..end as usize].to_vec();
    for at in 0..=whole.len() {
        // The disk has the first bytes of the entry, or the last ones.
        for keeps_first in [true, false] {
            let mut torn = whole.clone();
            match keeps_first {
                true => torn[at..].fill(0),
                false => torn[..at].fill(0),
            }
            let killed = copy(bench.path());
            write_at(&killed.path().join(name), start, &torn);
            let (found, _) = open(killed.path()).unwrap();
            let expected = if torn == whole { &after } else { &before };
            assert_eq!(found, *expected, "{at} {keeps_first}");
            // What the next store appends is read, whatever is left of the torn entry.
            let (again, _) = open(killed.path()).unwrap();
            assert_eq!(again, *expected, "{at} {keeps_first}");
        }
    }
}

#[test]
fn a_damaged_byte_before_the_last_entry_is_refused() {
    let mut bench = Bench::new();
    let (_, mut log) = open(bench.path()).unwrap();
    bench.commit(&mut log, 6);
    let end = log.file.at;
    bench.commit(&mut log, 1);
    let path = log.file.path.clone();
    let name = path.file_name().unwrap().to_str().unwrap();
    drop(log);
    let bytes = fs::read(&path).unwrap();
    // The zeros at the end of the header have no meaning.
    for at in (0..75).chain(log_file::HEADER..end) {
        let killed = copy(bench.path());
        let byte = bytes[at as usize] ^ (1 << (at % 8));
        write_at(&killed.path().join(name), at, &[byte]);
        let how = format!("byte {at}");
        match open(killed.path()) {
            // Another number in the first line may be the format of a later version.
            Err(OpenError::Newer { found, .. }) => assert!(at < 20 && found != 1, "{how}"),
            _ => refused(killed.path(), name, &how),
        }
    }
    bench.check();
    // The last entry of a store that has ended says that nothing is behind it.
    let (_, mut log) = open(bench.path()).unwrap();
    log.close().unwrap();
    let (path, end) = (log.file.path.clone(), log.file.at);
    let name = path.file_name().unwrap().to_str().unwrap();
    drop(log);
    bench.check();
    for behind in [end, end + 1_000] {
        let killed = copy(bench.path());
        write_at(&killed.path().join(name), behind, &[1]);
        refused(killed.path(), name, &format!("byte {behind}"));
    }
}

#[test]
fn a_missing_or_shorter_file_is_refused_and_never_taken_for_a_new_store() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        let (_, mut log) = open(bench.path()).unwrap();
        bench.commit(&mut log, 20);
    }
    let names = names(bench.path());
    assert_eq!(names.len(), 4, "{names:?}");
    for name in &names {
        let killed = copy(bench.path());
        fs::remove_file(killed.path().join(name)).unwrap();
        refused(killed.path(), "-", &format!("without {name}"));
        let killed = copy(bench.path());
        let file = File::options()
            .write(true)
            .open(killed.path().join(name))
            .unwrap();
        // The second length is within a header.
        for len in [file.metadata().unwrap().len() - 1, 100] {
            file.set_len(len).unwrap();
            refused(killed.path(), "-", &format!("{len} bytes of {name}"));
        }
        let killed = copy(bench.path());
        fs::write(killed.path().join(name), "").unwrap();
        refused(killed.path(), name, &format!("an empty {name}"));
    }
    let killed = copy(bench.path());
    for name in names.iter().filter(|name| name.starts_with("log")) {
        fs::remove_file(killed.path().join(name)).unwrap();
    }
    refused(
        killed.path(),
        "log-00000000000000000001",
        "without all logs",
    );
    // All of them are gone, and the lock file or a mark is left.
    for left in ["lock", "GUARDED", "RESTORED"] {
        let wiped = tempfile::tempdir().unwrap();
        fs::write(wiped.path().join("lock"), "").unwrap();
        fs::write(wiped.path().join(left), "").unwrap();
        if left == "lock" {
            fs::copy(bench.path().join(left), wiped.path().join(left)).unwrap();
        }
        refused(wiped.path(), left, &format!("with {left} alone"));
    }
    // A pipe would be read for ever.
    for name in ["lock", "RESTORED", names.last().unwrap()] {
        let piped = copy(bench.path());
        let path = piped.path().join(name);
        let _ = fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let error = open(piped.path()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains("it is not a file"), "{error}");
        assert!(error.contains(name), "{error}");
    }
    // A file of another store.
    let other = Bench::new();
    let (_, _log) = open(other.path()).unwrap();
    for kind in ["snapshot-00000000000000000000", "log-00000000000000000001"] {
        let killed = copy(bench.path());
        fs::copy(other.path().join(kind), killed.path().join(kind)).unwrap();
        refused(killed.path(), "log-00000000000000000001", kind);
    }
    bench.check();
}

#[test]
fn a_snapshot_replaces_the_files_that_it_covers_and_changes_nothing() {
    let mut bench = Bench::new();
    let (_, mut log) = open(bench.path()).unwrap();
    log.snapshots.least = 1;
    for round in 1..6 {
        bench.commit(&mut log, 200);
        log.begin_next().unwrap();
        let covers = log.last.sequence;
        // More is appended while the snapshot is made.
        log.upkeep().unwrap();
        bench.commit(&mut log, 50);
        log.snapshots.wait();
        let expected = [
            format!("log-{:020}", covers + 1),
            format!("snapshot-{covers:020}"),
        ];
        assert_eq!(names(bench.path()), expected, "{round}");
        bench.check();
    }
}

#[test]
fn a_crash_between_any_two_steps_of_a_snapshot_loses_nothing() {
    let mut bench = Bench::new();
    let (_, mut log) = open(bench.path()).unwrap();
    bench.commit(&mut log, 100);
    log.begin_next().unwrap();
    bench.commit(&mut log, 100);
    let before = copy(bench.path());
    log.snapshots.least = 1;
    log.upkeep().unwrap();
    log.snapshots.wait();
    let made = names(bench.path()).pop().unwrap();
    let made = fs::read(bench.path().join(made)).unwrap();
    // It is written in part, or in whole without its name.
    for part in [0, 100, made.len()] {
        let killed = copy(before.path());
        fs::write(killed.path().join("snapshot.new"), &made[..part]).unwrap();
        assert_eq!(open(killed.path()).unwrap().0, bench.expected(), "{part}");
        assert!(!killed.path().join("snapshot.new").exists());
    }
    // It has its name, and some of the files that it replaces are deleted.
    let replaced: Vec<_> = names(before.path());
    let kept = names(bench.path());
    let replaced = replaced.iter().filter(|name| !kept.contains(name));
    let replaced: Vec<_> = replaced.collect();
    assert_eq!(replaced.len(), 2);
    for deleted in 0..4 {
        let killed = copy(bench.path());
        for (number, name) in replaced.iter().enumerate() {
            if deleted & (1 << number) == 0 {
                fs::copy(before.path().join(name), killed.path().join(name)).unwrap();
            }
        }
        assert_eq!(
            open(killed.path()).unwrap().0,
            bench.expected(),
            "{deleted}"
        );
    }
}

#[test]
fn a_start_that_was_interrupted_is_repeated() {
    let bench = Bench::new();
    let (_, log) = open(bench.path()).unwrap();
    drop(log);
    let fresh = copy(bench.path());
    // The first file of the log exists before the first snapshot.
    fs::remove_file(fresh.path().join("snapshot-00000000000000000000")).unwrap();
    let first = fresh.path().join("log-00000000000000000001");
    write_at(&first, log_file::HEADER, &[0; 200]);
    fs::write(fresh.path().join("snapshot.new"), "tenure").unwrap();
    fs::write(fresh.path().join("log.new"), "").unwrap();
    let (found, log) = open(fresh.path()).unwrap();
    assert_eq!(found.leases, []);
    drop(log);
    // A start whose file has no entry yet, several times.
    let (_, mut log) = open(bench.path()).unwrap();
    log.begin_next().unwrap();
    drop(log);
    for _ in 0..3 {
        let killed = copy(bench.path());
        open(killed.path()).unwrap();
        open(killed.path()).unwrap();
    }
}

#[test]
fn a_store_whose_lock_was_deleted_notices_the_next_one_before_it_acknowledges() {
    let mut bench = Bench::new();
    let (_, mut log) = open(bench.path()).unwrap();
    bench.commit(&mut log, 20);
    fs::remove_file(bench.path().join("lock")).unwrap();
    let (found, mut next) = open(bench.path()).unwrap();
    assert_eq!(found, bench.expected());
    let refused = log.write_empty(EntryKind::Changes, None).unwrap_err();
    assert!(matches!(refused, AppendError::Unknown(_)), "{refused}");
    bench.commit(&mut next, 20);
    bench.check();
}

/// Returns the greatest epoch that a store which starts from the directory will not grant.
fn floor(folder: &Path) -> u64 {
    let (state, _log) = open(folder).unwrap();
    state.floor.map_or(0, Epoch::get)
}

/// Copies the directory with its lock file, as `cp -a` does.
fn cp(from: &Path, to: &Path) {
    let mut cp = std::process::Command::new("cp");
    assert!(cp.arg("-a").args([from, to]).status().unwrap().success());
}

#[test]
fn a_copied_folder_is_refused_until_it_is_accepted_above_all_epochs_of_the_other() {
    let parent = tempfile::tempdir().unwrap();
    let [data, copied] = ["data", "copied"].map(|name| parent.path().join(name));
    let (_, mut running) = open(&data).unwrap();
    let mut bench = Bench::new();
    bench.content.revision = running.revision;
    bench.commit(&mut running, 20);
    // Also while the store runs.
    cp(&data, &copied);
    let epochs = floor(copy(&data).path());
    drop(running);
    let before = names(&copied);
    let error = open(&copied).unwrap_err();
    assert!(matches!(error, OpenError::Copied { .. }), "{error}");
    let text = error.to_string();
    for part in [&copied, &data.canonicalize().unwrap()] {
        assert!(text.contains(part.to_str().unwrap()), "{text}");
    }
    assert_eq!(names(&copied), before);
    // A final backup of it would lack what the other store grants.
    let file = parent.path().join("backup");
    let keep = crate::engine::Existing::Keep;
    assert!(crate::engine::final_backup(&copied, &file, keep).is_err());
    // The original starts, and so does a restored backup of the copy.
    drop(open(&data).unwrap());
    crate::engine::backup(&copied, &file, keep).unwrap();
    let restored = parent.path().join("restored");
    crate::engine::restore(&file, &restored).unwrap();
    assert!(floor(&restored) > epochs);

    assert!(crate::engine::accept_copy(&data).is_err());
    let accepted = crate::engine::accept_copy(&copied).unwrap();
    assert!(accepted.epochs_above > clock::wall().get());
    for _ in 0..2 {
        assert_eq!(floor(&copied), accepted.epochs_above);
    }
    let note = crate::engine::restore_note(&copied).unwrap();
    assert!(note.contains("as a copy of"), "{note}");
    // It is accepted once, and a copy of it is one again.
    assert!(crate::engine::accept_copy(&copied).is_err());
    let again = parent.path().join("again");
    cp(&copied, &again);
    assert!(open(&again).is_err());
}

#[test]
fn a_folder_that_was_moved_or_whose_place_is_not_known_starts() {
    let parent = tempfile::tempdir().unwrap();
    let [data, moved] = ["data", "moved"].map(|name| parent.path().join(name));
    drop(open(&data).unwrap());
    drop(open(&data).unwrap());
    fs::rename(&data, &moved).unwrap();
    drop(open(&moved).unwrap());
    // The place is noted anew, so a later copy names the new one.
    cp(&moved, &data);
    let error = open(&data).unwrap_err().to_string();
    assert!(error.contains("/moved on machine"), "{error}");
    // Older versions wrote nothing, and a crash may cut it off.
    for content in ["", "{\"inode\":"] {
        fs::write(data.join("lock"), content).unwrap();
        drop(open(&data).unwrap());
        drop(open(&data).unwrap());
    }
}

#[test]
fn a_store_on_the_disk_of_another_machine_starts_and_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    let lock = folder.path().join("lock");
    let place = fs::read_to_string(&lock).unwrap();
    let mut place: serde_json::Value = serde_json::from_str(&place).unwrap();
    place["machine"] = "f".repeat(32).into();
    fs::write(&lock, place.to_string()).unwrap();
    let lines = LogLines::default();
    let _guard = lines.begin();
    drop(open(folder.path()).unwrap());
    let has_id = fs::read_to_string("/etc/machine-id").is_ok_and(|id| id.trim().len() == 32);
    assert_eq!(
        lines.count("if that machine runs a store on a clone"),
        usize::from(has_id)
    );
    drop(open(folder.path()).unwrap());
    assert_eq!(
        lines.count("if that machine runs a store on a clone"),
        usize::from(has_id)
    );
}
