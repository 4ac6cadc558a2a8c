//! Looking at the members of an election among peers, from outside of it.
//!
//! Each member tells what it does and whom it takes for the leader, without a key. It is a view for
//! people and monitoring, and may be late.

use std::error::Error as _;
use std::time::Duration;

use reqwest::{Client, Response, Url};
use tenure_core::{Epoch, Name, NodeId};

pub use crate::config::Peer;
pub use crate::peer_transport::{Counters, PeerView, Status};
pub use tenure_core::bully::ElectionId;

use crate::peer_transport::{MAX_ANSWER_BYTES, PeerProblem};

/// How long one member may take.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Asks the members of one group.
#[derive(Clone, Debug)]
pub struct PeersClient {
    http: Client,
    cluster: Name,
    peers: Vec<Peer>,
}

/// A member that was asked, and what came of it.
#[derive(Debug)]
pub struct Asked {
    /// Whom.
    pub peer: Peer,
    /// What it says.
    pub view: Result<PeerView, AskError>,
}

/// Why a member has not told what it does.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// No answer came in time.
    #[error("can't reach it: {0}")]
    Unreachable(String),
    /// Something answered that is no member.
    #[error("what answers there ({0}) is no member of an election")]
    NotAMember(u16),
    /// It refuses to tell; of another group, for instance.
    #[error("it refuses: {0}")]
    Refused(String),
    /// Another member has this address.
    #[error("member {0} answers there")]
    Misdirected(NodeId),
}

impl PeersClient {
    /// A client for these members of this group.
    ///
    /// # Errors
    ///
    /// The HTTP client can't be set up.
    pub fn new(cluster: Name, peers: impl IntoIterator<Item = Peer>) -> reqwest::Result<Self> {
        let http = Client::builder()
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            // What a proxy says is nothing of a member.
            .no_proxy();
        Ok(Self {
            http: http.build()?,
            cluster,
            peers: peers.into_iter().collect(),
        })
    }

    /// Asks all of them at once.
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
        let unreachable = |error: reqwest::Error| AskError::Unreachable(reason(&error));
        let url = self.url(&peer.url);
        let response = self.http.get(url).send().await.map_err(unreachable)?;
        let status = response.status();
        let body = read(response).await.map_err(unreachable)?;
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

    fn url(&self, base: &Url) -> Url {
        let mut url = base.clone();
        let path = base.path().trim_end_matches('/');
        url.set_path(&format!("{path}/v1/peers/{}/status", self.cluster));
        url
    }
}

/// The leader that these members agree on, and its epoch: it says that it leads, and only it does; all
/// that have answered name it; and if they ask for a quorum, those are a majority of all.
#[must_use]
pub fn agreement(asked: &[Asked]) -> Option<(NodeId, Epoch)> {
    let views = || asked.iter().filter_map(|asked| asked.view.as_ref().ok());
    let leading = |view: &&PeerView| view.status.role == "leading";
    let leader = views().find(leading)?;
    let led_by = (leader.status.node, leader.status.epoch?);
    let agrees = |view: &PeerView| {
        view.status.leader.zip(view.status.epoch) == Some(led_by)
            && (view.status.role == "leading") == (view.status.node == led_by.0)
    };
    let quorum = views().any(|view| view.status.quorum.is_some());
    let enough = !quorum || views().count() > asked.len() / 2;
    (enough && views().all(agrees)).then_some(led_by)
}

async fn read(mut response: Response) -> reqwest::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        // What is longer is cut off, and no view then.
        let room = MAX_ANSWER_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            break;
        }
    }
    Ok(body)
}

/// The last cause says what happened.
fn reason(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return format!("no answer within {TIMEOUT:?}");
    }
    let mut last = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        last = error.to_string();
        cause = error.source();
    }
    last
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::Incarnation;

    fn asked(node: u32, role: &str, leader: Option<(u32, u64)>) -> Asked {
        let status = Status {
            role: role.into(),
            leader: leader.map(|(leader, _)| NodeId(leader)),
            epoch: leader.and_then(|(_, epoch)| Epoch::new(epoch)),
            quorum: Some(true),
            ..Status::of(NodeId(node), Incarnation(1))
        };
        let counters = Counters::default();
        Asked {
            peer: Peer::parse(&format!("{node}=http://127.0.0.1:1")).unwrap(),
            view: Ok(PeerView { status, counters }),
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
    fn members_agree_when_all_that_answer_name_the_one_that_leads() {
        let (one, two) = (
            asked(1, "leading", Some((1, 7))),
            asked(2, "following", Some((1, 7))),
        );
        assert_eq!(leader(&[one, two, silent(3)]), Some((1, 7)));
    }

    #[test]
    fn without_a_majority_or_a_leader_of_one_opinion_they_do_not() {
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
}
