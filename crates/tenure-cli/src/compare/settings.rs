//! A user's own settings as contestants.

use std::path::{Path, PathBuf};

use anyhow::anyhow;
use tenure::Config;
use tenure::config::Strategy;
use tenure_core::bully::{GroupGuarantee, GroupTimingsOptions};
use tenure_lab::contestant::{Algorithm, Contestant, DetectorKind};

use super::outlook::Outlook;
use crate::exit::{BAD_CONFIGURATION, Failure};

/// One for each file, with the file's name, and what is to be told of it in the end.
pub(super) fn contestants(files: &[PathBuf]) -> Result<Vec<(Contestant, Outlook)>, Failure> {
    let read = |file: &PathBuf| {
        let config = Config::load(file)?;
        let contestant = of_config(file, &config)?;
        Ok((
            contestant,
            Outlook::of(file.display().to_string(), &config)?,
        ))
    };
    files.iter().map(read).collect()
}

fn of_config(file: &Path, config: &Config) -> Result<Contestant, Failure> {
    let (name, term) = (file.display().to_string(), *config.timings());
    let (bully, joint) = match config.strategy() {
        Strategy::Lease => {
            let lease = Contestant::new(Algorithm::Lease);
            return Ok(Contestant {
                name,
                term,
                ..lease
            });
        }
        Strategy::Bully(bully) => (bully, false),
        Strategy::Both(bully) => (bully, true),
        other => {
            let strategy = other.name();
            let why = match other {
                Strategy::Static => "it elects nobody",
                Strategy::AzureBlob(_) => {
                    "the simulated store is a lease store; compare \"lease\" with these timings"
                }
                _ => "the simulation does not have it",
            };
            return Err(Failure::new(
                BAD_CONFIGURATION,
                anyhow!("{name}: strategy = {strategy:?} can't be compared: {why}"),
            ));
        }
    };
    let plan = bully.plan(&term).map_err(anyhow::Error::from)?;
    let (rules, detection) = (plan.settings, plan.detection);
    let detector = DetectorKind::Of(detection.by());
    let quorum = rules.guarantee() == GroupGuarantee::Quorum;
    let algorithm = if joint {
        Algorithm::Joint { detector, quorum }
    } else {
        Algorithm::Bully { detector, quorum }
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
