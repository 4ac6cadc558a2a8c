//! The HTTP server of a member, and its clients of the other members.
//!
//! # For the driver
//!
//! 1. [`StateFile::open`](crate::peers::state::StateFile::open) returns the record of the last start. The first
//!    output of the machine is a record to persist: write it with
//!    [`StateFile::write`](crate::peers::state::StateFile::write) before anything is sent.
//! 2. Call [`PeerServer::start`] on the driver's runtime, with the incarnation of that record. All
//!    tasks of the server (which listen and send) run there, so an application that blocks its own
//!    runtime does not stop the election.
//! 3. Call [`Inbox::recv`] along with the driver's timers. Pass each message to the machine, write
//!    the records, and put the messages for its sender into the [`Reply`](super::Reply), which is
//!    the HTTP response. Send all other messages with [`PeerServer::send`].
//! 4. On [`PeerEvent::Duplicate`](super::PeerEvent) stop leading, and report why.
//!
//! Messages may be lost. No message is delivered after its lifetime, or twice. The driver never
//! learns whether a message arrived: the machines repeat each message that matters.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::Method;
use axum::response::Redirect;
use axum::routing::get;
use reqwest::Url;
use tenure_core::{Incarnation, Name, NodeId, Random as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::client::Client;
use super::endpoint::PeerEndpoint;
use super::inbox::{self, Inbox};
use super::listener;
use super::relay::Relay;
use super::routes;
use super::send_queue::SendQueue;
use crate::base::clock::Clock;
use crate::base::member_error::ListenError;
use crate::base::random::OsRandom;
use crate::http::browser_guard::guard;
use crate::peers::group_store::GroupStore;
use crate::peers::wire::Fingerprint;
use crate::peers::wire::envelope::Payload;
use crate::peers::wire::mac::Mac;

/// The greatest number of idle connections to one member that carry relayed requests. More of them
/// are opened when needed.
const MAX_IDLE_OF_RELAY: usize = 4;

/// The parts of a server.
#[derive(Debug)]
pub(crate) struct Setup {
    /// The name of the group. Members of another group are refused.
    pub(crate) cluster: Name,
    /// This member.
    pub(crate) me: NodeId,
    /// The incarnation of this start of the member, as on disk.
    pub(crate) incarnation: Incarnation,
    /// The settings that must be the same for all members.
    pub(crate) fingerprint: Fingerprint,
    /// The other members with their base URLs, to which the paths of the routes are appended. A
    /// member without a URL is reached through others.
    pub(crate) peers: BTreeMap<NodeId, Option<Url>>,
    /// Whether members pass messages on. It is not part of the fingerprint: it changes no rule of
    /// the election, and so a group can be changed member by member.
    pub(crate) relay: bool,
    /// The greatest age of a message ([`tenure_core::bully::GroupTimings::message_lifetime`]).
    pub(crate) message_lifetime: Duration,
    /// The authenticator of messages.
    pub(crate) mac: Arc<Mac>,
    /// The address on which to serve the routes; `None` if the application mounts
    /// [`PeerServer::router`].
    pub(crate) listen: Option<SocketAddr>,
    /// The names under which requests may reach the address, beside IP addresses and `localhost`.
    pub(crate) hosts: Vec<String>,
    /// Further routes of the member: the page of the group.
    pub(crate) page: Router,
    /// The store of the group, with a fallback.
    pub(crate) store: Option<Arc<GroupStore>>,
    /// The driver's clock.
    pub(crate) clock: Clock,
}

/// Exchanges messages between this member and the others until it is dropped.
#[derive(Debug)]
pub(crate) struct PeerServer {
    pub(super) endpoint: Arc<PeerEndpoint>,
    pub(super) relay: Arc<Relay>,
    pub(super) queues: BTreeMap<NodeId, Arc<SendQueue>>,
    /// The address on which the server listens, if it listens.
    pub(crate) listening_on: Option<SocketAddr>,
    /// The tasks, which are aborted when the server is dropped.
    tasks: JoinSet<()>,
}

impl PeerServer {
    /// Starts to listen and to send, on the current runtime.
    ///
    /// # Errors
    ///
    /// [`ListenError`].
    ///
    /// # Panics
    ///
    /// Panics outside of a Tokio runtime.
    pub(crate) fn start(setup: Setup) -> Result<(Self, Inbox), ListenError> {
        let urls = || setup.peers.values().flatten();
        let http = Client::http(urls(), 1)?;
        let relay_http = Client::http(urls(), MAX_IDLE_OF_RELAY)?;
        let (sender, events) = mpsc::channel(inbox::CAPACITY);
        let clock = setup.clock.clone();
        let endpoint = Arc::new(PeerEndpoint::new(setup, OsRandom.next_u64(), sender));
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&endpoint.setup.mac).keep_fresh());
        let relay = Arc::new(Relay::new(endpoint.clone(), relay_http));
        let mut queues = BTreeMap::new();
        for &id in endpoint.setup.peers.keys() {
            let queue = Arc::new(SendQueue::default());
            let client = Client::new(http.clone(), relay.clone(), queue.clone(), id);
            tasks.spawn(client.run());
            queues.insert(id, queue);
        }
        let mut server = Self {
            endpoint,
            relay,
            queues,
            listening_on: None,
            tasks,
        };
        if let Some(address) = server.endpoint.setup.listen {
            let failed = |error| ListenError::Listen { address, error };
            let listener = listener::bind(address).and_then(TcpListener::from_std);
            let listener = listener.map_err(failed)?;
            server.listening_on = Some(listener.local_addr().map_err(failed)?);
            // A browser that opens this address sees the page. The target is relative, because a
            // proxy may serve the member under a prefix.
            let page = format!("v1/peers/{}/", server.endpoint.setup.cluster);
            let to_page = get(async move || Redirect::temporary(&page));
            let router = server.router().route("/", to_page);
            // Another member may know this one by a name that is missing here. With a key, its MAC
            // shows that the message comes from a member; without one, only the name tells a member
            // from a page whose author lets a name resolve to this address.
            let any_host: fn(&Request) -> bool = match server.endpoint.setup.mac.is_keyed() {
                true => |request| request.method() == Method::POST,
                false => |_| false,
            };
            let hosts = server.endpoint.setup.hosts.clone();
            let router = guard(router, hosts, "a member", any_host);
            server
                .tasks
                .spawn(listener::serve(listener, router, server.endpoint.clone()));
        }
        Ok((server, Inbox { clock, events }))
    }

    /// Sends a message, if that is possible within a message's lifetime from now. The message
    /// replaces an older message of the same kind that still waits.
    pub(crate) fn send(&self, to: NodeId, payload: Payload) {
        if let Some(queue) = self.queues.get(&to)
            && queue.push(payload, self.endpoint.setup.clock.now())
        {
            self.endpoint.count(|counters| counters.replaced += 1);
        }
    }

    /// Returns the routes of this member. Any runtime may serve them; the messages go to the inbox.
    pub(crate) fn router(&self) -> Router {
        routes::router(self.relay.clone()).merge(self.endpoint.setup.page.clone())
    }
}
