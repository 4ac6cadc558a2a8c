//! Passes requests on to members that their senders can't reach directly.
//!
//! **Why a relay can't make two leaders.** A request and its answer keep their MACs, so a relay
//! passes on the bytes that the sender or the receiver has made. The request says until when it is
//! valid **on the receiver's clock**, so the receiver refuses a request that a relay has kept for
//! too long. The receiver accepts each number of a sender once, and no smaller one after it, so it
//! handles one copy of a request only, and never one that is older than the last. The MAC of an
//! answer is valid for one request, which the sender abandons after a message lifetime. What is left
//! to a relay is to delay, lose, repeat, reorder or misdirect messages. The election tolerates all
//! of that from the network already.
//!
//! The path and the time in the headers are not authenticated. They only determine to which members
//! copies go, and for how long a relay waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::http::HeaderMap;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use reqwest::header::CONTENT_TYPE;
use tenure_core::NodeId;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use super::endpoint::PeerEndpoint;
use super::path::{PATH_HEADER, RelayPath, Step};
use super::raw_answer::RawAnswer;
use crate::http::builder::{last_of_causes, url_below};
use crate::peers::wire::envelope::{Envelope, Start};
use crate::peers::wire::mac::{MAC_HEADER, RequestMac};
use crate::peers::wire::problem::{PeerErrorCode, PeerProblem};

/// The header with the time that a request has left, in milliseconds.
const TIME_HEADER: &str = "tenure-time-ms";

/// The greatest number of requests of others that are under way through this member. Of ten members,
/// a member can have 72 of them. The limit is half of the connections that a member accepts, so
/// relayed requests leave room for its own.
const MAX_UNDER_WAY: usize = 128;

/// A search asks the receiver directly first, and asks the other members, too, when this part of
/// the remaining time has passed. So a search costs one request if the direct link works.
const HEAD_START: u32 = 4;

/// Sends requests through other members, and passes the requests of other members on.
#[derive(Debug)]
pub(super) struct Relay {
    pub(super) endpoint: Arc<PeerEndpoint>,
    /// Its connections carry no other requests. So the receiver does not take the end of such a
    /// connection for the end of the sender's process.
    http: reqwest::Client,
    passed_on: Mutex<PassedOn>,
    permits: Semaphore,
}

/// A request. All of its copies have the same body and the same MAC.
#[derive(Clone)]
pub(super) struct Carried {
    pub(super) body: Bytes,
    pub(super) mac: RequestMac,
    pub(super) to: NodeId,
    pub(super) deadline: Instant,
}

/// An answer of the receiver, and the complete path of the request.
#[derive(Debug)]
pub(super) struct Delivered {
    pub(super) answer: RawAnswer,
    pub(super) path: RelayPath,
}

/// The reason why there is no answer of the receiver.
#[derive(Debug)]
pub(super) struct NoAnswer {
    pub(super) reason: String,
    /// Whether no member has received the request.
    pub(super) is_unsent: bool,
}

/// A request of another member that this member passes on.
pub(super) struct Passage<'a> {
    request: Carried,
    path: RelayPath,
    step: Step,
    _permit: SemaphorePermit<'a>,
}

impl Relay {
    pub(super) fn new(endpoint: Arc<PeerEndpoint>, http: reqwest::Client) -> Self {
        Self {
            endpoint,
            http,
            passed_on: Mutex::default(),
            permits: Semaphore::new(MAX_UNDER_WAY),
        }
    }

    /// Accepts a request that has a valid MAC, or refuses it.
    pub(super) fn accept(
        &self,
        body: Bytes,
        mac: RequestMac,
        headers: &HeaderMap,
        arrived: Instant,
    ) -> Result<Passage<'_>, PeerProblem> {
        let endpoint = &self.endpoint;
        let me = endpoint.setup.me;
        let refuse = |code, detail: String| Err(PeerProblem::new(code, detail));
        if !endpoint.setup.relay {
            let detail = format!("member {me} passes no messages on: its setting relay is false");
            return refuse(PeerErrorCode::RelayOff, detail);
        }
        let envelope = endpoint.parse(&body)?;
        let (from, to) = (envelope.from, envelope.to);
        endpoint.check_sender(from)?;
        if !endpoint.setup.peers.contains_key(&to) {
            let detail =
                format!("member {me} passes nothing on to {to}, which is not another member");
            return refuse(PeerErrorCode::Misdirected, detail);
        }
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let Some(path) = text(PATH_HEADER).and_then(RelayPath::parse) else {
            let detail = format!("the header {PATH_HEADER} must have node ids, such as 1,2");
            return refuse(PeerErrorCode::Malformed, detail);
        };
        let step = (path.step(from, me, to))
            .map_err(|reason| PeerProblem::new(PeerErrorCode::Misdirected, reason))?;
        let Ok(permit) = self.permits.try_acquire() else {
            let detail = format!("member {me} passes on {MAX_UNDER_WAY} messages already");
            return refuse(PeerErrorCode::Unavailable, detail);
        };
        // This ends a search: each member passes one copy of a request on, so with m links and n
        // members there are at most 2m - (n - 1) copies. It also keeps recorded requests out, which
        // have a valid MAC: this member does not know their age, because that is in the time of the
        // receiver.
        if !self.passed_on().admit(&envelope) {
            let number = envelope.number;
            let detail = format!(
                "member {me} has passed on message {number} of member {from}, or a newer one"
            );
            return refuse(PeerErrorCode::RelayedBefore, detail);
        }
        let lifetime = endpoint.setup.message_lifetime;
        let left = text(TIME_HEADER).and_then(|text| text.parse().ok());
        let left = left.map_or(lifetime, Duration::from_millis).min(lifetime);
        Ok(Passage {
            request: Carried {
                body,
                mac,
                to,
                deadline: arrived + left,
            },
            path,
            step,
            _permit: permit,
        })
    }

    /// Passes a request on and returns the receiver's answer.
    pub(super) async fn pass_on(&self, passage: Passage<'_>) -> Result<Delivered, PeerProblem> {
        let request = &passage.request;
        let delivered = match &passage.step {
            Step::Follow(next) => {
                self.endpoint.count(|counters| counters.relayed += 1);
                self.send(request, *next, &passage.path).await
            }
            Step::Search(path) => self.search(request, path).await,
        };
        delivered.map_err(|error| PeerProblem::new(PeerErrorCode::NoPath, error.reason))
    }

    /// Sends a request of this member along a complete path.
    pub(super) async fn follow(
        &self,
        request: &Carried,
        path: &RelayPath,
    ) -> Result<Delivered, NoAnswer> {
        // A path begins with this member, and has at least one relay.
        let next = path.after(self.endpoint.setup.me).unwrap_or(request.to);
        self.send(request, next, path).await
    }

    /// Searches for the receiver. `path` ends with this member. Returns the first answer.
    pub(super) async fn search(
        &self,
        request: &Carried,
        path: &RelayPath,
    ) -> Result<Delivered, NoAnswer> {
        let to = request.to;
        let to_receiver = path.then(to);
        let neighbours = self.endpoint.setup.peers.iter();
        let neighbours = neighbours
            .filter(|(node, url)| url.is_some() && **node != to && !path.contains(**node));
        let mut others: Vec<NodeId> = neighbours.map(|(node, _)| *node).collect();
        let mut ways = FuturesUnordered::new();
        let mut head_start = Duration::ZERO;
        let mut copies = 0;
        if self.endpoint.url_of(to).is_some() {
            self.count_copy(path, &mut copies);
            ways.push(self.send(request, to, &to_receiver));
            let left = request.deadline.saturating_duration_since(Instant::now());
            head_start = left / HEAD_START;
        }
        let head_start = tokio::time::sleep(head_start);
        tokio::pin!(head_start);
        let mut to_copy = None;
        let mut reasons = Vec::new();
        loop {
            if ways.is_empty() || head_start.is_elapsed() {
                for next in others.drain(..) {
                    self.count_copy(path, &mut copies);
                    ways.push(self.send(request, next, path));
                }
            }
            tokio::select! {
                answered = ways.next() => match answered {
                    None => break,
                    // The receiver has accepted another copy, and that copy's answer has the reply.
                    Some(Ok(delivered)) if delivered.answer.is_of_a_copy() => {
                        to_copy = Some(delivered);
                    }
                    Some(Ok(delivered)) => return Ok(delivered),
                    Some(Err(error)) => reasons.push(error.reason),
                },
                () = &mut head_start, if !others.is_empty() => {}
            }
        }
        to_copy.ok_or_else(|| {
            let me = self.endpoint.setup.me;
            if reasons.is_empty() {
                reasons.push(format!("member {me} has no further member to ask"));
            }
            NoAnswer {
                reason: reasons.join("; "),
                is_unsent: false,
            }
        })
    }

    /// Sends a request to the next member: to the receiver, or to a member that passes it on.
    async fn send(
        &self,
        request: &Carried,
        next: NodeId,
        path: &RelayPath,
    ) -> Result<Delivered, NoAnswer> {
        let me = self.endpoint.setup.me;
        let no_answer = |is_unsent, reason: String| NoAnswer {
            reason: format!("from member {me} to {next}: {reason}"),
            is_unsent,
        };
        let Some(base) = self.endpoint.url_of(next) else {
            return Err(no_answer(true, "no address".into()));
        };
        let route = if next == request.to {
            self.endpoint.message_path()
        } else {
            self.endpoint.relay_path()
        };
        let left = request.deadline.saturating_duration_since(Instant::now());
        let mut sent = self
            .http
            .post(url_below(base, &route))
            .timeout(left)
            .header(CONTENT_TYPE, "application/json")
            .header(PATH_HEADER, path.to_string())
            .header(TIME_HEADER, left.as_millis().to_string())
            .body(request.body.clone());
        if let Some(mac) = request.mac.header() {
            sent = sent.header(MAC_HEADER, mac);
        }
        let failed = |error: reqwest::Error| {
            no_answer(error.is_connect(), last_of_causes(&error).to_string())
        };
        let response = sent.send().await.map_err(failed)?;
        let named = response.headers().get(PATH_HEADER);
        let named = named.and_then(|path| RelayPath::parse(path.to_str().ok()?));
        let answer = RawAnswer::read(response).await.map_err(failed)?;
        let answer = answer.of_receiver(request.to, &request.mac);
        let answer = answer.map_err(|reason| no_answer(false, reason))?;
        if path.ends_with(request.to) {
            let path = path.clone();
            return Ok(Delivered { answer, path });
        }
        match named.filter(|named| named.continues(path) && named.ends_with(request.to)) {
            Some(path) => Ok(Delivered { answer, path }),
            None => Err(no_answer(false, "the answer names no path".into())),
        }
    }

    /// Counts a copy of a request: of another member, or of this one, whose first copy is counted
    /// as sent.
    fn count_copy(&self, path: &RelayPath, copies: &mut u32) {
        let is_own = *path == RelayPath::of_sender(self.endpoint.setup.me);
        let is_first = *copies == 0;
        *copies += 1;
        self.endpoint.count(|counters| {
            if !is_own {
                counters.relayed += 1;
            } else if !is_first {
                counters.copies += 1;
            }
        });
    }

    fn passed_on(&self) -> std::sync::MutexGuard<'_, PassedOn> {
        let passed_on = self.passed_on.lock();
        passed_on.unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last request of each sender to each receiver that this member has passed on.
#[derive(Debug, Default)]
struct PassedOn(BTreeMap<(NodeId, NodeId), (Start, u64)>);

impl PassedOn {
    /// Records a request. Returns false if it is not newer than the last one.
    fn admit(&mut self, envelope: &Envelope) -> bool {
        let (start, number) = (envelope.start(), envelope.number);
        let pair = (envelope.from, envelope.to);
        if let Some((last, last_number)) = self.0.get(&pair) {
            let is_older = start.incarnation < last.incarnation;
            if is_older || (start == *last && number <= *last_number) {
                return false;
            }
        }
        // If two processes claim the same start of a member, the requests of both are passed on,
        // so that the receiver detects them.
        self.0.insert(pair, (start, number));
        true
    }
}
