//! The log of a server that owns it.

use std::io;
use std::thread;
use std::time::Duration;

use tenure_core::ownership::{OwnershipRole, Tail};
use tenure_core::ring::Pressure;
use tokio::sync::OwnedMutexGuard;

use super::bases::{BaseWriter, WriterTask};
use super::log::ClusterLog;
use crate::engine::{AppendError, Batch, Log};
use crate::model::ChangeSet;

/// The used share of the home's space from which changes are refused. Heartbeats go on, so that the
/// server stays active and leaders renew; a home without any space refuses heartbeats, too.
const FULL_FROM: f64 = 0.9;

/// The size of the entries that no base has from which a segment is written, in bytes.
const SEGMENT_BYTES: usize = 4 << 20;

/// The log, while this server owns it. Dropping it gives the log back to the standby.
#[derive(Debug)]
pub(crate) struct OwnedLog {
    /// The task of the writer, until it is started.
    pub(super) writer: Option<WriterTask>,
    pub(super) log: OwnedMutexGuard<ClusterLog>,
    bases: BaseWriter,
    /// The size of the entries that no base has, in bytes.
    uncovered_bytes: usize,
    /// The reason why the last base was not written.
    base_failure: Option<String>,
}

impl OwnedLog {
    pub(super) fn new(
        log: OwnedMutexGuard<ClusterLog>,
        bases: BaseWriter,
        writer: WriterTask,
    ) -> Self {
        Self {
            writer: Some(writer),
            log,
            bases,
            uncovered_bytes: 0,
            base_failure: None,
        }
    }

    /// Starts the writer on a thread of its own.
    pub(super) fn start_writer(&mut self) -> io::Result<()> {
        let (home, writer) = (self.log.home.clone(), self.writer.take());
        let thread = thread::Builder::new().name("tenure-snapshot".into());
        let write = move || writer.map_or((), |writer| home.block_on(writer.start()));
        thread.spawn(write).map(drop)
    }

    /// Appends an entry with these changes, or without changes.
    async fn append_entry(&mut self, batch: Option<&Batch>) -> Result<(), AppendError> {
        self.wait_for_room().await?;
        let log = &mut *self.log;
        match log.machine.append(log.now()) {
            Some(header) => self.append_with(header, batch).await,
            None => Err(log.not_owner()),
        }
    }

    /// Waits until a base can be named, if the log is long. The slots that are left are for heartbeats, which
    /// are few, and for take-overs.
    async fn wait_for_room(&mut self) -> Result<(), AppendError> {
        let is_long = |log: &ClusterLog| {
            log.ring.rules().pressure() >= Pressure::RefuseChanges && log.new_base.is_none()
        };
        if !is_long(&self.log) {
            return Ok(());
        }
        let within = self.log.machine.timings().attempt();
        self.shorten(within).await;
        if !is_long(&self.log) {
            return Ok(());
        }
        let failure = self.base_failure.as_deref();
        Err(AppendError::DiskFull(format!(
            "the log can't be shortened: {}",
            failure.unwrap_or("no snapshot is complete yet")
        )))
    }

    /// Appends the entry with this header, which the machine returned.
    async fn append_with(
        &mut self,
        header: Tail,
        batch: Option<&Batch>,
    ) -> Result<(), AppendError> {
        let named = self.log.new_base;
        self.log.append(header, batch).await?;
        let mut added = 0;
        if let Some(value) = self.log.ring.tail() {
            self.bases.committed(value);
            added = value.entry.len();
        }
        let is_named = self.log.ring.rules().base() == named;
        if let Some(base) = named.filter(|_| is_named) {
            self.bases.named(base);
            self.uncovered_bytes = 0;
        }
        self.uncovered_bytes += added;
        Ok(())
    }

    /// Begins a base if it is time for that, and notes one that was written, waiting for it at most this
    /// long.
    async fn shorten(&mut self, within: Duration) {
        let log = &mut *self.log;
        let rules = log.ring.rules();
        let is_due =
            rules.pressure() >= Pressure::WriteSegment || self.uncovered_bytes >= SEGMENT_BYTES;
        if is_due && log.new_base.is_none() && rules.begin_base().is_some() {
            self.bases.begin();
        }
        match self.bases.written(within, &log.stop).await {
            Some(Ok(base)) => {
                log.new_base = Some(base);
                self.base_failure = None;
            }
            Some(Err(failure)) => {
                log.status.metrics.base_failed();
                log.warn(&format!("the log can't be shortened: {failure}"));
                self.base_failure = Some(failure);
            }
            None => {}
        }
    }

    /// As [`Log::append`].
    pub(super) async fn append_batch(&mut self, batch: &Batch) -> Result<(), AppendError> {
        let log = &self.log;
        let facts = log.home.files.facts();
        if let Some(used) = facts.used_space().filter(|used| *used >= FULL_FROM) {
            return Err(AppendError::DiskFull(format!(
                "{} has used {:.0} % of its space, and from {:.0} % on only renewals are accepted: compact \
                 and defragment it, or raise its quota",
                log.home.kind,
                used * 100.0,
                FULL_FROM * 100.0
            )));
        }
        let revision = log.ring.tail().map(|it| it.revision);
        if revision != Some(batch.previous) {
            return Err(AppendError::NotOwner(format!(
                "the log is at revision {}, and the changes follow revision {}",
                revision.unwrap_or(0),
                batch.previous
            )));
        }
        self.append_entry(Some(batch)).await
    }

    /// As [`Log::upkeep`].
    pub(super) async fn keep_up(&mut self) -> Result<(), AppendError> {
        let within = match self.log.ring.rules().pressure() {
            Pressure::Resign => self.log.machine.timings().attempt(),
            _ => Duration::ZERO,
        };
        self.shorten(within).await;
        let log = &mut *self.log;
        if log.ring.rules().pressure() == Pressure::Resign && log.new_base.is_none() {
            // The last slots are for take-overs: argument 5 of the ring. The machine is not asked before:
            // the heartbeat that it would begin is not sent.
            log.leave().await;
            return Err(AppendError::NotOwner("the log has no free slot".into()));
        }
        log.machine.handle_timeout(log.now());
        let asked = log.drain();
        match (asked, log.machine.role(log.now())) {
            (Some(header), _) => match self.append_with(header, None).await {
                Err(error) if error.is_transient() => {
                    let text = format!("an append was refused; it will be tried again: {error}");
                    self.log.warn(&text);
                }
                beaten => beaten?,
            },
            (None, OwnershipRole::Active | OwnershipRole::Lapsed | OwnershipRole::Resigned) => {}
            (None, _) => return Err(log.not_owner()),
        }
        Ok(())
    }

    /// As [`Log::close`].
    pub(super) async fn leave(&mut self) {
        self.log.leave().await;
    }
}

impl Log for OwnedLog {
    fn append(&mut self, batch: &Batch, _: &[ChangeSet]) -> Result<(), AppendError> {
        self.log.home.clone().block_on(self.append_batch(batch))
    }

    fn confirm(&mut self) -> Result<(), AppendError> {
        self.log.home.clone().block_on(self.append_entry(None))
    }

    fn upkeep(&mut self) -> Result<(), AppendError> {
        self.log.home.clone().block_on(self.keep_up())
    }

    fn upkeep_within(&self) -> Option<Duration> {
        let due = self.log.machine.next_timeout()?;
        Some(due.since(self.log.now()))
    }

    fn close(&mut self) -> Result<(), AppendError> {
        self.log.home.clone().block_on(self.leave());
        Ok(())
    }
}

impl Drop for OwnedLog {
    fn drop(&mut self) {
        // The store ends, so nothing may be answered from its memory. If the log is not vacated yet, the
        // standby does that.
        self.log.machine.resign();
        self.log.publish();
    }
}
