//! The log of a cluster together with the machine that decides which server owns it.
//!
//! The machine decides. This module does what it asks for and reports the outcomes.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::lease::LeaseId;
use tenure_core::ownership::{
    AppendOutcome, Found, Look, Observation, OwnerId, Ownership, OwnershipOutput, OwnershipTimings,
    Tail, TailState,
};
use tenure_core::ring::Base;
use tenure_register::Failure;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::home::LogHome;
use super::report::Reports;
use super::serving::OwnershipClock;
use super::status::ClusterStatus;
use crate::config::{ClusterAccess, ClusterConfig};
use crate::engine::ring::{About, Draft, RingLog, SlotValue};
use crate::engine::{AppendError, Batch, first_revision};
use crate::model::StoreId;
use crate::random::OsRandom;

/// The longest sleep while an append is to be repeated. A test clock advances by waits only.
const NAP: Duration = Duration::from_secs(60);

/// The reason why a server does not take a log over that is in order, with what to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::engine) enum Closed {
    /// A backup is being restored into it.
    #[error("a restore into the log is not complete: wait for it, or run tenure restore again")]
    Restoring,
    /// Its content was moved away for good.
    #[error(
        "a final backup has moved the store away: it goes on where that file is restored (tenure \
         restore)"
    )]
    Retired,
    /// Servers with access control have owned it, and this one has none.
    #[error(
        "the servers of this cluster have access control, and this one has no access file: name it \
         in access.file, or start it with --allow-anonymous"
    )]
    Guarded,
}

impl Closed {
    /// Returns why no server takes the log over, if that is so.
    pub(in crate::engine) const fn of(state: TailState) -> Option<Self> {
        match state {
            TailState::Owned | TailState::Vacant => None,
            TailState::Restoring => Some(Self::Restoring),
            TailState::Retired => Some(Self::Retired),
        }
    }

    /// Returns why a server with this access does not take over the log with this newest entry.
    fn for_server(value: &SlotValue, access: ClusterAccess) -> Option<Self> {
        let opens = access == ClusterAccess::Anonymous && value.about.is_guarded;
        Self::of(value.tail.state).or_else(|| opens.then_some(Self::Guarded))
    }
}

/// The log, and the state of its ownership.
#[derive(Debug)]
pub(super) struct ClusterLog {
    pub(super) home: LogHome,
    pub(super) ring: RingLog,
    pub(super) machine: Ownership,
    pub(super) clock: OwnershipClock,
    pub(super) status: Arc<ClusterStatus>,
    pub(super) stop: CancellationToken,
    pub(super) config: ClusterConfig,
    /// This start of the server.
    pub(super) owner: OwnerId,
    /// A complete base that no entry names yet.
    pub(super) new_base: Option<Base>,
    pub(super) reports: Reports,
}

/// The outcome of an attempt.
#[derive(Debug)]
pub(super) enum Attempted {
    /// The append was applied.
    Applied,
    /// The outcome is unknown; the machine asks for the same append again.
    Repeated,
    /// The append was not applied and never will be, for this reason.
    Undone(Failure),
    /// The ownership is over.
    Lost,
}

/// Returns the id of an owner that nobody else has.
pub(super) fn new_owner() -> OwnerId {
    use tenure_core::Random as _;
    let random = [OsRandom.next_u64(), OsRandom.next_u64()];
    let owner = LeaseId::from_random_bits(random[0], random[1]).to_bytes();
    OwnerId(u128::from_be_bytes(owner))
}

impl ClusterLog {
    pub(super) fn new(
        home: LogHome,
        timings: OwnershipTimings,
        config: &ClusterConfig,
        clock: OwnershipClock,
        stop: CancellationToken,
    ) -> Self {
        let owner = new_owner();
        let machine = Ownership::new(timings, owner, clock.now());
        let (me, access) = (config.server.clone(), config.access);
        let viewer = Box::new(move |value: &SlotValue| state_for(value, &me, access));
        let (files, place) = (Arc::clone(&home.files), home.place.clone());
        Self {
            ring: RingLog::new(files, &home.folder, place, viewer, timings.poll()),
            machine,
            status: Arc::new(ClusterStatus::new(clock.clone())),
            clock,
            home,
            stop,
            config: config.clone(),
            owner,
            new_base: None,
            reports: Reports::default(),
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Reads the log for the machine. Returns whether the home has answered.
    pub(super) async fn look(&mut self) -> bool {
        let sent = self.now();
        let seen = self.ring.look().await;
        let has_answered = seen.is_ok();
        self.saw(sent, seen);
        has_answered
    }

    /// Handles the answer to a read of the log, which was sent at this instant.
    pub(super) fn saw(&mut self, sent: Instant, seen: Result<Observation, Failure>) {
        // The instant of the answer: argument 4 of the ownership counts from here.
        let now = self.now();
        match seen {
            Err(failure) => {
                let is_logged = self.note_failure(Some(&failure));
                self.note_away(now, &failure, is_logged);
                self.machine.handle_tail(now, Look::Failed);
            }
            Ok(observation) => {
                self.note_failure(None);
                self.note_back(now);
                let took = now.since(sent);
                self.status.change(|view| view.note_call(took));
                self.machine.handle_tail(now, Look::Found(observation));
                self.note_tail();
            }
        }
    }

    /// Returns the content of the next entry: these changes, or none.
    pub(super) fn draft<'a>(&mut self, batch: Option<&'a Batch>) -> Draft<'a> {
        let tail = self.ring.tail();
        let revision = tail.map_or_else(|| first_revision(self.clock.wall()), |it| it.revision);
        let owned = tail.filter(|it| it.tail.owner == self.owner);
        let about = About {
            store: tail.map_or_else(
                || StoreId::random(&mut OsRandom),
                |it| it.about.store.clone(),
            ),
            home: self.ring.home_text(),
            server: self.config.server.clone(),
            address: self.config.advertise.clone(),
            since: owned.map_or_else(|| self.clock.wall(), |it| it.about.since),
            successor: None,
            is_guarded: self.config.access == ClusterAccess::Guarded
                || tail.is_some_and(|it| it.about.is_guarded),
        };
        let empty = || Batch::empty(revision, revision);
        Draft {
            about,
            note: None,
            batch: batch.map_or_else(|| Cow::Owned(empty()), Cow::Borrowed),
        }
    }

    /// Sends the append with this header once.
    pub(super) async fn attempt(&mut self, header: Tail, draft: Draft<'_>) -> Attempted {
        let began = self.now();
        let clock = self.clock.clone();
        let (ring, machine) = (&mut self.ring, &mut self.machine);
        let now = || clock.now();
        let appended = ring.append(machine, now, header, draft, self.new_base);
        let appended = appended.await;
        let took = self.now().since(began);
        self.note_failure(appended.failure.as_ref());
        self.count(&appended.outcome, took);
        let attempted = match appended.outcome {
            AppendOutcome::Committed => {
                // Another server may have named one that contains as much. This one is never named then, and
                // must not keep the owner from writing another.
                let covered = self.ring.rules().base().map_or(0, |it| it.covered);
                self.new_base = self.new_base.filter(|it| it.covered > covered);
                self.note_tail();
                Attempted::Applied
            }
            AppendOutcome::Unknown => Attempted::Repeated,
            AppendOutcome::Refused => {
                let failure = || Failure::NotApplied("the home refused".into());
                Attempted::Undone(appended.failure.unwrap_or_else(failure))
            }
            AppendOutcome::Superseded(observation) => {
                if let Found::Tail(_) = observation.found {
                    // The entries before it say which server wrote it.
                    let _ = self.ring.look().await;
                    self.note_tail();
                }
                Attempted::Lost
            }
        };
        self.publish();
        attempted
    }

    /// Sends the append until its outcome is known, as the owner.
    ///
    /// # Errors
    ///
    /// The append was not applied, the ownership is over, or the server stops meanwhile.
    pub(super) async fn append(
        &mut self,
        header: Tail,
        batch: Option<&Batch>,
    ) -> Result<(), AppendError> {
        loop {
            let draft = self.draft(batch);
            let attempted = self.attempt(header, draft).await;
            if let Attempted::Repeated = attempted {
                self.wait_for_repeat(header).await?;
                continue;
            }
            self.drain();
            return match attempted {
                Attempted::Applied => Ok(()),
                Attempted::Undone(Failure::Full(detail)) => Err(AppendError::DiskFull(detail)),
                Attempted::Undone(other) => Err(AppendError::Busy(other.to_string())),
                Attempted::Lost | Attempted::Repeated => Err(self.not_owner()),
            };
        }
    }

    /// Waits until the machine asks for the append again.
    async fn wait_for_repeat(&mut self, header: Tail) -> Result<(), AppendError> {
        loop {
            self.machine.handle_timeout(self.now());
            if let Some(again) = self.drain() {
                debug_assert_eq!(again, header, "another append");
                return Ok(());
            }
            if self.stop.is_cancelled() {
                let detail = "the server stops, and the outcome of an append is unknown";
                return Err(AppendError::Unknown(detail.into()));
            }
            self.wait().await;
        }
    }

    /// Handles the outputs of the machine of an owner. Returns the header of an append that it asks
    /// for.
    pub(super) fn drain(&mut self) -> Option<Tail> {
        let mut append = None;
        while let Some(output) = self.machine.poll_output() {
            match output {
                OwnershipOutput::Append(header) => append = Some(header),
                OwnershipOutput::Lapsed => self.lapsed(),
                OwnershipOutput::Resumed => self.resumed(),
                OwnershipOutput::Deposed => self.deposed(),
                // These concern a server that follows.
                OwnershipOutput::Look | OwnershipOutput::Took { .. } => {}
                OwnershipOutput::Refuses(refusal) => self.refuse(&refusal),
            }
        }
        self.publish();
        append
    }

    /// Waits until the machine has something to do, or the server stops.
    pub(super) async fn wait(&self) {
        let until = self.machine.next_timeout();
        let now = self.now();
        let left = until.map_or(NAP, |until| until.since(now)).min(NAP);
        self.clock.wait(left, &self.stop).await;
    }

    pub(super) async fn wait_a_poll(&self) {
        let poll = self.machine.timings().poll();
        self.clock.wait(poll, &self.stop).await;
    }

    /// Gives the log to the other servers. Nothing that the store acknowledged is lost: the caller
    /// has appended everything.
    pub(super) async fn leave(&mut self) {
        self.machine.resign();
        self.publish();
        let until = self.now() + self.machine.timings().ownership();
        // An append may be under way, or a take-over.
        let mut header = self.drain();
        loop {
            let vacate = || self.machine.vacate(self.clock.now());
            if let Some(header) = header.take().or_else(vacate) {
                let mut draft = self.draft(None);
                if header.state == TailState::Vacant {
                    draft.about.successor = self.status.successor();
                }
                let to = draft.about.successor.clone();
                match self.attempt(header, draft).await {
                    Attempted::Applied if header.state == TailState::Vacant => {
                        let to = to.as_deref().unwrap_or("any server");
                        info!("handed the leases over: {to} may take over at once");
                        self.drain();
                        return;
                    }
                    Attempted::Lost => {
                        self.drain();
                        return;
                    }
                    Attempted::Applied | Attempted::Repeated => {}
                    Attempted::Undone(_) => self.wait_a_poll().await,
                }
            } else if self.machine.next_timeout().is_some() {
                self.wait().await;
                self.machine.handle_timeout(self.now());
            } else {
                // This server does not own the log.
                return;
            }
            if self.now() >= until || self.stop.is_cancelled() {
                warn!(
                    "{} does not answer, so the leases were not handed over: another server takes \
                     over after the ownership duration",
                    self.home.kind
                );
                return;
            }
            // An append that is taken from the machine must be sent: it waits for the outcome.
            header = self.drain();
        }
    }

    pub(super) fn not_owner(&self) -> AppendError {
        AppendError::NotOwner(self.owner_text())
    }

    /// Returns which server owns the log, or why none does.
    pub(super) fn owner_text(&self) -> String {
        match self.ring.tail() {
            Some(value) => match Closed::of(value.tail.state) {
                Some(reason) => reason.to_string(),
                None => format!(
                    "superseded by {}, generation {}",
                    value.about.server, value.tail.generation
                ),
            },
            None => "the log is empty".into(),
        }
    }

    /// Returns why this server does not take over the log, if that is so.
    pub(super) fn closed(&self) -> Option<Closed> {
        Closed::for_server(self.ring.tail()?, self.config.access)
    }
}

/// Returns the state of an entry as the machine of the server `me` gets it.
fn state_for(value: &SlotValue, me: &str, access: ClusterAccess) -> TailState {
    let state = value.tail.state;
    let is_for_another = value.about.successor.as_ref().is_some_and(|it| it != me);
    match state {
        // To the machine, a log that this server must not own is like one that was moved.
        _ if Closed::for_server(value, access) == Some(Closed::Guarded) => TailState::Retired,
        // A vacant log that is left to another server is like an owned one: this server takes over only
        // if no other does for the ownership duration.
        TailState::Vacant if is_for_another && value.about.server != me => TailState::Owned,
        _ => state,
    }
}
