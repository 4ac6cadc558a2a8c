//! Who is compared: the ways to elect of this project, and older ones.

mod candidate;
mod member;
mod store;

mod cluster;
mod name;

use std::time::Duration;

use tenure_core::bully::GroupTimingsOptions as BullyTimingsOptions;
use tenure_core::detector::{DetectBy, DetectionOptions};
use tenure_core::lease::candidate::{Timings, TimingsOptions};

pub use cluster::Cluster;
pub use name::UnknownContestant;

/// A way to elect, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    /// What it is called in tables.
    pub name: String,
    /// Which way it is.
    pub algorithm: Algorithm,
    /// The timings of a term.
    pub term: Timings,
    /// Among peers: what was set beside them.
    pub peers: BullyTimingsOptions,
    /// Among peers: whether a better member takes a working leader's place.
    pub preempt: bool,
    /// Among peers: what was set of the failure detector. Which one it is says the way.
    pub detection: DetectionOptions,
}

/// Which way to elect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By a lease in a store.
    Lease,
    /// Bully_FD, repaired, with this failure detector.
    Bully {
        /// Which one.
        detector: DetectorKind,
        /// Whether under the quorum guard.
        quorum: bool,
    },
    /// Bully_FD as it was published.
    Published,
    /// Garcia-Molina's Bully algorithm.
    Classic,
    /// The textbook's Bully algorithm.
    Textbook,
    /// The ring of Chang and Roberts.
    Ring,
}

/// Which failure detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectorKind {
    /// One that users may choose.
    Of(DetectBy),
    /// An attendance list that goes round. For experiments only.
    AttendanceRing,
}

impl Contestant {
    /// This way, with the library's default settings.
    #[must_use]
    pub fn new(way: Algorithm) -> Self {
        Self {
            name: way.name(),
            algorithm: way,
            term: Timings::default(),
            peers: BullyTimingsOptions::default(),
            preempt: false,
            detection: DetectionOptions::default(),
        }
    }

    /// The same with a lease of this duration, and all else in proportion.
    ///
    /// # Panics
    ///
    /// If no timings are possible with it.
    #[must_use]
    pub fn with_lease(self, lease_duration: Duration) -> Self {
        let options = TimingsOptions {
            lease_duration: Some(lease_duration),
            cool_down: Some(lease_duration / 3),
            ..TimingsOptions::default()
        };
        Self {
            term: Timings::new(&options).expect("a lease of a second or more"),
            ..self
        }
    }

    /// Whether it promises one leader at a time, whatever the network does.
    #[must_use]
    pub const fn promises_one_leader(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Lease | Algorithm::Bully { quorum: true, .. }
        )
    }

    /// Whether its terms are numbered.
    #[must_use]
    pub const fn has_epochs(&self) -> bool {
        matches!(self.algorithm, Algorithm::Lease | Algorithm::Bully { .. })
    }
}
