//! The names of contestants.

use std::fmt;
use std::time::Duration;

use tenure_core::detector::DetectBy;

use super::{Algorithm, Contestant, DetectorKind};
use crate::names::{self, UnknownName};

const DETECTORS: &[(&str, DetectorKind)] = &[
    ("", DetectorKind::Of(DetectBy::Push)),
    ("-fixed", DetectorKind::Of(DetectBy::PushFixed)),
    ("-phi", DetectorKind::Of(DetectBy::Phi)),
    ("-pull", DetectorKind::Of(DetectBy::Pull)),
    ("-on-demand", DetectorKind::Of(DetectBy::OnDemand)),
    ("-mixed", DetectorKind::Mixed),
];

impl Algorithm {
    /// Returns whether the algorithm needs a store.
    #[must_use]
    pub const fn uses_store(self) -> bool {
        matches!(
            self,
            Self::Lease | Self::Cluster | Self::Joint { .. } | Self::Fallback { .. }
        )
    }

    /// Returns the election by a lease with a fallback, with this number of members beside the
    /// store, or with the library's default.
    #[must_use]
    pub const fn fallback(k: Option<usize>) -> Self {
        Self::Fallback {
            detector: DetectorKind::Of(DetectBy::Push),
            k,
            without_store: true,
        }
    }

    /// Returns all algorithms of this crate.
    #[must_use]
    pub fn all() -> Vec<Self> {
        let bully = |quorum| {
            let detectors = DETECTORS.iter();
            detectors.map(move |&(_, detector)| Self::Bully { detector, quorum })
        };
        let mut all = vec![Self::Lease, Self::Cluster];
        all.extend(bully(true));
        all.extend(bully(false));
        let detector = DetectorKind::Of(DetectBy::Push);
        all.extend([true, false].map(|quorum| Self::Joint { detector, quorum }));
        all.push(Self::fallback(None));
        all
    }

    /// Returns the name on the command line and in tables.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Lease => "lease".into(),
            Self::Cluster => "cluster".into(),
            Self::Bully { detector, quorum } => {
                let known = DETECTORS.iter().find(|(_, it)| *it == detector);
                let suffix = match detector {
                    DetectorKind::Other(other) => other.suffix,
                    _ => known.map_or("", |(suffix, _)| suffix),
                };
                let guard = if quorum { "" } else { "-no-quorum" };
                format!("bully{suffix}{guard}")
            }
            Self::Joint { quorum, .. } => {
                let suffix = if quorum { "" } else { "-no-quorum" };
                format!("both{suffix}")
            }
            Self::Fallback {
                k, without_store, ..
            } => {
                let k = k.map(|k| format!("-k{k}")).unwrap_or_default();
                let rule = if without_store { "" } else { "-store-required" };
                format!("fallback{k}{rule}")
            }
            Self::Other(other) => other.name().into(),
        }
    }
}

impl fmt::Display for DetectorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Of(DetectBy::OnDemand) => "pings on demand, with a down list",
            Self::Of(DetectBy::Pull) => "pings at an interval",
            Self::Of(DetectBy::PushFixed) => "heartbeats, fixed timeout",
            Self::Of(DetectBy::Push) => "heartbeats, Chen's deadline",
            Self::Of(DetectBy::Phi) => "heartbeats, phi accrual",
            Self::Of(other) => other.name(),
            Self::Mixed => "push, pull and on-demand in turns",
            Self::Other(other) => other.about,
        })
    }
}

impl Contestant {
    /// Returns the contestant with this name and the library's default settings. A name such as
    /// `lease@3s` sets the lease duration, and `fallback-k2` the number of members that a leader
    /// needs beside the store. With `fallback-k2-store-required` they elect no leader without it.
    ///
    /// # Errors
    ///
    /// [`UnknownName`], which contains the most similar known name.
    pub fn of_name(name: &str) -> Result<Self, UnknownName> {
        Self::among(&Algorithm::all(), name)
    }

    /// Returns the contestant with this name among these algorithms, as
    /// [`of_name`](Self::of_name) does.
    ///
    /// # Errors
    ///
    /// [`UnknownName`], which contains the most similar known name.
    pub fn among(algorithms: &[Algorithm], name: &str) -> Result<Self, UnknownName> {
        let of = |name: &str| {
            let required = name.strip_suffix("-store-required");
            let k = required.unwrap_or(name).strip_prefix("fallback-k");
            match k.map(str::parse) {
                Some(Ok(k @ 1..)) => Ok(Algorithm::Fallback {
                    detector: DetectorKind::Of(DetectBy::Push),
                    k: Some(k),
                    without_store: required.is_none(),
                }),
                _ => names::find("contestant", name, algorithms.iter().copied(), |it| {
                    it.name()
                }),
            }
        };
        if let Some((base, lease)) = name.split_once('@')
            && let Ok(algorithm) = of(base)
            && let Some(secs) = lease.strip_suffix('s').and_then(|it| it.parse().ok())
            && (1..=3_600).contains(&secs)
        {
            return Ok(Self {
                name: name.into(),
                ..Self::new(algorithm).with_lease(Duration::from_secs(secs))
            });
        }
        of(name).map(Self::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_algorithm_has_a_name_and_a_typo_gets_the_nearest_one() {
        for algorithm in Algorithm::all() {
            assert_eq!(
                Contestant::of_name(&algorithm.name()).map(|it| it.algorithm),
                Ok(algorithm)
            );
        }
        let short = Contestant::of_name("lease@3s").unwrap();
        assert_eq!(short.name, "lease@3s");
        assert_eq!(short.term.lease_duration(), Duration::from_secs(3));
        let two = Contestant::of_name("fallback-k2@3s").unwrap();
        assert_eq!(two.algorithm, Algorithm::fallback(Some(2)));
        assert_eq!(two.algorithm.name(), "fallback-k2");
        let name = "fallback-k2-store-required";
        let required = Contestant::of_name(name).unwrap();
        assert_eq!(required.algorithm.name(), name);
        assert!(Contestant::of_name("fallback-k0").is_err());
        assert!(Contestant::of_name("lease@0s").is_err() && Contestant::of_name("lease@").is_err());
        let error = Contestant::of_name("buly-phi").unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no contestant \"buly-phi\"; did you mean \"bully-phi\"?"
        );
    }
}
