//! Watching the leader of an election.
//!
//! [`Candidate::observe`](crate::Candidate::observe) watches the election of a candidate.
//! [`Observer::from_config`] watches an election of any strategy from another process, without a
//! candidate:
//!
//! ```no_run
//! use tenure::Config;
//! use tenure::observe::{Observed, Observer};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut observer = Observer::from_config(&Config::load_for_observer("tenure.toml")?)?;
//! loop {
//!     match observer.next().await {
//!         Observed::Leader { candidate, epoch, .. } => println!("{candidate} leads under {epoch}"),
//!         Observed::NoLeader => println!("no leader"),
//!         Observed::Unknown(reason) => println!("unknown: {reason}"),
//!         _ => {}
//!     }
//! }
//! # }
//! ```

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tenure_core::Epoch;
use tokio::sync::{mpsc, watch};

use crate::base::clock::Clock;
pub use crate::base::observed::Observed;
use crate::config::{Config, Strategy};
use crate::http::client::HttpClients;
use crate::http::store::LeaseView;
use crate::service::{self, SharedBackend, StartError};

/// The longest time that one request may wait in the store for a change.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// The waiting time after a failed request, and between requests to a service that can't wait for a
/// change.
const RETRY: Duration = Duration::from_secs(1);

/// A stream of states of an election: first the current state, then each change. The stream never
/// ends by itself. A slow reader may miss intermediate states, but always reaches the current one.
///
/// A state is a hint and may be outdated: fence writes by their [epoch](crate::fence).
#[derive(Debug)]
pub struct Observer {
    changes: mpsc::Receiver<Observed>,
}

/// The source from which observers of a candidate's election read its state.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) lease: Option<SharedBackend>,
    pub(crate) peers: Option<watch::Receiver<Observed>>,
}

impl Observer {
    /// Watches the election of this configuration from now on, with any strategy. The configuration
    /// may be that of any candidate; a candidate id, a node id, a key and a state directory are
    /// not used. [`Config::load_for_observer`] reads a file that lacks them.
    ///
    /// The observer watches leases in the lease service. Among peers, it asks all members for their
    /// status once a second. With `both` it watches both.
    ///
    /// # Errors
    ///
    /// [`StartError`] if the configuration allows no election, or the HTTP client can't be set up.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, because a task watches the election until the observer is
    /// dropped.
    pub fn from_config(config: &Config) -> Result<Self, StartError> {
        let clients = HttpClients::default();
        let source = Source {
            lease: match config.strategy {
                // The store is in the memory of the candidate's process.
                Strategy::Static => None,
                _ => service::open(config, &clients, &Clock::System)?,
            },
            #[cfg(feature = "peers")]
            peers: {
                let bully = config.members();
                let watch = |bully| crate::peers::client::watch_members(config, bully);
                bully.map(watch).transpose()?
            },
            #[cfg(not(feature = "peers"))]
            peers: None,
        };
        Ok(Self::new(&source, config))
    }

    pub(crate) fn new(source: &Source, config: &Config) -> Self {
        let of_lease = |backend: SharedBackend| {
            // A limited wait, so that a connection that fails silently is detected soon afterwards.
            let wait = config.timings.lease_duration().min(MAX_WAIT);
            Self::spawn(|sender| watch_lease(backend, wait, sender))
        };
        let of_peers = |observed| Self::spawn(|sender| watch_peers(observed, sender));
        match (source.lease.clone(), source.peers.clone()) {
            (Some(lease), Some(peers)) => {
                let (lease, peers) = (of_lease(lease), of_peers(peers));
                let is_newest_leader = config.has_fallback();
                Self::spawn(move |sender| watch_both(lease, peers, is_newest_leader, sender))
            }
            (Some(lease), None) => of_lease(lease),
            (None, Some(peers)) => of_peers(peers),
            (None, None) => {
                let why = "strategy \"static\" elects within its own process only";
                of_peers(watch::channel(Observed::Unknown(why.into())).1)
            }
        }
    }

    /// Starts a task that watches until the observer is dropped.
    fn spawn<F>(watch: impl FnOnce(mpsc::Sender<Observed>) -> F) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        // A slow reader blocks the watching task, and then gets the newest state.
        let (sender, changes) = mpsc::channel(1);
        let watching = watch(sender.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = watching => sender.closed().await,
                () = sender.closed() => {}
            }
        });
        Self { changes }
    }

    /// Waits for the next state.
    pub async fn next(&mut self) -> Observed {
        match self.changes.recv().await {
            Some(observed) => observed,
            // The watching task ends only when its runtime ends.
            None => std::future::pending().await,
        }
    }
}

impl Stream for Observer {
    type Item = Observed;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Observed>> {
        self.changes.poll_recv(context)
    }
}

async fn watch_peers(mut observed: watch::Receiver<Observed>, changes: mpsc::Sender<Observed>) {
    loop {
        let state = observed.borrow_and_update().clone();
        if changes.send(state).await.is_err() || observed.changed().await.is_err() {
            return;
        }
    }
}

/// Watches an election by both. The holder of the lease is the leader. Without a holder, the leader
/// may be a peer that has no lease. With a fallback the leader with the greater epoch is the newest
/// one, and may have no lease.
async fn watch_both(
    mut lease: Observer,
    mut peers: Observer,
    is_newest_leader: bool,
    changes: mpsc::Sender<Observed>,
) {
    let unknown = || Observed::Unknown("not asked yet".into());
    let (mut by_lease, mut among_peers) = (unknown(), unknown());
    let mut last = None;
    loop {
        tokio::select! {
            observed = lease.next() => by_lease = observed,
            observed = peers.next() => among_peers = observed,
        }
        let observed = match (&by_lease, &among_peers) {
            (Observed::Leader { epoch, .. }, Observed::Leader { epoch: newer, .. })
                if is_newest_leader && newer > epoch =>
            {
                &among_peers
            }
            (Observed::Leader { .. }, _) => &by_lease,
            (_, Observed::Leader { .. }) => &among_peers,
            _ => &by_lease,
        };
        if last.as_ref() != Some(observed) {
            last = Some(observed.clone());
            if changes.send(observed.clone()).await.is_err() {
                return;
            }
        }
    }
}

async fn watch_lease(backend: SharedBackend, wait: Duration, changes: mpsc::Sender<Observed>) {
    let mut last = None;
    let mut revision = 0;
    loop {
        let answer = backend.lease_after(revision, wait).await;
        revision = match &answer {
            Ok(Some(view)) => view.revision,
            // Without a lease there is no revision to wait for. After an error, the next answer may
            // come from another store with other revisions.
            Ok(None) | Err(_) => 0,
        };
        let observed = match answer {
            Ok(Some(view)) => state_of(&view),
            Ok(None) => Observed::NoLeader,
            Err(error) => Observed::Unknown(error.to_string()),
        };
        if last.as_ref().is_none_or(|last| observed.is_change(last)) {
            if changes.send(observed.clone()).await.is_err() {
                return;
            }
            last = Some(observed);
        }
        if revision == 0 {
            tokio::time::sleep(RETRY).await;
        }
    }
}

fn state_of(view: &LeaseView) -> Observed {
    let holder = view.holder.as_ref().and_then(|holder| holder.parse().ok());
    match (holder, view.epoch.and_then(Epoch::new)) {
        (Some(candidate), Some(epoch)) => Observed::Leader {
            candidate,
            epoch,
            metadata: view.metadata.clone().unwrap_or_default(),
        },
        _ => Observed::NoLeader,
    }
}
