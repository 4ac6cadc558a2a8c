//! Damaged data directories: flipped bytes and truncated files, everywhere.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use reqwest::Method;
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::data_dir::used;
use tenure_tests::process::{Process, StoreProcess};
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

use super::{Answer, Client, id};

const LEASES: u64 = 8;

/// The lease that was acquired last. A log whose last entry is damaged looks like the log of a store
/// that lost power before it acknowledged that entry: no program can tell them apart.
const LAST: &str = "lease-9";

/// A data directory, and the acknowledged state of every lease in it, by name.
struct Written {
    folder: TempDir,
    acknowledged: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, PartialEq)]
enum End {
    /// Stopped in order: the last entry of the log says so.
    Stopped,
    /// Killed: the last entry is a change.
    Killed,
}

fn write(end: End) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let runtime = Runtime::new().unwrap();
    // Two runs, so that the log has two files.
    for run in [1..=LEASES / 2, LEASES / 2 + 1..=LEASES + 1] {
        let mut store = StoreProcess::start(folder.path());
        let client = Client::new(store.address());
        runtime.block_on(async {
            remember(&client, *run.start()).await;
            for number in run.clone() {
                let name = format!("tests/lease-{number}");
                client.acquire(&name, number).await.unwrap();
                if number % 4 == 0 {
                    client.release(&name, number).await.unwrap();
                }
            }
        });
        let is_last = run.contains(&LEASES);
        let signal = if is_last && end == End::Killed {
            nix::sys::signal::SIGKILL
        } else {
            nix::sys::signal::SIGTERM
        };
        if is_last {
            let acknowledged = runtime.block_on(read_all(&client));
            store.process.signal(signal);
            store.process.wait();
            return Written {
                folder,
                acknowledged,
            };
        }
        store.process.signal(signal);
        store.process.wait();
    }
    unreachable!("the second run is the last")
}

/// An epoch above all epochs that a clock can produce.
const FAR: u64 = 4_500_000_000_000;

/// Makes the store remember state that views do not show: a lock delay, a reservation, a changed
/// id, and the epoch of a deleted lease.
async fn remember(client: &Client, run: u64) {
    let acquire = |name: &'static str, more: Value| async move {
        let name = format!("tests/{name}-{run}");
        let mut body = json!({"lease_id": id(100), "holder": "c", "duration_ms": 600_000});
        body.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        expect_ok(client.post(&name, "acquire", body).await);
        name
    };
    let barred = acquire("barred", json!({"lock_delay_ms": 600_000})).await;
    expect_ok(
        client
            .post(&barred, "break", json!({"break_period_ms": 0}))
            .await,
    );
    let kept = acquire("kept", json!({})).await;
    let to = json!({"lease_id": id(100), "to": "heir", "within_ms": 600_000, "force": true});
    expect_ok(client.post(&kept, "handover", to).await);
    let changed = acquire("changed", json!({"metadata": {"a": "b"}})).await;
    let ids = json!({"lease_id": id(100), "proposed_lease_id": id(101)});
    expect_ok(client.post(&changed, "change", ids).await);
    let forgotten = acquire("forgotten", json!({"min_epoch": FAR + run})).await;
    expect_ok(client.release(&forgotten, 100).await);
    let deleted = client.ask(Method::DELETE, &forgotten, "", None).await;
    let status = deleted.map(|(status, _)| status);
    assert_eq!(status, Some(204), "an answer without a body");
}

fn expect_ok(answer: Answer) {
    let (status, body) = answer.unwrap();
    assert_eq!(status, 200, "{body}");
}

/// Sends requests whose answers depend on all of the remembered state.
async fn assert_remembered(client: &Client, damage: &Damage) {
    let refused = |answer: Answer| answer.unwrap().1["code"].as_str().map(str::to_owned);
    for number in 1..=LEASES {
        let name = format!("tests/lease-{number}");
        if number % 4 == 0 {
            // The id of a term that has ended.
            let again = refused(client.acquire(&name, number).await);
            assert_eq!(again.as_deref(), Some("lease_id_retired"), "{damage:?}");
        } else {
            let renewed = client.renew(&name, number).await.unwrap();
            assert_eq!(renewed.0, 200, "{damage:?}: {renewed:?}");
        }
    }
    for run in [1, LEASES / 2 + 1] {
        let changed = format!("tests/changed-{run}");
        let renewed = client.renew(&changed, 101).await.unwrap();
        assert_eq!(renewed.0, 200, "{damage:?}: {renewed:?}");
        assert!(refused(client.renew(&changed, 100).await).is_some());
        for name in ["barred", "kept"] {
            let name = format!("tests/{name}-{run}");
            let (status, body) = client.acquire(&name, 102).await.unwrap();
            assert_eq!(status, 409, "{damage:?}: {body}");
        }
        let name = format!("tests/forgotten-{run}");
        let (status, body) = client.acquire(&name, 102).await.unwrap();
        assert_eq!(status, 200, "{damage:?}: {body}");
        assert!(
            body["epoch"].as_u64() > Some(FAR + run),
            "{damage:?}: {body}"
        );
    }
}

/// All answers of the store, without the values that change with time.
async fn read_all(client: &Client) -> BTreeMap<String, Value> {
    let get = async |path: String| {
        let answer = client.request(Method::GET, &path, None).await;
        let (status, body) = answer.unwrap();
        assert_eq!(status, 200, "{body}");
        body
    };
    let list = get("/v1/namespaces/tests/leases?limit=1000".into()).await;
    let mut leases = BTreeMap::new();
    for view in list["leases"].as_array().unwrap() {
        let mut view = view.clone();
        view["remaining_ms"] = Value::Null;
        // Two answers have different times left.
        for left in ["lock_delay_remaining_ms", "reserved_remaining_ms"] {
            if let Some(left) = view.get_mut(left) {
                *left = Value::Null;
            }
        }
        let lease = view["lease"].as_str().unwrap().to_owned();
        let history = format!("/v1/namespaces/tests/leases/{lease}/history");
        view["history"] = get(history).await;
        leases.insert(lease, view);
    }
    leases
}

/// A damage to a file.
#[derive(Clone, Debug)]
struct Damage {
    file: PathBuf,
    at: usize,
    is_flip: bool,
}

/// Damages for the files of a folder: this many for each, spread evenly and different in every
/// file.
fn damages(folder: &Path, per_file: usize, is_flip: bool) -> Vec<Damage> {
    let mut damages = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == "lock" {
            continue;
        }
        // A changed byte in the reserved space is not looked for.
        let length = match is_flip {
            true => used(&entry.path()),
            false => usize::try_from(entry.metadata().unwrap().len()).unwrap(),
        };
        // With an odd step the damages hit all parts of entries.
        let step = (length / per_file).max(1) | 1;
        damages.extend((0..length).step_by(step).map(|at| Damage {
            file: entry.file_name().into(),
            at,
            is_flip,
        }));
    }
    assert!(damages.len() > 20);
    damages
}

/// Starts a store on every damaged copy. It must refuse with the name of the damaged file, or serve
/// the acknowledged state.
fn every_damage_is_refused_or_harmless(written: &Written, damages: &[Damage]) {
    let next = AtomicUsize::new(0);
    let refused = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let runtime = Runtime::new().unwrap();
                while let Some(damage) = damages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if is_refused(written, damage, &runtime) {
                        refused.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (refused, all) = (refused.into_inner(), damages.len());
    eprintln!("{all} damages, {refused} refused");
    // Damage in the unused space of a header has no effect.
    assert!(refused > all / 2, "{refused} of {all} damages were noticed");
}

fn is_log(file: &Path) -> bool {
    file.to_str().unwrap().starts_with("log-")
}

fn is_refused(written: &Written, damage: &Damage, runtime: &Runtime) -> bool {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(written.folder.path()).unwrap() {
        let entry = entry.unwrap();
        // It contains the place of the directory, and a copy is refused.
        if entry.file_name() == "lock" {
            continue;
        }
        let mut bytes = fs::read(entry.path()).unwrap();
        if Path::new(&entry.file_name()) == damage.file {
            if damage.is_flip {
                bytes[damage.at] ^= 1 << (damage.at % 8);
            } else {
                bytes.truncate(damage.at);
            }
        }
        fs::write(copy.path().join(entry.file_name()), bytes).unwrap();
    }
    let folder = copy.path().to_str().unwrap();
    let mut store = Process::start(&["serve", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    let address = wait_for("the start or the refusal of the store", || {
        let line = store.stdout();
        if let Some(url) = line.strip_prefix("listening on http://") {
            return url
                .strip_suffix('\n')
                .map(|address| Some(address.parse().unwrap()));
        }
        store.has_ended().then_some(None)
    });
    let Some(address) = address else {
        assert_eq!(store.wait().code(), Some(65), "{damage:?}");
        let file = copy.path().join(&damage.file);
        let reason = wait_for("the reason", || {
            let text = store.stderr();
            text.contains(folder).then_some(text)
        });
        // The end of a file that is missing shows in the next one.
        let files = if is_log(&damage.file) {
            copy.path().join("log-")
        } else {
            file
        };
        let names = reason.contains(files.to_str().unwrap());
        assert!(names, "{damage:?} the reason is: {reason}");
        return true;
    };
    let mut served = runtime.block_on(read_all(&Client::new(address)));
    let mut acknowledged = written.acknowledged.clone();
    // The damaged end of the log may look like that after a power cut.
    if damage.is_flip && is_log(&damage.file) {
        served.remove(LAST);
        acknowledged.remove(LAST);
    }
    assert_eq!(served, acknowledged, "{damage:?}");
    runtime.block_on(assert_remembered(&Client::new(address), damage));
    false
}

#[test]
fn a_flipped_byte_is_refused_or_harmless_after_a_stop() {
    let written = write(End::Stopped);
    let damages = damages(written.folder.path(), 60, true);
    every_damage_is_refused_or_harmless(&written, &damages);
}

#[test]
fn a_flipped_byte_is_refused_or_harmless_after_a_kill() {
    let written = write(End::Killed);
    let damages = damages(written.folder.path(), 40, true);
    every_damage_is_refused_or_harmless(&written, &damages);
}

#[test]
fn a_truncated_file_is_refused_or_harmless() {
    for end in [End::Stopped, End::Killed] {
        let written = write(end);
        let damages = damages(written.folder.path(), 20, false);
        every_damage_is_refused_or_harmless(&written, &damages);
    }
}
