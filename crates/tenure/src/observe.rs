//! Watching who leads an election.
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

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::{mpsc, watch};

use crate::backend::{self, SharedBackend};
use crate::candidate_runtime::StartError;
use crate::clock::Clock;
use crate::config::{Config, Strategy};
use crate::http::HttpClients;
use crate::store::LeaseView;

/// Longest time that one request may wait in the store for a change.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How long to wait after a failed request, and between requests to a service that can't make them
/// wait for a change.
const RETRY: Duration = Duration::from_secs(1);

/// The state of an election, as far as the observer knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// This candidate leads.
    Leader {
        /// The leader.
        candidate: CandidateId,
        /// Its epoch.
        epoch: Epoch,
        /// The leader's metadata.
        metadata: BTreeMap<String, String>,
    },
    /// There is no leader. Among peers: none that the answering members know.
    NoLeader,
    /// The state is unknown for this reason. The last known state may be outdated.
    Unknown(String),
}

/// A stream of states of an election: first the current state, then each change. It never ends by
/// itself. A slow reader skips intermediate states, and always gets to the current one.
///
/// A state is a hint and may be late: fence writes by their [epoch](crate::fence).
#[derive(Debug)]
pub struct Observer {
    changes: mpsc::Receiver<Observed>,
}

/// Where observers of a candidate's election look.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    lease: Option<SharedBackend>,
    peers: Option<watch::Receiver<Observed>>,
}

impl Source {
    pub(crate) const fn of_lease(backend: SharedBackend) -> Self {
        Self {
            lease: Some(backend),
            peers: None,
        }
    }

    #[cfg(feature = "peers")]
    pub(crate) const fn of_peers(observed: watch::Receiver<Observed>) -> Self {
        Self {
            lease: None,
            peers: Some(observed),
        }
    }

    #[cfg(feature = "peers")]
    pub(crate) const fn of_both(
        backend: SharedBackend,
        observed: watch::Receiver<Observed>,
    ) -> Self {
        Self {
            lease: Some(backend),
            peers: Some(observed),
        }
    }
}

impl Observer {
    /// Watches the election of this configuration, whatever its strategy, from now on. The
    /// configuration may be that of any candidate; a candidate id, a node number, a key and a state
    /// folder are not used. [`Config::load_for_observer`] reads a file that lacks them.
    ///
    /// Leases are watched in the lease service. Among peers this asks all members once a second for
    /// their status. `both` watches both.
    ///
    /// # Errors
    ///
    /// [`StartError`] if there can't be such an election, or the HTTP client can't be set up.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime: a task of it watches until this is dropped.
    pub fn from_config(config: &Config) -> Result<Self, StartError> {
        let clients = HttpClients::default();
        let source = Source {
            lease: match config.strategy {
                // Its store is in the memory of the candidate's process.
                Strategy::Static => None,
                _ => backend::open(config, &clients, &Clock::System)?,
            },
            #[cfg(feature = "peers")]
            peers: match config.strategy.bully() {
                Some(bully) => Some(crate::peers::watch_members(config, bully)?),
                None => None,
            },
            #[cfg(not(feature = "peers"))]
            peers: None,
        };
        let lease_duration = config.timings.lease_duration();
        Ok(Self::new(&source, config.election.clone(), lease_duration))
    }

    pub(crate) fn new(source: &Source, election: ElectionName, lease_duration: Duration) -> Self {
        let lease =
            (source.lease.clone()).map(|lease| Self::of_lease(lease, election, lease_duration));
        let peers = source.peers.clone().map(Self::of_peers);
        match (lease, peers) {
            (Some(lease), Some(peers)) => Self::of_both(lease, peers),
            (Some(observer), None) | (None, Some(observer)) => observer,
            (None, None) => Self::of_peers(
                watch::Sender::new(Observed::Unknown(
                    "strategy \"static\" elects within its own process only".into(),
                ))
                .subscribe(),
            ),
        }
    }

    fn of_peers(mut observed: watch::Receiver<Observed>) -> Self {
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let state = observed.borrow_and_update().clone();
                if sender.send(state).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = observed.changed() => if changed.is_err() { return sender.closed().await },
                    () = sender.closed() => return,
                }
            }
        });
        Self { changes }
    }

    /// The holder of the lease is the leader, by a lease or by both. Without a holder there may be a
    /// leader among the peers alone.
    fn of_both(mut lease: Self, mut peers: Self) -> Self {
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            let unknown = || Observed::Unknown("not asked yet".into());
            let (mut by_lease, mut among_peers) = (unknown(), unknown());
            let mut last = None;
            loop {
                tokio::select! {
                    observed = lease.next() => by_lease = observed,
                    observed = peers.next() => among_peers = observed,
                    () = sender.closed() => return,
                }
                let observed = match (&by_lease, &among_peers) {
                    (Observed::Leader { .. }, _) => &by_lease,
                    (_, Observed::Leader { .. }) => &among_peers,
                    _ => &by_lease,
                };
                if last.as_ref() != Some(observed) {
                    last = Some(observed.clone());
                    if sender.send(observed.clone()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Self { changes }
    }

    /// A request waits at most one lease duration, so a connection that died silently is noticed
    /// soon after that.
    fn of_lease(backend: SharedBackend, election: ElectionName, lease_duration: Duration) -> Self {
        let wait = lease_duration.min(MAX_WAIT);
        // A slow reader holds up the watching, and gets the newest state after it.
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = watch_lease(&backend, &election, wait, &sender) => {}
                () = sender.closed() => {}
            }
        });
        Self { changes }
    }

    /// Waits for the next state.
    pub async fn next(&mut self) -> Observed {
        match self.changes.recv().await {
            Some(observed) => observed,
            // The watching task ends only with its runtime.
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

async fn watch_lease(
    backend: &SharedBackend,
    election: &ElectionName,
    wait: Duration,
    changes: &mpsc::Sender<Observed>,
) {
    let mut last = None;
    let mut revision = 0;
    loop {
        let observed = match backend.lease_after(election, revision, wait).await {
            Ok(Some(view)) => {
                revision = view.revision;
                state_of(&view)
            }
            Ok(None) => {
                // Without a lease there is no revision to wait for.
                revision = 0;
                Observed::NoLeader
            }
            Err(error) => {
                // The next answer may be another store's, with other revisions.
                revision = 0;
                Observed::Unknown(error.to_string())
            }
        };
        // Another reason for an unknown state is not a change.
        let still_unknown = matches!(
            (&last, &observed),
            (Some(Observed::Unknown(_)), Observed::Unknown(_))
        );
        if last.as_ref() != Some(&observed) && !still_unknown {
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
