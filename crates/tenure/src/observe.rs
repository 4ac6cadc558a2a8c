//! Watching who leads.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tenure_core::{CandidateId, ElectionName, Epoch};
use tokio::sync::{mpsc, watch};

use crate::store::{LeaseView, Watcher};

/// Longest time that one question may wait in the store for a change.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// How long to leave a store alone that has failed to answer.
const RETRY: Duration = Duration::from_secs(1);

/// What is known of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observed {
    /// This candidate leads.
    Leader {
        /// Who leads.
        candidate: CandidateId,
        /// Under which epoch.
        epoch: Epoch,
        /// What the leader says about itself.
        metadata: BTreeMap<String, String>,
    },
    /// Nobody leads now. Among peers: this member knows of none, as far as it reaches.
    NoLeader,
    /// The store can't be asked, for this reason; what was seen before may be true no more.
    Unknown(String),
}

/// A stream of what is known of an election: first as it is, then each change. It never ends by
/// itself. A slow reader misses nothing that still holds when it reads on: it is behind, at most.
///
/// It is a hint: whoever acts on it must expect it to be late.
#[derive(Debug)]
pub struct Observer {
    changes: mpsc::Receiver<Observed>,
}

/// Where an observer looks.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Into the store.
    Store(Watcher),
    /// At what this member of an election among peers knows.
    Peers(watch::Receiver<Observed>),
    /// Into both.
    Both(Watcher, watch::Receiver<Observed>),
}

impl Observer {
    pub(crate) fn new(source: &Source, election: ElectionName, lease: Duration) -> Self {
        match source {
            Source::Store(store) => Self::of_store(store.clone(), election, lease),
            Source::Peers(seen) => Self::of_peers(seen.clone()),
            Source::Both(store, seen) => {
                let store = Self::of_store(store.clone(), election, lease);
                Self::of_both(store, Self::of_peers(seen.clone()))
            }
        }
    }

    fn of_peers(mut seen: watch::Receiver<Observed>) -> Self {
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                let observed = seen.borrow_and_update().clone();
                if sender.send(observed).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = seen.changed() => if changed.is_err() { return sender.closed().await },
                    () = sender.closed() => return,
                }
            }
        });
        Self { changes }
    }

    /// Whoever holds the lease leads, by a lease or by both. If nobody does, somebody may lead among
    /// peers alone.
    fn of_both(mut store: Self, mut peers: Self) -> Self {
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            let unknown = || Observed::Unknown("not asked yet".into());
            let (mut in_store, mut among_peers) = (unknown(), unknown());
            let mut last = None;
            loop {
                tokio::select! {
                    seen = store.next() => in_store = seen,
                    seen = peers.next() => among_peers = seen,
                    () = sender.closed() => return,
                }
                let seen = match (&in_store, &among_peers) {
                    (Observed::Leader { .. }, _) => &in_store,
                    (_, Observed::Leader { .. }) => &among_peers,
                    _ => &in_store,
                };
                if last.as_ref() != Some(seen) {
                    last = Some(seen.clone());
                    if sender.send(seen.clone()).await.is_err() {
                        return;
                    }
                }
            }
        });
        Self { changes }
    }

    /// `lease` is how long a lease lasts: a path that died silently is noticed soon after so long.
    fn of_store(store: Watcher, election: ElectionName, lease: Duration) -> Self {
        let wait = lease.min(MAX_WAIT);
        // Room for one: a reader that is slow holds the watching up, and sees the newest after it.
        let (sender, changes) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                () = watch(&store, &election, wait, &sender) => {}
                () = sender.closed() => {}
            }
        });
        Self { changes }
    }

    /// Waits for the next change.
    pub async fn next(&mut self) -> Observed {
        match self.changes.recv().await {
            Some(observed) => observed,
            // The watching task ends with the runtime only.
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

async fn watch(
    store: &Watcher,
    election: &ElectionName,
    wait: Duration,
    changes: &mpsc::Sender<Observed>,
) {
    let mut last = None;
    let mut revision = 0;
    loop {
        let observed = match store.lease_after(election, revision, wait).await {
            Ok(Some(view)) => {
                revision = view.revision;
                seen(&view)
            }
            Ok(None) => {
                // Nobody has ever competed, so there is nothing to wait for in the store.
                revision = 0;
                Observed::NoLeader
            }
            Err(error) => {
                // Whatever answers next may count its revisions from elsewhere.
                revision = 0;
                Observed::Unknown(error.to_string())
            }
        };
        // Another reason for knowing nothing is no change.
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

fn seen(view: &LeaseView) -> Observed {
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
