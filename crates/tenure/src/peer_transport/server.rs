//! A member's HTTP server, and its clients of the other members.
//!
//! # For the driver
//!
//! 1. [`StateFile::open`](super::StateFile::open) returns the record of the last start. The
//!    machine's first output is a record to persist: [`StateFile::write`](super::StateFile::write)
//!    it before anything is sent.
//! 2. [`PeerServer::start`], on the driver's runtime, with the incarnation of that record. All
//!    tasks of the server (listening, sending) run there, so an application that blocks its own
//!    runtime stops no election.
//! 3. [`Inbox::recv`] next to the driver's timers. For a message: hand it to the machine, write the
//!    records, and put the messages to its sender into the [`Reply`](super::Reply), which is the
//!    HTTP response. Send all other messages with [`PeerServer::send`].
//! 4. On [`PeerEvent::Duplicate`](super::PeerEvent) stop leading, and report why.
//!
//! Messages may be lost. None is delivered after its lifetime, or twice. The driver never learns
//! whether a message arrived: the machines repeat each message that matters.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use reqwest::Url;
use tenure_core::{Incarnation, Name, NodeId, Random as _};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Client;
use super::endpoint::PeerEndpoint;
use super::envelope::Payload;
use super::fingerprint::Fingerprint;
use super::inbox::{self, Inbox};
use super::listener;
use super::mac::Mac;
use super::routes;
use super::send_queue::SendQueue;
use crate::clock::Clock;
use crate::http::HttpClientError;
use crate::random::OsRandom;

/// The parts of a server.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The name of the group. Members of another group are refused.
    pub(crate) cluster: Name,
    /// This member.
    pub(crate) me: NodeId,
    /// Which start of the member this is: the one on disk.
    pub(crate) incarnation: Incarnation,
    /// The settings that all members must have alike.
    pub(crate) fingerprint: Fingerprint,
    /// The base URLs of the others, to which the paths of the routes are added.
    pub(crate) peers: BTreeMap<NodeId, Url>,
    /// How old a message may become ([`tenure_core::bully::GroupTimings::message_lifetime`]).
    pub(crate) message_lifetime: Duration,
    /// How messages are authenticated.
    pub(crate) mac: Arc<Mac>,
    /// Where to serve the routes; `None` if the application mounts [`PeerServer::router`].
    pub(crate) listen: Option<SocketAddr>,
    /// The driver's clock.
    pub(crate) clock: Clock,
}

/// Carries messages between this member and the others until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerServer {
    pub(super) endpoint: Arc<PeerEndpoint>,
    pub(super) queues: BTreeMap<NodeId, Arc<SendQueue>>,
    /// Where it listens, if it does.
    pub(crate) listening_on: Option<SocketAddr>,
    /// Aborted when this is dropped.
    tasks: JoinSet<()>,
}

/// Why a member can't listen for the others.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The address is in use, or not one of this machine's.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The HTTP client can't be set up.
    #[error(transparent)]
    Client(#[from] HttpClientError),
}

impl PeerServer {
    /// Begins to listen and to send, on the runtime that it is called on.
    ///
    /// # Errors
    ///
    /// [`ListenError`].
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime.
    pub(crate) fn start(setup: Setup) -> Result<(Self, Inbox), ListenError> {
        let http = Client::http(setup.peers.values())?;
        let (sender, events) = mpsc::channel(inbox::CAPACITY);
        let clock = setup.clock.clone();
        let endpoint = Arc::new(PeerEndpoint::new(setup, OsRandom.next_u64(), sender));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&endpoint.setup.mac).keep_fresh());
        let mut queues = BTreeMap::new();
        for (&id, url) in &endpoint.setup.peers {
            let queue = Arc::new(SendQueue::default());
            let client = Client::new(http.clone(), endpoint.clone(), queue.clone(), (id, url));
            tasks.spawn(client.run());
            queues.insert(id, queue);
        }
        let mut server = Self {
            endpoint,
            queues,
            listening_on: None,
            tasks,
        };
        if let Some(address) = server.endpoint.setup.listen {
            let failed = |error| ListenError::Listen { address, error };
            let listener = listener::bind(address).map_err(failed)?;
            server.listening_on = Some(listener.local_addr().map_err(failed)?);
            let router = server.router();
            server
                .tasks
                .spawn(listener::serve(listener, router, server.endpoint.clone()));
        }
        Ok((server, Inbox { clock, events }))
    }

    /// Sends this, if it can be done within a message's lifetime from now. It replaces an older
    /// message of the same kind that still waits.
    pub(crate) fn send(&self, to: NodeId, payload: Payload) {
        if let Some(queue) = self.queues.get(&to)
            && queue.push(payload, self.endpoint.setup.clock.now())
        {
            self.endpoint.count(|counters| counters.replaced += 1);
        }
    }

    /// The routes of this member. Any runtime may serve them; messages go to the inbox.
    pub(crate) fn router(&self) -> Router {
        routes::router(self.endpoint.clone())
    }
}
