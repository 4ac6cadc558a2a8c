//! The state directory of a member.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tenure_core::bully::HardState;

use super::*;

const GROUP: &str = "tests/billing";

fn open(path: &Path) -> Result<StateFile, StateError> {
    StateFile::open(path, GROUP, NodeId(1), &fingerprint(1))
}

fn record(epoch: u64) -> HardState {
    HardState {
        incarnation: 4,
        highest: Epoch::new(epoch),
        voted: Some(NodeId(3)),
        promised_ms: Some(15_000),
        accepted: None,
    }
}

/// Creates a directory with a record.
fn written(epoch: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    open(folder.path()).unwrap().write(&record(epoch)).unwrap();
    folder
}

#[test]
fn the_last_record_is_there_at_the_next_start() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("made/when/needed");
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.record(), HardState::default());
    for epoch in 1..=3 {
        opened.write(&record(epoch)).unwrap();
    }
    drop(opened);
    let opened = open(&path).unwrap();
    assert_eq!((opened.record(), opened.config_changed), (record(3), false));
}

#[test]
fn no_link_in_a_state_directory_is_followed() {
    use std::os::unix::fs::symlink;

    for name in ["lock", "record", "FORMAT"] {
        let folder = tempfile::tempdir().unwrap();
        let (state, outside) = (folder.path().join("state"), folder.path().join("outside"));
        fs::create_dir(&state).unwrap();
        symlink(&outside, state.join(name)).unwrap();
        let error = open(&state).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("is a link"),
            "{error}"
        );
        assert!(!outside.exists(), "{name}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (state, outside) = (folder.path().join("state"), folder.path().join("outside"));
    fs::write(&outside, "as before").unwrap();
    let mut opened = open(&state).unwrap();
    for name in ["record", "record.new", "FORMAT", "FORMAT.new"] {
        symlink(&outside, state.join(name)).unwrap();
    }
    opened.write(&record(1)).unwrap();
    assert_eq!(fs::read_to_string(&outside).unwrap(), "as before");
    drop(opened);
    assert_eq!(open(&state).unwrap().record(), record(1));
}

#[test]
fn changed_settings_of_the_group_are_detected() {
    let folder = written(1);
    let members = [1, 2].map(|id| Member {
        id: NodeId(id),
        priority: 0,
    });
    let members = Membership::new(members).unwrap();
    let settings = GroupSettings::new(NodeId(1), members, GroupTimings::default()).unwrap();
    let two = Fingerprint::of(&election(), &settings);
    let opened = StateFile::open(folder.path(), GROUP, NodeId(1), &two).unwrap();
    assert!(opened.config_changed);
    assert_eq!(opened.record(), record(1));
}

#[test]
fn the_store_of_the_group_and_its_former_settings_are_remembered() {
    let folder = written(1);
    let mut opened = open(folder.path()).unwrap();
    assert_eq!(opened.store(), None);
    opened.set_store("a1".into()).unwrap();
    // A later promise does not forget the store.
    opened.write(&record(2)).unwrap();
    drop(opened);
    let opened = open(folder.path()).unwrap();
    assert_eq!((opened.store(), opened.record()), (Some("a1"), record(2)));
    assert_eq!(opened.former_settings, Some(fingerprint(1).text));
}

#[test]
fn members_with_another_k_have_another_fingerprint() {
    let members = [1, 2, 3].map(|id| Member {
        id: NodeId(id),
        priority: 0,
    });
    let members = Membership::new(members).unwrap();
    let settings = GroupSettings::new(NodeId(1), members, GroupTimings::default()).unwrap();
    let with_k = |k| {
        let quorums = tenure_core::bully::Quorums::fallback(3, k).unwrap();
        Fingerprint::of(&election(), &settings.clone().with_quorums(quorums))
    };
    let [one, two, majority] = [
        with_k(1),
        with_k(2),
        Fingerprint::of(&election(), &settings),
    ];
    assert!(one.hash != two.hash && one.hash != majority.hash && two.hash != majority.hash);
    assert!(one.text.contains("k = 1") && two.text.contains("k = 2"));
}

#[test]
fn a_missing_record_is_an_error() {
    let folder = written(1);
    fs::remove_file(folder.path().join("record")).unwrap();
    let error = open(folder.path()).unwrap_err();
    assert!(matches!(error, StateError::Missing { .. }), "{error}");
    assert!(error.to_string().contains("record is missing"), "{error}");
    // The remains of an interrupted write do not count as a record either.
    fs::write(folder.path().join("record.new"), "tenure-member 1").unwrap();
    assert!(matches!(
        open(folder.path()),
        Err(StateError::Missing { .. })
    ));
}

#[test]
fn an_interrupted_first_start_is_still_a_first_start() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()).unwrap());
    fs::write(folder.path().join("record.new"), "tenure-memb").unwrap();
    let mut opened = open(folder.path()).unwrap();
    assert_eq!(opened.record(), HardState::default());
    opened.write(&record(1)).unwrap();
    drop(opened);
    // The start was interrupted between the record and the marker.
    fs::remove_file(folder.path().join("FORMAT")).unwrap();
    let mut opened = open(folder.path()).unwrap();
    assert_eq!(opened.record(), record(1));
    opened.write(&record(2)).unwrap();
    assert!(folder.path().join("FORMAT").exists());
}

#[test]
fn an_interrupted_write_keeps_the_previous_record() {
    let folder = written(1);
    let whole = fs::read(folder.path().join("record")).unwrap();
    for len in 0..=whole.len() {
        fs::write(folder.path().join("record.new"), &whole[..len]).unwrap();
        let mut opened = open(folder.path()).unwrap();
        assert_eq!(opened.record(), record(1));
        opened.write(&record(1)).unwrap();
        assert!(!folder.path().join("record.new").exists());
    }
}

#[test]
fn damage_at_any_byte_is_detected() {
    for name in ["record", "FORMAT"] {
        let folder = written(1);
        let file = folder.path().join(name);
        let whole = fs::read(&file).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&file, bytes).unwrap();
            let error = open(folder.path()).expect_err("damage");
            assert!(
                matches!(error, StateError::Damaged { .. } | StateError::Newer { .. }),
                "{error}"
            );
            assert!(
                error.to_string().contains(&*file.to_string_lossy()),
                "{error}"
            );
        };
        for place in 0..whole.len() {
            // The bit of 32 changes capital letters to small letters, which are hexadecimal digits,
            // too.
            for bits in [1, 32, 128, 255] {
                let mut bytes = whole.clone();
                bytes[place] ^= bits;
                check(&bytes);
            }
            check(&whole[..place]);
        }
        check(&[&whole[..], b"x"].concat());
        check(&[&whole[..], b"\n"].concat());
        check(&vec![b' '; 100_000]);
    }
}

#[test]
fn the_state_of_another_member_or_group_is_refused_with_both_names() {
    let folder = written(1);
    for (group, node) in [(GROUP, 2), ("tests/mail", 1), ("other/billing", 1)] {
        let error = StateFile::open(folder.path(), group, NodeId(node), &fingerprint(1));
        let error = error.unwrap_err().to_string();
        let both = format!("member 1 of {GROUP}, and this is member {node} of {group}");
        assert!(error.contains(&both), "{error}");
    }
    assert_eq!(open(folder.path()).unwrap().record(), record(1));
}

#[test]
fn a_folder_in_use_and_a_file_in_its_place_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let opened = open(folder.path()).unwrap();
    assert!(matches!(open(folder.path()), Err(StateError::InUse { .. })));
    drop(opened);
    assert!(open(folder.path()).is_ok());
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(matches!(open(&file), Err(StateError::NotADirectory { .. })));
}

#[test]
fn only_the_owner_can_read_the_state() {
    use std::os::unix::fs::PermissionsExt;
    let folder = written(1);
    for entry in fs::read_dir(folder.path()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0);
    }
}

/// A small disk, which is unmounted when this value is dropped.
struct SmallDisk(TempDir);

impl SmallDisk {
    fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=64k", "tenure-tests"])
            .arg(folder.path())
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        is_mounted.then_some(Self(folder))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

#[test]
fn on_a_full_disk_a_write_fails_and_the_previous_record_remains() {
    let Some(disk) = SmallDisk::mount() else {
        eprintln!("skipped: it needs to mount a disk of its own (root)");
        return;
    };
    let path = disk.0.path().join("member");
    let mut opened = open(&path).unwrap();
    opened.write(&record(1)).unwrap();
    let ballast = disk.0.path().join("ballast");
    let mut file = fs::File::create(&ballast).unwrap();
    while std::io::Write::write_all(&mut file, &[0; 4_096]).is_ok() {}
    let error = opened.write(&record(2)).unwrap_err();
    assert!(matches!(error, StateError::Io { .. }), "{error}");
    assert!(error.to_string().contains("record: No space"), "{error}");
    assert!(!path.join("record.new").exists());
    drop(opened);
    let mut opened = open(&path).unwrap();
    assert_eq!(opened.record(), record(1));
    fs::remove_file(&ballast).unwrap();
    drop(file);
    opened.write(&record(2)).unwrap();
    drop(opened);
    assert_eq!(open(&path).unwrap().record(), record(2));
}
