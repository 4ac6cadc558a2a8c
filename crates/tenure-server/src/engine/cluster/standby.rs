//! A server that follows the log, and takes it over.

use std::sync::Arc;
use std::time::Duration;

use tenure_core::Instant;
use tenure_core::ownership::{
    AppendOutcome, Found, OwnershipOutput, OwnershipRole, OwnershipTimings, Tail, TailState,
};
use tenure_core::time::millis;
use tenure_register::Failure;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, oneshot};
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use super::bases::{BaseWriter, FileTimes};
use super::home::LogHome;
use super::log::{Attempted, Closed, ClusterLog};
use super::owner::OwnedLog;
use super::report::seconds;
use super::serving::OwnershipClock;
use super::status::ClusterStatus;
use crate::config::ClusterConfig;
use crate::engine::Loaded;
use crate::engine::entry::Entry;
use crate::engine::replica::Replica;
use crate::engine::ring::{BaseError, RingLog};
use crate::model::HistoryLimits;

/// How long a server that starts waits for the first answer of the home. Without one it starts.
const FIRST_LOOK: Duration = Duration::from_secs(2);

/// The longest time between two reads of a log that can't be copied.
const MOST_PAUSE: Duration = Duration::from_secs(60);

/// A server of a cluster while it does not own the log.
///
/// [`Standby::run_until_owner`] blocks until the server owns the log. Then the store uses the log that
/// it returns. When the store has dropped that, the standby runs again.
#[derive(Debug)]
pub(crate) struct Standby {
    /// The log. This standby has it locked, or the store.
    shared: Arc<AsyncMutex<ClusterLog>>,
    log: Option<OwnedMutexGuard<ClusterLog>>,
    replica: Replica,
    /// The replica of the last ownership.
    returned: Option<oneshot::Receiver<Replica>>,
    home: LogHome,
    history: HistoryLimits,
    pub(super) times: FileTimes,
    /// What an operator did to the log since the last take-over.
    note: Option<String>,
    /// Whether the replica has all entries that the last answer of the home has shown.
    has_copy: bool,
    /// After damage was found: the log is not read before this, and the pause after that.
    copy_at: Option<(Instant, Duration)>,
    /// The sequence of the last take-over that failed, until that is over.
    failed: Option<u64>,
    status: Arc<ClusterStatus>,
    stop: CancellationToken,
}

/// A beginning ownership of the log.
#[derive(Debug)]
pub(crate) struct TakenOver {
    /// What an operator did to the log since the ownership before, for the audit log.
    pub(crate) note: Option<String>,
    /// The content of the log. Its leases count as renewed at an instant that is read from now on.
    pub(crate) loaded: Loaded,
    /// The log, for the store.
    pub(crate) log: OwnedLog,
}

/// The reason why a standby ended without owning the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// The server stops.
    Stopped,
    /// The log is damaged. The message says where.
    Refused(String),
}

/// The reason why a server can't follow a log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StandbyError {
    /// The home, or a setting, can't be used.
    #[error(transparent)]
    Home(#[from] Failure),
    /// The log can't be used until an operator has changed something. The message says what.
    #[error("{0}")]
    Refused(String),
}

impl Standby {
    /// Creates a standby of the log at this home. The token `stop` ends all waits.
    pub(crate) fn new(
        home: LogHome,
        config: &ClusterConfig,
        history: HistoryLimits,
        stop: CancellationToken,
        clock: OwnershipClock,
    ) -> Result<Self, StandbyError> {
        // An entry has whole milliseconds.
        let ownership = Duration::from_millis(millis(config.ownership));
        let timings = OwnershipTimings::new(ownership);
        let timings = timings.map_err(|error| Failure::Misconfigured(error.to_string()))?;
        let log = ClusterLog::new(home.clone(), timings, config, clock, stop.clone());
        let status = Arc::clone(&log.status);
        let shared = Arc::new(AsyncMutex::new(log));
        Ok(Self {
            status,
            log: Arc::clone(&shared).try_lock_owned().ok(),
            shared,
            replica: Replica::empty(history),
            returned: None,
            home,
            history,
            times: FileTimes::default(),
            note: None,
            has_copy: false,
            copy_at: None,
            failed: None,
            stop,
        })
    }

    /// Reads the log once, before the server begins to follow. If the home can't be reached, the server
    /// waits for it later.
    ///
    /// # Errors
    ///
    /// The home, or the content of the log, definitely permits no server of this configuration.
    pub(crate) fn look_first(&mut self) -> Result<(), StandbyError> {
        match &mut self.log {
            Some(log) => self.home.block_on(look_first(log)),
            None => Ok(()),
        }
    }

    /// Returns the state of this server, which changes while it follows and while it is active.
    pub(crate) fn status(&self) -> Arc<ClusterStatus> {
        Arc::clone(&self.status)
    }

    /// Follows the log until this server owns it and has loaded its content. After an ownership, the
    /// log must have been dropped.
    ///
    /// # Errors
    ///
    /// The server stops, or the content of the log is damaged.
    pub(crate) fn run_until_owner(&mut self) -> Result<TakenOver, Ended> {
        let (home, stop) = (self.home.clone(), self.stop.clone());
        let mut taken_over = home.block_on(async {
            // A home that does not answer must not delay the end. A take-over that is given up is as
            // one whose answer is lost.
            tokio::select! {
                biased;
                () = stop.cancelled() => Err(Ended::Stopped),
                taken_over = self.follow() => taken_over,
            }
        })?;
        let started = taken_over.log.start_writer();
        started.map_err(|error| Ended::Refused(format!("a thread: {error}")))?;
        Ok(taken_over)
    }

    pub(super) async fn follow(&mut self) -> Result<TakenOver, Ended> {
        self.begin().await?;
        loop {
            if self.stop.is_cancelled() {
                return Err(Ended::Stopped);
            }
            match self.step().await? {
                Some(taken_over) => return Ok(taken_over),
                None => self.log()?.wait().await,
            }
        }
    }

    /// Begins to follow, also after an ownership.
    pub(super) async fn begin(&mut self) -> Result<(), Ended> {
        if self.log.is_none() {
            self.log = Arc::clone(&self.shared).try_lock_owned().ok();
        }
        self.log()?;
        if let Some(returned) = self.returned.take() {
            self.replica = returned.await.unwrap_or_default();
        }
        // The store may have ended without vacating the log.
        while {
            let log = self.log()?;
            log.machine.role(log.now()) == OwnershipRole::Resigned
        } {
            // The entry that leaves the log needs a slot, too.
            self.cover().await;
            let log = self.log()?;
            log.leave().await;
            log.machine.stand_by(log.now());
            if log.stop.is_cancelled() {
                return Err(Ended::Stopped);
            }
        }
        Ok(())
    }

    fn log(&mut self) -> Result<&mut ClusterLog, Ended> {
        let busy = || Ended::Refused("the store of the last ownership is still in use".into());
        self.log.as_deref_mut().ok_or_else(busy)
    }

    /// Does what is due now. Returns the ownership, if one begins.
    pub(super) async fn step(&mut self) -> Result<Option<TakenOver>, Ended> {
        let log = self.log()?;
        log.machine.handle_timeout(log.now());
        while let Some(output) = self.log()?.machine.poll_output() {
            match output {
                OwnershipOutput::Look => {
                    if self.log()?.look().await {
                        self.copy().await;
                        self.forget_failure().await;
                    }
                }
                OwnershipOutput::Append(header) => self.take_over(header).await?,
                OwnershipOutput::Took { generation } => {
                    return self.load(generation).await.map(Some);
                }
                OwnershipOutput::Deposed => self.log()?.deposed(),
                OwnershipOutput::Refuses(refusal) => self.log()?.refuse(&refusal),
                // These concern an owner.
                OwnershipOutput::Lapsed | OwnershipOutput::Resumed => {}
            }
            self.log()?.publish();
        }
        Ok(None)
    }

    /// Brings the replica to the newest entry. Without it this server takes nothing over.
    async fn copy(&mut self) {
        let Some(log) = &mut self.log else {
            return;
        };
        let (now, replica) = (log.now(), &mut self.replica);
        // The slots may be those of another log than the known one.
        let refuses = log.machine.refusal().is_some();
        if refuses || log.closed().is_some() || self.copy_at.is_some_and(|(at, _)| now < at) {
            return;
        }
        let copied = match log.ring.tail() {
            Some(_) => log.ring.bring(replica, self.history).await,
            None => match leftover(&log.ring).await {
                Ok(None) => Ok(()),
                Ok(Some(text)) => Err(BaseError::Damaged(text)),
                Err(failure) => Err(failure.into()),
            },
        };
        self.has_copy = copied.is_ok();
        match copied {
            Ok(()) => {
                if self.copy_at.take().is_some() {
                    info!("the log can be copied again; following");
                    log.bar(None);
                }
                let revision = log.ring.tail().map_or(0, |it| it.revision);
                let behind = revision.saturating_sub(replica.revision());
                self.status.change(|view| {
                    view.copy_failure = None;
                    view.behind = Some(behind);
                });
                self.cover().await;
            }
            Err(BaseError::Home(failure)) => drop(log.note_failure(Some(&failure))),
            // The log has moved on meanwhile: it is read again at the next look.
            Err(BaseError::Missing(_)) => {}
            Err(BaseError::Damaged(detail)) => {
                let poll = log.machine.timings().poll();
                let pause = self.copy_at.map_or(poll, |(_, pause)| pause);
                self.copy_at = Some((now + pause, MOST_PAUSE.min(2 * pause)));
                let text = format!(
                    "this server can't copy the log, so it takes nothing over: the log in {} is \
                     damaged ({detail}). An active server repairs it with its next snapshot, within \
                     an hour, or after a hand-over to another one that has a copy. Else restore a \
                     backup into another prefix, schema or cluster name",
                    log.home.place
                );
                log.warn(&text);
                log.bar(Some(text.clone()));
                self.status.change(|view| {
                    view.copy_failure = Some(text);
                    view.behind = None;
                });
            }
        }
    }

    /// Writes a base if a take-over would overwrite an entry that no base has: argument 5 of the ring.
    async fn cover(&mut self) {
        let Some(log) = &mut self.log else {
            return;
        };
        if !log.ring.rules().needs_base(log.new_base) {
            return;
        }
        log.bar(Some("a take-over needs a snapshot first".into()));
        match log.ring.files.write_state(&mut self.replica).await {
            Ok((base, _)) => {
                log.new_base = Some(base);
                log.bar(None);
            }
            Err(error) => {
                let failure = match error {
                    BaseError::Home(failure) => failure,
                    other => Failure::NotApplied(other.to_string()),
                };
                log.status.metrics.base_failed();
                let _ = log.note_failure(Some(&failure));
            }
        }
    }

    /// Sends an attempt of the append that takes the log over.
    async fn take_over(&mut self, header: Tail) -> Result<(), Ended> {
        let has_copy = self.has_copy;
        let log = self.log()?;
        if !has_copy || log.reports.barred.is_some() {
            // The machine had begun this before the copy failed. Nothing was sent.
            let _ = log
                .machine
                .handle_appended(log.clock.now(), AppendOutcome::Refused);
            return Ok(());
        }
        let before = log
            .ring
            .tail()
            .filter(|it| it.tail.generation != header.generation);
        let note = before.and_then(|it| Entry::decode(&it.entry).ok()?.note);
        let text = format!("taking over as generation {}", header.generation);
        let silent = before.filter(|it| it.tail.state == TailState::Owned);
        let silent = silent.map(|value| {
            let own = log.machine.timings().ownership();
            // Another process had the name of this server, usually before a restart.
            let owner = match value.about.server == log.config.server {
                true => "this server's own last term",
                false => &value.about.server,
            };
            let time = seconds(own.max(value.tail.ownership));
            format!("{owner} was not heard of for {time}, {text}")
        });
        match silent {
            Some(text) => log.warn(&text),
            None if log.is_news(&text) => info!("{text}"),
            None => {}
        }
        let draft = log.draft(None);
        match log.attempt(header, draft).await {
            Attempted::Applied => {
                self.note = note;
                self.failed = None;
                self.status.change(|view| view.take_over_failure = None);
                self.status.metrics.took_over();
            }
            Attempted::Lost => info!("another server was first to take over"),
            // It is repeated until its outcome is known.
            Attempted::Repeated => {
                let failure = self.status.view().error;
                self.note_failure(header, failure.as_deref().unwrap_or("no answer"));
            }
            Attempted::Undone(failure) => self.note_failure(header, &failure.to_string()),
        }
        Ok(())
    }

    /// Notes a take-over that has failed so far: this server is not ready until that is over.
    fn note_failure(&mut self, header: Tail, failure: &str) {
        let text = format!("the last take-over of this server failed: {failure}");
        self.failed = Some(header.sequence);
        self.status
            .change(|view| view.take_over_failure = Some(text));
    }

    /// Forgets the failure of a take-over after a newer entry, which shows that the home takes writes again,
    /// unless the home still refuses this server, as at a start.
    async fn forget_failure(&mut self) {
        let Some(log) = &self.log else {
            return;
        };
        let newest = log.ring.tail().map_or(0, |it| it.tail.sequence);
        if self.failed.is_none_or(|failed| newest < failed) {
            return;
        }
        if let Err(Failure::Misconfigured(_)) = log.ring.files.try_write().await {
            return;
        }
        self.failed = None;
        self.status.change(|view| view.take_over_failure = None);
    }

    /// Brings the replica to the entry of the take-over, and hands the log to a store.
    async fn load(&mut self, generation: u64) -> Result<TakenOver, Ended> {
        let Some(mut log) = self.log.take() else {
            return Err(Ended::Stopped);
        };
        let mut replica = std::mem::take(&mut self.replica);
        let began = log.now();
        let loaded = match log.ring.bring(&mut replica, self.history).await {
            Ok(()) => replica.loaded().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(detail) => {
                let text = format!("the log in {} can't be loaded: {detail}", log.home.place);
                error!("{text}");
                log.leave().await;
                self.log = Some(log);
                self.replica = Replica::empty(self.history);
                return Err(Ended::Refused(text));
            }
        };
        let now = log.now();
        log.machine.handle_loaded(now, generation);
        log.drain();
        info!(
            "active as generation {generation}: {} leases, loaded in {:.1?}",
            loaded.leases.len(),
            log.now().since(began)
        );
        self.status.change(|view| view.behind = Some(0));
        let files = log.ring.files.clone();
        let (bases, writer, returned) = BaseWriter::create(files, replica, self.times.clone());
        self.returned = Some(returned);
        Ok(TakenOver {
            note: self.note.take(),
            loaded,
            log: OwnedLog::new(log, bases, writer),
        })
    }
}

/// Reads the log for the first time, for a server that starts. Before an operator has changed something,
/// a server that is refused here could only wait.
async fn look_first(log: &mut ClusterLog) -> Result<(), StandbyError> {
    // The machine asks for a read when it is created.
    if log.machine.poll_output() != Some(OwnershipOutput::Look) {
        return Ok(());
    }
    let until = log.now() + FIRST_LOOK;
    let (sent, seen) = loop {
        let sent = log.now();
        let seen = log.ring.look().await;
        let is_definite = matches!(seen, Ok(_) | Err(Failure::Misconfigured(_)));
        if is_definite || log.now() >= until || log.stop.is_cancelled() {
            break (sent, seen);
        }
        // A connection may take longer than one attempt.
        log.wait_a_poll().await;
    };
    match &seen {
        Err(failure @ Failure::Misconfigured(_)) => return Err(failure.clone().into()),
        Err(_) => {}
        Ok(observation) => {
            if observation.found == Found::Empty
                && let Ok(Some(leftover)) = leftover(&log.ring).await
            {
                return Err(StandbyError::Refused(leftover));
            }
            match log.closed() {
                Some(reason @ Closed::Guarded) => {
                    return Err(Failure::Misconfigured(reason.to_string()).into());
                }
                Some(reason @ Closed::Retired) => {
                    return Err(StandbyError::Refused(reason.to_string()));
                }
                // It may end at any time.
                Some(Closed::Restoring) | None => {}
            }
            // A server without the right to write could never take over.
            if let Err(failure @ Failure::Misconfigured(_)) = log.ring.files.try_write().await {
                return Err(failure.into());
            }
        }
    }
    log.saw(sent, seen);
    match log.machine.refusal() {
        Some(refusal) => Err(StandbyError::Refused(log.remedy(&refusal))),
        None => Ok(()),
    }
}

/// Returns why a log without entries is not a new one, if it has files.
pub(super) async fn leftover(ring: &RingLog) -> Result<Option<String>, Failure> {
    let files = ring.files.list().await?;
    let file = files.iter().find(|file| file.covered > 0);
    Ok(file.map(|file| {
        format!(
            "the log has no entry, but the file {}: its slots were deleted, or another program writes \
             there. A new log would grant epochs a second time: restore a backup into an empty prefix, \
             schema or cluster name",
            ring.files.key(*file)
        )
    }))
}
