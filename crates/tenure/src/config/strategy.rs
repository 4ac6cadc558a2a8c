//! Which way a candidate is elected.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;
use tenure_core::bully::{
    self, GroupGuarantee, GroupTimingsError, Member, Membership, MembershipError, NotAMember,
};
use tenure_core::detector::{Detection, DetectionOptions, OptionsError};
use tenure_core::lease::candidate::Timings;
use tenure_core::{Name, NodeId};

use super::azure_blob;
use super::candidate::Config;
use super::settings::{ConfigError, Settings};
use crate::azure::AzureBlob;
use crate::peer_transport::Key;
use crate::store::Endpoint;

/// Which way a candidate is elected; [`Guarantee`](crate::Guarantee) says what that promises.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
// There is one for each candidate.
#[allow(clippy::large_enum_variant)]
pub enum Strategy {
    /// By a lease in a store.
    #[default]
    Lease,
    /// By the lease of a blob: on an Azure storage account, on an emulator, or on a store that speaks this
    /// protocol.
    AzureBlob(AzureBlob),
    /// Among peers that speak to each other, without a store.
    Bully(Bully),
    /// By a lease and among peers: it leads only while it has both. For the time in which a group
    /// changes from one to the other; candidates by both and by a lease may run side by side, and so may
    /// those by both and among peers.
    Both(Bully),
    /// Not at all: it leads whenever it competes. For development, and for a service of which there
    /// is one process for sure.
    Static,
}

impl Strategy {
    /// Their names in a configuration.
    pub const NAMES: [&str; 5] = ["lease", "azure-blob", "bully", "both", "static"];

    /// Its name in a configuration.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::AzureBlob(_) => "azure-blob",
            Self::Bully(_) => "bully",
            Self::Both(_) => "both",
            Self::Static => "static",
        }
    }

    /// The election among peers that is part of it, if one is.
    #[must_use]
    pub const fn bully(&self) -> Option<&Bully> {
        match self {
            Self::Bully(bully) | Self::Both(bully) => Some(bully),
            Self::Lease | Self::AzureBlob(_) | Self::Static => None,
        }
    }
}

/// A member of an election among peers, this one or another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its number.
    pub node: NodeId,
    /// Its rank: the lower one goes first. Members of equal rank go by their number, lower first.
    pub priority: u32,
    /// Where it listens.
    pub url: Url,
}

impl Peer {
    /// The rank of who is given none.
    pub const DEFAULT_PRIORITY: u32 = 100;

    /// Reads `1=http://10.0.0.1:7500`, or `1@50=http://10.0.0.1:7500` with a priority of 50.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let right = "write number=address, such as 1=http://10.0.0.1:7500, or with a priority \
                     1@50=http://10.0.0.1:7500";
        let wrong = |what: &str| format!("{:?}: {what}; {right}", Endpoint::shown(text));
        let (name, url) = text.split_once('=').ok_or_else(|| wrong("no \"=\""))?;
        let (node, priority) = match name.split_once('@') {
            Some((node, priority)) => (node, Some(priority)),
            None => (name, None),
        };
        let whole = |what: &str, number: &str| {
            let number = number.trim().parse::<u32>();
            number.map_err(|_| wrong(&format!("the {what} is no whole number, 0 to {}", u32::MAX)))
        };
        let url = Url::parse(url.trim()).map_err(|error| wrong(&error.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") || url.query().is_some() {
            return Err(wrong("this is no http or https address"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(wrong(
                "an address with a user or a password: members know each other by the key that they \
                 share, in key_file",
            ));
        }
        Ok(Self {
            node: NodeId(whole("number", node)?),
            priority: priority.map_or(Ok(Self::DEFAULT_PRIORITY), |it| whole("priority", it))?,
            url,
        })
    }
}

/// An election among peers, seen from one member of it.
#[derive(Clone, Debug)]
pub struct Bully {
    pub(crate) node: NodeId,
    pub(crate) peers: Vec<Peer>,
    pub(crate) cluster: Option<Name>,
    pub(crate) key: Option<Key>,
    pub(crate) listen: Option<SocketAddr>,
    pub(crate) state_dir: PathBuf,
    pub(crate) quorum: Option<bool>,
    pub(crate) preempt: bool,
    pub(crate) hold_down: Option<Duration>,
    pub(crate) message_lifetime: Option<Duration>,
    pub(crate) detection: DetectionOptions,
}

/// Why there can't be such an election. Whoever configured it must change it.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BullyError {
    /// The members can't be.
    #[error(transparent)]
    Members(#[from] MembershipError),
    /// This one is none of them.
    #[error(transparent)]
    NotAMember(#[from] NotAMember),
    /// The timings can't hold together.
    #[error(transparent)]
    Timings(#[from] GroupTimingsError),
    /// The failure detector can't be.
    #[error(transparent)]
    Detection(#[from] OptionsError),
}

impl Bully {
    /// Member `node` among these, itself included. All members must have the same list.
    #[must_use]
    pub fn new(node: NodeId, peers: impl IntoIterator<Item = Peer>) -> Self {
        Self {
            node,
            peers: peers.into_iter().collect(),
            cluster: None,
            key: None,
            listen: None,
            state_dir: "tenure-state".into(),
            quorum: None,
            preempt: false,
            hold_down: None,
            message_lifetime: None,
            detection: DetectionOptions::default(),
        }
    }

    /// The election of one.
    pub(crate) fn alone() -> Self {
        let url = Url::parse("http://127.0.0.1").expect("an address");
        let peer = Peer {
            node: NodeId(1),
            priority: Peer::DEFAULT_PRIORITY,
            url,
        };
        Self::new(peer.node, [peer])
    }

    /// The name of the group, so that two of them don't mix. Default: the election's name.
    #[must_use]
    pub fn with_cluster(self, cluster: Name) -> Self {
        let cluster = Some(cluster);
        Self { cluster, ..self }
    }

    /// The secret that the members share. Without one, **whoever reaches a member can vote, and be
    /// elected.**
    #[must_use]
    pub fn with_key(self, key: Key) -> Self {
        let key = Some(key);
        Self { key, ..self }
    }

    /// Listens here. Default: the port of its own address among the peers, on all interfaces.
    #[must_use]
    pub fn with_listen(self, listen: SocketAddr) -> Self {
        let listen = Some(listen);
        Self { listen, ..self }
    }

    /// Keeps what it must not forget in this folder, which is made if it is missing. Default
    /// `tenure-state`. A member that has lost its folder must not take part under its number again:
    /// others rely on what it has promised.
    #[must_use]
    pub fn with_state_dir(self, state_dir: impl Into<PathBuf>) -> Self {
        let state_dir = state_dir.into();
        Self { state_dir, ..self }
    }

    /// Whether nobody leads without the promise of a majority of all members. Default: yes from three
    /// members on. Without, a network that is parted may have several leaders at a time.
    #[must_use]
    pub fn with_quorum(self, quorum: bool) -> Self {
        let quorum = Some(quorum);
        Self { quorum, ..self }
    }

    /// Whether this member takes the place of a worse one that leads and works, once it has followed
    /// it for `hold_down` (default 30 s, or the lease duration if that is longer). Default: no.
    #[must_use]
    pub fn with_preempt(self, preempt: bool, hold_down: Option<Duration>) -> Self {
        Self {
            preempt,
            hold_down,
            ..self
        }
    }

    /// How old a message may become. Default: 500 ms, or a tenth of the renew interval if that is longer;
    /// at most a quarter of it. All members must have it alike.
    #[must_use]
    pub fn with_message_lifetime(self, message_lifetime: Duration) -> Self {
        let message_lifetime = Some(message_lifetime);
        Self {
            message_lifetime,
            ..self
        }
    }

    /// How members notice that another one is gone. All members must have it alike.
    #[must_use]
    pub fn with_detection(self, detection: DetectionOptions) -> Self {
        Self { detection, ..self }
    }

    /// What it promises.
    pub(crate) fn guarantee(&self) -> GroupGuarantee {
        match self.quorum {
            Some(true) => GroupGuarantee::Quorum,
            Some(false) => GroupGuarantee::BestEffort,
            None => Membership::default_guarantee_of(self.peers.len()),
        }
    }

    /// The rules of this election, with the timings of a term.
    ///
    /// # Errors
    ///
    /// [`BullyError`]: there can't be such an election.
    pub fn rules(&self, term: &Timings) -> Result<bully::GroupSettings, BullyError> {
        let members = Membership::new(self.peers.iter().map(|peer| Member {
            id: peer.node,
            priority: peer.priority,
        }))?;
        let options = bully::GroupTimingsOptions {
            message_lifetime: self.message_lifetime,
            hold_down: self.hold_down,
        };
        let timings = bully::GroupTimings::new(*term, &options)?;
        let rules = bully::GroupSettings::new(self.node, members, timings)?
            .with_guarantee(self.guarantee())
            .with_preempt(self.preempt);
        // So that impossible parameters are found when the configuration is read.
        self.detection(&rules)?;
        Ok(rules)
    }

    /// How members that follow these rules notice that another one is gone.
    ///
    /// # Errors
    ///
    /// [`OptionsError`]: its parameters can't hold together.
    pub fn detection(&self, rules: &bully::GroupSettings) -> Result<Detection, OptionsError> {
        Detection::new(&self.detection, rules.timings().message_lifetime())
    }

    /// Where the others are.
    pub(crate) fn others(&self) -> BTreeMap<NodeId, Url> {
        let others = self.peers.iter().filter(|peer| peer.node != self.node);
        others.map(|peer| (peer.node, peer.url.clone())).collect()
    }

    /// Where it listens.
    pub(crate) fn listening_address(&self) -> Option<SocketAddr> {
        let own = self.peers.iter().find(|peer| peer.node == self.node);
        let port = || own?.url.port_or_known_default();
        self.listen
            .or_else(|| Some(SocketAddr::from(([0, 0, 0, 0], port()?))))
    }
}

/// The strategy that these settings make. What they say of another one than that is left alone, so
/// that one word changes it.
pub(super) fn of_settings(settings: &Settings, config: &Config) -> Result<Strategy, ConfigError> {
    let strategy = settings.with("strategy", |text| {
        if Strategy::NAMES.contains(&text) {
            return Ok(text.to_owned());
        }
        Err(format!(
            "must be one of {}",
            Strategy::NAMES.map(|name| format!("{name:?}")).join(", ")
        ))
    })?;
    let term = &config.timings;
    match strategy.as_deref() {
        Some("azure-blob") => azure_blob::of_settings(settings, config).map(Strategy::AzureBlob),
        Some("bully") => bully(settings, term).map(Strategy::Bully),
        Some("both") => bully(settings, term).map(Strategy::Both),
        Some("static") => Ok(Strategy::Static),
        _ => Ok(Strategy::Lease),
    }
}

pub(super) fn missing(key: &'static str, reason: &str) -> ConfigError {
    let reason = reason.into();
    ConfigError::Missing { key, reason }
}

/// All members that these settings name, this one too.
pub(super) fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
    let peers = settings.texts("bully.peers")?;
    let peers = peers.into_iter().filter(|text| !text.is_empty());
    let peers: Vec<Peer> = peers
        .map(Peer::parse)
        .collect::<Result<_, _>>()
        .map_err(|reason| settings.invalid("bully.peers", reason))?;
    if peers.is_empty() {
        let reason = "name all members, this one too, such as \
                      peers = [\"1=http://10.0.0.1:7500\", \"2=http://10.0.0.2:7500\"] in [bully]";
        return Err(missing("bully.peers", reason));
    }
    for (place, peer) in peers.iter().enumerate() {
        if let Some(other) = peers[..place].iter().find(|other| other.url == peer.url) {
            let reason = format!(
                "members {} and {} have one address, {}: each must have its own",
                other.node, peer.node, peer.url
            );
            return Err(settings.invalid("bully.peers", reason));
        }
    }
    Ok(peers)
}

/// A secret that these settings give, in a file or themselves.
pub(super) fn secret<T>(
    settings: &Settings,
    key: &'static str,
    key_file: &'static str,
    of: impl Fn(&[u8]) -> Result<T, String>,
) -> Result<Option<T>, ConfigError> {
    let inline = settings.with(key, |text| of(text.as_bytes()))?;
    let in_file = settings.with(key_file, |path| {
        let read = std::fs::read(path).map_err(|error| format!("can't read it: {error}"))?;
        of(&read)
    })?;
    if inline.is_some() && in_file.is_some() {
        return Err(settings.one_too_many(key_file, key));
    }
    Ok(inline.or(in_file))
}

fn bully(settings: &Settings, term: &Timings) -> Result<Bully, ConfigError> {
    let node = settings.number("bully.node", 0..=u32::MAX)?;
    let node = node.ok_or_else(|| {
        let reason = "say which of the peers this one is, such as node = 1 in [bully]";
        missing("bully.node", reason)
    })?;
    let folder = |text: &str| match text {
        "" => Err("is empty: name a folder, such as /var/lib/tenure-peer".into()),
        text => Ok(PathBuf::from(text)),
    };
    let peers = peers_of(settings)?;
    let mut bully = Bully::new(NodeId(node), peers);
    bully.cluster = settings.parse("bully.cluster")?;
    bully.listen = settings.with("bully.listen", |text| {
        text.parse()
            .map_err(|_| "must be an address and a port, such as 0.0.0.0:7500".into())
    })?;
    bully.key = secret(settings, "bully.key", "bully.key_file", |bytes| {
        Key::new(bytes.trim_ascii()).map_err(|error| error.to_string())
    })?;
    if let Some(folder) = settings.with("bully.state_dir", folder)? {
        bully.state_dir = folder;
    }
    bully.quorum = settings.flag("bully.quorum")?;
    bully.preempt = settings.flag("bully.preempt")?.unwrap_or_default();
    bully.hold_down = settings.duration("bully.hold_down")?;
    bully.message_lifetime = settings.duration("bully.message_lifetime")?;
    bully.detection = DetectionOptions {
        by: settings
            .with("bully.detector", |text| text.parse())?
            .unwrap_or_default(),
        interval: settings.duration("bully.heartbeat_interval")?,
        suspect_after: settings.duration("bully.suspect_after")?,
        phi_threshold: settings.number("bully.phi_threshold", DetectionOptions::PHI_THRESHOLD)?,
    };
    bully.rules(term).map_err(|error| {
        let set = |keys: &[&'static str]| settings.first_set(keys);
        let key = match error {
            BullyError::Members(_) => "bully.peers",
            BullyError::NotAMember(_) => "bully.node",
            BullyError::Timings(GroupTimingsError::HoldDown { .. }) => {
                set(&["bully.hold_down", "lease_duration"])
            }
            BullyError::Timings(_) => set(&["bully.message_lifetime", "renew_interval"]),
            BullyError::Detection(_) => set(&[
                "bully.suspect_after",
                "bully.heartbeat_interval",
                "bully.phi_threshold",
            ]),
        };
        settings.invalid(key, error.to_string())
    })?;
    Ok(bully)
}
