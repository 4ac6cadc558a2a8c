//! The settings of an election among peers, in code.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use reqwest::Url;
use tenure_core::bully::{
    GroupGuarantee, GroupTimingsError, GroupTimingsOptions, Membership, MembershipError,
    NotAMember, QuorumsError,
};
use tenure_core::detector::{DetectionOptions, OptionsError};
use tenure_core::{Name, NodeId};

use crate::base::peer_key::PeerKey;
use crate::http::credentials::ip_of;
use crate::http::store::Endpoint;

/// A member of an election among peers: its node id, its address and its priority.
///
/// # Examples
///
/// ```
/// use tenure::config::Peer;
///
/// let peer: Peer = "1@50=http://10.0.0.1:7500".parse()?;
/// assert_eq!((peer.node.0, peer.priority), (1, 50));
/// assert_eq!(peer.url(), Some("http://10.0.0.1:7500/"));
/// // A member that is reached only through others, which needs `Bully::relay`.
/// assert_eq!("4=relay".parse::<Peer>()?.url(), None);
/// # Ok::<(), tenure::config::PeerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The member's node id.
    pub node: NodeId,
    /// The member's priority.
    pub priority: u32,
    /// `None` if this process has no address for the member.
    pub(crate) url: Option<Url>,
}

/// The text in place of the address of a member that is reached only through others.
const RELAY: &str = "relay";

/// The error for a text that does not describe a member.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PeerError(String);

impl Peer {
    /// The default priority.
    pub const DEFAULT_PRIORITY: u32 = 100;

    /// Creates a member with the default priority. The text `relay` in place of `url` means that
    /// this process has no address for it.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if `url` is not an http or https address.
    pub fn new(node: NodeId, url: &str) -> Result<Self, PeerError> {
        format!("{node}={url}").parse()
    }

    /// Sets the priority: the member with the lowest becomes the leader. If priorities are equal,
    /// the lowest node id decides. Default 100.
    #[must_use]
    pub fn with_priority(self, priority: u32) -> Self {
        Self { priority, ..self }
    }

    /// Returns the address on which the member listens. `None` if this process has none for it, and
    /// reaches it through other members.
    #[must_use]
    pub fn url(&self) -> Option<&str> {
        self.url.as_ref().map(Url::as_str)
    }
}

/// Parses `1=http://10.0.0.1:7500`, or `1@50=http://10.0.0.1:7500` for a priority of 50, or `1=relay`
/// for a member without an address.
impl FromStr for Peer {
    type Err = PeerError;

    fn from_str(text: &str) -> Result<Self, PeerError> {
        let right = "write number=address, such as 1=http://10.0.0.1:7500, or with a priority \
                     1@50=http://10.0.0.1:7500, or 1=relay if other members pass messages on to it";
        let wrong =
            |reason: &str| PeerError(format!("{:?}: {reason}; {right}", Endpoint::shown(text)));
        let number = |name: &str, text: &str| {
            let most = u32::MAX;
            let reason = || wrong(&format!("the {name} is not a whole number, 0 to {most}"));
            text.trim().parse().map_err(|_| reason())
        };
        let address = |text: &str| {
            let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
            if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
                return Err(wrong("this is not an http or https address"));
            }
            if !url.username().is_empty() || url.password().is_some() {
                return Err(wrong(
                    "an address with a user or a password: members authenticate each other by the key that \
                     they share, in key_file",
                ));
            }
            Ok(url)
        };
        let (name, url) = text.split_once('=').ok_or_else(|| wrong("no \"=\""))?;
        let url = match url.trim() {
            RELAY => None,
            text => Some(address(text)?),
        };
        let (node, priority) = match name.split_once('@') {
            Some((node, priority)) => (node, Some(priority)),
            None => (name, None),
        };
        Ok(Self {
            node: NodeId(number("number", node)?),
            priority: priority.map_or(Ok(Self::DEFAULT_PRIORITY), |it| number("priority", it))?,
            url,
        })
    }
}

/// The settings of an election among peers for one member.
///
/// # Examples
///
/// ```
/// use tenure::config::{Bully, PeerKey, Peer, Strategy};
/// use tenure::{Config, NodeId};
///
/// let peers = [
///     Peer::new(NodeId(1), "http://10.0.0.1:7500")?,
///     Peer::new(NodeId(2), "http://10.0.0.2:7500")?,
///     Peer::new(NodeId(3), "http://10.0.0.3:7500")?,
/// ];
/// let mut bully = Bully::new(NodeId(1), peers);
/// bully.key = Some(PeerKey::new("a secret of at least 16 bytes")?);
/// bully.state_dir = "/var/lib/tenure-peer".into();
/// let config = Config::new("billing/nightly".parse()?).with_strategy(Strategy::Bully(bully));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Bully {
    /// The node id of this member; `None` for a process that only observes.
    pub node: Option<NodeId>,
    /// All members, including this one. All members must have the same list, but with `relay` the
    /// addresses may be missing or differ.
    pub peers: Vec<Peer>,
    /// The name of the group in the addresses of its members. Default: the election's name. Members
    /// of two elections refuse each other, also if their groups have one name.
    pub cluster: Option<Name>,
    /// The secret that the members share. Without one, **every process that reaches a member can
    /// vote, and be elected.**
    pub key: Option<PeerKey>,
    /// The address to listen on. Default: the member's own address if that is a loopback address,
    /// otherwise its port on all interfaces.
    pub listen: Option<SocketAddr>,
    /// Host names under which browsers and monitoring reach this member, beside IP addresses,
    /// `localhost` and the names in `peers`. Requests for other names are refused, because a page
    /// of another site could send them. Messages of members with a key are not refused.
    pub hosts: Vec<String>,
    /// The directory of the member's durable state, which is created if it does not exist. Default
    /// `tenure-state`. A member that has lost this directory must not take part under the same node
    /// id again, because other members rely on its votes.
    pub state_dir: PathBuf,
    /// Whether a leader needs the votes of a majority of all members. Default: yes from three
    /// members on. Without a quorum, a network partition can cause several leaders at a time.
    pub quorum: Option<bool>,
    /// Whether this member replaces a healthy leader with a worse priority after it has followed
    /// that leader for the hold-down. Default: no.
    pub preempt: bool,
    /// Whether members pass messages on to members that their senders can't reach directly, and
    /// whether this member has its own messages passed on. Default: no. A message must arrive, and
    /// its answer return, within the greatest age of a message, also over the longest path. Members
    /// with and without this setting may run together.
    pub relay: bool,
    /// The hold-down, and the greatest age of a message. The greatest age must be the same for all
    /// members.
    pub timings: GroupTimingsOptions,
    /// The failure detector. Each member may have another one.
    pub detection: DetectionOptions,
}

/// The reason why the settings allow no election; the configuration must change.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BullyError {
    /// The list of members is not valid.
    #[error(transparent)]
    Members(#[from] MembershipError),
    /// This node is not one of the members.
    #[error(transparent)]
    NotAMember(#[from] NotAMember),
    /// The timings contradict each other.
    #[error(transparent)]
    Timings(#[from] GroupTimingsError),
    /// The parameters of the failure detector contradict each other.
    #[error(transparent)]
    Detection(#[from] OptionsError),
    /// The number k of a fallback is out of range.
    #[error(transparent)]
    Quorums(#[from] QuorumsError),
    /// A fallback does not have this setting.
    #[error("{0} is set, and a fallback does not have this setting: leave it out")]
    NotWithFallback(&'static str),
    /// A fallback needs a strategy that elects by a lease.
    #[error(
        "the strategy is \"{0}\", and a fallback needs a store: use the strategy \"lease\" or \"azure-blob\""
    )]
    FallbackStrategy(&'static str),
    /// A candidate with a fallback has a lock delay.
    #[error(
        "the lock delay is {0:?} and must be 0s with a fallback: members that elect a leader without \
         the store do not wait for it"
    )]
    FallbackLockDelay(std::time::Duration),
    /// This member has no address for itself, and nothing says where it listens.
    #[error(
        "this is member {0} and it has no address: write its own address, such as \
         {0}=http://10.0.0.1:7500"
    )]
    NoOwnAddress(NodeId),
    /// This member has no address for another one, and messages are not passed on.
    #[error(
        "member {0} has no address ({0}=relay), and relay is false: write its address, such as \
         {0}=http://10.0.0.1:7500; or, with the strategy \"bully\" or \"both\", set relay = true, so \
         that other members pass messages on"
    )]
    NoAddress(NodeId),
    /// This member has no address for any other one.
    #[error(
        "no other member has an address: write the address of at least one that passes messages on"
    )]
    NoNeighbor,
    /// The configuration was read for an observer and has no node id.
    #[error("the configuration has no node id, because it is for observers only")]
    NoNode,
}

impl Bully {
    /// Creates the settings of the member `node` among these peers. The list includes the member
    /// itself, and must be the same for all members.
    #[must_use]
    pub fn new(node: NodeId, peers: impl IntoIterator<Item = Peer>) -> Self {
        Self {
            node: Some(node),
            peers: peers.into_iter().collect(),
            cluster: None,
            key: None,
            listen: None,
            hosts: Vec::new(),
            state_dir: "tenure-state".into(),
            quorum: None,
            preempt: false,
            relay: false,
            timings: GroupTimingsOptions::default(),
            detection: DetectionOptions::default(),
        }
    }

    /// Creates the settings of a process that only observes these peers.
    #[must_use]
    pub fn for_observer(peers: impl IntoIterator<Item = Peer>) -> Self {
        Self {
            node: None,
            ..Self::new(NodeId(0), peers)
        }
    }

    /// Returns the guarantee of the group.
    pub(crate) fn guarantee(&self) -> GroupGuarantee {
        match self.quorum {
            Some(true) => GroupGuarantee::Quorum,
            Some(false) => GroupGuarantee::BestEffort,
            None => Membership::default_guarantee(self.peers.len()),
        }
    }

    /// Checks that this member can listen, and can reach each other member.
    pub(super) fn check_addresses(&self) -> Result<(), BullyError> {
        let missing: Vec<NodeId> = self
            .peers
            .iter()
            .filter(|peer| peer.url.is_none())
            .map(|peer| peer.node)
            .collect();
        for node in &missing {
            if Some(*node) == self.node {
                return Err(BullyError::NoOwnAddress(*node));
            }
            if !self.relay {
                return Err(BullyError::NoAddress(*node));
            }
        }
        if !missing.is_empty() && missing.len() + 1 == self.peers.len() {
            return Err(BullyError::NoNeighbor);
        }
        Ok(())
    }

    /// Returns the other members, with their addresses.
    pub(crate) fn others(&self) -> BTreeMap<NodeId, Option<Url>> {
        let others = self
            .peers
            .iter()
            .filter(|peer| Some(peer.node) != self.node);
        others.map(|peer| (peer.node, peer.url.clone())).collect()
    }

    /// Returns the names under which requests may reach this member: its `hosts`, and the names in
    /// the list of members. The list has those of other members too, so that a member with a wrong
    /// address learns that.
    #[must_use]
    pub fn host_names(&self) -> Vec<String> {
        let urls = self.peers.iter().filter_map(|peer| peer.url.as_ref());
        let listed = urls.filter_map(|url| url.host_str().map(Into::into));
        self.hosts.iter().cloned().chain(listed).collect()
    }

    /// Returns the address to listen on.
    pub(crate) fn listening_address(&self) -> Option<SocketAddr> {
        let own = self.peers.iter().find(|peer| Some(peer.node) == self.node);
        let default = || {
            let url = own?.url.as_ref()?;
            let loopback = ip_of(url).filter(IpAddr::is_loopback);
            let address = loopback.unwrap_or_else(|| Ipv4Addr::UNSPECIFIED.into());
            Some(SocketAddr::from((address, url.port_or_known_default()?)))
        };
        self.listen.or_else(default)
    }

    /// Returns the address on which this member listens for other machines without a key. `None` if
    /// the member has a key, listens on a loopback address, or is the only member. Every process
    /// that reaches the returned address can vote, and be elected.
    #[must_use]
    pub fn address_without_key(&self) -> Option<SocketAddr> {
        let address = self.listening_address()?;
        let is_open = self.key.is_none() && self.peers.len() > 1;
        (is_open && !address.ip().to_canonical().is_loopback()).then_some(address)
    }
}
