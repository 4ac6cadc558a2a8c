//! A server of a cluster: a thread follows the log that the servers share, and serves a new store
//! whenever this server becomes active.
//!
//! ```text
//! follow --(the log is ours)--> load --> serve a store --(deposed, or resigned)--> follow
//! ```
//!
//! Each ownership of the log has a store of its own, made from what was loaded, so nothing of one
//! ownership can reach the next one. While the server is a standby it serves a store that refuses
//! every request and names the active server.

mod recover;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::Store;
use crate::config::{ClusterConfig, Limits};
use crate::engine::{self, Ended, Engine, OpenError, Standby};
use crate::model::StoreId;
use crate::panics;
use crate::random::OsRandom;
use crate::store::{Lasting, Member, Order, ServedStore, StoreSetup};

/// The time between two looks at a hand-over. It is short beside the time of an append.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(2);

/// A server's part in a cluster. Dropping it gives up the log.
#[derive(Debug)]
pub struct ClusterMember {
    stores: watch::Receiver<Store>,
    orders: Sender<Order>,
    stop: CancellationToken,
    ownership: Duration,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ClusterMember {
    /// Checks the settings of the home and the files that they name, as [`start`](Self::start) does,
    /// without a connection.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: a setting or a file can't be used.
    pub fn check(config: &ClusterConfig) -> Result<(), OpenError> {
        engine::check_access(config)
    }

    /// Checks that a bucket keeps the rules on which the log depends, as [`start`](Self::start) does:
    /// with objects of its own, which it deletes. Servers may run meanwhile. Other homes are not
    /// asked. Returns a warning if the objects can't be deleted.
    ///
    /// The call blocks.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: the bucket does not keep a rule, refuses, or does not answer.
    pub fn probe(config: &ClusterConfig) -> Result<Option<String>, OpenError> {
        engine::probe_home(config)
    }

    /// Begins to follow the log. If the service of the log can't be reached, the server tries again
    /// until it can. The call blocks while it reads the log for the first time, for two seconds and
    /// an attempt at most.
    ///
    /// # Errors
    ///
    /// [`OpenError`]: a setting can't be used, the service definitely refuses, or the log can't be
    /// used before an operator has changed something. A server that runs already waits for that
    /// change instead, and shows the reason.
    pub fn start(config: &ClusterConfig, limits: Limits) -> Result<Self, OpenError> {
        limits.check()?;
        crate::clock::check()?;
        let stop = CancellationToken::new();
        // The connections block on runtimes of their own, which a caller with a runtime may not.
        let standby = thread::scope(|scope| {
            let follow = || engine::follow(config, limits.of_history(), stop.clone());
            let followed = scope.spawn(follow).join();
            followed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Self::over(standby, config, limits, stop).map_err(OpenError::io("a thread"))
    }

    fn over(
        standby: Standby,
        config: &ClusterConfig,
        limits: Limits,
        stop: CancellationToken,
    ) -> io::Result<Self> {
        let (orders, received) = channel();
        let member = Member {
            config: Arc::new(config.clone()),
            status: standby.status(),
            start: StoreId::random(&mut OsRandom),
            orders: orders.clone(),
        };
        let setup = StoreSetup {
            data_dir: None,
            limits,
            member: Some(member),
            lasting: Lasting::default(),
        };
        let (announced, stores) = watch::channel(Store::standby(setup.clone())?);
        let role = RoleThread {
            ownership: config.ownership,
            standby,
            setup,
            stores: announced,
            orders: received,
        };
        let thread = thread::Builder::new().name("tenure-cluster".into());
        let served = stores.clone();
        let thread = thread.spawn(move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| role.run())) {
                // Without this thread the server would neither take over nor give way.
                let error = panics::text(&*panic);
                error!(error, "the thread of the cluster panicked; the server ends");
                served.borrow().fail();
            }
        });
        Ok(Self {
            stores,
            orders,
            stop,
            ownership: config.ownership,
            thread: Mutex::new(Some(thread?)),
        })
    }

    /// Returns the store that is served at the moment.
    pub(crate) fn served(&self) -> ServedStore {
        ServedStore::following(self.stores.clone())
    }

    /// Gives up the log, after everything that was accepted is committed, and ends. The call
    /// blocks.
    pub(crate) fn stop(&self) {
        let _ = self.orders.send(Order::Stop);
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(thread) = thread.take() {
            // An owner hands the log over, unless the service does not answer for so long that
            // another server takes over anyway.
            let until = Instant::now() + self.ownership;
            while !self.stores.borrow().has_ended()
                && !thread.is_finished()
                && Instant::now() < until
            {
                thread::sleep(STOP_CHECK_INTERVAL);
            }
            self.stop.cancel();
            let _ = thread.join();
        }
        self.stores.borrow().stop();
    }
}

impl Drop for ClusterMember {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread that changes the role of this server.
struct RoleThread {
    ownership: Duration,
    standby: Standby,
    setup: StoreSetup,
    stores: watch::Sender<Store>,
    orders: Receiver<Order>,
}

impl RoleThread {
    fn run(mut self) {
        loop {
            let taken_over = match self.standby.run_until_owner() {
                Ok(taken_over) => taken_over,
                Err(Ended::Stopped) => return,
                // The reason was logged, and is shown to operators. They may mend the log.
                Err(Ended::Refused(_)) => {
                    if self.pause() {
                        return;
                    }
                    continue;
                }
            };
            if taken_over.note.is_some() {
                let restored = self.setup.lasting.restored.lock();
                *restored.unwrap_or_else(PoisonError::into_inner) = taken_over.note;
            }
            let engine = Engine::over(Box::new(taken_over.log), taken_over.loaded.revision);
            let served = Store::start(taken_over.loaded, Some(engine), self.setup.clone());
            let standby = Store::standby(self.setup.clone());
            let (store, standby) = match served.and_then(|store| Ok((store, standby?))) {
                Ok(stores) => stores,
                Err(error) => return fail(&self.stores, &error),
            };
            // An order that came twice was for the ownership before. Orders for this one come only
            // after its store is announced.
            self.standby.status().leave_to(None);
            let is_over = self.orders.try_iter().any(|it| matches!(it, Order::Stop));
            // The idle connections of the store before end, so that the end of this one ends all.
            self.stores.send_replace(store.clone()).stop();
            let ends = is_over || self.serve(&store);
            // Requests that wait are answered, what was accepted is committed, and the engine gives
            // the log up, unless another server owns it.
            store.stop();
            store.close();
            self.stores.send_replace(standby);
            if ends {
                return;
            }
        }
    }

    /// Waits before the log is read again. Returns whether the server ends.
    fn pause(&self) -> bool {
        match self.orders.recv_timeout(self.ownership) {
            Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => true,
            Ok(Order::Resign(_)) | Err(RecvTimeoutError::Timeout) => false,
        }
    }

    /// Waits until this server must give up the log, or has lost it. Returns whether the server
    /// ends.
    fn serve(&mut self, store: &Store) -> bool {
        // A third of the time after which another server takes over.
        let patience = self.ownership / 3;
        let mut lapsed_at: Option<Instant> = None;
        loop {
            match self.orders.recv_timeout(self.ownership / 6) {
                Ok(Order::Resign(to)) => {
                    self.standby.status().leave_to(to);
                    return false;
                }
                Ok(Order::Stop) | Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => {}
            }
            if store.has_ended() {
                return false;
            }
            let is_serving = store.is_serving();
            let since = *lapsed_at.get_or_insert_with(Instant::now);
            if is_serving {
                lapsed_at = None;
            } else if since.elapsed() >= patience {
                store.interrupt();
            }
        }
    }
}

/// Ends the server: it has no thread for a store.
fn fail(stores: &watch::Sender<Store>, error: &io::Error) {
    error!(%error, "can't start a thread; the server ends");
    stores.borrow().fail();
}

#[cfg(test)]
mod tests;
