//! Random faults, crashes and hand-overs over several rounds of the ring.

use std::collections::BTreeSet;

use super::*;

/// What must be in the log, and what may be.
#[derive(Debug, Default)]
struct Changes {
    acknowledged: BTreeSet<LeaseKey>,
    unknown: BTreeSet<LeaseKey>,
}

impl Changes {
    /// Commits a change whose name nobody else uses.
    fn write(&mut self, owner: &mut Owner, number: u64) {
        let mut change = write(owner.revision + 1, 10);
        change.key = LeaseKey::of_text(&format!("ns/job-{number}"));
        let key = change.key.clone();
        let mut batch = Batch::default();
        let sets = [alone(change)];
        batch.encode(owner.revision, &sets);
        match owner.log.append(&batch, &sets) {
            Ok(()) => {
                owner.revision = batch.revision;
                self.acknowledged.insert(key);
            }
            Err(AppendError::DiskFull(_) | AppendError::Busy(_)) => {}
            Err(AppendError::NotOwner(_) | AppendError::Unknown(_)) => {
                self.unknown.insert(key);
            }
        }
    }

    fn check(&self, loaded: &Loaded, of: &str) {
        let keys: BTreeSet<_> = loaded.leases.iter().map(|it| it.0.clone()).collect();
        let lost: Vec<_> = self.acknowledged.difference(&keys).collect();
        assert!(lost.is_empty(), "{of}: lost {lost:?}");
        let undone: Vec<_> = keys.difference(&self.acknowledged).collect();
        assert!(
            undone.iter().all(|it| self.unknown.contains(*it)),
            "{of}: {undone:?}"
        );
    }
}

/// Follows with three servers, of which some own the log or believe it, while requests fail.
fn run(seed: u64) -> u64 {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    let home = FaultyHome::default();
    let start = |number: u64| Server::new(&format!("store-{number}"), &home);
    let mut servers: Vec<(Server, Option<Owner>)> = (0..3).map(|it| (start(it), None)).collect();
    let mut changes = Changes::default();
    for step in 0..1_000 {
        let of = format!("seed {seed}, step {step}");
        let (server, owner) = &mut servers[next(3) as usize];
        server.advance(T / 12 * u32::try_from(next(3)).unwrap());
        match next(40) {
            0..3 => server.reached.fail_replaces([Some(match next(6) {
                0 => Fault::LoseRequest,
                1 => Fault::LoseAnswer,
                2 => Fault::Late,
                3 => Fault::Full,
                4 => Fault::NotApplied,
                _ => Fault::Misconfigured,
            })]),
            3 => server.reached.fail_reads([Some(Fault::LoseRequest)]),
            4 => server.reached.fail_files(Some(Fault::Full)),
            5..7 => server.reached.fail_files(None),
            7 => drop(home.memory.deliver()),
            // A crash, and a long pause.
            8 => (*server, *owner) = (start(100 + step), None),
            9 => server.advance(2 * T),
            10 => {
                if let Some(mut owner) = owner.take() {
                    let _ = owner.log.close();
                }
            }
            _ => {}
        }
        let Some(it) = owner else {
            // After an ownership the server hands the log over, which needs a file at times.
            server.reached.fail_files(None);
            server.stand_by();
            let Some(taken_over) = server.step().unwrap() else {
                continue;
            };
            let it = Owner::new(taken_over);
            // The answer to its take-over may have been late. Then it has nothing that it may show.
            if tail_of(&home).tail.generation == it.generation {
                changes.check(&it.loaded, &of);
            }
            *owner = Some(it);
            continue;
        };
        for number in 0..next(30) {
            changes.write(it, 100 * step + number);
            if it.log.upkeep().is_err() {
                *owner = None;
                break;
            }
        }
    }
    check_chain(&home);
    let last = start(999).own();
    changes.check(&last.loaded, &format!("seed {seed}"));
    assert!(
        changes.acknowledged.len() > 100,
        "{}",
        changes.acknowledged.len()
    );
    last.generation
}

#[test]
fn acknowledged_changes_are_kept_whatever_happens() {
    let take_overs: u64 = (0..4).map(run).sum();
    assert!(take_overs > 30, "{take_overs}");
}
