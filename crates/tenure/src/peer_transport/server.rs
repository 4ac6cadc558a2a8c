//! The server: the driver's way to the other members.
//!
//! # For the driver
//!
//! 1. [`StateFile::open`](super::StateFile::open) gives the record of the last start. The node's first output is a record to
//!    persist: [`StateFile::write`](super::StateFile::write) it before anything is sent.
//! 2. [`PeerServer::start`], on the driver's runtime, with the incarnation of that record. All that the
//!    server does of itself (listening, sending) runs there, so an application that blocks its own
//!    runtime stops no election.
//! 3. [`Inbox::recv`] next to the driver's timers. For a message: hand it in, write what is to be
//!    persisted, and give everything that comes out for the sender to [`Incoming::reply`](super::Incoming::reply): it rides in
//!    the HTTP response. Everything else goes to [`PeerServer::send`].
//! 4. On [`PeerEvent::DuplicateMember`](super::PeerEvent::DuplicateMember) lead no more, and say why.
//!
//! Messages may be lost, and none is handed out after its lifetime, or twice. The driver is never told
//! that a message arrived: the machines send again what matters.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use reqwest::Url;
use tenure_core::{Incarnation, Name, NodeId, Random as _};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::client::Client;
use super::endpoint::PeerEndpoint;
use super::envelope::Payload;
use super::fingerprint::Fingerprint;
use super::inbox::{self, Inbox};
use super::listener;
use super::mac::Mac;
use super::routes::{self, Status};
use super::send_queue::SendQueue;
use crate::clock::Clock;
use crate::random::OsRandom;

/// What a server is made of.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The name of the group; members of another one are refused.
    pub(crate) cluster: Name,
    /// This member.
    pub(crate) me: NodeId,
    /// Which start of it this is: the one that is on disk.
    pub(crate) incarnation: Incarnation,
    /// What all members must have set alike.
    pub(crate) fingerprint: Fingerprint,
    /// Where the others are: base URLs, to which the paths of the routes are added.
    pub(crate) peers: BTreeMap<NodeId, Url>,
    /// How old a message may become ([`tenure_core::bully::Timings::message_lifetime`]).
    pub(crate) message_lifetime: Duration,
    /// How messages are sealed.
    pub(crate) mac: Arc<Mac>,
    /// Where to serve the routes; `None` if the application mounts [`PeerServer::router`].
    pub(crate) listen: Option<SocketAddr>,
    /// The driver's clock.
    pub(crate) clock: Clock,
}

/// Carries messages between this member and the others until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerServer {
    endpoint: Arc<PeerEndpoint>,
    queues: BTreeMap<NodeId, Arc<SendQueue>>,
    status: watch::Sender<Status>,
    listening_on: Option<SocketAddr>,
    /// Aborted when this is dropped.
    tasks: JoinSet<()>,
}

/// Why a server can't start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is in use, or not one of this machine's.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// What was set.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// The HTTP client can't be set up.
    #[error("can't set up the HTTP client: {0}")]
    Client(#[from] reqwest::Error),
}

impl PeerServer {
    /// Begins to listen and to send, on the runtime that it is called on.
    ///
    /// # Errors
    ///
    /// [`StartError`].
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub(crate) fn start(setup: Setup) -> Result<(Self, Inbox), StartError> {
        let http = Client::http()?;
        let (events, inbox) = inbox::channel(setup.clock.clone());
        let endpoint = Arc::new(PeerEndpoint::new(&setup, OsRandom.next_u64(), events));
        let (status, _) = watch::channel(Status::of(setup.me, setup.incarnation));
        let mut tasks = JoinSet::new();
        let mut queues = BTreeMap::new();
        for (id, url) in setup.peers {
            let queue = Arc::new(SendQueue::default());
            let client = Client::new(http.clone(), endpoint.clone(), queue.clone(), (id, &url));
            tasks.spawn(client.run());
            queues.insert(id, queue);
        }
        let mut server = Self {
            endpoint,
            queues,
            status,
            listening_on: None,
            tasks,
        };
        if let Some(address) = setup.listen {
            let failed = |error| StartError::Listen { address, error };
            let listener = listener::bind(address).map_err(failed)?;
            server.listening_on = Some(listener.local_addr().map_err(failed)?);
            let router = server.router();
            server
                .tasks
                .spawn(listener::serve(listener, router, server.endpoint.clone()));
        }
        Ok((server, inbox))
    }

    /// Sends this, if it can be done within a message's lifetime from now. It replaces an older
    /// message of the same kind that still waits.
    pub(crate) fn send(&self, to: NodeId, payload: impl Into<Payload>) {
        if let Some(queue) = self.queues.get(&to) {
            self.endpoint.enqueue(queue, payload.into());
        }
    }

    /// Whether everything that was to be sent has been, or is lost.
    pub(crate) fn is_idle(&self) -> bool {
        self.queues.values().all(|queue| queue.is_idle())
    }

    /// Replaces what the status route tells.
    pub(crate) fn publish(&self, status: Status) {
        self.status.send_replace(status);
    }

    /// What was carried and what was refused since the start.
    #[cfg(test)]
    pub(super) fn counters(&self) -> super::counters::Counters {
        self.endpoint.counters.read()
    }

    /// Where it listens, if it does.
    pub(crate) const fn listening_on(&self) -> Option<SocketAddr> {
        self.listening_on
    }

    /// The routes of this member. They may be served on any runtime; what comes in goes to the inbox.
    pub(crate) fn router(&self) -> Router {
        routes::router(self.endpoint.clone(), self.status.subscribe())
    }
}
