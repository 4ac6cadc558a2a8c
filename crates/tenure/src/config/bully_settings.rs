//! The settings of the table `[bully]`, and of members in general.

use tenure_core::bully::GroupTimingsError;
use tenure_core::detector::DetectionOptions;
use tenure_core::lease::candidate::Timings;
use tenure_core::wire::host_name;
use tenure_core::{Name, NodeId};

use super::load::{Purpose, election_of};
use super::settings::{ConfigError, Settings};
use super::{Bully, BullyError, Peer, PeerError};
use crate::base::peer_key::PeerKey;

/// The keys of a table with members.
pub(super) struct MemberKeys {
    table: &'static str,
    pub(super) members: &'static str,
    pub(super) node: &'static str,
    listen: &'static str,
    key: &'static str,
    key_file: &'static str,
    state_dir: &'static str,
    cluster: &'static str,
    pub(super) message_lifetime: &'static str,
}

const BULLY: MemberKeys = MemberKeys {
    table: "bully",
    members: "bully.peers",
    node: "bully.node",
    listen: "bully.listen",
    key: "bully.key",
    key_file: "bully.key_file",
    state_dir: "bully.state_dir",
    cluster: "bully.cluster",
    message_lifetime: "bully.message_lifetime",
};

pub(super) const FALLBACK: MemberKeys = MemberKeys {
    table: "fallback",
    members: "fallback.members",
    node: "fallback.node",
    listen: "fallback.listen",
    key: "fallback.key",
    key_file: "fallback.key_file",
    state_dir: "fallback.state_dir",
    cluster: "fallback.cluster",
    message_lifetime: "fallback.message_lifetime",
};

/// Returns the keys of the members that these settings describe, with any strategy.
const fn keys_of(has_fallback: bool) -> &'static MemberKeys {
    if has_fallback { &FALLBACK } else { &BULLY }
}

/// Returns all members in these settings, including this one: those of a fallback, if there is one.
/// The strategy does not matter.
///
/// # Errors
///
/// [`ConfigError`] if the settings name no member, or if a member is invalid.
pub fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
    members_of(settings, keys_of(settings.has_table(FALLBACK.table)))
}

/// Reads the name of the group of members.
///
/// # Errors
///
/// [`ConfigError`] if the name is missing or invalid.
pub fn cluster_of(settings: &Settings) -> Result<Name, ConfigError> {
    let keys = keys_of(settings.has_table(FALLBACK.table));
    match settings.parse(keys.cluster)? {
        Some(cluster) => Ok(cluster),
        None => Ok(election_of(settings)?.name),
    }
}

fn members_of(settings: &Settings, keys: &MemberKeys) -> Result<Vec<Peer>, ConfigError> {
    let peer = |text: &str| text.parse().map_err(|error: PeerError| error.to_string());
    let peers: Vec<Peer> = settings.items(keys.members, peer)?;
    if peers.is_empty() {
        let (table, key) = keys.members.split_once('.').unwrap_or_default();
        let reason = format!(
            "name all members, including this one, such as \
             {key} = [\"1=http://10.0.0.1:7500\", \"2=http://10.0.0.2:7500\"] in [{table}]"
        );
        return Err(ConfigError::missing(keys.members, reason));
    }
    for (place, peer) in peers.iter().enumerate() {
        if let Some(other) = peers[..place]
            .iter()
            .find(|other| peer.url.is_some() && other.url == peer.url)
        {
            let reason = format!(
                "members {} and {} have the same address, {}: each needs its own",
                other.node,
                peer.node,
                peer.url().unwrap_or_default()
            );
            return Err(settings.invalid(keys.members, reason));
        }
    }
    Ok(peers)
}

/// Reads the settings that every table with members has.
pub(super) fn member(
    settings: &Settings,
    keys: &MemberKeys,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let mut member = Bully::for_observer(members_of(settings, keys)?);
    member.cluster = settings.parse(keys.cluster)?;
    if purpose == Purpose::Observe {
        return Ok(member);
    }
    let table = keys.table;
    let node = settings.number(keys.node, 0..=u32::MAX)?;
    let node = node.ok_or_else(|| {
        let reason = format!("name the member that this process is, such as node = 1 in [{table}]");
        ConfigError::missing(keys.node, reason)
    })?;
    member.node = Some(NodeId(node));
    member.listen = settings.with(keys.listen, |text| {
        text.parse()
            .map_err(|_| "must be an address and a port, such as 0.0.0.0:7500".into())
    })?;
    member.hosts = settings.items("hosts", host_name)?;
    let key = settings.secret(keys.key, |bytes| {
        PeerKey::from_lines(bytes).map_err(|error| error.to_string())
    })?;
    member.key = key.map(|(_, key)| key);
    if let Some(file) = settings.path(keys.key_file)? {
        member.key = member.key.map(|key| key.with_file(file));
    }
    let state_dir = settings.required_path(keys.state_dir)?;
    member.state_dir = state_dir.unwrap_or(member.state_dir);
    member.timings.message_lifetime = settings.duration(keys.message_lifetime)?;
    Ok(member)
}

/// Reads the settings of an election among peers.
pub(super) fn bully(
    settings: &Settings,
    term: &Timings,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let mut bully = member(settings, &BULLY, purpose)?;
    bully.quorum = settings.flag("bully.quorum")?;
    if purpose == Purpose::Observe {
        return Ok(bully);
    }
    bully.preempt = settings.flag("bully.preempt")?.unwrap_or_default();
    bully.relay = settings.flag("bully.relay")?.unwrap_or_default();
    bully.timings.hold_down = settings.duration("bully.hold_down")?;
    let detection = &mut bully.detection;
    let by = settings.with("bully.detector", str::parse)?;
    detection.by = by.unwrap_or_default();
    detection.interval = settings.duration("bully.heartbeat_interval")?;
    detection.suspect_after = settings.duration("bully.suspect_after")?;
    let threshold = settings.number("bully.phi_threshold", DetectionOptions::PHI_THRESHOLD)?;
    detection.phi_threshold = threshold;
    bully.plan(term).map_err(|error| {
        let set = |keys: &[&'static str]| settings.first_set(keys);
        let key = match error {
            BullyError::NotAMember(_) | BullyError::NoNode => BULLY.node,
            BullyError::Timings(GroupTimingsError::HoldDown { .. }) => {
                set(&["bully.hold_down", "lease_duration"])
            }
            BullyError::Timings(_) => set(&[BULLY.message_lifetime, "renew_interval"]),
            BullyError::Detection(_) => set(&[
                "bully.suspect_after",
                "bully.heartbeat_interval",
                "bully.phi_threshold",
            ]),
            // The other errors are those of a fallback.
            _ => BULLY.members,
        };
        settings.invalid(key, error.to_string())
    })?;
    Ok(bully)
}
