//! A run: the server, the candidates, and the faults.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::json;
use tenure::{Timings, TimingsOptions};
use tenure_sim::sim::Rng;
use tenure_tests::api_server::{ApiServer, Versions};
use tenure_tests::electors::{Elector, Place};
use tenure_tests::process::Process;
use tenure_tests::proxy::Proxy;
use tenure_tests::ticks::{Term, boot_time, overlaps, terms};

use crate::faults::Faults;
use crate::judge::{Ended, PLANTED, Record, Sent};

const RUN: &str = "a mixed run";
const NAMESPACE: &str = "mixed";
pub(crate) const LEASE: &str = "job";

/// The pause of the loop.
const PACE: Duration = Duration::from_millis(50);

/// How long a candidate of tenure may take to lead when all others have ended.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long the planted leader must lead beside one of tenure.
const PLANTED_TIME: Duration = Duration::from_secs(2);

/// A leader whose last tick is older does not count as one that leads now.
const TICKS_WITHIN: Duration = Duration::from_millis(500);

/// Candidates on one object.
pub(crate) struct Part {
    pub(crate) server: ApiServer,
    pub(crate) seats: Vec<Seat>,
    pub(crate) versions: Versions,
    folder: PathBuf,
    place: Place,
    ended: Vec<Ended>,
    planted: Planted,
}

/// The place of a candidate, with a proxy in front of the server. Its processes follow each other.
pub(crate) struct Seat {
    pub(crate) name: String,
    pub(crate) elector: Elector,
    pub(crate) proxy: Proxy,
    pub(crate) process: Option<Process>,
    /// The number of its processes.
    count: usize,
    /// The signal that the process was sent to end it.
    sent: Option<Sent>,
    /// When the next process starts.
    starts_at: Duration,
}

/// A `tenure run` on another object, which acts for some time as if it led.
enum Planted {
    /// It starts at this time.
    At(Duration),
    Runs(Process),
    Done,
}

/// Runs candidates for this time; `None` if a program is missing.
pub(crate) fn run(
    seed: u64,
    time: Duration,
    lease: Duration,
    dir: Option<&Path>,
) -> Option<Record> {
    let kept = dir.map(|dir| dir.join(format!("seed-{seed}")));
    let temporary = tempfile::tempdir().expect("a folder");
    let folder = kept.unwrap_or_else(|| temporary.path().into());
    fs::create_dir_all(&folder).expect("a folder");
    let mut dice = Rng::new(seed, 0);
    let mut part = Part::start(&mut dice, time, lease, &folder)?;
    let mut faults = Faults::new(dice);
    let begin = boot_time();
    while boot_time() < begin + time {
        faults.advance(&mut part);
        part.advance()?;
        sleep(PACE);
    }
    faults.end_all(&mut part);
    part.end_planted()?;
    part.end();
    let mut options = TimingsOptions::default();
    options.lease_duration = Some(lease);
    let record = Record {
        timings: Timings::new(&options).expect("valid timings"),
        terms: terms(&part.place.ticks),
        versions: part.versions.all(),
        faults: faults.done,
        processes: part.ended,
    };
    let lines = record.versions.iter();
    let lines = lines.map(|it| format!("{} {}\n", it.at.as_millis(), it.object));
    fs::write(folder.join("versions"), lines.collect::<String>()).expect("a file");
    let lines = record.faults.iter().map(|it| {
        let (at, until) = (it.at.as_millis(), it.until.as_millis());
        format!("{at} to {until}: {} {}\n", it.target, it.what)
    });
    fs::write(folder.join("faults"), lines.collect::<String>()).expect("a file");
    Some(record)
}

impl Part {
    fn start(dice: &mut Rng, time: Duration, lease: Duration, folder: &Path) -> Option<Self> {
        let server = ApiServer::start(RUN)?;
        server.create_namespace(NAMESPACE);
        let leases = json!([{ "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
            "verbs": ["get", "create", "update"] }]);
        server.grant(NAMESPACE, "worker", "candidate", &leases);
        let place = Place {
            url: format!("https://{}", server.address()),
            files: folder.join("pod"),
            namespace: NAMESPACE.into(),
            lease: LEASE.into(),
            duration: lease,
            ticks: folder.join("ticks"),
        };
        server.write_pod_files(&place.files, NAMESPACE, "worker");
        let go = dice.one_of(&[Elector::ClientGo, Elector::OldClientGo]);
        let electors = [
            Elector::Tenure,
            Elector::Tenure,
            go,
            Elector::ReleasingClientGo,
            Elector::ControllerRuntime,
            Elector::Python,
        ];
        let seats = electors.iter().enumerate().map(|(number, elector)| {
            let proxy = Proxy::start(server.address());
            Seat {
                name: format!("{}-{number}", elector.name()),
                elector: *elector,
                proxy: server.runtime().block_on(proxy).expect("a proxy"),
                process: None,
                count: 0,
                sent: None,
                starts_at: boot_time(),
            }
        });
        let seats = seats.collect();
        let planted_at = time.mul_f64(0.2 + dice.unit() / 2.0);
        let versions = server.watch(NAMESPACE, LEASE);
        let mut part = Self {
            seats,
            versions,
            folder: folder.into(),
            place,
            ended: Vec::new(),
            planted: Planted::At(boot_time() + planted_at),
            server,
        };
        part.advance()?;
        Some(part)
    }

    /// Changes the object by hand. Returns whether it was changed.
    pub(crate) fn edit(&self, edit: impl Fn(&mut serde_json::Value)) -> bool {
        let manager = crate::judge::BY_HAND;
        self.server.edit(NAMESPACE, LEASE, manager, edit)
    }

    /// Starts processes where none runs, and the planted leader.
    fn advance(&mut self) -> Option<()> {
        for seat in &mut self.seats {
            if let Some(mut process) = seat.process.take_if(|it| it.has_ended()) {
                let status = process.wait();
                self.ended.push(seat.ended(status, &process, &self.folder));
            }
            if seat.process.is_none() && boot_time() >= seat.starts_at {
                seat.count += 1;
                let place = Place {
                    url: format!("https://{}", seat.proxy.address()),
                    ..self.place.clone()
                };
                let mut command = seat.elector.command(RUN, &seat.candidate(), &place)?;
                seat.process = Some(Process::spawn(&mut command));
            }
        }
        // The object may name a holder that has ended or is frozen. Only its ticks show a leader.
        let is_ours = |term: &Term| term.candidate.starts_with(Elector::Tenure.name());
        let terms = || terms(&self.place.ticks);
        let leads = |term: &Term| is_ours(term) && term.last + TICKS_WITHIN >= boot_time();
        match &mut self.planted {
            Planted::At(at) if boot_time() >= *at && terms().iter().any(leads) => {
                let place = Place {
                    lease: "planted".into(),
                    ..self.place.clone()
                };
                let mut command = Elector::Tenure.command(RUN, PLANTED, &place)?;
                self.planted = Planted::Runs(Process::spawn(&mut command));
            }
            Planted::Runs(process) => {
                // The judge finds the same overlap.
                let is_found = overlaps(&terms()).iter().any(|it| {
                    let both = [&it.late, &it.next];
                    both.iter().any(|term| term.candidate == PLANTED)
                        && both.iter().any(|term| is_ours(term))
                        && it.by() >= PLANTED_TIME
                });
                if is_found {
                    process.signal(Signal::SIGTERM);
                    process.wait();
                    self.planted = Planted::Done;
                }
            }
            Planted::At(_) | Planted::Done => {}
        }
        Some(())
    }

    /// Lets the planted leader act, if it has not: other programs end, so that one of tenure leads.
    fn end_planted(&mut self) -> Option<()> {
        let until = boot_time() + PATIENCE;
        while !matches!(self.planted, Planted::Done) && boot_time() < until {
            self.planted = match std::mem::replace(&mut self.planted, Planted::Done) {
                Planted::At(_) => Planted::At(boot_time()),
                other => other,
            };
            for seat in self
                .seats
                .iter_mut()
                .filter(|it| it.elector != Elector::Tenure)
            {
                seat.send(Sent::Terminate, Duration::MAX);
            }
            self.advance()?;
            sleep(PACE);
        }
        Some(())
    }

    /// Ends all processes.
    fn end(&mut self) {
        self.planted = Planted::Done;
        for seat in &mut self.seats {
            seat.send(Sent::Terminate, Duration::MAX);
        }
        for seat in &mut self.seats {
            if let Some(mut process) = seat.process.take() {
                let status = process.wait();
                self.ended.push(seat.ended(status, &process, &self.folder));
            }
        }
    }
}

impl Seat {
    /// The identity of the process that runs.
    pub(crate) fn candidate(&self) -> String {
        format!("{}-{}", self.name, self.count)
    }

    /// Ends the process. The next one starts at this time.
    pub(crate) fn send(&mut self, sent: Sent, starts_at: Duration) {
        self.starts_at = starts_at;
        if let Some(process) = self.process.as_ref() {
            self.sent = self.sent.or(Some(sent));
            process.signal(match sent {
                Sent::Terminate => Signal::SIGTERM,
                Sent::Kill => Signal::SIGKILL,
            });
        }
    }

    /// Stops the process (SIGSTOP), or lets it go on.
    pub(crate) fn freeze(&mut self, is_frozen: bool) {
        if let Some(process) = self.process.as_ref() {
            process.signal(match is_frozen {
                true => Signal::SIGSTOP,
                false => Signal::SIGCONT,
            });
        }
    }

    fn ended(&mut self, status: ExitStatus, process: &Process, folder: &Path) -> Ended {
        let (candidate, stderr) = (self.candidate(), process.stderr());
        fs::write(folder.join(format!("{candidate}.log")), &stderr).expect("a file");
        self.starts_at = self.starts_at.max(boot_time() + Duration::from_secs(1));
        Ended {
            elector: self.elector,
            seat: self.name.clone(),
            candidate,
            signal: self.sent.take(),
            is_success: status.success(),
            stderr,
        }
    }
}
