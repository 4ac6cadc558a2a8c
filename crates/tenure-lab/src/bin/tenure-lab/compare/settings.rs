//! Strategies under comparison from configuration files.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tenure::Config;
use tenure::config::{BesideStore, Strategy};
use tenure_core::bully::{GroupGuarantee, GroupTimingsOptions};
use tenure_lab::measure::NODES;
use tenure_sim::contestant::{Algorithm, Contestant, DetectorKind};

use super::names;
use super::summary::Summary;

/// The strategy of each file, named for the file, and its summary.
pub(super) fn contestants(files: &[PathBuf]) -> anyhow::Result<Vec<(Contestant, Summary)>> {
    names::check_once("--config", files.iter().map(|file| file.display()))?;
    let read = |file: &PathBuf| {
        let config = Config::load(file)?;
        let summary = Summary::new(file.display().to_string(), &config)?;
        Ok((of_config(file, &config)?, summary))
    };
    files.iter().map(read).collect()
}

/// The strategy of this configuration, which was read from the file.
pub(super) fn of_config(file: &Path, config: &Config) -> anyhow::Result<Contestant> {
    let (name, term) = (file.display().to_string(), *config.timings());
    match &config.strategy {
        Strategy::Lease if config.fallback().is_none() => {
            let lease = Contestant::new(Algorithm::Lease);
            return Ok(Contestant {
                name,
                term,
                ..lease
            });
        }
        Strategy::Lease | Strategy::Bully(_) | Strategy::Both(_) => {}
        other => {
            let why = match other {
                Strategy::Static => "it has no election",
                Strategy::AzureBlob(_) | Strategy::Kubernetes(_) => {
                    "the simulated store is a lease store; compare \"lease\" with these timings"
                }
                _ => "the simulation does not have it",
            };
            return Err(names::not_comparable(&name, other, why));
        }
    }
    let plan = config.election_plan()?;
    let plan = plan.context("the strategy has members")?;
    let (rules, detection) = (plan.settings, plan.detection);
    let detector = DetectorKind::Of(detection.by());
    let quorum = rules.guarantee() == GroupGuarantee::Quorum;
    let quorums = rules.quorums();
    let algorithm = match (&config.strategy, quorums.with_store()) {
        (Strategy::Both(_), _) => Algorithm::Joint { detector, quorum },
        // The group of the comparison may have another size, for which k is chosen in the same way.
        (_, Some(_)) => {
            let k = match config.fallback().map(|it| it.k) {
                Some(BesideStore::Balanced) | None => None,
                Some(k) => Some(k.of(NODES as usize)),
            };
            Algorithm::Fallback {
                detector,
                k,
                without_store: !quorums.requires_store(),
            }
        }
        _ => Algorithm::Bully { detector, quorum },
    };
    let timings = rules.timings();
    Ok(Contestant {
        name,
        term,
        peers: GroupTimingsOptions {
            message_lifetime: Some(timings.message_lifetime()),
            hold_down: Some(timings.hold_down()),
        },
        preempt: rules.preempt(),
        detection: detection.options(),
        ..Contestant::new(algorithm)
    })
}

/// The longest time without a leader after a leader that could not release its lease.
pub(super) fn worst_without_leader(config: &Config) -> anyhow::Result<Duration> {
    let lease = config.timings().worst_without_leader();
    Ok(match (config.election_plan()?, &config.strategy) {
        (None, _) => lease,
        // A leader needs both, and both expire at the same time.
        (Some(plan), Strategy::Both(_)) => plan.bounds.without_leader.max(lease),
        (Some(plan), _) => plan.bounds.without_leader,
    })
}
