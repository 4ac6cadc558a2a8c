//! Failure detection for experiments: a detector that users cannot choose.

mod attendance_ring;

pub use attendance_ring::{Attendance, AttendanceRing, Stamp};

use tenure_core::detector::{Detector, DetectorInput};
use tenure_core::{Incarnation, Instant, NodeId};

/// A detector in the simulation.
#[derive(Debug)]
pub enum SimDetector {
    /// A detector of the library.
    Library(Box<dyn Detector>),
    /// The attendance list, which has its own messages.
    AttendanceRing(Box<AttendanceRing>),
}

impl SimDetector {
    /// Handles an attendance list. For the library's detectors it only shows that its sender is up.
    pub fn handle_list(&mut self, now: Instant, from: (NodeId, Incarnation), list: Attendance) {
        match self {
            Self::Library(detector) => {
                let (from, incarnation) = from;
                detector.handle_input(now, DetectorInput::Heard { from, incarnation });
            }
            Self::AttendanceRing(ring) => ring.handle_list(now, from, list),
        }
    }

    /// Returns the next attendance list to send.
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
