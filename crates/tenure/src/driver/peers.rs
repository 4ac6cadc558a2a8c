//! Electing among peers.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tenure_core::bully::{
    self, HardState, PeerCandidate, PeerInput, PeerOutput, QuorumMessage, Verdict,
};
use tenure_core::detector::{self, Candidacy, Detector};
use tenure_core::election::joint::{self, Joint};
use tenure_core::election::{ElectionMachine, Standing};
use tenure_core::lease::candidate::EndReason;
use tenure_core::{CandidateId, Epoch, Incarnation, Instant, NodeId};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tracing::error;

use super::command::Proclaimed;
use super::elector::{Elector, NO_SUCH_MEMBER, News};
use crate::bully::{About, Payload, StateFile, Status};
use crate::candidate::RunError;
use crate::config::Config;
use crate::leadership::ProclaimError;
use crate::observe::Observed;
use crate::post::{Event, Post, Reply};
use crate::random::OsRandom;

/// How long to wait before a record that could not be written is written again.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// How often to look whether the last words of a term are out.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// What keeps a member's records.
pub(crate) type Disk = Arc<Mutex<StateFile>>;

/// A machine with a voice among peers.
pub(crate) trait AmongPeers: ElectionMachine {
    /// What it is among them.
    fn node(&self) -> &PeerCandidate;

    /// Something came from them, their detector or the disk.
    fn hear(&mut self, now: Instant, input: PeerInput);
}

impl AmongPeers for PeerCandidate {
    fn node(&self) -> &PeerCandidate {
        self
    }

    fn hear(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, input, &mut OsRandom);
    }
}

impl AmongPeers for Joint {
    fn node(&self) -> &PeerCandidate {
        self.node()
    }

    fn hear(&mut self, now: Instant, input: PeerInput) {
        self.handle_message(now, joint::JointMessage::Peers(input), &mut OsRandom);
    }
}

/// A member's machine and failure detector, with their ways to the others and to the disk.
pub(crate) struct Peers<M = PeerCandidate> {
    me: NodeId,
    machine: M,
    detector: Box<dyn Detector + Send>,
    post: Post,
    /// `None` for who has nothing to remember.
    disk: Option<Disk>,
    /// Who leads, for those who observe.
    seen: watch::Sender<Observed>,
    /// This member as a candidate, and what it says about itself while it leads.
    own: CandidateId,
    metadata: BTreeMap<String, String>,
    /// For how long the last words of a term may be under way.
    message_lifetime: Duration,
    status: Status,
    state: State,
}

/// What a member is made of.
pub(crate) struct Parts<M = PeerCandidate> {
    pub(crate) machine: M,
    pub(crate) detector: Box<dyn Detector + Send>,
    pub(crate) post: Post,
    pub(crate) disk: Option<Disk>,
}

/// What changes while it runs.
#[derive(Default)]
struct State {
    candidacy: Candidacy,
    /// Records that are not on disk yet: the newest, and how many there are.
    unwritten: Option<(HardState, usize)>,
    /// The write under way, and how many records it stands for.
    writing: JoinSet<io::Result<()>>,
    covers: usize,
    /// When each of the others was last heard.
    heard: BTreeMap<NodeId, Instant>,
    /// The message that is being answered.
    answering: Option<(NodeId, Reply, Vec<Payload>)>,
    /// A term that is over, until its last words are out.
    ended: Option<Ended>,
    /// Who leads among the peers.
    leader: Option<(NodeId, Epoch)>,
    /// What this member has said about itself in this term, in place of its configuration's metadata.
    proclaimed: Option<BTreeMap<String, String>>,
    /// The last that a member has said about itself.
    about: Option<(NodeId, About)>,
    /// Why this member may not take part any more.
    banned: Option<String>,
}

/// A term that is over, while its last words are under way.
#[derive(Clone, Copy)]
struct Ended {
    epoch: Epoch,
    reason: EndReason,
    /// When to look whether they are out, and when they are out or lost for sure.
    look_at: Instant,
    until: Instant,
}

impl<M: AmongPeers> Peers<M> {
    /// The member, and who it sees to lead.
    pub(crate) fn new(config: &Config, parts: Parts<M>) -> (Self, watch::Receiver<Observed>) {
        let Parts {
            machine,
            detector,
            post,
            disk,
        } = parts;
        let node = machine.node();
        let me = node.settings().me();
        let unknown = Observed::Unknown("no leader was heard of yet".into());
        let (seen, observed) = watch::channel(unknown);
        let peers = Self {
            me,
            status: Status {
                strategy: config.strategy.name().into(),
                ..Status::of(me, Incarnation(node.incarnation()))
            },
            message_lifetime: node.settings().timings().message_lifetime(),
            machine,
            detector,
            post,
            disk,
            seen,
            own: config.candidate.clone(),
            metadata: config.metadata.clone(),
            state: State::default(),
        };
        (peers, observed)
    }

    /// What comes in next. May be dropped while it waits; nothing is lost then.
    pub(super) async fn next(&mut self) -> Event {
        let writing = &mut self.state.writing;
        tokio::select! {
            event = self.post.recv() => event,
            Some(written) = writing.join_next() => {
                Event::Written(written.unwrap_or_else(|error| Err(io::Error::other(error))))
            }
        }
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Message(incoming) => {
                // Whoever was to be answered before and has not been is answered by the post.
                self.state.answering = None;
                let (from, incarnation) = (incoming.from, incoming.incarnation);
                self.state.heard.insert(from, now);
                let heard = match incoming.payload {
                    Payload::Detector(message) => detector::DetectorInput::Message {
                        from,
                        incarnation,
                        message,
                    },
                    Payload::About(about) => {
                        self.state.about = Some((from, about));
                        self.show();
                        detector::DetectorInput::Heard { from, incarnation }
                    }
                    Payload::Election(message) => {
                        self.machine.hear(now, PeerInput::Message { from, message });
                        detector::DetectorInput::Heard { from, incarnation }
                    }
                };
                self.detector.handle_input(now, heard);
                self.state.answering = Some((from, incoming.reply, Vec::new()));
            }
            Event::Refused(node) => {
                let refused = detector::DetectorInput::Refused(node);
                self.detector.handle_input(now, refused);
            }
            Event::Impostor(why) => {
                error!(node = %self.me, error = why, "this member takes no part any more");
                // Two that vote under one number break every majority, so not a word from here on.
                self.post = Post::Silent;
                self.state.banned = Some(why);
                self.machine
                    .resign(now, EndReason::Superseded, &mut OsRandom);
            }
            Event::Written(Ok(())) => {
                for _ in 0..std::mem::take(&mut self.state.covers) {
                    self.machine.hear(now, PeerInput::Persisted);
                }
                self.write(Duration::ZERO);
            }
            Event::Written(Err(error)) => {
                // It says nothing until the record is written, so it can't break what it promised;
                // a leader loses its term meanwhile.
                error!(node = %self.me, %error, "can't write the state of this member, trying again");
                let covers = std::mem::take(&mut self.state.covers);
                if let Some((_, count)) = &mut self.state.unwritten {
                    *count += covers;
                }
                self.write(WRITE_AGAIN);
            }
        }
    }

    fn persist(&mut self, now: Instant, record: HardState) {
        if self.disk.is_none() {
            self.machine.hear(now, PeerInput::Persisted);
            return;
        }
        let before = self.state.unwritten.take().map_or(0, |(_, count)| count);
        self.state.unwritten = Some((record, before + 1));
        self.write(Duration::ZERO);
    }

    /// Writes the newest record, unless a write is under way: it holds all that the older ones say.
    fn write(&mut self, after: Duration) {
        let (Some(disk), Some((record, count))) = (&self.disk, &mut self.state.unwritten) else {
            return;
        };
        if *count == 0 || !self.state.writing.is_empty() {
            return;
        }
        // It stays until the next one, in case it has to be written again.
        self.state.covers = std::mem::take(count);
        let (disk, record) = (disk.clone(), *record);
        self.state.writing.spawn(async move {
            tokio::time::sleep(after).await;
            let write = move || {
                let mut disk = disk.lock().unwrap_or_else(PoisonError::into_inner);
                disk.write(&record).map_err(io::Error::other)
            };
            let written = tokio::task::spawn_blocking(write).await;
            written.unwrap_or_else(|error| Err(io::Error::other(error)))
        });
    }

    fn send(&mut self, to: NodeId, payload: Payload) {
        match &mut self.state.answering {
            Some((from, _, payloads)) if *from == to => payloads.push(payload),
            _ => self.post.send(to, payload),
        }
    }

    /// Does what the machine wants of the peers and the disk, or says what it has to say.
    pub(super) fn obey(&mut self, now: Instant, output: PeerOutput) -> Option<News> {
        Some(match output {
            PeerOutput::Send { to, message } => {
                self.send(to, Payload::Election(message));
                // It goes with the renewals, so that it need not be said reliably.
                if let Some(epoch) = renewed(&message) {
                    self.tell_about(to, epoch);
                }
                return None;
            }
            PeerOutput::Persist(record) => {
                self.persist(now, record);
                return None;
            }
            PeerOutput::Ask { node, round } => {
                let ask = detector::DetectorInput::Ask { node, ask: round };
                self.detector.handle_input(now, ask);
                return None;
            }
            PeerOutput::Watch(node) => {
                self.detector
                    .handle_input(now, detector::DetectorInput::Watch(node));
                return None;
            }
            PeerOutput::Unwatch(node) => {
                self.detector
                    .handle_input(now, detector::DetectorInput::Unwatch(node));
                return None;
            }
            PeerOutput::SeenLeader(leader) => {
                self.state.leader = leader;
                self.show();
                if leader.is_some_and(|(leader, _)| leader == self.me) {
                    return None;
                }
                News::SeenLeader(leader.map(|(leader, epoch)| (candidate(leader), epoch)))
            }
            PeerOutput::Ended(epoch, reason) => {
                // The others are told first, so that the next one leads at once: this process may
                // end when it hears of it.
                self.state.proclaimed = None;
                self.state.ended = Some(Ended {
                    epoch,
                    reason,
                    look_at: now,
                    until: now + self.message_lifetime,
                });
                return None;
            }
            PeerOutput::Withdrawn => return None,
            PeerOutput::Began(epoch) => News::Began(epoch),
            PeerOutput::AtRisk(at_risk) => News::AtRisk(at_risk),
            PeerOutput::Cancel(reason) => News::Cancel(reason),
            PeerOutput::Abort => News::Abort,
            PeerOutput::Overrun => News::Overrun,
            PeerOutput::Failed(why) => News::Failed(RunError::Barred(why)),
        })
    }

    /// Does what the detector wants; whether that was anything.
    fn obey_detector(&mut self, now: Instant) -> bool {
        let candidacy = if self.machine.node().stands(now) {
            Candidacy::Candidate
        } else {
            Candidacy::NonCandidate
        };
        if self.state.candidacy != candidacy {
            self.state.candidacy = candidacy;
            let input = detector::DetectorInput::Candidacy(candidacy);
            self.detector.handle_input(now, input);
        }
        let Some(output) = self.detector.poll_output() else {
            return false;
        };
        let mut hear = |input| self.machine.hear(now, input);
        match output {
            detector::DetectorOutput::Send { to, message } => {
                self.send(to, Payload::Detector(message))
            }
            detector::DetectorOutput::Answer {
                ask, node, verdict, ..
            } => hear(PeerInput::Answer {
                node,
                round: ask,
                verdict: match verdict {
                    detector::Verdict::Up => Verdict::Up,
                    detector::Verdict::Aside => Verdict::NonCandidate,
                    detector::Verdict::Down => Verdict::Down,
                },
            }),
            detector::DetectorOutput::Suspected(node) => hear(PeerInput::Suspected(node)),
            detector::DetectorOutput::Trusted(node) => hear(PeerInput::Alive(node)),
            // What it was before is gone, and what it is now is there.
            detector::DetectorOutput::Restarted(node, _) => {
                hear(PeerInput::Suspected(node));
                hear(PeerInput::Alive(node));
            }
        }
        true
    }

    /// What this member says about itself.
    fn said(&self) -> &BTreeMap<String, String> {
        self.state.proclaimed.as_ref().unwrap_or(&self.metadata)
    }

    /// Tells another member about the leader, this one.
    fn tell_about(&mut self, to: NodeId, epoch: Epoch) {
        if self.said().is_empty() && self.state.proclaimed.is_none() {
            return;
        }
        let metadata = self.said().clone();
        self.send(to, Payload::About(About { epoch, metadata }));
    }

    /// Says this about the leader, this one, to all others.
    pub(super) fn proclaim(
        &mut self,
        metadata: BTreeMap<String, String>,
    ) -> Option<Result<(), ProclaimError>> {
        let epoch = match self.state.leader {
            Some((leader, epoch)) if leader == self.me => epoch,
            _ => return None,
        };
        if let Err(why) = About::check(&metadata) {
            return Some(Err(ProclaimError::Metadata(why)));
        }
        self.state.proclaimed = Some(metadata);
        let members = self.machine.node().settings().members();
        let others: Vec<NodeId> = members.others(self.me).collect();
        for other in others {
            self.tell_about(other, epoch);
        }
        self.show();
        Some(Ok(()))
    }

    /// Shows who leads to those who observe.
    fn show(&self) {
        let observed = match self.state.leader {
            Some((leader, epoch)) => Observed::Leader {
                candidate: if leader == self.me {
                    self.own.clone()
                } else {
                    candidate(leader)
                },
                epoch,
                metadata: match &self.state.about {
                    _ if leader == self.me => self.said().clone(),
                    Some((whose, about)) if (*whose, about.epoch) == (leader, epoch) => {
                        about.metadata.clone()
                    }
                    _ => BTreeMap::new(),
                },
            },
            None => Observed::NoLeader,
        };
        self.seen.send_if_modified(|seen| {
            let is_new = *seen != observed;
            *seen = observed;
            is_new
        });
    }

    /// Whom it takes for down: a leader those that have been silent for too long, and others the one
    /// that they watch.
    fn suspects(&self, now: Instant) -> Vec<NodeId> {
        let node = self.machine.node();
        let longest = node.longest_silence();
        let heard = |node| self.state.heard.get(&node);
        let silent = |node, longest| heard(node).is_none_or(|&heard| now.since(heard) > longest);
        let is_down = |&node: &NodeId| {
            self.detector.is_suspected(node) || longest.is_some_and(|it| silent(node, it))
        };
        let others = node.settings().members().others(self.me);
        others.filter(is_down).collect()
    }

    /// Shows what this member does to those who look at it.
    fn publish(&mut self, now: Instant) {
        let node = self.machine.node();
        let role = match (self.machine.standing(now), node.standing(now)) {
            (Standing::Leading { .. }, _) => "leading",
            (Standing::Ending, _) | (_, Standing::Ending) => "ending",
            // It has the peers' leadership, and not yet what else it needs.
            (_, Standing::Leading { .. }) => "elected",
            _ => node.role(),
        };
        let status = Status {
            role: role.into(),
            leader: self.state.leader.map(|(leader, _)| leader),
            epoch: self.state.leader.map(|(_, epoch)| epoch),
            election: node.election(),
            suspects: self.suspects(now),
            quorum: node.reaches_majority(),
            metadata: match &*self.seen.borrow() {
                Observed::Leader { metadata, .. } => metadata.clone(),
                _ => BTreeMap::new(),
            },
            ..self.status.clone()
        };
        if self.status != status {
            self.post.publish(status.clone());
            self.status = status;
        }
    }

    /// The end of a term whose last words are out.
    fn ended(&mut self, now: Instant) -> Option<News> {
        let ended = self.state.ended.as_mut()?;
        if now < ended.until && !self.post.is_idle() {
            ended.look_at = (now + LAST_WORDS).min(ended.until);
            return None;
        }
        let Ended { epoch, reason, .. } = *ended;
        self.state.ended = None;
        Some(News::Ended(epoch, reason))
    }
}

impl<M: AmongPeers> Peers<M> {
    pub(super) const fn machine(&self) -> &M {
        &self.machine
    }

    pub(super) const fn machine_mut(&mut self) -> &mut M {
        &mut self.machine
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.detector.handle_timeout(now);
        self.machine.handle_timeout(now, &mut OsRandom);
    }

    /// Does what the machine, by way of `obey`, and the detector want, up to the next news.
    pub(super) fn poll_news_by(
        &mut self,
        now: Instant,
        mut obey: impl FnMut(&mut Self) -> Option<News>,
    ) -> Option<News> {
        loop {
            if let Some(why) = &self.state.banned
                && self.machine.standing(now) == Standing::Campaigning
            {
                let why = why.clone();
                self.machine
                    .resign(now, EndReason::Superseded, &mut OsRandom);
                return Some(News::Failed(RunError::Barred(why)));
            }
            if let Some(news) = obey(self) {
                return Some(news);
            }
            if !self.obey_detector(now) {
                break;
            }
        }
        if let Some((to, reply, payloads)) = self.state.answering.take() {
            self.post.answer(to, reply, payloads);
        }
        self.publish(now);
        self.ended(now)
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let ended = self.state.ended.map(|ended| ended.look_at);
        [
            self.machine.poll_timeout(),
            self.detector.poll_timeout(),
            ended,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// The other member that is this candidate.
    pub(super) fn peer(&self, to: &CandidateId) -> Option<NodeId> {
        let mut known = self.machine.node().settings().members().others(self.me);
        known.find(|&node| candidate(node) == *to)
    }
}

impl Elector for Peers {
    type Machine = PeerCandidate;

    fn machine(&self) -> &PeerCandidate {
        self.machine()
    }

    fn machine_mut(&mut self) -> &mut PeerCandidate {
        self.machine_mut()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.handle_timeout(now);
    }

    fn poll_news(&mut self, now: Instant) -> Option<News> {
        self.poll_news_by(now, |peers| {
            while let Some(output) = peers.machine.poll_output() {
                if let Some(news) = peers.obey(now, output) {
                    return Some(news);
                }
            }
            None
        })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.poll_timeout()
    }

    fn peer(&self, to: &CandidateId) -> Result<NodeId, &'static str> {
        self.peer(to).ok_or(NO_SUCH_MEMBER)
    }

    fn proclaim(&mut self, metadata: BTreeMap<String, String>, done: oneshot::Sender<Proclaimed>) {
        let _ = done.send(self.proclaim(metadata));
    }
}

/// The term that this message renews or announces.
const fn renewed(message: &bully::PeerMessage) -> Option<Epoch> {
    match message {
        bully::PeerMessage::Quorum(QuorumMessage::Renew { epoch, .. })
        | bully::PeerMessage::Norm { epoch, .. }
        | bully::PeerMessage::Ldr { epoch, .. } => Some(*epoch),
        _ => None,
    }
}

/// A member as a candidate: its number.
pub(crate) fn candidate(node: NodeId) -> CandidateId {
    let number = node.to_string();
    number.parse().expect("a number is a candidate id")
}

#[cfg(test)]
mod tests {
    use tenure_core::UnixMillis;
    use tenure_core::bully::Started;

    use super::*;
    use crate::config::{Bully, Peer};
    use crate::post::Incoming;

    /// Member 1 of two without a quorum, of which the other one says nothing by itself.
    fn one_of_two(now: Instant) -> Peers {
        let peer = |node| Peer::parse(&format!("{node}=http://127.0.0.1:1")).unwrap();
        let bully = Bully::new(NodeId(1), [1, 2].map(peer));
        let config = Config::new("tests/job".parse().unwrap());
        let rules = bully.rules(&config.timings).unwrap();
        let detection = bully.detection(&rules).unwrap();
        let started = Started {
            at: now,
            wall: UnixMillis::new(0),
        };
        let parts = Parts {
            detector: detection.detector(&rules.group(Incarnation(1))),
            machine: PeerCandidate::new(rules, HardState::default(), started),
            post: Post::Silent,
            disk: None,
        };
        Peers::new(&config, parts).0
    }

    #[test]
    fn the_status_of_a_leader_shows_who_has_been_silent() {
        let at = |millis| Instant::default() + Duration::from_millis(millis);
        let mut peers = one_of_two(at(0));
        let run = |peers: &mut Peers, from: u64, to: u64| {
            for millis in (from..to).step_by(10) {
                peers.handle_timeout(at(millis));
                while peers.poll_news(at(millis)).is_some() {}
            }
        };
        peers.machine.campaign(at(0), &mut OsRandom);
        run(&mut peers, 0, 5_000);
        assert_eq!(peers.status.role, "leading");
        assert_eq!(peers.status.suspects, [NodeId(2)], "it was never heard");
        let message = Incoming {
            from: NodeId(2),
            incarnation: Incarnation(1),
            payload: Payload::Detector(detector::DetectorMessage::Ping { round: 1 }),
            reply: Reply::ByPost,
        };
        peers.handle_event(at(5_000), Event::Message(message));
        // Two renew intervals and the lifetime of a message.
        run(&mut peers, 5_000, 15_500);
        assert_eq!(peers.status.suspects, [], "it was heard a moment ago");
        run(&mut peers, 15_500, 15_800);
        assert_eq!(peers.status.suspects, [NodeId(2)]);
    }
}
