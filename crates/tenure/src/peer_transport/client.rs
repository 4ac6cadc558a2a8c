//! Sends messages to one member, one request at a time.

use std::error::Error;
use std::io;
use std::iter::successors;
use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{CONNECTION, CONTENT_TYPE};
use reqwest::{Response, Url};
use tenure_core::{Instant, NodeId};

use super::age::PeerClock;
use super::endpoint::PeerEndpoint;
use super::envelope::{Answer, Answerer, Envelope, MAX_ANSWER_BYTES, VERSION};
use super::inbox::PeerEvent;
use super::mac::{MAC_HEADER, Mac, RequestMac};
use super::problem::{PeerErrorCode, PeerProblem};
use super::send_queue::{Queued, SendQueue};
use crate::http::{self, HttpClientError, last_of_causes, read_body};
use crate::root_certificates::RootCertificates;

/// After this time, the next request is the last one on its connection. Otherwise a member that can
/// be reached only over an old connection (to an old process behind a proxy, or to an address that
/// has moved) would seem healthy for ever.
const CONNECTION_LIFE: Duration = Duration::from_secs(10);

/// After this time without a request a connection is closed, earlier than the other member would
/// close it.
const IDLE: Duration = Duration::from_secs(15);

/// Sends messages to one member.
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: Arc<PeerEndpoint>,
    queue: Arc<SendQueue>,
    to: NodeId,
    url: Url,
    /// The member's clock, as its last answer shows it.
    clock: Option<PeerClock>,
    number: u64,
    fresh_since: Instant,
    /// The reason why the last message was not delivered, so that the log contains the reason only
    /// once.
    trouble: Option<Trouble>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    Refused(PeerErrorCode),
    Unreachable,
    Unauthenticated,
    Nonsense,
}

impl Client {
    /// Creates the HTTP client that all these clients share.
    pub(super) fn http<'a>(
        urls: impl IntoIterator<Item = &'a Url>,
    ) -> Result<reqwest::Client, HttpClientError> {
        let client = http::plain_client()
            // With HTTP/1.1, a request that times out closes its connection, so the next request
            // uses another connection.
            .http1_only()
            .retry(reqwest::retry::never())
            .tcp_nodelay(true)
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(1);
        http::build(client, &RootCertificates::system(), http::uses_tls(urls))
    }

    pub(super) fn new(
        http: reqwest::Client,
        endpoint: Arc<PeerEndpoint>,
        queue: Arc<SendQueue>,
        (to, base): (NodeId, &Url),
    ) -> Self {
        let url = http::url_below(base, &endpoint.message_path());
        Self {
            fresh_since: endpoint.setup.clock.now(),
            http,
            endpoint,
            queue,
            to,
            url,
            clock: None,
            number: 0,
            trouble: None,
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
    /// its answer contains its time. Then the message is sent again.
    async fn deliver(&mut self, queued: Queued) {
        let setup = &self.endpoint.setup;
        let clock = setup.clock.clone();
        let good_until = queued.made + setup.message_lifetime;
        for _ in 0..2 {
            if clock.now() > good_until {
                self.endpoint.count(|counters| counters.expired += 1);
                return;
            }
            if self.attempt(&queued).await == Outcome::Done {
                return;
            }
        }
        self.endpoint
            .count(|counters| counters.refused_by_peers += 1);
        let late = Trouble::Refused(PeerErrorCode::Late);
        self.log_trouble(late, "its answers are too slow to learn its time");
    }

    async fn attempt(&mut self, queued: &Queued) -> Outcome {
        let body = serde_json::to_vec(&self.envelope(queued)).unwrap_or_default();
        let setup = &self.endpoint.setup;
        let mac = (setup.mac).of_request(&self.endpoint.message_path(), &body);
        let asked = setup.clock.now();
        let mut request = self
            .http
            .post(self.url.clone())
            .timeout(setup.message_lifetime)
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        if let Some(mac) = mac.header() {
            request = request.header(MAC_HEADER, mac);
        }
        if asked > self.fresh_since + CONNECTION_LIFE {
            request = request.header(CONNECTION, "close");
            self.fresh_since = asked;
        }
        self.endpoint.count(|counters| counters.sent += 1);
        let answered = match request.send().await {
            Ok(response) => RawAnswer::read(response).await,
            Err(error) => Err(error),
        };
        match answered {
            Ok(raw) => self.handle_answer(&raw, &mac, asked),
            Err(error) => {
                if is_refused(&error) {
                    self.endpoint.notify(PeerEvent::Refused(self.to));
                }
                self.fail(Trouble::Unreachable, &last_of_causes(&error).to_string())
            }
        }
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

    fn handle_answer(&mut self, raw: &RawAnswer, request: &RequestMac, asked: Instant) -> Outcome {
        let expected = request.of_answer(raw.status, &raw.body);
        let problem = || serde_json::from_slice::<PeerProblem>(&raw.body);
        if !Mac::is_good(expected.as_deref(), raw.mac.as_deref()) {
            self.endpoint
                .count(|counters| counters.answers_unauthenticated += 1);
            // An unauthenticated answer may contain a reason for the log. The rest of it is
            // ignored.
            let reason = problem().map_or_else(|_| "no reason".into(), |problem| problem.detail);
            let detail = format!("status {}, reason {reason:?}", raw.status);
            self.log_trouble(Trouble::Unauthenticated, &detail);
            return Outcome::Done;
        }
        if raw.status != 200 {
            return match problem() {
                Ok(problem) => self.refused(&problem),
                Err(_) => self.fail(Trouble::Nonsense, &format!("status {}", raw.status)),
            };
        }
        match serde_json::from_slice::<Answer>(&raw.body) {
            Ok(answer) if answer.member.node == self.to => {
                self.endpoint.count(|counters| counters.answered += 1);
                self.trouble = None;
                self.learn_time(answer.member);
                self.endpoint.handle_answer(answer, asked);
                Outcome::Done
            }
            Ok(answer) => {
                let detail = format!("member {} answers at this address", answer.member.node);
                self.fail(Trouble::Nonsense, &detail)
            }
            Err(error) => self.fail(Trouble::Nonsense, &error.to_string()),
        }
    }

    fn refused(&mut self, problem: &PeerProblem) -> Outcome {
        if let Some(member) = problem.member.filter(|member| member.node == self.to) {
            self.learn_time(member);
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
        Outcome::Done
    }

    fn learn_time(&mut self, member: Answerer) {
        self.clock = Some(PeerClock {
            instance: member.instance,
            time_ms: member.time_ms,
            at: self.endpoint.setup.clock.now(),
        });
    }

    /// Records that there was no answer, or an answer that no member gives.
    fn fail(&mut self, trouble: Trouble, detail: &str) -> Outcome {
        self.endpoint.count(|counters| counters.failed += 1);
        self.log_trouble(trouble, detail);
        Outcome::Done
    }

    fn log_trouble(&mut self, trouble: Trouble, detail: &str) {
        let (peer, url) = (self.to, &self.url);
        if self.trouble.replace(trouble) != Some(trouble) {
            tracing::warn!(%peer, %url, ?trouble, error = detail, "a message was not delivered");
        }
    }
}

/// The outcome of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    AskAgain,
}

/// An answer that is not checked yet.
struct RawAnswer {
    status: u16,
    mac: Option<String>,
    body: Vec<u8>,
}

impl RawAnswer {
    async fn read(response: Response) -> reqwest::Result<Self> {
        let mac = response.headers().get(MAC_HEADER);
        Ok(Self {
            status: response.status().as_u16(),
            mac: mac.map(|mac| mac.to_str().unwrap_or_default().to_owned()),
            // If the body is too long, it is empty here, and the MAC is wrong.
            body: (read_body(response, MAX_ANSWER_BYTES).await?).unwrap_or_default(),
        })
    }
}

fn is_refused(error: &reqwest::Error) -> bool {
    successors(error.source(), |&error| error.source())
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}
