//! The strategies of this project, and an interface for other ones.

mod other;
mod payload;

mod candidate;
mod peer_link;
mod store_client;

mod store;

mod log_home;
mod server;

mod cluster;
mod detection_time;
mod name;

use std::time::Duration;

use tenure_core::bully::{GroupTimingsOptions as BullyTimingsOptions, Quorums, QuorumsError};
use tenure_core::detector::{DetectBy, DetectionOptions};
use tenure_core::lease::candidate::{Timings, TimingsOptions};

pub use cluster::Cluster;
pub use log_home::{HomeAnswer, HomeCall};
pub use other::{OtherAlgorithm, OtherDetector, OtherDetectorKind, OtherMember};
pub use payload::{Payload, RequestId, json_size};
pub use server::SERVERS;

/// A strategy under comparison, with its settings.
#[derive(Clone, Debug, PartialEq)]
pub struct Contestant {
    /// Its name in tables.
    pub name: String,
    /// The election algorithm.
    pub algorithm: Algorithm,
    /// The timings of a term.
    pub term: Timings,
    /// Among peers: the settings in addition to the timings.
    pub peers: BullyTimingsOptions,
    /// Among peers: whether a better member replaces a working leader.
    pub preempt: bool,
    /// Among peers: the settings of the failure detector. Its kind is part of the algorithm.
    pub detection: DetectionOptions,
}

/// An election algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// By a lease in a store.
    Lease,
    /// By a lease in a store of three servers over a shared log, of which one is active.
    Cluster,
    /// Bully_FD with the repairs, and with this failure detector.
    Bully {
        /// The failure detector.
        detector: DetectorKind,
        /// Whether a leader needs a quorum.
        quorum: bool,
    },
    /// By a lease and among peers at once.
    Joint {
        /// The failure detector.
        detector: DetectorKind,
        /// Whether the peers need a quorum.
        quorum: bool,
    },
    /// By a lease, and among peers while the store is away.
    Fallback {
        /// The failure detector.
        detector: DetectorKind,
        /// The number of members that a leader needs beside the store; `None` for the default of
        /// the library.
        k: Option<usize>,
        /// Whether the members elect a leader without the store.
        without_store: bool,
    },
    /// An algorithm of another crate.
    Other(&'static dyn OtherAlgorithm),
}

/// A failure detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DetectorKind {
    /// A detector of the library.
    Of(DetectBy),
    /// Three detectors of the library in turns: `push`, `pull` and `on-demand`.
    Mixed,
    /// A detector of another crate.
    Other(&'static OtherDetectorKind),
}

/// The detectors of members 1, 2 and 3 of a mixed group, and of the next three, and so on: one for
/// each way to watch a node. The other detectors only calculate another deadline for heartbeats.
pub(crate) const MIXED: [DetectBy; 3] = [DetectBy::Push, DetectBy::Pull, DetectBy::OnDemand];

impl Contestant {
    /// Creates a contestant with this algorithm and the library's default settings.
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

    /// Returns the same contestant with a lease of this duration, and the other timings in
    /// proportion.
    ///
    /// # Panics
    ///
    /// If the library refuses timings with this lease duration.
    #[must_use]
    pub fn with_lease(self, lease_duration: Duration) -> Self {
        let mut options = TimingsOptions::default();
        options.lease_duration = Some(lease_duration);
        options.cool_down = Some(lease_duration / 3);
        Self {
            term: Timings::new(&options).expect("a lease of a second or more"),
            ..self
        }
    }

    /// Checks that a group of this size is possible.
    ///
    /// # Errors
    ///
    /// [`QuorumsError`] if a fallback needs too many members beside the store.
    pub fn check_members(&self, members: u32) -> Result<(), QuorumsError> {
        match self.algorithm {
            Algorithm::Fallback { k: Some(k), .. } => {
                Quorums::fallback(members as usize, k).map(drop)
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the contestant guarantees one leader at a time under every network fault.
    #[must_use]
    pub const fn promises_one_leader(&self) -> bool {
        matches!(
            self.algorithm,
            Algorithm::Lease
                | Algorithm::Cluster
                | Algorithm::Bully { quorum: true, .. }
                | Algorithm::Joint { .. }
                | Algorithm::Fallback { .. }
        )
    }

    /// Returns whether the contestant is an algorithm of the papers, with their
    /// [model](OtherAlgorithm::has_model_of_papers).
    #[must_use]
    pub fn has_model_of_papers(&self) -> bool {
        matches!(self.algorithm, Algorithm::Other(other) if other.has_model_of_papers())
    }

    /// Returns whether the contestant's terms have epochs.
    #[must_use]
    pub const fn has_epochs(&self) -> bool {
        !matches!(self.algorithm, Algorithm::Other(_))
    }
}
