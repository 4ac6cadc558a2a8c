//! The settings of the table `[bully]`.

use tenure_core::NodeId;
use tenure_core::bully::GroupTimingsError;
use tenure_core::detector::DetectionOptions;
use tenure_core::lease::candidate::Timings;

use super::load::Purpose;
use super::settings::{ConfigError, Settings};
use super::{Bully, BullyError, Peer, PeerError};
use crate::peer_transport::PeerKey;

/// Returns all members in these settings, including this one. The strategy does not matter.
///
/// # Errors
///
/// [`ConfigError`] if the settings name no member, or if a member is invalid.
pub fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
    let peer = |text: &str| text.parse().map_err(|error: PeerError| error.to_string());
    let peers: Vec<Peer> = settings.items("bully.peers", peer)?;
    if peers.is_empty() {
        let reason = "name all members, including this one, such as \
                      peers = [\"1=http://10.0.0.1:7500\", \"2=http://10.0.0.2:7500\"] in [bully]";
        return Err(ConfigError::missing("bully.peers", reason));
    }
    for (place, peer) in peers.iter().enumerate() {
        if let Some(other) = peers[..place].iter().find(|other| other.url == peer.url) {
            let reason = format!(
                "members {} and {} have the same address, {}: each needs its own",
                other.node, peer.node, peer.url
            );
            return Err(settings.invalid("bully.peers", reason));
        }
    }
    Ok(peers)
}

/// Reads the settings of an election among peers.
pub(super) fn bully(
    settings: &Settings,
    term: &Timings,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let mut bully = Bully::for_observer(peers_of(settings)?);
    bully.cluster = settings.parse("bully.cluster")?;
    bully.quorum = settings.flag("bully.quorum")?;
    if purpose == Purpose::Observe {
        return Ok(bully);
    }
    let reason = "name the peer that this process is, such as node = 1 in [bully]";
    let node = settings.number("bully.node", 0..=u32::MAX)?;
    let node = node.ok_or_else(|| ConfigError::missing("bully.node", reason))?;
    bully.node = Some(NodeId(node));
    bully.listen = settings.with("bully.listen", |text| {
        text.parse()
            .map_err(|_| "must be an address and a port, such as 0.0.0.0:7500".into())
    })?;
    let key = settings.secret("bully.key", |bytes| {
        PeerKey::from_lines(bytes).map_err(|error| error.to_string())
    })?;
    bully.key = key.map(|(_, key)| key);
    if let Some(file) = settings.text("bully.key_file")? {
        bully.key = bully.key.map(|key| key.with_file(file.into()));
    }
    let state_dir = settings.with("bully.state_dir", |text| match text {
        "" => Err("is empty: name a directory, such as /var/lib/tenure-peer".into()),
        text => Ok(text.into()),
    })?;
    bully.state_dir = state_dir.unwrap_or(bully.state_dir);
    bully.preempt = settings.flag("bully.preempt")?.unwrap_or_default();
    bully.timings.hold_down = settings.duration("bully.hold_down")?;
    bully.timings.message_lifetime = settings.duration("bully.message_lifetime")?;
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
            BullyError::Members(_) => "bully.peers",
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
        };
        settings.invalid(key, error.to_string())
    })?;
    Ok(bully)
}
