//! The kind of quorum that carries a leader's term, for logs and status.

use tenure_core::bully::QuorumKind;
use tenure_core::election::{AnyMachine, ElectionMachine as _, Standing};
use tenure_core::lease::candidate::HoldState;
use tenure_core::{Epoch, Instant, UnixMillis};
use tracing::{info, warn};

use super::{Peers, node};
use crate::base::clock::{before, rfc3339};
use crate::base::term::TermQuorum;

/// The voters of the current term.
#[derive(Clone, Debug)]
pub(super) struct Carrier {
    epoch: Epoch,
    /// The time at which this member began to lead.
    began: Instant,
    kind: QuorumKind,
    /// The time of the last change of the kind.
    since: Instant,
    /// The time of the store's last answer before it became silent, or the beginning of the term if
    /// the store has not answered in it.
    silent_since: Option<(Instant, UnixMillis)>,
    /// The kind that the log has named last.
    told: QuorumKind,
    told_passed: bool,
}

impl Peers {
    /// Follows the voters of the term, and logs each change of their kind once. A change is logged
    /// when it has lasted for a message lifetime: by then the members have answered, and a single
    /// late answer of the store is no news.
    pub(super) fn follow_carrier(&mut self, now: Instant) {
        let leads = match self.machine.standing(now) {
            Standing::Leading { epoch, .. } => Some(epoch),
            _ => None,
        };
        let voters = match &self.machine {
            AnyMachine::Fallback(machine) => {
                machine.node().carried_by(now).zip(Some(machine.store()))
            }
            _ => None,
        };
        let (Some(epoch), Some((kind, store))) = (leads, voters) else {
            self.carrier = None;
            return;
        };
        let wall = self.clock.wall();
        self.carrier.take_if(|carrier| carrier.epoch != epoch);
        let carrier = self.carrier.get_or_insert(Carrier {
            epoch,
            began: now,
            kind,
            since: now,
            silent_since: None,
            told: QuorumKind::Store,
            told_passed: false,
        });
        if carrier.kind != kind {
            (carrier.kind, carrier.since) = (kind, now);
        }
        // A member that was elected without the store may never have asked it before.
        let silent_since = store
            .silent_since(now)
            .map(|since| since.max(carrier.began));
        carrier.silent_since = silent_since.map(|since| match carrier.silent_since {
            Some((known, wall)) if known == since => (known, wall),
            _ => (since, before(wall, now.since(since))),
        });
        let lifetime = node(&self.machine).settings().timings().message_lifetime();
        let is_steady = now.since(carrier.since) >= lifetime;
        let passed = store.hold_state() == HoldState::Passed && !carrier.told_passed;
        let changed = carrier.kind != carrier.told && is_steady;
        carrier.told_passed |= passed;
        if changed {
            carrier.told = carrier.kind;
        }
        if passed {
            self.log_passed(epoch);
        }
        // Without the store's epoch, the members carry the term until its end.
        if changed && !passed {
            self.log_change(now, epoch);
        }
    }

    fn log_passed(&self, epoch: Epoch) {
        let (election, candidate) = (&self.config.election, &self.config.candidate);
        warn!(%election, %candidate, epoch = epoch.get(),
            "the store has granted this epoch or a greater one to another request; the term goes on with \
             the members alone until it ends");
    }

    fn log_change(&self, now: Instant, epoch: Epoch) {
        let Some(quorum) = self.term_quorum(now) else {
            return;
        };
        let (election, candidate, epoch) =
            (&self.config.election, &self.config.candidate, epoch.get());
        let losses = quorum.further_losses;
        match quorum.kind {
            QuorumKind::Store => info!(%election, %candidate, epoch, further_losses = losses,
                "the store carries the term again"),
            QuorumKind::Members => {
                let since = quorum.store_silent_since.map(rfc3339);
                warn!(%election, %candidate, epoch, store_silent_since = since, further_losses = losses,
                    "the store is not heard; the members alone carry the term");
            }
        }
    }

    /// Returns the time at which a change of the kind is logged.
    pub(super) fn poll_carrier(&self) -> Option<Instant> {
        let carrier = self.carrier.as_ref()?;
        let lifetime = node(&self.machine).settings().timings().message_lifetime();
        (carrier.kind != carrier.told).then(|| carrier.since + lifetime)
    }

    /// Returns the voters of the term that this member leads, if it has a fallback.
    pub(in crate::election) fn term_quorum(&self, now: Instant) -> Option<TermQuorum> {
        let carrier = self.carrier.as_ref()?;
        let settings = node(&self.machine).settings();
        let quorums = settings.quorums();
        let needed = match carrier.kind {
            QuorumKind::Store => quorums.with_store()?,
            QuorumKind::Members => quorums.without_store(),
        };
        let up = settings.members().len() - self.suspects(now).len();
        Some(TermQuorum {
            kind: carrier.kind,
            further_losses: up.saturating_sub(needed),
            store_silent_since: carrier.silent_since.map(|(_, wall)| wall),
        })
    }

    /// Returns the time since which members must answer this leader: all the time without a
    /// fallback, and only without the store otherwise. `None` if they need not.
    pub(super) fn asks_since(&self) -> Option<Instant> {
        match &self.carrier {
            None => Some(Instant::default()),
            Some(carrier) if carrier.kind == QuorumKind::Members => Some(carrier.since),
            Some(_) => None,
        }
    }
}
