//! The failure detector of the papers, exactly as they describe it.
//!
//! It sends nothing until it is asked. A question about a listed member is answered at once: the
//! member is down. Otherwise one ping is sent; a member that does not answer within the timeout is
//! listed. A member that starts sends one recovery notice to each other member, and only this notice
//! removes it from their lists. If the notice is lost, the member stays listed for ever. The library's
//! own detector is repaired in this respect (`tenure_core::detector::OnDemand`).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tenure_core::detector::{Candidacy, DetectorMessage, Verdict};
use tenure_core::{Incarnation, Instant, NodeId};
use tenure_sim::contestant::Payload;
use tenure_sim::sim::Context;

/// The detector of one member.
#[derive(Debug)]
pub(super) struct DownList {
    incarnation: Incarnation,
    timeout: Duration,
    listed: BTreeSet<NodeId>,
    /// The open questions: the number of the ping, and the end of the timeout.
    questions: BTreeMap<NodeId, (u64, Instant)>,
    pings: u64,
}

impl DownList {
    pub(super) const fn new(incarnation: Incarnation, timeout: Duration) -> Self {
        Self {
            incarnation,
            timeout,
            listed: BTreeSet::new(),
            questions: BTreeMap::new(),
            pings: 0,
        }
    }

    pub(super) fn list(&mut self, members: &[NodeId]) {
        self.listed.extend(members);
    }

    pub(super) fn send_notices(
        &self,
        context: &mut Context<'_>,
        to: impl IntoIterator<Item = NodeId>,
    ) {
        for member in to {
            self.send(context, member, DetectorMessage::Recovered);
        }
    }

    fn send(&self, context: &mut Context<'_>, to: NodeId, message: DetectorMessage) {
        context.send(to, Payload::Detector(self.incarnation, message));
    }

    pub(super) fn is_asked(&self, member: NodeId) -> bool {
        self.questions.contains_key(&member)
    }

    /// Asks about a member. Returns the verdict if the member is listed.
    pub(super) fn ask(&mut self, context: &mut Context<'_>, member: NodeId) -> Option<Verdict> {
        if self.listed.contains(&member) {
            return Some(Verdict::Down);
        }
        self.pings += 1;
        let round = self.pings;
        self.send(context, member, DetectorMessage::Ping { round });
        // The timeout begins when the ping has left, as with the textbook's algorithm.
        let until = context.sent() + self.timeout;
        self.questions.insert(member, (round, until));
        None
    }

    /// Handles a message. Returns whether it settles an open question about its sender.
    pub(super) fn handle(
        &mut self,
        context: &mut Context<'_>,
        from: NodeId,
        message: &DetectorMessage,
    ) -> bool {
        match message {
            DetectorMessage::Ping { round } => {
                let pong = DetectorMessage::Pong {
                    round: *round,
                    candidacy: Candidacy::Candidate,
                };
                self.send(context, from, pong);
                false
            }
            DetectorMessage::Pong { round, .. } => {
                let asked = self.questions.get(&from);
                let settles = asked.is_some_and(|(ping, _)| ping == round);
                if settles {
                    self.questions.remove(&from);
                }
                settles
            }
            DetectorMessage::Recovered => {
                self.listed.remove(&from);
                self.questions.remove(&from).is_some()
            }
            _ => false,
        }
    }

    /// Lists a member whose timeout is over, and returns it.
    pub(super) fn next_silent(&mut self, now: Instant) -> Option<NodeId> {
        let mut questions = self.questions.iter();
        let (&silent, _) = questions.find(|(_, (_, until))| *until <= now)?;
        self.questions.remove(&silent);
        self.listed.insert(silent);
        Some(silent)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.questions.values().map(|(_, until)| *until).min()
    }
}
