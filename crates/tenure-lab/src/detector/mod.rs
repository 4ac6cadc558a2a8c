//! Failure detection for experiments: a detector that no user chooses, and the quality of all.

mod attendance_ring;

pub mod quality;

pub use attendance_ring::{Attendance, AttendanceRing, AttendanceRingOptions, Stamp};

use tenure_core::detector::Detector;
use tenure_core::{Incarnation, Instant, NodeId};

/// A detector in the simulation.
#[derive(Debug)]
pub enum SimDetector {
    /// One of the library's.
    Library(Box<dyn Detector>),
    /// The attendance list, which has messages of its own.
    AttendanceRing(Box<AttendanceRing>),
}

impl SimDetector {
    /// Handles an attendance list. The library's detectors ignore it.
    pub fn handle_list(&mut self, now: Instant, from: (NodeId, Incarnation), list: Attendance) {
        if let Self::AttendanceRing(ring) = self {
            ring.handle_list(now, from, list);
        }
    }

    /// The next attendance list to send.
    pub fn poll_list(&mut self) -> Option<(NodeId, Attendance)> {
        match self {
            Self::Library(_) => None,
            Self::AttendanceRing(ring) => ring.poll_list(),
        }
    }
}

impl std::ops::Deref for SimDetector {
    type Target = dyn Detector;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Library(detector) => detector.as_ref(),
            Self::AttendanceRing(ring) => ring.as_ref(),
        }
    }
}

impl std::ops::DerefMut for SimDetector {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Library(detector) => detector.as_mut(),
            Self::AttendanceRing(ring) => ring.as_mut(),
        }
    }
}
