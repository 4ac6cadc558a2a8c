//! A crash after any append loses nothing, and the next server goes on.

use std::thread;

use super::*;

/// The number of leases: enough that their edits need several appends.
const LEASES: u64 = 40;

/// Lets another server take over from this state of the log. Checks that it loads the leases of the
/// model, and that it commits and places further changes.
fn check_crash(content: LogContent, model: &Model, of: &str) {
    let service = MemoryService::with(content);
    let mut server = Server::new("next", &service);
    let mut owner = server.own();
    model.check(&owner.loaded, of);
    let revision = owner.revision + 1;
    let mut more = [
        alone(delete(revision, 900, 1)),
        alone(write(revision + 1, 5)),
    ];
    let mut after = model.clone();
    more[1].changes[0].key = LeaseKey::of_text("ns/more");
    owner.commit(&more).unwrap();
    after.apply(&more);
    owner.rest();
    owner.engine.close().unwrap();
    drop(owner);
    // Now everything is in its place.
    let mut last = Server::new("last", &service);
    let owner = last.own();
    assert_eq!(
        head_of(&service.content()).content.placed_revision,
        revision + 1,
        "{of}"
    );
    after.check(&owner.loaded, of);
    check_chain(&service.content());
}

#[test]
fn a_crash_after_any_append_loses_nothing_and_the_next_server_goes_on() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &service);
    let (batches, _) = batches(LEASES, owner.revision + 1..owner.revision + 900);
    let mut model = Model::default();
    let mut halfway = 0;
    let mut checked = 0;
    for (number, batch) in batches.iter().enumerate() {
        owner.commit(batch).unwrap();
        model.apply(batch);
        // Places follow in slices of different sizes, and sometimes not at all.
        if number % 5 == 0 {
            owner.engine.advance(1 + number % 17).unwrap();
        }
        server.advance(T / 100);
        standby.advance(T / 100);
        assert!(standby.follower.step().unwrap().is_none());
        if number % 9 == 0 {
            let content = service.content();
            let head = head_of(&content).content;
            let has_newer_places = head.placed_revision < head.revision;
            halfway += usize::from(has_newer_places && head.placed > 0);
            check_crash(content, &model, &format!("batch {number}"));
            checked += 1;
        }
    }
    assert!(halfway > 20 && checked > 40, "{halfway} of {checked}");
    for slice in 0.. {
        if owner.engine.checkpoint(Load::Idle).unwrap() == Progress::Done {
            break;
        }
        check_crash(service.content(), &model, &format!("slice {slice}"));
    }
    check_crash(service.content(), &model, "at the end");
    // A server that has followed all the time has the same.
    let mut warm = standby.own();
    model.check(&warm.loaded, "the standby");
    warm.write().unwrap();
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
}

#[test]
fn revisions_and_the_floor_go_on_over_take_overs() {
    let service = MemoryService::new();
    let mut revision = 0;
    let mut store = None;
    for generation in 1..=4 {
        let mut server = Server::new(&format!("store-{generation}"), &service);
        let mut owner = server.own();
        assert_eq!(owner.generation, generation);
        assert!(owner.revision >= revision && owner.revision > 0);
        let floor = (generation > 1).then(|| Epoch::new(100 + generation - 1).unwrap());
        assert_eq!(owner.loaded.floors.greatest(), floor);
        let id = owner.loaded.store_id.clone();
        assert_eq!(*store.get_or_insert_with(|| id.clone()), id);
        owner.write().unwrap();
        let gone = delete(owner.revision + 1, 7, 100 + generation);
        owner.commit(&[alone(gone)]).unwrap();
        revision = owner.revision;
        // The floor of a smaller epoch changes nothing.
        let gone = delete(owner.revision + 1, 7, 3);
        owner.commit(&[alone(gone)]).unwrap();
    }
    check_chain(&service.content());
}

#[test]
fn a_log_with_changed_or_missing_places_is_refused_and_left_as_it_is() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    for _ in 0..5 {
        owner.write().unwrap();
    }
    owner.rest();
    owner.write().unwrap();
    owner.write().unwrap();
    drop(owner);
    let whole = service.content();
    let first = whole.places.keys().next().unwrap().clone();
    let last_batch = *whole.batches.keys().next_back().unwrap();
    let refusal = |change: &dyn Fn(&mut LogContent)| {
        let service = MemoryService::with(whole.clone());
        service.change(|content| change(content));
        let mut server = Server::new("next", &service);
        match server.follower.run_until_owner() {
            Err(Ended::Refused(text)) => text,
            other => panic!("{other:?}"),
        }
    };
    let missing = refusal(&|content| drop(content.places.remove(&first)));
    assert!(
        missing.contains("has 6 leases and should have 7"),
        "{missing}"
    );
    let changed = refusal(&|content| {
        let value = &content.places[&first];
        let text = String::from_utf8(value.to_vec()).unwrap();
        let text = text.replace("\"holder\":\"a\"", "\"holder\":\"b\"");
        content.places.insert(first.clone(), text.into());
    });
    assert!(changed.contains("does not match its checksum"), "{changed}");
    let moved = refusal(&|content| {
        let value = content.places.remove(&first).unwrap();
        content.places.insert("lease/00/ns/other".into(), value);
    });
    assert!(moved.contains("has another lease"), "{moved}");
    let cut = refusal(&|content| drop(content.batches.remove(&last_batch)));
    assert!(cut.contains("the log ends at revision"), "{cut}");
    let before_last = *whole.batches.range(..last_batch).next_back().unwrap().0;
    let gap = refusal(&|content| drop(content.batches.remove(&before_last)));
    assert!(gap.contains("is missing"), "{gap}");
    let flipped = refusal(&|content| {
        let mut bytes = content.batches[&last_batch].to_vec();
        bytes[30] ^= 1;
        content.batches.insert(last_batch, bytes.into());
    });
    assert!(flipped.contains("does not match its checksum"), "{flipped}");
}

#[test]
fn each_server_takes_a_damaged_log_over_once_and_goes_on_when_it_is_mended() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    owner.write().unwrap();
    owner.write().unwrap();
    owner.rest();
    drop(owner);
    let (key, value) = service.content().places.into_iter().next().unwrap();
    service.change(|content| drop(content.places.remove(&key)));
    let mut servers = ["second", "third"].map(|name| Server::new(name, &service));
    let generation = || head_of(&service.content()).head.generation;
    for (server, expected) in servers.iter_mut().zip(2..) {
        let ended = server.follower.run_until_owner();
        assert!(matches!(ended, Err(Ended::Refused(_))), "{ended:?}");
        assert_eq!(generation(), expected);
    }
    let [mut second, _third] = servers;
    let status = second.status();
    let following = thread::spawn(move || (second.follower.run_until_owner(), second));
    // Its clock passes days meanwhile: a wait takes no time.
    thread::sleep(Duration::from_millis(50));
    let view = status.view();
    assert_eq!(view.role, OwnershipRole::Refusing);
    assert!(view.reason().unwrap().contains("is damaged"), "{view:?}");
    assert_eq!(generation(), 3, "a server that knows of the damage waits");
    service.change(|content| drop(content.places.insert(key, value)));
    let (reign, second) = following.join().unwrap();
    let owner = second.owner(reign.unwrap());
    assert_eq!((owner.generation, owner.loaded.leases.len()), (4, 2));
}

#[test]
fn the_backlog_and_the_log_stay_bounded_without_an_idle_moment() {
    use crate::engine::shared::backlog::{KEPT, LIMIT};
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    let mut count = 0;
    for _ in 0..(LIMIT.changes + KEPT.changes) / 100 + 40 {
        // Each change is of another lease, so each needs a place of its own.
        let revisions = owner.revision + 1..=owner.revision + 100;
        let sets: Vec<ChangeSet> = revisions
            .map(|revision| {
                let mut change = write(revision, 10);
                change.key = LeaseKey::of_text(&format!("ns/job-{revision}"));
                alone(change)
            })
            .collect();
        owner.commit(&sets).unwrap();
        count += sets.len() as u64;
        owner.engine.checkpoint(Load::Busy).unwrap();
        let head = head_of(&service.content()).content;
        assert_eq!(head.leases, count);
        let behind = usize::try_from(head.revision - head.placed_revision).unwrap();
        assert!(behind <= LIMIT.changes + 100, "{behind}");
    }
    let batches = service.content().batches.len();
    assert!(
        batches <= (LIMIT.changes + KEPT.changes) / 100 + 3,
        "{batches}"
    );
    owner.rest();
    let content = service.content();
    assert_eq!(content.places.len() as u64, count);
    assert!(content.batches.len() >= KEPT.changes / 100);
    check_chain(&content);
}

#[test]
fn as_many_segments_are_kept_as_have_the_last_terms() {
    let service = MemoryService::new();
    let mut server = Server::new("first", &service);
    let mut owner = server.own();
    for epoch in 1..=100 {
        let revision = owner.revision + 1;
        let mut set = alone(end(revision, epoch));
        if epoch > 1 {
            let record = tenure_core::lease::Record::restore(
                crate::engine::testing::stored(10),
                tenure_core::Instant::default(),
            );
            set.before.record = record;
        }
        owner.commit(&[set]).unwrap();
        if epoch % 3 == 0 {
            owner.rest();
        }
        if epoch == 50 {
            // The next owner reads the segments before it writes one.
            owner.engine.close().unwrap();
            drop(owner);
            owner = server.own();
        }
    }
    owner.rest();
    owner.engine.close().unwrap();
    drop(owner);
    let key = LeaseKey::of_text("ns/job-1");
    let history = server.own().loaded.history;
    let epochs: Vec<u64> = history.terms(&key).map(|term| term.epoch.get()).collect();
    assert_eq!(epochs, (1..=100).rev().take(MOST).collect::<Vec<_>>());
    let content = service.content();
    let segments = content.places.keys().filter(|key| key.starts_with("term/"));
    assert!(segments.count() <= MOST.div_ceil(8) + 1);
}
