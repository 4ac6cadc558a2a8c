//! Failure detection for experiments: a detector that users cannot choose.

mod attendance_ring;

pub use attendance_ring::{ATTENDANCE_RING, Attendance, AttendanceRing, Stamp};
