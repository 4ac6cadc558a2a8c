//! The settings of the table `[bully]`.

use std::path::PathBuf;

use tenure_core::NodeId;
use tenure_core::bully::GroupTimingsError;
use tenure_core::detector::DetectionOptions;
use tenure_core::lease::candidate::Timings;

use super::load::Purpose;
use super::settings::{ConfigError, Settings, missing, secret};
use super::{Bully, BullyError, Peer};
use crate::peer_transport::PeerKey;

/// All members in these settings, including this one, whatever the strategy.
///
/// # Errors
///
/// [`ConfigError`]: there are none, or one is not valid.
pub fn peers_of(settings: &Settings) -> Result<Vec<Peer>, ConfigError> {
    let peers = settings.texts("bully.peers")?;
    let peers = peers.into_iter().filter(|text| !text.is_empty());
    let peers: Vec<Peer> = peers
        .map(Peer::parse)
        .collect::<Result<_, _>>()
        .map_err(|reason| settings.invalid("bully.peers", reason))?;
    if peers.is_empty() {
        let reason = "name all members, including this one, such as \
                      peers = [\"1=http://10.0.0.1:7500\", \"2=http://10.0.0.2:7500\"] in [bully]";
        return Err(missing("bully.peers", reason));
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

/// The election among peers of these settings.
pub(super) fn bully(
    settings: &Settings,
    term: &Timings,
    purpose: Purpose,
) -> Result<Bully, ConfigError> {
    let peers = peers_of(settings)?;
    if purpose == Purpose::Observe {
        let mut bully = Bully::for_observer(peers);
        bully.cluster = settings.parse("bully.cluster")?;
        bully.quorum = settings.flag("bully.quorum")?;
        return Ok(bully);
    }
    let node = settings.number("bully.node", 0..=u32::MAX)?;
    let node = node.ok_or_else(|| {
        let reason = "name the peer that this process is, such as node = 1 in [bully]";
        missing("bully.node", reason)
    })?;
    let folder = |text: &str| match text {
        "" => Err("is empty: name a folder, such as /var/lib/tenure-peer".into()),
        text => Ok(PathBuf::from(text)),
    };
    let mut bully = Bully::new(NodeId(node), peers);
    bully.cluster = settings.parse("bully.cluster")?;
    bully.listen = settings.with("bully.listen", |text| {
        text.parse()
            .map_err(|_| "must be an address and a port, such as 0.0.0.0:7500".into())
    })?;
    bully.key = secret(settings, "bully.key", "bully.key_file", |bytes| {
        PeerKey::from_lines(bytes).map_err(|error| error.to_string())
    })?;
    if let Some(file) = settings.text("bully.key_file")? {
        bully.key = bully.key.map(|key| key.with_file(file.into()));
    }
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
