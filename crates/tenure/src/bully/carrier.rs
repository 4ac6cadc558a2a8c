//! The carrier: the driver's way to the other members.
//!
//! # For the driver
//!
//! 1. [`StateFile::open`](super::StateFile::open) gives the record of the last start. The node's first output is a record to
//!    persist: [`StateFile::write`](super::StateFile::write) it before anything is sent.
//! 2. [`Carrier::start`], on the driver's runtime, with the incarnation of that record. All that the
//!    carrier does of itself (listening, sending) runs there, so an application that blocks its own
//!    runtime stops no election.
//! 3. [`Inbox::recv`] next to the driver's timers. For a message: hand it in, write what is to be
//!    persisted, and give everything that comes out for the sender to [`Incoming::reply`](super::Incoming::reply): it rides in
//!    the HTTP response. Everything else goes to [`Carrier::send`].
//! 4. On [`Event::Impostor`](super::Event::Impostor) lead no more, and say why.
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
use super::envelope::Payload;
use super::fingerprint::Fingerprint;
use super::inbox::{self, Inbox};
use super::link::Link;
use super::local::Local;
use super::routes::{self, Status};
use super::seal::Seal;
use super::serve;
use crate::clock::Clock;
use crate::http::HttpClientError;
use crate::random::OsRandom;

/// What a carrier is made of.
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
    pub(crate) seal: Arc<Seal>,
    /// Where to serve the routes; `None` if the application mounts [`Carrier::router`].
    pub(crate) listen: Option<SocketAddr>,
    /// The driver's clock.
    pub(crate) clock: Clock,
}

/// Carries messages between this member and the others until it is dropped.
#[derive(Debug)]
pub(crate) struct Carrier {
    local: Arc<Local>,
    links: BTreeMap<NodeId, Arc<Link>>,
    status: watch::Sender<Status>,
    listening_on: Option<SocketAddr>,
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
        /// What was set.
        address: SocketAddr,
        /// What the operating system says.
        error: io::Error,
    },
    /// The HTTP client can't be set up.
    #[error(transparent)]
    Client(#[from] HttpClientError),
}

impl Carrier {
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
        let (events, inbox) = inbox::channel(setup.clock.clone());
        let local = Arc::new(Local::new(&setup, OsRandom.next_u64(), events));
        let (status, _) = watch::channel(Status::of(setup.me, setup.incarnation));
        let mut tasks = JoinSet::new();
        let mut links = BTreeMap::new();
        for (id, url) in setup.peers {
            let link = Arc::new(Link::default());
            let client = Client::new(http.clone(), local.clone(), link.clone(), (id, &url));
            tasks.spawn(client.run());
            links.insert(id, link);
        }
        let mut carrier = Self {
            local,
            links,
            status,
            listening_on: None,
            tasks,
        };
        if let Some(address) = setup.listen {
            let failed = |error| ListenError::Listen { address, error };
            let listener = serve::bind(address).map_err(failed)?;
            carrier.listening_on = Some(listener.local_addr().map_err(failed)?);
            let router = carrier.router();
            carrier
                .tasks
                .spawn(serve::serve(listener, router, carrier.local.clone()));
        }
        Ok((carrier, inbox))
    }

    /// Sends this, if it can be done within a message's lifetime from now. It replaces an older
    /// message of the same kind that still waits.
    pub(crate) fn send(&self, to: NodeId, payload: impl Into<Payload>) {
        if let Some(link) = self.links.get(&to) {
            self.local.enqueue(link, payload.into());
        }
    }

    /// Whether everything that was to be sent has been, or is lost.
    pub(crate) fn is_idle(&self) -> bool {
        self.links.values().all(|link| link.is_idle())
    }

    /// Replaces what the status route tells.
    pub(crate) fn publish(&self, status: Status) {
        self.status.send_replace(status);
    }

    /// What was carried and what was refused since the start.
    #[cfg(test)]
    pub(super) fn counters(&self) -> super::counters::Counters {
        self.local.counters.read()
    }

    /// Where it listens, if it does.
    pub(crate) const fn listening_on(&self) -> Option<SocketAddr> {
        self.listening_on
    }

    /// The routes of this member. They may be served on any runtime; what comes in goes to the inbox.
    pub(crate) fn router(&self) -> Router {
        routes::router(
            self.local.clone(),
            self.links.clone(),
            self.status.subscribe(),
        )
    }
}
