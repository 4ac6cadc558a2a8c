//! Sends messages to one member, one request at a time.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use reqwest::Url;
use reqwest::header::{CONNECTION, CONTENT_TYPE};
use tenure_core::{Instant, NodeId};

use super::endpoint::PeerEndpoint;
use super::inbox::PeerEvent;
use super::path::RelayPath;
use super::path_memory::{PathMemory, Way};
use super::raw_answer::RawAnswer;
use super::relay::{Carried, Delivered, NoAnswer, Relay};
use super::send_queue::{Queued, SendQueue};
use super::trouble::{Trouble, TroubleLog};
use crate::base::http_error::HttpClientError;
use crate::http::builder::{self, last_of_causes};
use crate::http::root_certificates::RootCertificates;
use crate::peers::wire::age::PeerClock;
use crate::peers::wire::envelope::{Answer, Answerer, Envelope, VERSION};
use crate::peers::wire::mac::{MAC_HEADER, RequestMac};
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};

/// After this time, the next request is the last one on its connection. Otherwise a member that can
/// be reached only over an old connection (to an old process behind a proxy, or to an address that
/// has moved) would seem healthy for ever.
const CONNECTION_LIFE: Duration = Duration::from_secs(10);

/// After this time without a request a connection is closed, earlier than the other member would
/// close it.
const IDLE: Duration = Duration::from_secs(15);

/// The time without a search for a member after one that found nothing, in message lifetimes. A
/// search may send 2m - (n - 1) requests in a network of n members and m links.
const SEARCH_PAUSE: u32 = 2;

/// Sends messages to one member.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Arc<PeerEndpoint>,
    relay: Arc<Relay>,
    queue: Arc<SendQueue>,
    to: NodeId,
    /// The address of the message route of the member, if this member has it.
    url: Option<Url>,
    paths: PathMemory,
    /// The member's clock, as its last answer shows it.
    clock: Option<PeerClock>,
    number: u64,
    fresh_since: Instant,
    troubles: TroubleLog,
}

impl Client {
    /// Creates an HTTP client for members at these URLs, which keeps this number of idle connections
    /// to each of them.
    pub(super) fn http<'a>(
        urls: impl IntoIterator<Item = &'a Url>,
        idle_connections: usize,
    ) -> Result<reqwest::Client, HttpClientError> {
        let client = builder::plain_client()
            // With HTTP/1.1, a request that times out closes its connection, so the next request
            // uses another connection.
            .http1_only()
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(idle_connections);
        let uses_tls = builder::uses_tls(urls);
        builder::build(client, &RootCertificates::system(), uses_tls, None)
    }

    pub(super) fn new(
        http: reqwest::Client,
        relay: Arc<Relay>,
        queue: Arc<SendQueue>,
        to: NodeId,
    ) -> Self {
        let endpoint = relay.endpoint.clone();
        let base = endpoint.url_of(to);
        let url = base.map(|base| builder::url_below(base, &endpoint.message_path()));
        let pause = endpoint.setup.message_lifetime * SEARCH_PAUSE;
        Self {
            fresh_since: endpoint.setup.clock.now(),
            paths: PathMemory::new(url.is_some(), endpoint.setup.relay.then_some(pause)),
            http,
            endpoint,
            relay,
            queue,
            to,
            url,
            clock: None,
            number: 0,
            troubles: TroubleLog::default(),
        }
    }

    /// Sends the messages of the queue until the queue is dropped.
    pub(super) async fn run(mut self) {
        loop {
            let queued = self.queue.next().await;
            self.deliver(queued).await;
        }
    }

    /// Sends one message. A process that has just started refuses the first message as late, and
    /// its answer contains its time. Then the message is sent again. It is also sent again if no
    /// member has received it and there is another way.
    async fn deliver(&mut self, queued: Queued) {
        let setup = &self.endpoint.setup;
        let clock = setup.clock.clone();
        let good_until = queued.made + setup.message_lifetime;
        let mut late = 0;
        while late < 2 {
            let now = clock.now();
            if now > good_until {
                self.endpoint.count(|counters| counters.expired += 1);
                return;
            }
            let Some(way) = self.paths.way(now) else {
                self.endpoint.count(|counters| counters.expired += 1);
                return;
            };
            let outcome = self.attempt(&queued, &way).await;
            if let Outcome::NoAnswer { is_unsent } = outcome {
                let has_other = self.paths.fail(&way, clock.now());
                self.show_path();
                // A message that may have arrived is not sent again: the copy would have another
                // number, and the receiver would handle the message twice.
                if !(is_unsent && has_other) {
                    return;
                }
            } else if outcome == Outcome::AskAgain {
                late += 1;
            } else {
                return;
            }
        }
        self.endpoint
            .count(|counters| counters.refused_by_peers += 1);
        let late = Trouble::Refused(PeerErrorCode::Late);
        self.log_trouble(late, "its answers are too slow to learn its time");
    }

    async fn attempt(&mut self, queued: &Queued, way: &Way) -> Outcome {
        let body = Bytes::from(serde_json::to_vec(&self.envelope(queued)).unwrap_or_default());
        let setup = &self.endpoint.setup;
        let mac = (setup.mac).of_request(&self.endpoint.message_path(), &body);
        let asked = setup.clock.now();
        self.endpoint.count(|counters| counters.sent += 1);
        if *way == Way::Direct {
            return match self.send_directly(body, &mac, asked).await {
                Ok(raw) => self.handle_answer(&raw, &mac, (way, None), asked),
                Err(error) => {
                    if is_refused(&error) {
                        self.endpoint.notify(PeerEvent::Refused(self.to));
                    }
                    let detail = last_of_causes(&error).to_string();
                    self.fail(Trouble::Unreachable, &detail, error.is_connect())
                }
            };
        }
        let left = (queued.made + setup.message_lifetime).since(asked);
        let request = Carried {
            body,
            mac: mac.clone(),
            to: self.to,
            deadline: tokio::time::Instant::now() + left,
        };
        let delivered = match way {
            Way::Through(path) => self.relay.follow(&request, path).await,
            _ => {
                let path = RelayPath::of_sender(setup.me);
                self.relay.search(&request, &path).await
            }
        };
        match delivered {
            Ok(Delivered { answer, path }) => {
                self.handle_answer(&answer, &mac, (way, Some(path)), asked)
            }
            // Here a refused connection is no hint that the receiver is down: it may be a relay's
            // connection, or the direct link is known to be broken.
            Err(NoAnswer { reason, is_unsent }) => self.fail(Trouble::NoPath, &reason, is_unsent),
        }
    }

    async fn send_directly(
        &mut self,
        body: Bytes,
        mac: &RequestMac,
        asked: Instant,
    ) -> reqwest::Result<RawAnswer> {
        // Without an address the direct way is never chosen, and this request fails.
        let url = self.url.as_ref().map_or("", Url::as_str);
        let mut request = self
            .http
            .post(url)
            .timeout(self.endpoint.setup.message_lifetime)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if let Some(mac) = mac.header() {
            request = request.header(MAC_HEADER, mac);
        }
        if asked > self.fresh_since + CONNECTION_LIFE {
            request = request.header(CONNECTION, "close");
            self.fresh_since = asked;
        }
        RawAnswer::read(request.send().await?).await
    }

    fn envelope(&mut self, queued: &Queued) -> Envelope {
        let endpoint = &self.endpoint;
        self.number += 1;
        Envelope {
            version: VERSION,
            cluster: endpoint.setup.cluster.to_string(),
            config: endpoint.setup.fingerprint.hash.clone(),
            store: endpoint.setup.store.as_ref().and_then(|it| it.known()),
            from: endpoint.setup.me,
            incarnation: endpoint.start.incarnation,
            instance: endpoint.start.instance,
            to: self.to,
            number: self.number,
            good_until: (self.clock)
                .map(|clock| clock.good_until(queued.made, endpoint.setup.message_lifetime)),
            runs_twice: endpoint.duplicate_start(self.to),
            payload: queued.payload.clone(),
        }
    }

    fn handle_answer(
        &mut self,
        raw: &RawAnswer,
        request: &RequestMac,
        way: (&Way, Option<RelayPath>),
        asked: Instant,
    ) -> Outcome {
        if !raw.is_authentic(request) {
            self.endpoint
                .count(|counters| counters.answers_unauthenticated += 1);
            // An unauthenticated answer may contain a reason for the log. The rest of it is
            // ignored.
            let reason = (raw.problem()).map_or_else(|| "no reason".into(), |it| it.detail);
            let detail = format!("status {}, reason {reason:?}", raw.status);
            self.log_trouble(Trouble::Unauthenticated, &detail);
            return NOT_FROM_MEMBER;
        }
        if raw.status != 200 {
            return match raw.problem() {
                Some(problem) => self.refused(&problem, way),
                None => self.fail(Trouble::Nonsense, &format!("status {}", raw.status), false),
            };
        }
        match serde_json::from_slice::<Answer>(&raw.body) {
            Ok(answer) if answer.member.node == self.to => {
                self.endpoint.count(|counters| counters.answered += 1);
                self.log_recovery();
                self.learn(answer.member, way);
                self.endpoint.handle_answer(answer, asked);
                Outcome::Done
            }
            Ok(answer) => {
                let detail = format!("member {} answers at this address", answer.member.node);
                self.fail(Trouble::Nonsense, &detail, false)
            }
            Err(error) => self.fail(Trouble::Nonsense, &error.to_string(), false),
        }
    }

    fn refused(&mut self, problem: &PeerProblem, way: (&Way, Option<RelayPath>)) -> Outcome {
        let member = problem.member.filter(|member| member.node == self.to);
        if let Some(member) = member {
            self.learn(member, way);
        }
        if problem.code == PeerErrorCode::Late && self.clock.is_some() {
            // This is not a failure: the other process is new to this one, or one of the two was
            // frozen.
            return Outcome::AskAgain;
        }
        self.endpoint
            .count(|counters| counters.refused_by_peers += 1);
        if matches!(
            problem.code,
            PeerErrorCode::OlderStart | PeerErrorCode::RunsTwice
        ) {
            self.endpoint
                .report_duplicate(self.to, problem.code, &problem.detail);
        }
        // The refusal has the settings of the other member.
        let own = &self.endpoint.setup.fingerprint.text;
        let detail = match problem.code {
            PeerErrorCode::ConfigDiffers => format!("{}; this member has: {own}", problem.detail),
            _ => problem.detail.clone(),
        };
        self.log_trouble(Trouble::Refused(problem.code), &detail);
        match member {
            Some(_) => Outcome::Done,
            None => NOT_FROM_MEMBER,
        }
    }

    /// Remembers the receiver's time and the way on which it has answered.
    fn learn(&mut self, member: Answerer, (way, found): (&Way, Option<RelayPath>)) {
        let now = self.endpoint.setup.clock.now();
        self.clock = Some(PeerClock {
            instance: member.instance,
            time_ms: member.time_ms,
            at: now,
        });
        self.paths.succeed(way, found, now);
        self.show_path();
    }

    fn show_path(&self) {
        if self.endpoint.setup.relay {
            self.endpoint.show_path(self.to, self.paths.relays());
        }
    }

    /// Records that there was no answer, or an answer that no member gives.
    fn fail(&mut self, trouble: Trouble, detail: &str, is_unsent: bool) -> Outcome {
        self.endpoint.count(|counters| counters.failed += 1);
        self.log_trouble(trouble, detail);
        Outcome::NoAnswer { is_unsent }
    }

    fn log_trouble(&mut self, trouble: Trouble, detail: &str) {
        let now = self.endpoint.setup.clock.now();
        let (peer, url) = (self.to, self.url.as_ref().map_or("none", Url::as_str));
        if let Some(failures) = self.troubles.fail(trouble, now) {
            tracing::warn!(%peer, %url, ?trouble, failures, error = detail,
                "a message was not delivered");
        }
    }

    fn log_recovery(&mut self) {
        let now = self.endpoint.setup.clock.now();
        if let Some(failures) = self.troubles.succeed(now) {
            tracing::info!(peer = %self.to, failures, "messages are delivered again");
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// The receiver has accepted or refused the message.
    Done,
    /// The receiver has told its time.
    AskAgain,
    /// The receiver has not answered. If `is_unsent`, no member has received the message.
    NoAnswer { is_unsent: bool },
}

/// Another process than the receiver has answered.
const NOT_FROM_MEMBER: Outcome = Outcome::NoAnswer { is_unsent: false };

fn is_refused(error: &reqwest::Error) -> bool {
    successors(error.source(), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
