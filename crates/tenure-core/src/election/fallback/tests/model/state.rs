//! One state of the group, and how an event changes it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::shared::Shared;
use super::store::{Client, Store, lease_id, reduced};
use super::tick;
use crate::bully::{
    HardState, PeerEffect, PeerInput, PeerMessage, Process, QuorumKind, QuorumMessage,
};
use crate::election::fallback::FallbackCandidate;
use crate::election::joint::{JointEffect, JointMessage};
use crate::election::{ElectionMachine as _, Output, Standing, TermEvent};
use crate::lease::candidate::{Answer, LeaseEffect, Request};
use crate::{Epoch, Incarnation, Instant, NodeId, Random};

/// The rest of the events within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Left {
    /// Successful pre-votes: a member asks for votes.
    pub(super) votes: u8,
    /// Campaigns at the store.
    pub(super) campaigns: u8,
    /// Rounds of renewals among the members after the first round of each term, except those that
    /// a leader begins because it has lost the store.
    pub(super) rounds: u8,
    /// Requests to the store after the first one of a campaign or a term.
    pub(super) requests: u8,
    /// Requests to the store whose answer a candidate no longer awaits.
    pub(super) losses: u8,
    pub(super) crashes: u8,
    pub(super) store_restarts: u8,
    /// Clients whose disconnection the store notices.
    pub(super) disconnections: u8,
    /// Tasks that end, after their term or before.
    pub(super) task_ends: u8,
}

/// A term that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Began {
    pub(super) epoch: Epoch,
    pub(super) leader: NodeId,
    pub(super) kind: QuorumKind,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) machine: FallbackCandidate,
    pub(super) durable: HardState,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) places: Vec<Shared<Place>>,
    pub(super) net: BTreeSet<(Process, NodeId, QuorumMessage)>,
    /// Processes that led when their members restarted, and may still run.
    pub(super) former: Vec<Shared<Place>>,
    pub(super) requests: BTreeMap<Client, Request>,
    /// The answers that are awaited, in a fixed order.
    pub(super) answers: Vec<(Client, Answer)>,
    pub(super) store: Shared<Store>,
    pub(super) now: u8,
    pub(super) left: Left,
    /// The number of members that have crashed or asked for votes or the lease.
    pub(super) begun: u32,
    pub(super) terms: Vec<Began>,
}

/// Numbers that differ from one lease id to the next, and are the same on every path to a state.
struct Numbers(u64);

impl Random for Numbers {
    fn next_u64(&mut self) -> u64 {
        self.0 += 1;
        self.0
    }
}

impl Place {
    pub(super) fn client(&self, attempt: u64) -> Client {
        Client {
            node: self.machine.node.settings().me(),
            incarnation: self.machine.node.incarnation(),
            attempt,
        }
    }

    pub(super) fn process(&self) -> Process {
        Process {
            node: self.machine.node.settings().me(),
            incarnation: Incarnation(self.machine.node.incarnation()),
        }
    }

    pub(super) fn leads(&self, now: Instant) -> bool {
        matches!(self.machine.standing(now), Standing::Leading { .. })
    }

    /// Returns the request whose answer the candidate awaits.
    pub(super) fn awaits(&self) -> Option<Client> {
        Some(self.client(self.machine.store.awaited()?))
    }
}

/// The order of answers to one request.
const fn rank(answer: &Answer) -> (u8, u64) {
    match answer {
        Answer::Held(epoch) => (0, epoch.get()),
        Answer::HeldByAnother(Some((_, epoch))) => (1, epoch.get()),
        Answer::HeldByAnother(None) => (2, 0),
        Answer::IdRetired => (3, 0),
        Answer::Expired => (4, 0),
        Answer::Superseded => (5, 0),
        Answer::Released => (6, 0),
        _ => (7, 0),
    }
}

impl State {
    pub(super) fn instant(&self) -> Instant {
        tick(self.now)
    }

    pub(super) fn place(&self, id: NodeId) -> &Place {
        &self.places[id.0 as usize - 1]
    }

    /// Returns the greatest epoch that the members have promised.
    pub(super) fn highest(&self) -> Option<Epoch> {
        let promised = self
            .places
            .iter()
            .map(|place| place.machine.node.promised());
        promised.max().flatten()
    }

    pub(super) fn leaders(&self) -> impl Iterator<Item = &Place> {
        let now = self.instant();
        let places = self.places.iter().chain(&self.former);
        places
            .map(|place| &**place)
            .filter(move |place| place.leads(now))
    }

    /// Lets one machine act, and executes its effects.
    pub(super) fn act(
        &mut self,
        id: NodeId,
        act: impl FnOnce(&mut FallbackCandidate, Instant, &mut dyn Random),
    ) {
        let now = self.instant();
        let mut place = Place::clone(&self.places[id.0 as usize - 1]);
        // Every lease id is used for a request before the next one is drawn.
        let client = place.client(place.machine.store.attempts());
        let mut random = Numbers(
            u64::from(client.node.0) << 32 | client.incarnation << 20 | client.attempt << 8,
        );
        act(&mut place.machine, now, &mut random);
        loop {
            // A crash before the record is on disk is equivalent to a crash before the event. A
            // crash after that and before the messages leave is equivalent to losing the messages.
            // So it is enough to check that no message leaves before the record is on disk.
            let mut unwritten = 0;
            while let Some(output) = place.machine.poll_output() {
                let is_early = match &output {
                    Output::Effect(JointEffect::Peers(PeerEffect::Send { .. })) => unwritten > 0,
                    Output::Term(TermEvent::Began(_)) => unwritten > 0,
                    _ => false,
                };
                assert!(
                    !is_early,
                    "{output:?} depends on a record that is not on disk"
                );
                match output {
                    Output::Effect(JointEffect::Store(LeaseEffect::Send {
                        attempt,
                        request,
                        ..
                    })) => {
                        let client = place.client(attempt);
                        self.requests.insert(client, reduced(request));
                    }
                    // A refusal informs the candidate and promises nothing, so the model omits it.
                    Output::Effect(JointEffect::Peers(PeerEffect::Send {
                        message: PeerMessage::Quorum(QuorumMessage::VoteRejected { .. }),
                        ..
                    })) => {}
                    Output::Effect(JointEffect::Peers(PeerEffect::Send {
                        to,
                        message: PeerMessage::Quorum(message),
                    })) => {
                        let from = place.process();
                        self.net.insert((from, to, message));
                    }
                    Output::Effect(JointEffect::Peers(PeerEffect::Persist(record))) => {
                        place.durable = record;
                        unwritten += 1;
                    }
                    Output::Term(TermEvent::Began(epoch)) => {
                        let (with_store, _) = place.machine.node.valid_by(now).unwrap_or_default();
                        let kind = match with_store {
                            true => QuorumKind::Store,
                            false => QuorumKind::Members,
                        };
                        self.terms.push(Began {
                            epoch,
                            leader: id,
                            kind,
                        });
                    }
                    _ => {}
                }
            }
            if unwritten > 0 {
                for _ in 0..unwritten {
                    let written = JointMessage::Peers(PeerInput::Persisted);
                    place.machine.handle_message(now, written, &mut random);
                }
            } else if place.machine.store.forget_release() {
                // The candidate does not wait for the answer to a release. The release may arrive
                // at any time.
                place.machine.settle(now, &mut random);
            } else {
                break;
            }
        }
        let machine = &mut place.machine;
        machine.node.settle(now);
        machine.store.settle();
        if !machine.store.is_asking() {
            machine.node.forbid_store();
        }
        if machine.store.epoch().is_none() {
            machine.claimed = None;
        }
        self.places[id.0 as usize - 1] = place.into();
        self.forget();
    }

    /// Adds answers of the store.
    pub(super) fn serve(&mut self, answers: Vec<(Client, Answer)>) {
        for answer in answers {
            if !self.answers.contains(&answer) {
                self.answers.push(answer);
            }
        }
        self.answers
            .sort_by_key(|(client, answer)| (*client, rank(answer)));
        self.forget();
    }

    /// Drops messages that can have no effect any more.
    fn forget(&mut self) {
        let places = &self.places;
        let awaits = |client: &Client| places[client.node.0 as usize - 1].awaits() == Some(*client);
        self.answers.retain(|(client, _)| awaits(client));
        let store = &self.store;
        self.requests
            .retain(|client, request| awaits(client) || !store.is_past(lease_id(request)));
        self.net.retain(|(_, to, message)| {
            let to = &places[to.0 as usize - 1];
            to.machine.node.minds(*message, to.durable.highest)
        });
    }

    /// Delivers a request to the store.
    pub(super) fn reach_store(&mut self, client: Client, promise: core::time::Duration) {
        let now = self.instant();
        if let Some(request) = self.requests.get(&client).cloned() {
            let answers = self
                .store
                .change(|store| store.handle(now, promise, client, &request));
            self.serve(answers);
        }
    }
}

/// Returns whether [`is_carried_where`] holds for exactly these kinds.
pub(super) fn is_carried(state: &State, began: QuorumKind, by: (bool, bool)) -> bool {
    is_carried_where(state, began, |valid| valid == by)
}

/// Returns whether a candidate leads in a term that began with this kind of quorum, and that is
/// valid by the promises of these kinds now.
pub(super) fn is_carried_where(
    state: &State,
    began: QuorumKind,
    by: impl Fn((bool, bool)) -> bool,
) -> bool {
    let now = state.instant();
    state.leaders().any(|place| {
        let node = &place.machine.node;
        let of_node = |epoch: Epoch| state.terms.iter().find(|term| term.epoch == epoch);
        let began_as = node.stands_under().and_then(of_node);
        began_as.is_some_and(|term| term.kind == began) && node.valid_by(now).is_some_and(&by)
    })
}
