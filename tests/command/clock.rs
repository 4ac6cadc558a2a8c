//! A wall clock that is wrong by decades.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tenure_tests::needs::preload;
use tenure_tests::process::{Process, command, tenure};
use tenure_tests::wait_for;

use super::{acquire, address_of, ask};

/// The source of a library that is loaded before the C library.
const WALL_CLOCK: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/support/wall.c");

/// Offsets from now to times before 1970 and after 9999, in seconds.
const BEFORE_1970: i64 = -3_000_000_000;
const AFTER_9999: i64 = 300_000_000_000;

struct Clock {
    library: PathBuf,
    off_by: PathBuf,
}

impl Clock {
    fn in_folder(test: &str, folder: &Path) -> Option<Self> {
        let library = preload(test, WALL_CLOCK, folder, &tenure())?;
        let off_by = folder.join("off-by");
        Some(Self { library, off_by })
    }

    fn set(&self, seconds: i64) {
        // In one step, as a clock jumps.
        let next = self.off_by.with_extension("next");
        fs::write(&next, format!("{seconds}\n")).unwrap();
        fs::rename(&next, &self.off_by).unwrap();
    }

    fn store(&self, data_dir: &Path) -> Process {
        let mut serve = command(&["serve", "--listen", "127.0.0.1:0", "--data-dir"]);
        serve
            .arg(data_dir)
            .env("LD_PRELOAD", &self.library)
            .env("WALL_CLOCK_AHEAD", &self.off_by)
            // The HTTP library formats the date when a thread serves its first connection, and
            // fails if the time is outside the calendar. If the clock goes back, it keeps the old
            // date.
            .env("TOKIO_WORKER_THREADS", "1");
        Process::spawn(&mut serve)
    }
}

#[test]
fn a_wall_clock_before_1970_does_not_affect_waiters() {
    let test = "a_wall_clock_before_1970_does_not_affect_waiters";
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = Clock::in_folder(test, folder.path()) else {
        return;
    };
    clock.set(0);
    let mut store = clock.store(&folder.path().join("data"));
    let address = address_of(&mut store);
    let held = acquire(address, "tests/held", "first");
    let short = json!({"holder": "first", "duration_ms": 2_000});
    let (status, first) = ask(address, "POST", "tests/leases/job/acquire", &short);
    assert_eq!(status, 200, "{first}");
    let waiting = thread::spawn(move || {
        let body = json!({"holder": "second", "duration_ms": 60_000, "wait_ms": 20_000});
        ask(address, "POST", "tests/leases/job/acquire", &body)
    });
    thread::sleep(Duration::from_millis(200));
    clock.set(BEFORE_1970);
    let (status, second) = waiting.join().unwrap();
    assert_eq!(status, 200, "{second}\n{}", store.stderr());
    assert!(second["epoch"].as_u64() > first["epoch"].as_u64());
    let renewal = json!({"lease_id": held["lease_id"]});
    let renew = || ask(address, "POST", "tests/leases/held/renew", &renewal).0;
    assert_eq!(renew(), 200);
    let new = acquire(address, "tests/new", "first");
    assert!(new["epoch"].as_u64() >= Some(1), "{new}");
    // The HTTP library serves no requests at this time, and works again afterwards.
    clock.set(AFTER_9999);
    thread::sleep(Duration::from_millis(1_200));
    clock.set(0);
    assert_eq!(renew(), 200);
    let (status, view) = ask(address, "GET", "tests/leases/job", &Value::Null);
    assert_eq!((status, &view["holder"]), (200, &json!("second")));
    assert!(!store.has_ended());
}

#[test]
fn a_store_does_not_start_with_a_wall_clock_outside_the_range_of_http_dates() {
    let test = "a_store_does_not_start_with_a_wall_clock_outside_the_range_of_http_dates";
    let folder = tempfile::tempdir().unwrap();
    let Some(clock) = Clock::in_folder(test, folder.path()) else {
        return;
    };
    for (off_by, told) in [(BEFORE_1970, "before the year 1970"), (AFTER_9999, "9999")] {
        clock.set(off_by);
        let mut store = clock.store(&folder.path().join("data"));
        assert_eq!(store.wait().code(), Some(1));
        let said = wait_for("the reason", || {
            let said = store.stderr();
            (said.contains(told) && said.contains("set it")).then_some(said)
        });
        assert!(!said.contains("panicked"), "{said}");
    }
}
