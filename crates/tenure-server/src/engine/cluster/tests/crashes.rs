//! A crash after any append loses nothing, and the next server goes on.

use super::*;

/// The number of leases.
const LEASES: u64 = 40;

/// Lets another server take over from this state of the home. Checks that it loads the leases of the
/// model, that it commits further changes, and that the next server loads them, too.
fn check_crash(home: &FaultyHome, model: &Model, of: &str) {
    let home = home.copied();
    let mut server = Server::new("next", &home);
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
    owner.log.close().unwrap();
    drop(owner);
    let mut last = Server::new("last", &home);
    let owner = last.own();
    after.check(&owner.loaded, of);
}

#[test]
fn a_crash_after_any_append_loses_nothing_and_the_next_server_goes_on() {
    let home = FaultyHome::default();
    let mut server = Server::new("first", &home);
    let mut owner = server.own();
    let mut standby = Server::new("standby", &home);
    // Several rounds of the ring, so that entries are only in segments and snapshots.
    let (batches, _) = batches(LEASES, owner.revision + 1..owner.revision + 2_000);
    let mut model = Model::default();
    let mut checked = 0;
    for (number, batch) in batches.iter().enumerate() {
        owner.commit(batch).unwrap();
        model.apply(batch);
        server.advance(T / 100);
        standby.advance(T / 100);
        assert!(standby.step().unwrap().is_none());
        if number % 23 == 0 {
            check_crash(&home, &model, &format!("batch {number}"));
            checked += 1;
        }
    }
    assert!(batches.len() > 800 && checked > 30, "{checked}");
    check_crash(&home, &model, "at the end");
    // A server that has followed all the time has the same.
    let mut warm = standby.own();
    model.check(&warm.loaded, "the standby");
    warm.write().unwrap();
    assert!(matches!(owner.write(), Err(AppendError::NotOwner(_))));
}

#[test]
fn revisions_and_the_floor_go_on_over_take_overs() {
    let home = FaultyHome::default();
    let mut revision = 0;
    let mut store = None;
    for generation in 1..=4 {
        let mut server = Server::new(&format!("store-{generation}"), &home);
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
}
