//! A candidate's requests to the store.

use std::time::Duration;

use tenure_core::lease::candidate::{Answer, Request};
use tenure_core::{CandidateId, Instant, NodeId};

use super::{Payload, RequestId};
use crate::sim::Context;

/// Sends one request at a time, as the library does.
#[derive(Debug)]
pub(super) struct StoreClient {
    name: CandidateId,
    /// The servers of the store, and the place of the one that is asked.
    servers: Vec<NodeId>,
    current: usize,
    /// The request in flight, and the number of servers that were asked.
    asked: Option<(Request, usize)>,
    incarnation: u64,
    in_flight: Option<InFlight>,
}

#[derive(Clone, Copy, Debug)]
struct InFlight {
    attempt: u64,
    times_out: Instant,
}

/// Returns the candidate id of this node. With a fallback, members know each other's candidate ids:
/// the node ids.
pub(super) fn name_of(node: NodeId) -> CandidateId {
    let name = format!("candidate-{node}");
    name.parse().expect("visible characters")
}

/// Returns the node with this candidate id. Among peers the id is only the number.
pub(super) fn node_of(name: &CandidateId) -> Option<NodeId> {
    let number = name.as_str().rsplit('-').next()?;
    number.parse().ok().map(NodeId)
}

impl StoreClient {
    pub(super) fn new(name: CandidateId, servers: Vec<NodeId>, incarnation: u64) -> Self {
        Self {
            name,
            servers,
            current: 0,
            asked: None,
            incarnation,
            in_flight: None,
        }
    }

    /// Returns the server that is asked.
    pub(super) fn store(&self) -> NodeId {
        self.servers[self.current]
    }

    /// Returns the time at which the request in flight fails without an answer.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.in_flight.map(|it| it.times_out)
    }

    pub(super) fn send(
        &mut self,
        context: &mut Context<'_>,
        attempt: u64,
        request: Request,
        timeout: Duration,
    ) {
        let in_flight = InFlight {
            attempt,
            times_out: context.now + timeout,
        };
        if let Some(given_up) = self.in_flight.replace(in_flight) {
            self.close(context, given_up.attempt);
        }
        self.asked = Some((request, 0));
        self.ask(context, attempt);
    }

    /// Sends the request in flight to the current server.
    fn ask(&mut self, context: &mut Context<'_>, attempt: u64) {
        let id = self.id(attempt);
        let server = self.store();
        if let Some((request, asked)) = &mut self.asked {
            *asked += 1;
            let payload = Payload::StoreRequest {
                id,
                candidate: self.name.clone(),
                request: request.clone(),
            };
            context.send(server, payload);
        }
    }

    /// Handles the answer of a server that is not active, or a lost connection. One request goes
    /// to each server once.
    pub(super) fn ask_next(
        &mut self,
        context: &mut Context<'_>,
        why: &str,
    ) -> Option<(u64, Answer)> {
        let in_flight = self.in_flight?;
        if self
            .asked
            .as_ref()
            .is_none_or(|(_, asked)| *asked >= self.servers.len())
        {
            return self.fail(context, why);
        }
        self.current = (self.current + 1) % self.servers.len();
        self.ask(context, in_flight.attempt);
        None
    }

    /// Handles the answer of a server that is not active.
    pub(super) fn handle_not_active(
        &mut self,
        context: &mut Context<'_>,
        (from, id): (NodeId, RequestId),
    ) -> Option<(u64, Answer)> {
        let in_flight = self.in_flight?;
        let is_awaited = from == self.store() && id == self.id(in_flight.attempt);
        is_awaited.then(|| self.ask_next(context, "not active"))?
    }

    /// Handles an answer. An answer to an earlier incarnation, or to a request that was given up,
    /// is dropped.
    pub(super) fn handle_answer(&mut self, id: RequestId, answer: Answer) -> Option<(u64, Answer)> {
        let is_awaited = id.incarnation == self.incarnation
            && self.in_flight.is_some_and(|it| it.attempt == id.attempt);
        let in_flight = self.in_flight.take_if(|_| is_awaited)?;
        Some((in_flight.attempt, answer))
    }

    /// Fails the request in flight if its timeout is over.
    pub(super) fn handle_timeout(&mut self, context: &mut Context<'_>) -> Option<(u64, Answer)> {
        self.in_flight.filter(|it| context.now >= it.times_out)?;
        self.fail(context, "no answer in time")
    }

    /// Closes the connection of the request in flight, which makes its outcome unknown.
    pub(super) fn fail(&mut self, context: &mut Context<'_>, why: &str) -> Option<(u64, Answer)> {
        let in_flight = self.in_flight.take()?;
        self.close(context, in_flight.attempt);
        self.current = (self.current + 1) % self.servers.len();
        Some((in_flight.attempt, Answer::Unknown(why.into())))
    }

    fn close(&self, context: &mut Context<'_>, attempt: u64) {
        let id = self.id(attempt);
        context.send(self.store(), Payload::CloseConnection { id });
    }

    const fn id(&self, attempt: u64) -> RequestId {
        RequestId {
            incarnation: self.incarnation,
            attempt,
        }
    }
}
