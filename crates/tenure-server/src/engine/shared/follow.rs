//! A server that follows a shared log, takes it over, and loads its content.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::ownership::{
    OwnershipOutput, OwnershipRole, OwnershipTimings, OwnershipTimingsError, TailState,
};
use tenure_core::time::millis;
use tracing::{debug, error, info, warn};

use super::chain::{Attempted, Chain, Parts, Shell, seconds};
use super::head::{Closed, ContentRecord, ServerRecord};
use super::log::{Connect, LogError};
use super::owner::{Seat, SharedEngine};
use super::serving::{OwnershipClock, Serving};
use super::shadow::{CopyError, Copying, Shadow};
use super::status::ClusterStatus;
use super::stop::Stop;
use crate::clock;
use crate::config::{ClusterAccess, ClusterConfig};
use crate::engine::{AppendError, Loaded, first_revision};
use crate::model::{Floors, HistoryLimits, StoreId};
use crate::random::OsRandom;

/// The number of copies that begin again, one after the other, before the log says so. A copy may
/// begin again because the owner has deleted batches meanwhile; a standby looks twelve times in the
/// ownership duration.
const COPIES: u32 = 12;

/// The longest time between two copies of a damaged log.
const MOST_PAUSE: Duration = Duration::from_secs(60);

/// A server of a cluster while it does not own the log.
///
/// [`Follower::run_until_owner`] blocks until the server owns the log. Then the store uses the
/// engine that it returns. When the store has dropped the engine, the follower runs again.
#[derive(Debug)]
pub(crate) struct Follower {
    /// `None` while an engine has the chain. The engine puts it into the seat when it is dropped.
    chain: Option<Chain>,
    seat: Seat,
    shadow: Shadow,
    history: HistoryLimits,
    /// The note in the head that the last take-over replaced.
    note: Option<String>,
    /// The damage of the log, as far as this server sees, until a copy is right.
    damage: Option<Damage>,
    /// The number of copies of the log that began again since the last one that was right.
    begun_again: u32,
    status: Arc<ClusterStatus>,
    serving: Arc<Serving>,
    /// The name of the server to which the next ownership is left.
    successor: Arc<Mutex<Option<String>>>,
    stop: Arc<Stop>,
}

/// What a server remembers of a log that it could not copy several times, or found damaged: it copies
/// such a log less and less often, because each copy reads everything.
#[derive(Debug)]
struct Damage {
    /// The generation that this server has seen last.
    generation: u64,
    /// The time between two copies.
    pause: Duration,
    /// No copy begins before this.
    copy_at: Instant,
}

/// A beginning ownership of the log.
pub(crate) struct Reign {
    /// The number of the ownership.
    pub(crate) generation: u64,
    /// What an operator did to the log since the ownership before, for the audit log.
    pub(crate) note: Option<String>,
    /// The content of the log. Its leases count as renewed at an instant that is read from now on.
    pub(crate) loaded: Loaded,
    /// The engine that appends to the log.
    pub(crate) engine: SharedEngine,
}

impl fmt::Debug for Reign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Reign").field(&self.generation).finish()
    }
}

/// The reason why a follower ended without owning the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server stops.
    Stopped,
    /// The log is damaged. The message says where.
    Refused(String),
}

/// The settings of a follower are not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FollowError {
    /// The service can't be used.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The ownership duration is out of range.
    #[error(transparent)]
    Ownership(#[from] OwnershipTimingsError),
    /// The log can't be used until an operator has changed something. The message says what.
    #[error("{0}")]
    Refused(String),
    /// Servers with access control have owned the log, and this one has none.
    #[error("{}", Closed::Guarded)]
    Guarded,
}

impl Damage {
    fn new(chain: &Chain, generation: u64) -> Self {
        Self {
            generation,
            pause: chain.machine.timings().ownership(),
            copy_at: chain.now(),
        }
    }

    /// Returns the damage after one more copy that failed.
    fn again(self, now: Instant) -> Self {
        Self {
            copy_at: now + self.pause,
            pause: MOST_PAUSE.min(2 * self.pause),
            ..self
        }
    }
}

impl Follower {
    /// Creates a follower of the log that `connect` opens. The flag `stop` ends all waits.
    pub(crate) fn new(
        connect: Arc<dyn Connect>,
        config: &ClusterConfig,
        history: HistoryLimits,
        stop: Arc<Stop>,
    ) -> Result<Self, FollowError> {
        Self::with_clock(connect, config, history, stop, OwnershipClock::System)
    }

    pub(super) fn with_clock(
        connect: Arc<dyn Connect>,
        config: &ClusterConfig,
        history: HistoryLimits,
        stop: Arc<Stop>,
        clock: OwnershipClock,
    ) -> Result<Self, FollowError> {
        // The head has whole milliseconds.
        let ownership = Duration::from_millis(millis(config.ownership));
        let timings = OwnershipTimings::new(ownership)?;
        let log = connect.connect()?;
        let status = Arc::new(ClusterStatus::new(connect.name()));
        let serving = Arc::new(Serving::new(clock.clone()));
        let successor = Arc::<Mutex<Option<String>>>::default();
        let shell = Shell {
            clock,
            serving: Arc::clone(&serving),
            status: Arc::clone(&status),
            stop: Arc::clone(&stop),
            server: ServerRecord {
                name: config.server.clone(),
                address: config.advertise.clone(),
                since: clock::wall(),
            },
            connect,
            successor: Arc::clone(&successor),
            access: config.access,
        };
        let chain = Chain::new(log, timings, shell);
        Ok(Self {
            chain: Some(chain),
            seat: Seat::default(),
            shadow: Shadow::default(),
            history,
            note: None,
            damage: None,
            begun_again: 0,
            status,
            serving,
            successor,
            stop,
        })
    }

    /// Reads the head once, before the server begins to follow. If the service can't be reached, the
    /// server waits for it later.
    ///
    /// # Errors
    ///
    /// The service, or the content of the log, definitely permits no server of this configuration.
    pub(crate) fn look_first(&mut self) -> Result<(), FollowError> {
        match &mut self.chain {
            Some(chain) => chain.look_first(),
            None => Ok(()),
        }
    }

    /// Returns the state of this server, which changes while it follows and while it is active.
    pub(crate) fn status(&self) -> Arc<ClusterStatus> {
        Arc::clone(&self.status)
    }

    /// Returns the deadline of answers from memory.
    pub(crate) fn serving(&self) -> Arc<Serving> {
        Arc::clone(&self.serving)
    }

    /// Leaves the log to the server with this name, or to any other, when the engine is closed.
    pub(crate) fn leave_to(&self, server: Option<String>) {
        *self
            .successor
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = server;
    }

    /// Follows the log until this server owns it and has loaded its content. After an ownership,
    /// the engine must have been dropped.
    ///
    /// # Errors
    ///
    /// The server stops, or the content of the log is damaged.
    pub(crate) fn run_until_owner(&mut self) -> Result<Reign, Ended> {
        self.begin()?;
        loop {
            if self.stop.is_set() {
                return Err(Ended::Stopped);
            }
            match self.step()? {
                Some(reign) => return Ok(reign),
                None => self.chain()?.wait(),
            }
        }
    }

    /// Begins to follow, also after an ownership.
    pub(super) fn begin(&mut self) -> Result<(), Ended> {
        if self.chain.is_none() {
            let seat: &Mutex<_> = &self.seat;
            self.chain = seat.lock().unwrap_or_else(PoisonError::into_inner).take();
            self.shadow = Shadow::default();
        }
        let chain = self.chain()?;
        // The store may have ended without vacating the log.
        while chain.machine.role(chain.now()) == OwnershipRole::Resigned {
            chain.leave();
            chain.machine.stand_by(chain.now());
            if chain.shell.stop.is_set() {
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    fn chain(&mut self) -> Result<&mut Chain, Ended> {
        let busy = || Ended::Refused("the engine of the last ownership is still in use".into());
        self.chain.as_mut().ok_or_else(busy)
    }

    /// Does what is due now. Returns the ownership, if one begins.
    pub(super) fn step(&mut self) -> Result<Option<Reign>, Ended> {
        let chain = self.chain()?;
        chain.machine.handle_timeout(chain.now());
        while let Some(output) = self.chain()?.machine.poll_output() {
            match output {
                OwnershipOutput::Look => {
                    self.chain()?.look();
                    self.copy();
                }
                OwnershipOutput::Append(head) => self.take_over(head)?,
                OwnershipOutput::Took { generation } => {
                    if let Some(copied) = self.load(generation)? {
                        return self.own(generation, copied).map(Some);
                    }
                }
                OwnershipOutput::Deposed => self.chain()?.deposed(),
                OwnershipOutput::Refuses(refusal) => self.chain()?.refuse(&refusal),
                // These concern an owner.
                OwnershipOutput::Lapsed | OwnershipOutput::Resumed => {}
            }
            self.chain()?.publish();
        }
        Ok(None)
    }

    /// Brings the copy closer to the head, for a part of the time until the next look.
    fn copy(&mut self) {
        let Some(chain) = &mut self.chain else {
            return;
        };
        let Some(record) = chain.record() else {
            return;
        };
        let (content, head) = (record.content.clone(), record.head);
        // The places may be those of another log than the known head.
        let refuses = chain.machine.refusal().is_some();
        if refuses || matches!(head.state, TailState::Restoring | TailState::Retired) {
            return;
        }
        if let Some(damage) = &mut self.damage {
            if damage.generation != head.generation {
                // Another server may have loaded it.
                *damage = Damage::new(chain, head.generation);
            } else if chain.now() < damage.copy_at {
                return;
            }
        }
        let until = chain.now() + chain.machine.timings().poll() / 2;
        loop {
            match self.shadow.step(&mut *chain.log, &content, head.sequence) {
                Ok(Copying::More) if chain.now() < until => {}
                Ok(copying) => {
                    if copying == Copying::Right {
                        self.begun_again = 0;
                        self.status.change(|view| view.copy_failure = None);
                        if self.damage.take().is_some() {
                            info!("the log can be copied again; following");
                            chain.bar(None);
                        }
                    }
                    break;
                }
                Err(CopyError::Log(error)) => {
                    chain.note_error(Some(&error));
                    break;
                }
                Err(error) => {
                    self.begun_again = self.begun_again.saturating_add(1);
                    if self.begun_again < COPIES {
                        debug!(%error, "the places of the log are read again");
                        break;
                    }
                    let text = format!(
                        "this server can't copy the log, so it could not go on with it: the log may be \
                         damaged ({error}). Restore a backup into another prefix, schema or cluster name \
                         before the active server ends"
                    );
                    if self.begun_again == COPIES {
                        warn!("{text}");
                    }
                    self.status.change(|view| view.copy_failure = Some(text));
                    let damage = self.damage.take();
                    let damage = damage.unwrap_or_else(|| Damage::new(chain, head.generation));
                    self.damage = Some(damage.again(chain.now()));
                    break;
                }
            }
        }
        let behind = self.shadow.behind(&content);
        self.status.change(|view| view.behind = behind);
    }

    /// Sends an attempt of the append that takes the log over.
    fn take_over(&mut self, head: tenure_core::ownership::Tail) -> Result<(), Ended> {
        let chain = self.chain()?;
        if !chain.is_prepared(head) {
            let known = chain.record();
            let mut content = known.map_or_else(first_content, |record| record.content.clone());
            let note = known.and_then(|record| record.note.clone());
            content.is_guarded |= chain.shell.access == ClusterAccess::Guarded;
            let silent = known.filter(|record| record.head.state == TailState::Owned);
            let text = match silent {
                Some(record) => {
                    let own = chain.machine.timings().ownership();
                    format!(
                        "{} was not heard of for {}, taking over as generation {}",
                        record.server.name,
                        seconds(own.max(record.head.ownership)),
                        head.generation
                    )
                }
                None => format!("taking over as generation {}", head.generation),
            };
            let is_silent = silent.is_some();
            if chain.is_news(&text) {
                match is_silent {
                    true => warn!("{text}"),
                    false => info!("{text}"),
                }
            }
            chain.shell.server.since = clock::wall();
            chain.prepare(head, content, Parts::default());
            self.note = note;
        }
        let chain = self.chain()?;
        match chain.attempt() {
            Attempted::Applied => self.status.metrics.took_over(),
            Attempted::Lost => info!("another server was first to take over"),
            Attempted::Repeated | Attempted::Undone(_) => {}
        }
        Ok(())
    }

    /// Loads the content as the owner, and appends in between so that it stays the owner. Returns
    /// `None` if it lost the ownership meanwhile.
    fn load(&mut self, generation: u64) -> Result<Option<super::shadow::Copied>, Ended> {
        let began = self.chain()?.now();
        let mut has_begun_again = false;
        let Some(chain) = &mut self.chain else {
            return Ok(None);
        };
        loop {
            if self.stop.is_set() {
                chain.leave();
                return Err(Ended::Stopped);
            }
            chain.machine.handle_timeout(chain.now());
            if let Some(head) = chain.drain() {
                if !chain.is_prepared(head)
                    && let Some(content) = chain.record().map(|it| it.content.clone())
                {
                    chain.prepare(head, content, Parts::default());
                }
                // After any other error the machine asks for the next attempt.
                if let Err(AppendError::NotOwner(_)) = chain.append() {
                    return Ok(None);
                }
            }
            if chain.machine.role(chain.now()) != OwnershipRole::Loading {
                return Ok(None);
            }
            let Some(record) = chain.record() else {
                return Ok(None);
            };
            let (content, sequence) = (record.content.clone(), record.head.sequence);
            match self.shadow.step(&mut *chain.log, &content, sequence) {
                Ok(Copying::Right) => {
                    let copied = std::mem::take(&mut self.shadow).into_copied(&content);
                    chain.machine.handle_loaded(chain.now(), generation);
                    chain.drain();
                    info!(
                        "active as generation {generation}: {} leases, loaded in {:.1?}",
                        copied.loaded.leases.len(),
                        chain.now().since(began)
                    );
                    return Ok(Some(copied));
                }
                // Nobody else writes now, so the head that this server wrote is recent enough.
                Ok(Copying::More | Copying::NeedsHead) => {}
                Err(CopyError::Log(error)) => {
                    chain.note_error(Some(&error));
                    let poll = chain.machine.timings().poll();
                    chain.shell.clock.wait(poll, &self.stop);
                }
                // A copy that was made while another server wrote proves nothing.
                Err(CopyError::NotWhole(detail)) if !has_begun_again => {
                    info!(detail, "the places of the log are read again");
                    has_begun_again = true;
                }
                Err(CopyError::NotWhole(detail)) => {
                    let text = format!(
                        "the log in {} is damaged ({detail}); it was left as it is: restore a \
                         backup into another prefix, schema or cluster name",
                        chain.shell.service()
                    );
                    error!("{text}");
                    chain.bar(Some(text.clone()));
                    chain.leave();
                    self.damage = Some(Damage::new(chain, generation));
                    self.begun_again = COPIES;
                    return Err(Ended::Refused(text));
                }
            }
        }
    }

    /// Hands the chain to an engine.
    fn own(&mut self, generation: u64, copied: super::shadow::Copied) -> Result<Reign, Ended> {
        let Some(chain) = self.chain.take() else {
            return Err(Ended::Stopped);
        };
        let seat = Arc::clone(&self.seat);
        let of_lease = self.history.of_lease;
        let (mut loaded, engine) = SharedEngine::new(chain, seat, copied, of_lease);
        loaded.history.limit(self.history);
        self.begun_again = 0;
        self.damage = None;
        self.status.change(|view| {
            view.behind = Some(0);
            view.copy_failure = None;
        });
        Ok(Reign {
            generation,
            note: self.note.take(),
            loaded,
            engine,
        })
    }
}

/// Returns the content of an empty log.
pub(super) fn first_content() -> ContentRecord {
    let revision = first_revision(clock::wall());
    ContentRecord {
        store: StoreId::random(&mut OsRandom),
        revision,
        floors: Floors::default(),
        placed: 0,
        placed_revision: revision,
        kept: 0,
        leases: 0,
        is_guarded: false,
    }
}
