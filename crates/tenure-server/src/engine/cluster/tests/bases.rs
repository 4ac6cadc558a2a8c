//! Snapshots and segments: the log is kept short, files that fail or that are damaged, and old ones.

use super::reports::metric;
use super::*;
use crate::engine::Existing;
use crate::engine::backup::BackupFile;
use crate::engine::ring::LogFiles;

/// The number of slots.
const N: u64 = 256;

/// Returns the number of entries that no base contains.
fn uncovered(home: &FaultyHome) -> u64 {
    let tail = tail_of(home);
    tail.tail.sequence - tail.base.map_or(0, |it| it.covered)
}

/// Lets heartbeats go on until this owner resigns. Returns the reason.
fn beat_until_it_resigns(server: &Server, owner: &mut Owner) -> AppendError {
    for _ in 0..2 * N {
        server.advance(T / 6);
        let upkeep = owner.log.upkeep();
        if let Err(error) = upkeep {
            return error;
        }
        assert!(server.status().serving.check());
    }
    panic!("it never resigns")
}

#[test]
fn the_log_stays_short_without_an_idle_moment() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    for _ in 0..6 * N {
        owner.write().unwrap();
        assert!(uncovered(&home) <= N / 4 * 3);
    }
    check_chain(&home);
    assert_eq!(entries_of(&home).len() as u64, N);
    assert_eq!(
        Server::new("next", &home).own().loaded.leases.len() as u64,
        6 * N
    );
}

#[test]
fn while_files_can_not_be_written_changes_stop_then_the_owner_resigns_and_a_standby_writes_a_snapshot()
 {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut standby = Server::new("standby", &home);
    standby.reached.fail_files(Some(Fault::Full));
    let mut owner = server.own();
    let lines = LogLines::default();
    let _guard = lines.begin();
    server.reached.fail_files(Some(Fault::Full));
    let mut written = 0;
    let refused = loop {
        match owner.write() {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(standby.follow(T / 12).is_none());
    };
    let text = "the log can't be shortened: no space";
    assert!(
        matches!(&refused, AppendError::DiskFull(reason) if reason == text),
        "{refused:?}"
    );
    assert_eq!(uncovered(&home), N / 4 * 3);
    assert!(lines.count(text) >= 1);
    let failures = "tenure_cluster_base_failures_total";
    assert!(metric(&server, failures) >= 1.0);
    for server in [&server, &standby] {
        assert_eq!(server.status().view().uncovered, uncovered(&home));
    }
    assert_eq!(metric(&standby, failures), 0.0);
    // Heartbeats go on, and changes again as soon as a file can be written.
    server.reached.fail_files(None);
    while owner.write().is_err() {}
    written += 1;
    assert!(uncovered(&home) < N / 4 * 3);

    server.reached.fail_files(Some(Fault::Full));
    let resigned = beat_until_it_resigns(&server, &mut owner);
    assert!(
        matches!(&resigned, AppendError::NotOwner(reason) if reason == "the log has no free slot"),
        "{resigned:?}"
    );
    assert!(!server.status().serving.check());
    assert_eq!(tail_of(&home).tail.state, TailState::Vacant);
    assert_eq!(uncovered(&home), N / 16 * 15 + 1);
    drop(owner);

    // The last slots are for take-overs. The server takes over again while there is one, and resigns.
    while uncovered(&home) < N {
        server.stand_by();
        let mut owner = server.follow(2 * T).expect("a take-over");
        let resigned = beat_until_it_resigns(&server, &mut owner);
        assert!(matches!(resigned, AppendError::NotOwner(_)), "{resigned:?}");
    }
    let (reached, status) = (server.reached.clone(), server.status());
    let leaving = thread::spawn(move || {
        server.stand_by();
        server
    });
    let needs = "a take-over needs a snapshot first";
    while status.view().refusal.as_deref() != Some(needs) {
        thread::yield_now();
    }
    assert!(standby.follow(3 * T).is_none());
    assert_eq!(standby.refusal(), needs);
    assert!(metric(&standby, failures) >= 1.0);
    assert_eq!(tail_of(&home).tail.state, TailState::Owned);
    // Once it can write a file, a server with a copy writes it with its take-over.
    standby.reached.fail_files(None);
    let mut next = standby.follow(3 * T).expect("a take-over");
    assert_eq!(next.loaded.leases.len(), written);
    assert_eq!(uncovered(&home), 1);
    next.write().unwrap();
    check_chain(&home);
    // The first server was deposed meanwhile, and follows again.
    reached.fail_files(None);
    let mut server = leaving.join().unwrap();
    assert!(server.follow(T / 2).is_none());
    drop(next);
    assert_eq!(server.own().loaded.leases.len(), written + 1);
}

#[test]
fn the_only_server_goes_on_when_files_can_be_written_again() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    owner.write().unwrap();
    server.reached.fail_files(Some(Fault::Full));
    while uncovered(&home) < N {
        beat_until_it_resigns(&server, &mut owner);
        drop(owner);
        server.stand_by();
        owner = server.follow(2 * T).expect("a take-over");
    }
    beat_until_it_resigns(&server, &mut owner);
    drop(owner);
    let reached = server.reached.clone();
    let leaving = thread::spawn(move || {
        server.stand_by();
        server.own().loaded.leases.len()
    });
    thread::sleep(Duration::from_millis(20));
    assert!(!leaving.is_finished());
    reached.fail_files(None);
    assert_eq!(leaving.join().unwrap(), 1);
    check_chain(&home);
}

#[test]
fn requests_that_ask_for_the_ownership_do_not_use_the_slots_for_take_overs() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    for _ in 0..3 * N {
        owner.log.confirm().unwrap();
        assert!(uncovered(&home) <= N / 4 * 3);
    }
    server.reached.fail_files(Some(Fault::Full));
    let refused = (0..N).find_map(|_| owner.log.confirm().err()).unwrap();
    assert_eq!(
        refused.to_string(),
        "the disk is full: the log can't be shortened: no space"
    );
    assert_eq!(uncovered(&home), N / 4 * 3);
}

#[test]
fn crashes_after_each_take_over_do_not_fill_the_log() {
    let home = FaultyHome::default();
    let mut server = Server::new("store-0", &home);
    server.own().write().unwrap();
    // None of them lives long enough for a snapshot of its own.
    for number in 2..2 * N + 40 {
        let mut server = Server::new(&format!("store-{number}"), &home);
        let owner = server.own();
        assert_eq!((owner.generation, owner.loaded.leases.len()), (number, 1));
        drop(owner);
        assert!(uncovered(&home) <= N);
    }
    check_chain(&home);
}

#[test]
fn a_snapshot_of_a_server_that_lost_the_race_does_not_keep_it_from_others() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut standby = Server::new("standby", &home);
    let mut owner = server.own();
    server.reached.fail_files(Some(Fault::Full));
    while owner.write().is_ok() {
        assert!(standby.follow(T / 12).is_none());
    }
    // Take-overs use the other slots.
    drop(owner);
    for number in 0.. {
        if uncovered(&home) == N {
            break;
        }
        let mut next = Server::new(&format!("store-{number}"), &home);
        next.reached.fail_files(Some(Fault::Full));
        drop(next.own());
        assert!(standby.follow(T / 12).is_none());
    }
    // The standby has a snapshot, and another server with one is first.
    assert!(standby.follow(T / 12).is_none());
    assert!(!files_of(&home).is_empty());
    let mut quick = Server::new("quick", &home);
    drop(quick.own());
    let mut owner = standby.own();
    for _ in 0..3 * N {
        owner.write().unwrap();
    }
    check_chain(&home);
}

#[test]
fn a_file_of_the_base_that_is_missing_or_damaged_is_repaired_by_the_owner() {
    for is_missing in [true, false] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        server.standby.times.check_every = Duration::ZERO;
        let mut owner = server.own();
        for _ in 0..2 * N {
            owner.write().unwrap();
        }
        let file = files_of(&home).swap_remove(0);
        match is_missing {
            true => now(home.memory.delete(std::slice::from_ref(&file))),
            false => now(home.memory.write(&file, b"damaged".to_vec().into())),
        }
        let damage = match is_missing {
            true => format!("{file} is missing"),
            false => format!("{file} is damaged: its checksum is not valid"),
        };
        // A server without a copy takes nothing over and says why.
        let mut cold = Server::new("cold", &home);
        let lines = LogLines::default();
        let _guard = lines.begin();
        assert!(cold.follow(3 * T).is_none());
        let view = cold.status().view();
        assert!(view.reason().unwrap().contains(&damage), "{view:?}");
        assert_eq!((view.role, view.behind), (OwnershipRole::Refusing, None));
        lines.assert_once("this server can't copy the log, so it takes nothing over");
        // A backup fails with the same reason.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("backup");
        let make = || {
            let file = BackupFile::create(&path, Existing::Replace, None).unwrap();
            OperatorLog::new(&home.open(&config("operator", T)), &|_| {}).backup(file, false)
        };
        let error = make().unwrap_err().to_string();
        assert!(error.contains(&damage), "{error}");

        for _ in 0..N {
            owner.write().unwrap();
        }
        assert_eq!(make().unwrap().leases, 3 * N);
        drop(owner);
        assert_eq!(cold.own().loaded.leases.len() as u64, 3 * N);
        check_chain(&home);
    }
}

#[test]
fn old_files_stay_for_slow_readers_and_are_deleted_after_the_time() {
    for keep in [Duration::from_secs(600), Duration::ZERO] {
        let home = FaultyHome::default();
        let mut server = Server::new("first", &home);
        let mut owner = server.own();
        for _ in 0..N {
            owner.write().unwrap();
        }
        let before = files_of(&home);
        let named = |home: &FaultyHome| {
            let opened = home.open(&config("reader", T));
            let files = LogFiles::new(Arc::clone(&opened.files), &opened.folder);
            let base = tail_of(home).base.unwrap();
            opened.block_on(files.read_base(base, 0)).map(|it| it.len())
        };
        assert!(named(&home).unwrap() <= before.len());
        drop(owner);
        let mut next = Server::new("next", &home);
        next.standby.times.keep = keep;
        let mut owner = next.own();
        for _ in 0..2 * N {
            owner.write().unwrap();
        }
        drop(owner);
        // The task that deletes them has ended now.
        next.stand_by();
        let all = files_of(&home);
        let old: Vec<_> = before.iter().filter(|it| all.contains(it)).collect();
        match keep.is_zero() {
            true => assert!(old.is_empty(), "{old:?}"),
            false => assert_eq!(old.len(), before.len()),
        }
        named(&home).unwrap();
        assert_eq!(
            Server::new("last", &home).own().loaded.leases.len() as u64,
            3 * N
        );
    }
}
