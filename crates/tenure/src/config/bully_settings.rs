//! The settings of the table `[bully]`, and of members in general.

use tenure_config::{ConfigError, Settings};
use tenure_core::bully::GroupTimingsError;
use tenure_core::lease::candidate::Timings;
use tenure_core::wire::host_name;
use tenure_core::{Name, NodeId};

use super::load::{Purpose, election_of};
use super::{Bully, BullyError, Peer, PeerError};
use crate::base::peer_key::PeerKey;

/// The table of members without a store, and that of members beside a store.
const BULLY: &str = "bully";
pub(super) const FALLBACK: &str = "fallback";

/// Returns the table of the members that these settings describe, with any strategy.
fn table_of(settings: &Settings) -> &'static str {
    if settings.has_table(FALLBACK) {
        FALLBACK
    } else {
        BULLY
    }
}

/// Returns the key of the list of members in this table.
pub(super) const fn list_of(table: &str) -> &'static str {
    match table.as_bytes() {
        b"fallback" => "fallback.members",
        _ => "bully.peers",
    }
}

/// Returns all members in these settings, including this one: those of a fallback, if there is one.
/// The strategy does not matter.
///
/// # Errors
///
/// [`ConfigError`] if the settings name no member, or if a member is invalid.
pub fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
    members_of(settings, table_of(settings))
}

/// Reads the name of the group of members.
///
/// # Errors
///
/// [`ConfigError`] if the name is missing or invalid.
pub fn cluster_of(settings: &Settings) -> Result<Name, ConfigError> {
    match settings.parse(&format!("{}.cluster", table_of(settings)))? {
        Some(cluster) => Ok(cluster),
        None => Ok(election_of(settings)?.name),
    }
}

fn members_of(settings: &Settings, table: &str) -> Result<Vec<Peer>, ConfigError> {
    let peer = |text: &str| text.parse().map_err(|error: PeerError| error.to_string());
    let list = list_of(table);
    let peers: Vec<Peer> = settings.items(list, peer)?;
    if peers.is_empty() {
        let key = &list[table.len() + 1..];
        let reason = format!(
            "name all members, including this one, such as \
             {key} = [\"1=http://10.0.0.1:7500\", \"2=http://10.0.0.2:7500\"] in [{table}]"
        );
        return Err(ConfigError::missing(list, reason));
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
            return Err(settings.invalid(list, reason));
        }
    }
    Ok(peers)
}

/// Reads the settings that every table with members has.
pub(super) fn member(
    settings: &Settings,
    table: &str,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let mut member = Bully::for_observer(members_of(settings, table)?);
    let key = |name: &str| format!("{table}.{name}");
    member.cluster = settings.parse(&key("cluster"))?;
    if purpose == Purpose::Observe {
        return Ok(member);
    }
    let node = settings.number(&key("node"))?;
    let node = node.ok_or_else(|| {
        let reason = format!("name the member that this process is, such as node = 1 in [{table}]");
        ConfigError::missing(key("node"), reason)
    })?;
    member.node = Some(NodeId(node));
    member.listen = settings.address(&key("listen"))?;
    member.hosts = settings.items("hosts", host_name)?;
    let secret = settings.secret(&key("key"), |bytes| {
        PeerKey::from_lines(bytes).map_err(|error| error.to_string())
    })?;
    member.key = secret.map(|(_, key)| key);
    if let Some(file) = settings.path(&key("key_file"))? {
        member.key = member.key.map(|key| key.with_file(file));
    }
    let state_dir = settings.required_path(&key("state_dir"))?;
    member.state_dir = state_dir.unwrap_or(member.state_dir);
    for (name, timing) in member.timings.by_name() {
        if settings.has_key(&key(name)) {
            *timing = settings.duration(&key(name))?;
        }
    }
    Ok(member)
}

/// Reads the settings of an election among peers.
pub(super) fn bully(
    settings: &Settings,
    term: &Timings,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let mut bully = member(settings, BULLY, purpose)?;
    bully.quorum = settings.optional_flag("bully.quorum")?;
    if purpose == Purpose::Observe {
        return Ok(bully);
    }
    bully.preempt = settings.flag("bully.preempt")?;
    bully.relay = settings.flag("bully.relay")?;
    let detection = &mut bully.detection;
    let by = settings.with("bully.detector", str::parse)?;
    detection.by = by.unwrap_or_default();
    detection.interval = settings.duration("bully.heartbeat_interval")?;
    detection.suspect_after = settings.duration("bully.suspect_after")?;
    detection.phi_threshold = settings.number("bully.phi_threshold")?;
    bully.plan(term).map_err(|error| {
        let set = |keys: &[&'static str]| settings.first_set(keys);
        let key = match error {
            BullyError::NotAMember(_) | BullyError::NoNode => "bully.node",
            BullyError::Timings(GroupTimingsError::HoldDown { .. }) => {
                set(&["bully.hold_down", "lease_duration"])
            }
            BullyError::Timings(_) => set(&["bully.message_lifetime", "renew_interval"]),
            BullyError::Detection(_) => set(&[
                "bully.suspect_after",
                "bully.heartbeat_interval",
                "bully.phi_threshold",
            ]),
            // The other errors are those of a fallback.
            _ => list_of(BULLY),
        };
        settings.invalid(key, error.to_string())
    })?;
    Ok(bully)
}
