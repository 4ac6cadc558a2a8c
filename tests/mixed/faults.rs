//! Random faults of candidates, of their network, of the API server and of its etcd, and changes of the
//! object by hand.

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tenure_sim::sim::Rng;
use tenure_tests::electors::Elector;
use tenure_tests::proxy::ProxyMode;
use tenure_tests::ticks::boot_time;

use crate::judge::{Fault, OBJECT, SERVER, Sent};
use crate::part::Part;

/// A fault of a candidate.
#[derive(Clone, Copy, Debug)]
enum OfSeat {
    Freeze,
    Kill,
    Terminate,
    Network(ProxyMode),
    LateRequests,
    LateReplies,
}

/// A fault of the API server, or of its etcd.
#[derive(Clone, Copy, Debug)]
enum OfServer {
    Terminate,
    Kill,
    Freeze,
    TerminateEtcd,
    KillEtcd,
    FreezeEtcd,
}

/// Each fault, as often as its weight.
const OF_SEAT: [OfSeat; 14] = [
    OfSeat::Freeze,
    OfSeat::Freeze,
    OfSeat::Freeze,
    OfSeat::Kill,
    OfSeat::Terminate,
    OfSeat::Terminate,
    OfSeat::Network(ProxyMode::Hang),
    OfSeat::Network(ProxyMode::Hang),
    OfSeat::Network(ProxyMode::HangRequests),
    OfSeat::Network(ProxyMode::HangReplies),
    OfSeat::Network(ProxyMode::LoseReplies),
    OfSeat::Network(ProxyMode::Refuse),
    OfSeat::LateRequests,
    OfSeat::LateReplies,
];

const OF_HOLDER: [OfSeat; 5] = [
    OfSeat::Freeze,
    OfSeat::Kill,
    OfSeat::Terminate,
    OfSeat::Network(ProxyMode::Hang),
    OfSeat::Network(ProxyMode::Hang),
];

const OF_SERVER: [OfServer; 6] = [
    OfServer::Terminate,
    OfServer::Kill,
    OfServer::Freeze,
    OfServer::TerminateEtcd,
    OfServer::KillEtcd,
    OfServer::FreezeEtcd,
];

/// A change of the object by hand.
type ByHand = (&'static str, fn(&mut Value));

const BY_HAND: [ByHand; 11] = [
    ("empties the holder", |it| {
        it["spec"]["holderIdentity"] = "".into();
    }),
    ("sets another holder", |it| {
        it["spec"]["holderIdentity"] = "nobody".into();
    }),
    ("shortens the duration", |it| {
        it["spec"]["leaseDurationSeconds"] = 1.into();
    }),
    ("removes the spec", |it| it["spec"] = json!({})),
    ("removes the mark", |it| remove(it, "tenure/term")),
    ("garbles the mark", |it| {
        it["metadata"]["annotations"]["tenure/term"] = "rubbish".into();
    }),
    ("garbles the epoch", |it| {
        it["metadata"]["annotations"]["tenure/epoch"] = "rubbish".into();
    }),
    ("sets the last epoch", |it| {
        it["metadata"]["annotations"]["tenure/epoch"] = "9007199254740991".into();
    }),
    ("removes all annotations", |it| {
        it["metadata"]["annotations"] = Value::Null;
    }),
    ("empties the holder and removes the mark", |it| {
        it["spec"]["holderIdentity"] = "".into();
        remove(it, "tenure/term");
    }),
    ("sets a label", |it| {
        it["metadata"]["labels"] = json!({ "team": "billing" });
    }),
];

/// Removes an annotation. The server would keep one that is null as an empty text.
fn remove(object: &mut Value, annotation: &str) {
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove(annotation);
    }
}

/// The faults of a run.
pub(crate) struct Faults {
    dice: Rng,
    /// The faults that are over.
    pub(crate) done: Vec<Fault>,
    active: Vec<(Fault, Undo)>,
    next_at: Duration,
}

/// What ends a fault.
#[derive(Clone, Copy, Debug)]
enum Undo {
    /// Nothing: the candidate starts again by itself.
    Nothing,
    Continue(usize),
    Pass(usize),
    PassOurs,
    Server(OfServer),
}

/// At most this number of faults are active at a time, on different targets.
const ACTIVE: usize = 2;

impl Faults {
    pub(crate) fn new(dice: Rng) -> Self {
        Self {
            dice,
            done: Vec::new(),
            active: Vec::new(),
            next_at: boot_time() + Duration::from_secs(5),
        }
    }

    /// Ends the faults whose time is over, and begins another one from time to time.
    pub(crate) fn advance(&mut self, part: &mut Part) {
        let now = boot_time();
        let over = self.active.extract_if(.., |(fault, _)| fault.until <= now);
        for (fault, undo) in over.collect::<Vec<_>>() {
            self.end(part, fault, undo);
        }
        if self.active.len() < ACTIVE && now >= self.next_at {
            self.next_at = now + self.seconds(2, 9);
            self.begin(part);
        }
    }

    /// Ends all faults.
    pub(crate) fn end_all(&mut self, part: &mut Part) {
        // The server must answer before changes of the object can be taken back.
        self.active.sort_by_key(|(fault, _)| fault.target != SERVER);
        while !self.active.is_empty() {
            let (fault, undo) = self.active.remove(0);
            self.end(part, fault, undo);
            part.server.wait_until_ready();
        }
    }

    fn end(&mut self, part: &mut Part, mut fault: Fault, undo: Undo) {
        match undo {
            Undo::Nothing => {}
            Undo::Continue(seat) => part.seats[seat].freeze(false),
            Undo::Pass(seat) => {
                part.seats[seat].proxy.set(ProxyMode::Pass);
                part.seats[seat].proxy.delay(Duration::ZERO, Duration::ZERO);
            }
            Undo::PassOurs => {
                for seat in ours(part) {
                    part.seats[seat].proxy.set(ProxyMode::Pass);
                }
            }
            Undo::Server(of) => of.end(part),
        }
        fault.until = boot_time();
        self.done.push(fault);
    }

    fn seconds(&mut self, least: u64, end: u64) -> Duration {
        self.dice
            .between(Duration::from_secs(least), Duration::from_secs(end))
    }

    /// Whether a fault has this target.
    fn is_faulty(&self, target: &str) -> bool {
        self.active.iter().any(|(fault, _)| fault.target == target)
    }

    fn begin(&mut self, part: &mut Part) {
        match self.dice.below(20) {
            0..14 => self.begin_of_seat(part),
            14 => self.cut_ours(part),
            15..18 if !self.is_faulty(SERVER) => {
                let of = self.dice.one_of(&OF_SERVER);
                let time = self.seconds(1, 16);
                of.begin(part);
                self.add(&format!("{of:?}"), SERVER, time, Undo::Server(of));
            }
            _ if !self.is_faulty(SERVER) && !self.is_faulty(OBJECT) => self.change(part),
            _ => {}
        }
    }

    fn add(&mut self, what: &str, target: &str, time: Duration, undo: Undo) {
        let at = boot_time();
        let fault = Fault {
            what: what.into(),
            target: target.into(),
            at,
            until: at + time,
        };
        println!("{:>9} {target}: {what} for {time:.1?}", at.as_millis());
        self.active.push((fault, undo));
    }

    fn begin_of_seat(&mut self, part: &mut Part) {
        let holder = part.versions.holder();
        let holds = part.seats.iter().position(|it| it.candidate() == holder);
        let any = self.dice.below(part.seats.len() as u64);
        let any = usize::try_from(any).unwrap_or_default();
        let index = holds.filter(|_| self.dice.happens(700_000)).unwrap_or(any);
        let name = part.seats[index].name.clone();
        if self.is_faulty(&name) || part.seats[index].process.is_none() {
            return;
        }
        let time = self.seconds(3, 25);
        let late = self
            .dice
            .between(Duration::from_millis(200), Duration::from_secs(8));
        // A holder of another program gets faults that end its term, so that all lead in turn.
        let is_other = holds == Some(index) && part.seats[index].elector != Elector::Tenure;
        let kind = match is_other {
            true => self.dice.one_of(&OF_HOLDER),
            false => self.dice.one_of(&OF_SEAT),
        };
        let seat = &mut part.seats[index];
        let undo = match kind {
            OfSeat::Freeze => {
                seat.freeze(true);
                Undo::Continue(index)
            }
            OfSeat::Kill | OfSeat::Terminate => {
                let sent = match kind {
                    OfSeat::Kill => Sent::Kill,
                    _ => Sent::Terminate,
                };
                seat.send(sent, boot_time() + time / 3);
                Undo::Nothing
            }
            OfSeat::Network(mode) => {
                seat.proxy.set(mode);
                Undo::Pass(index)
            }
            OfSeat::LateRequests => {
                seat.proxy.delay(late, Duration::ZERO);
                Undo::Pass(index)
            }
            OfSeat::LateReplies => {
                seat.proxy.delay(Duration::ZERO, late);
                Undo::Pass(index)
            }
        };
        self.add(&format!("{kind:?}"), &name, time, undo);
    }

    /// Cuts all candidates of tenure off, so that other programs get the object, too.
    fn cut_ours(&mut self, part: &mut Part) {
        let names: Vec<String> = ours(part).map(|it| part.seats[it].name.clone()).collect();
        if names.iter().any(|name| self.is_faulty(name)) {
            return;
        }
        for seat in ours(part).collect::<Vec<_>>() {
            part.seats[seat].proxy.set(ProxyMode::Hang);
        }
        let time = self.seconds(17, 28);
        for name in &names {
            self.add("Cut, as all of tenure", name, time, Undo::PassOurs);
        }
    }

    fn change(&mut self, part: &mut Part) {
        let kind = usize::try_from(self.dice.below(BY_HAND.len() as u64));
        let (what, edit) = BY_HAND[kind.unwrap_or_default()];
        if part.edit(edit) {
            self.add(what, OBJECT, Duration::ZERO, Undo::Nothing);
        }
    }
}

/// The seats of tenure.
fn ours(part: &Part) -> impl Iterator<Item = usize> + use<'_> {
    let seats = part.seats.iter().enumerate();
    seats
        .filter(|(_, it)| it.elector == Elector::Tenure)
        .map(|(index, _)| index)
}

impl OfServer {
    fn begin(self, part: &mut Part) {
        let server = &mut part.server;
        match self {
            // It waits for requests that hang, so nothing waits for it here.
            Self::Terminate => server.signal(Signal::SIGTERM),
            Self::Kill => server.stop(Signal::SIGKILL),
            Self::Freeze => server.signal(Signal::SIGSTOP),
            Self::TerminateEtcd => server.etcd.signal(0, Signal::SIGTERM),
            Self::KillEtcd => server.etcd.kill(0),
            Self::FreezeEtcd => server.etcd.signal(0, Signal::SIGSTOP),
        }
    }

    fn end(self, part: &mut Part) {
        let server = &mut part.server;
        match self {
            Self::Terminate | Self::Kill => {
                server.stop(Signal::SIGKILL);
                server.spawn();
            }
            Self::Freeze => server.signal(Signal::SIGCONT),
            Self::TerminateEtcd => {
                // A process that has ended must be waited for.
                server.etcd.kill(0);
                server.etcd.spawn(0);
            }
            Self::KillEtcd => server.etcd.spawn(0),
            Self::FreezeEtcd => server.etcd.signal(0, Signal::SIGCONT),
        }
    }
}
