//! A client for the status of members.

use std::time::Duration;

use reqwest::Client;
use serde::Serialize;
use tenure_core::{Epoch, Name, NodeId};
use tokio::sync::watch;

use crate::base::http_error::HttpClientError;
use crate::base::observed::Observed;
use crate::config::{Bully, Config, Peer};
use crate::http::builder::{self, innermost_cause};
use crate::http::root_certificates::RootCertificates;
use crate::http::store::Endpoint;
use crate::peers::wire::{MAX_ANSWER_BYTES, PeerProblem, PeerView};

/// The time that one member may take to answer, unless [`PeersClient::with_timeout`] sets another.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A client for the members of one group.
#[derive(Clone, Debug)]
pub struct PeersClient {
    http: Client,
    cluster: Name,
    peers: Vec<Peer>,
    timeout: Duration,
}

/// A member and its answer.
#[derive(Debug)]
#[non_exhaustive]
pub struct Asked {
    /// The member.
    pub peer: Peer,
    /// The member's answer.
    pub view: Result<PeerView, AskError>,
}

/// The reason why a member has not answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// There was no answer in time.
    #[error("can't reach it: {0}")]
    Unreachable(String),
    /// The server at this address is not a member.
    #[error("the answer ({0}) is not that of a member of an election")]
    NotAMember(u16),
    /// The member refuses the request, for instance because it belongs to another group.
    #[error("the member refuses: {0}")]
    Refused(String),
    /// The client has no address for the member. Ask from a place that can reach it.
    #[error("no address for it here: ask from a place that can reach it")]
    NoAddress,
    /// Another member has this address.
    #[error("member {0} answers at this address")]
    Misdirected(NodeId),
}

impl PeersClient {
    /// Creates a client for these members of a group.
    ///
    /// # Errors
    ///
    /// [`HttpClientError`].
    pub fn new(
        cluster: Name,
        peers: impl IntoIterator<Item = Peer>,
    ) -> Result<Self, HttpClientError> {
        let peers: Vec<Peer> = peers.into_iter().collect();
        let client = builder::plain_client();
        let uses_tls = builder::uses_tls(peers.iter().filter_map(|peer| peer.url.as_ref()));
        let http = builder::build(client, &RootCertificates::system(), uses_tls, None)?;
        Ok(Self {
            http,
            cluster,
            peers,
            timeout: TIMEOUT,
        })
    }

    /// Sets the time that one member may take to answer. The default is 3 seconds.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// Asks all members at once.
    pub async fn ask_all(&self) -> Vec<Asked> {
        let asked = self.peers.iter().map(|peer| async {
            Asked {
                peer: peer.clone(),
                view: self.ask(peer).await,
            }
        });
        futures_util::future::join_all(asked).await
    }

    async fn ask(&self, peer: &Peer) -> Result<PeerView, AskError> {
        let unreachable = |error: reqwest::Error| {
            let in_time = format!("no answer within {:?}", self.timeout);
            let is_late = error.is_timeout();
            AskError::Unreachable(if is_late {
                in_time
            } else {
                innermost_cause(&error)
            })
        };
        let path = format!("/v1/peers/{}/status", self.cluster);
        let base = peer.url.as_ref().ok_or(AskError::NoAddress)?;
        let url = builder::url_below(base, &path);
        let request = self.http.get(url).timeout(self.timeout);
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = builder::read_body(response, MAX_ANSWER_BYTES).await;
        let body = body.map_err(unreachable)?.unwrap_or_default();
        let not_a_member = |_| AskError::NotAMember(status.as_u16());
        if !status.is_success() {
            let problem: PeerProblem = serde_json::from_slice(&body).map_err(not_a_member)?;
            return Err(AskError::Refused(problem.detail));
        }
        let view: PeerView = serde_json::from_slice(&body).map_err(not_a_member)?;
        if view.status.node == peer.node {
            Ok(view)
        } else {
            Err(AskError::Misdirected(view.status.node))
        }
    }
}

/// Returns the leader on which these members agree, and its epoch. They agree if the leader reports
/// that it leads, no other member does, all answers name this leader, and, in a group with a
/// quorum, a majority has answered. With a fallback the leader's answer is enough, and a member may
/// know no leader for a moment, because the leader sends the others nothing while the store carries
/// its term.
#[must_use]
pub fn agreement(asked: &[Asked]) -> Option<(NodeId, Epoch)> {
    let views = || asked.iter().filter_map(|asked| asked.view.as_ref().ok());
    let leading = |view: &&PeerView| view.status.role == "leading";
    let leader = views().find(leading)?;
    let led_by = (leader.status.node, leader.status.epoch?);
    let has_fallback = leader.status.carried_by.is_some();
    let agrees = |view: &PeerView| {
        let sees = view.status.leader.zip(view.status.epoch);
        (sees == Some(led_by) || (has_fallback && sees.is_none()))
            && (view.status.role == "leading") == (view.status.node == led_by.0)
    };
    let quorum = views().any(|view| view.status.quorum.is_some());
    let enough = !quorum || has_fallback || views().count() > asked.len() / 2;
    (enough && views().all(agrees)).then_some(led_by)
}

/// The answers of all members as JSON, for tools and pages.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct GroupView {
    /// The leader on which the members [agree](agreement).
    pub leader: Option<NodeId>,
    /// Its epoch.
    pub epoch: Option<Epoch>,
    /// The members, in the order of the configuration.
    pub members: Vec<MemberView>,
}

/// The answer of one member as JSON.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct MemberView {
    /// The member.
    pub node: NodeId,
    /// Its priority.
    pub priority: u32,
    /// Its address, without a password; `None` if this process has none for it.
    pub url: Option<String>,
    /// Its status, if it has answered.
    pub view: Option<PeerView>,
    /// The reason why it has not answered.
    pub error: Option<String>,
}

impl GroupView {
    /// Creates the view from the answers of all members.
    #[must_use]
    pub fn of(asked: &[Asked]) -> Self {
        let (leader, epoch) = agreement(asked).unzip();
        let members = asked.iter().map(|Asked { peer, view }| MemberView {
            node: peer.node,
            priority: peer.priority,
            url: peer.url().map(Endpoint::shown),
            view: view.as_ref().ok().cloned(),
            error: view.as_ref().err().map(ToString::to_string),
        });
        Self {
            leader,
            epoch,
            members: members.collect(),
        }
    }
}

/// The interval at which an observer asks all members.
const OBSERVE_EVERY: Duration = Duration::from_secs(1);

/// Watches the leader of a group from outside, until the receiver is dropped.
pub(crate) fn watch_members(
    config: &Config,
    bully: &Bully,
) -> Result<watch::Receiver<Observed>, HttpClientError> {
    let cluster = bully.cluster.as_ref();
    let cluster = cluster.unwrap_or(&config.election.name).clone();
    let client = PeersClient::new(cluster, bully.peers.clone())?;
    let (sender, receiver) = watch::channel(Observed::Unknown("no member was asked yet".into()));
    tokio::spawn(async move {
        while !sender.is_closed() {
            let observed = observed(&client.ask_all().await);
            sender.send_if_modified(|state| {
                let is_new = observed.is_change(state);
                *state = observed;
                is_new
            });
            tokio::time::sleep(OBSERVE_EVERY).await;
        }
    });
    Ok(receiver)
}

/// Returns the state of the election according to these answers. The leader is the one with the
/// greatest epoch that leads according to its own answer or, if it has not answered, according to
/// the answers of others. In a group with a quorum, the state is unknown if fewer than a majority
/// have answered.
fn observed(asked: &[Asked]) -> Observed {
    let views: Vec<&PeerView> = asked
        .iter()
        .filter_map(|asked| asked.view.as_ref().ok())
        .collect();
    let leads = |view: &PeerView| view.status.role == "leading";
    let is_silent = |node| views.iter().all(|view| view.status.node != node);
    let names_leader = |view: &&&PeerView| leads(view) || view.status.leader.is_some_and(is_silent);
    let named = views.iter().filter(names_leader);
    let leader = named.max_by_key(|view| (leads(view), view.status.epoch));
    let needs_majority = views.iter().any(|view| view.status.quorum.is_some());
    let has_majority = !needs_majority || views.len() > asked.len() / 2;
    match leader.and_then(|view| Some((view, view.status.leader?, view.status.epoch?))) {
        Some((view, node, epoch)) if leads(view) || has_majority => Observed::Leader {
            candidate: node.into(),
            epoch,
            metadata: view.status.metadata.clone(),
        },
        _ if !views.is_empty() && has_majority => Observed::NoLeader,
        _ => Observed::Unknown(format!(
            "{} of {} members have answered",
            views.len(),
            asked.len()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::wire::Status;
    use tenure_core::Incarnation;

    fn asked(node: u32, role: &str, leader: Option<(u32, u64)>) -> Asked {
        let status = Status {
            role: role.into(),
            leader: leader.map(|(leader, _)| NodeId(leader)),
            epoch: leader.and_then(|(_, epoch)| Epoch::new(epoch)),
            quorum: Some(true),
            ..Status::of(NodeId(node), Incarnation(1))
        };
        let (counters, paths) = Default::default();
        Asked {
            peer: format!("{node}=http://127.0.0.1:1")
                .parse::<Peer>()
                .unwrap(),
            view: Ok(PeerView {
                status,
                counters,
                paths,
            }),
        }
    }

    fn silent(node: u32) -> Asked {
        Asked {
            view: Err(AskError::Unreachable("gone".into())),
            ..asked(node, "", None)
        }
    }

    fn leader(asked: &[Asked]) -> Option<(u32, u64)> {
        agreement(asked).map(|(node, epoch)| (node.0, epoch.get()))
    }

    #[test]
    fn members_agree_if_all_answers_name_the_leader() {
        let (one, two) = (
            asked(1, "leading", Some((1, 7))),
            asked(2, "following", Some((1, 7))),
        );
        assert_eq!(leader(&[one, two, silent(3)]), Some((1, 7)));
    }

    #[test]
    fn members_do_not_agree_without_a_majority_or_with_contradicting_answers() {
        let one = || asked(1, "leading", Some((1, 7)));
        let two = |role, leader| asked(2, role, leader);
        assert_eq!(leader(&[one(), silent(2), silent(3)]), None);
        assert_eq!(
            leader(&[one(), two("following", Some((1, 6))), silent(3)]),
            None
        );
        assert_eq!(leader(&[one(), two("electing", None), silent(3)]), None);
        assert_eq!(
            leader(&[one(), two("leading", Some((2, 8))), silent(3)]),
            None
        );
        let elected = asked(1, "elected", Some((1, 7)));
        assert_eq!(
            leader(&[elected, two("following", Some((1, 7))), silent(3)]),
            None
        );
    }

    #[test]
    fn an_observer_trusts_the_leader_s_own_answer_before_those_of_others() {
        let state = |asked: &[Asked]| match observed(asked) {
            Observed::Leader { epoch, .. } => Some(epoch.get()),
            Observed::NoLeader => None,
            Observed::Unknown(_) => Some(0),
        };
        let leader = || asked(1, "leading", Some((1, 7)));
        let late = || asked(2, "following", Some((3, 6)));
        assert_eq!(state(&[leader(), late(), silent(3)]), Some(7));
        assert_eq!(state(&[leader(), silent(2), silent(3)]), Some(7));
        let follower = |node| asked(node, "following", Some((1, 7)));
        assert_eq!(state(&[silent(1), follower(2), follower(3)]), Some(7));
        assert_eq!(state(&[silent(1), silent(2), follower(3)]), Some(0));
        let electing = |node| asked(node, "electing", None);
        assert_eq!(state(&[electing(1), electing(2), silent(3)]), None);
        // The former leader has answered and no longer leads.
        assert_eq!(state(&[electing(1), follower(2), silent(3)]), None);
        assert_eq!(state(&[silent(1), silent(2), silent(3)]), Some(0));
    }
}
