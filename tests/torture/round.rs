//! One round: a store, its clients, its faults, and the checks.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tenure_sim::sim::Rng;
use tenure_tests::needs::{may_open, preload};
use tenure_tests::process;
use tenure_tests::proxy::Proxy;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::checker::{self, Violation};
use crate::clients::{self, ClientCounts, Phase, RoundState, SECRET};
use crate::disk::{Disk, Ext4};
use crate::faults::{self, Counts, Fault, RoundError, Target};
use crate::history::{History, now};
use crate::options::Options;
use crate::rights::Rights;
use crate::server::Server;

/// The time that clients have to finish the work they have begun.
const SHUTDOWN_TIME: Duration = Duration::from_millis(2_500);

/// The number of open files that the connections of a flood and of all clients may need.
const OPEN_FILES: u64 = 4_096;

/// The result of a round.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) round: u64,
    pub(crate) history: History,
    pub(crate) violations: Vec<Violation>,
    pub(crate) faults: Counts,
    /// The faults that this machine does not support, and the reasons.
    pub(crate) skipped: Vec<(Fault, String)>,
    /// The store's data, its log, and the trace, if they are kept.
    pub(crate) folder: PathBuf,
}

/// The resources of a round: created for each round, and removed with it.
struct Bench {
    runtime: Runtime,
    folder: PathBuf,
    log: PathBuf,
    disk: Disk,
    server: Server,
    rights: Rights,
    faults: Vec<Fault>,
    skipped: Vec<(Fault, String)>,
}

/// Runs the round with this number.
///
/// # Errors
///
/// If this machine fails to do its part.
pub(crate) fn run(options: &Options, seed: u64, round: u64) -> Result<Outcome, String> {
    let mut dice = Rng::new(seed, round);
    let mut bench = Bench::new(options, seed, round, &mut dice)?;
    bench.server.start()?;
    let _entered = bench.runtime.enter();
    let store = bench.server.address();
    let proxy = bench.runtime.block_on(Proxy::start(store));
    let proxy = proxy.map_err(|error| error.to_string())?;
    let state = std::sync::Arc::new(RoundState::new(
        [store, proxy.address()],
        bench.rights.tokens(),
    ));
    state.recorder.fault("the store has started");
    let counts_of_clients = ClientCounts {
        contenders: options.clients,
        operators: 2,
        readers: 5,
    };
    let seed_of_clients = dice.below(u64::MAX);
    let mut tasks = clients::start(&state, counts_of_clients, seed_of_clients);
    let watchers = clients::start_watchers(&state, seed_of_clients);
    let target = Target {
        server: &mut bench.server,
        disk: &mut bench.disk,
        rights: &mut bench.rights,
        proxy: &proxy,
        recorder: &state.recorder,
    };
    let until = Instant::now() + options.round_time();
    let injected = faults::inject_faults(target, &bench.faults, dice, until);
    let mut violations = Vec::new();
    let counts = injected.or_else(|error| match error {
        RoundError::Machine(what) => Err(what),
        RoundError::Store(what) => {
            violations.push(violation("process", what));
            Ok(Counts::new())
        }
    })?;
    bench.runtime.block_on(async {
        state.enter(Phase::Over);
        end(&mut tasks).await;
        clients::read_all(&state).await;
        state.enter(Phase::Settled);
        let mut watchers = watchers;
        end(&mut watchers).await;
    });
    if violations.is_empty() && !bench.server.stop() {
        violations.push(violation("process", "the store does not stop".into()));
    }
    bench.server.kill();
    let history = state.recorder.take();
    let log = fs::read_to_string(&bench.log).unwrap_or_default();
    if log.contains(&format!("{:08x}-", SECRET >> 32)) {
        violations.push(violation("log", "the store's log has a lease id".into()));
    }
    violations.extend(checker::check(&history));
    violations.retain(|one| !options.ignore.iter().any(|check| check == one.invariant));
    if !violations.is_empty() || options.keep {
        bench.disk.keep(&bench.folder.join("store"));
    }
    Ok(Outcome {
        round,
        history,
        violations,
        faults: counts,
        skipped: bench.skipped,
        folder: bench.folder,
    })
}

fn violation(invariant: &'static str, what: String) -> Violation {
    Violation {
        invariant,
        lease: String::new(),
        what,
        evidence: Vec::new(),
    }
}

/// Waits for the ends of tasks, and aborts those that take too long.
async fn end(tasks: &mut [JoinHandle<()>]) {
    let all = async {
        for task in tasks.iter_mut() {
            let _ = task.await;
        }
    };
    if timeout(SHUTDOWN_TIME, all).await.is_err() {
        for task in tasks.iter() {
            task.abort();
        }
    }
}

impl Bench {
    fn new(options: &Options, seed: u64, round: u64, dice: &mut Rng) -> Result<Self, String> {
        let dir = options.dir.clone().unwrap_or_else(std::env::temp_dir);
        let folder = dir.join(format!("tenure-torture-{seed}-{round}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let is_wanted = |fault| options.only.is_empty() || options.only.contains(&fault);
        let mut faults = vec![
            Fault::Stop,
            Fault::Kill,
            Fault::Restart,
            Fault::Network,
            Fault::Revoke,
            Fault::Mistake,
        ];
        let mut skipped = Vec::new();
        if may_open(OPEN_FILES) {
            faults.push(Fault::Flood);
        } else {
            let why = format!("it needs {OPEN_FILES} open files");
            skipped.push((Fault::Flood, why));
        }
        let mut disk = None;
        // Every third round has a disk that can be filled, and every third one a disk whose power
        // can be cut.
        let is_only = |fault| options.only.contains(&fault);
        let kind = if is_only(Fault::Disk) {
            1
        } else if is_only(Fault::Power) {
            2
        } else {
            round % 3
        };
        if kind == 1 && is_wanted(Fault::Disk) {
            disk = Disk::small();
            match disk {
                Some(_) => faults.push(Fault::Disk),
                None => skipped.push((Fault::Disk, "it needs to mount a disk (root)".into())),
            }
        }
        if kind == 2 && is_wanted(Fault::Power) {
            match Ext4::make(&folder) {
                Ok(ext4) => {
                    disk = Some(Disk::Ext4(ext4));
                    faults.push(Fault::Power);
                }
                Err(why) => skipped.push((Fault::Power, why)),
            }
        }
        let disk = match disk {
            Some(disk) => disk,
            None => Disk::plain(&folder).map_err(|error| error.to_string())?,
        };
        let binary = options.bin.clone().unwrap_or_else(process::tenure);
        let log = folder.join("server.log");
        let mut server = Server::new(&binary, disk.folder(), log.clone(), dice);
        let rights = Rights::new(&folder, server.address()).map_err(|error| error.to_string())?;
        server.with_arguments(rights.arguments());
        let has_clock = dice.below(2) == 0 || is_only(Fault::Clock);
        if has_clock && is_wanted(Fault::Clock) {
            match clock(&folder, &binary) {
                Some((library, ahead)) => {
                    server.with_clock(library, ahead);
                    faults.push(Fault::Clock);
                }
                None => skipped.push((
                    Fault::Clock,
                    "it needs a C compiler, and a store with shared libraries".into(),
                )),
            }
        }
        faults.retain(|fault| is_wanted(*fault));
        if faults.is_empty() {
            return Err(format!("this machine supports none of {:?}", options.only));
        }
        Ok(Self {
            runtime: Runtime::new().map_err(|error| error.to_string())?,
            folder,
            log,
            disk,
            server,
            rights,
            faults,
            skipped,
        })
    }
}

/// A library that moves a process's wall clock, and the file with the offset.
fn clock(folder: &Path, binary: &Path) -> Option<(PathBuf, PathBuf)> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/support/wall.c");
    let library = preload("torture of wall clocks", source, folder, binary)?;
    let ahead = folder.join("clock-ahead");
    fs::write(&ahead, "0").ok()?;
    Some((library, ahead))
}

/// The milliseconds from the start of the round to this instant, for a trace.
pub(crate) fn elapsed_ms(history: &History, at: tenure_core::Instant) -> f64 {
    let begin = history.faults.first().map_or_else(now, |(begin, _)| *begin);
    let signed = |instant: tenure_core::Instant| instant.as_nanos() as f64 / 1e6;
    signed(at) - signed(begin)
}
