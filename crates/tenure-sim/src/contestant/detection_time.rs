//! The detection time of a contestant: how soon another host may lead after the leader has died.

use std::time::Duration;

use tenure_core::bully::GroupTimings;
use tenure_core::detector::{DetectBy, Detection};

use super::{Algorithm, Contestant, DetectorKind, MIXED};

/// The interval at which another algorithm asks about its leader.
const POLL: Duration = Duration::from_secs(1);

impl Contestant {
    /// Returns the same contestant with this detection time, from 1 s to two hours, and with all
    /// other timings in proportion. The settings of other detectors do not change.
    ///
    /// A lease, and a vote of a quorum, lasts for this time. A detector suspects its member at the
    /// latest after this time: it expects a heartbeat in each fifth of it, and another algorithm
    /// asks in each two thirds of it and waits a third of it for the answer. Without a quorum the
    /// message lifetime is three tenths of it (an eighth if a member pings on demand), and the lease,
    /// whose votes don't count then, twice as long.
    ///
    /// # Panics
    ///
    /// If the library refuses a lease of this duration.
    #[must_use]
    pub fn with_detection_time(self, time: Duration) -> Self {
        let by = match self.algorithm {
            Algorithm::Bully { detector, .. }
            | Algorithm::Joint { detector, .. }
            | Algorithm::Fallback { detector, .. } => detector,
            _ => DetectorKind::Of(DetectBy::OnDemand),
        };
        let (interval, suspect_after) = match by {
            DetectorKind::Of(DetectBy::OnDemand) => (time * 2 / 3, time / 3),
            // An interval that suits all three.
            DetectorKind::Mixed => (time / 2, time / 2),
            // It adds an allowance for the spread of the link.
            DetectorKind::Of(DetectBy::Phi) => (time / 4, time * 2 / 5),
            // It adds the timeout of the last question.
            DetectorKind::Of(DetectBy::Pull) => (time / 5, time * 3 / 5),
            _ => (time / 5, time * 4 / 5),
        };
        let mut detection = self.detection;
        detection.interval = Some(interval);
        detection.suspect_after = Some(suspect_after);
        let mut peers = self.peers;
        let mut lease = time;
        if let Algorithm::Bully { quorum: false, .. } = self.algorithm {
            // A question about a silent leader ends after 5/2 message lifetimes, and without a
            // quorum its result counts. The lease is the shortest one for this lifetime.
            peers.message_lifetime = Some(match by {
                // Its questions are its detection, and end within a third of the time.
                DetectorKind::Of(DetectBy::OnDemand) | DetectorKind::Mixed => time / 8,
                _ => time * 3 / 10,
            });
            lease = time * 2;
        }
        Self {
            peers,
            detection,
            ..self.with_lease(lease)
        }
    }

    /// Returns the longest time from the death of a leader until its lease or its votes have
    /// expired and its detector has noticed it, by the settings. An election follows. `None` for
    /// another detector than those of the library.
    #[must_use]
    pub fn detection_time(&self) -> Option<Duration> {
        let lease = self.term.lease_duration();
        let (detector, has_lease) = match self.algorithm {
            Algorithm::Lease | Algorithm::Cluster => return Some(lease),
            Algorithm::Bully { detector, quorum } => (detector, quorum),
            Algorithm::Joint { detector, .. } | Algorithm::Fallback { detector, .. } => {
                (detector, true)
            }
            Algorithm::Other(_) => {
                let (poll, timeout) = self.poll_and_timeout();
                return Some(poll + timeout);
            }
        };
        let detectors = match &detector {
            DetectorKind::Of(by) => std::slice::from_ref(by),
            DetectorKind::Mixed => &MIXED[..],
            DetectorKind::Other(_) => return None,
        };
        let timings = GroupTimings::new(self.term, &self.peers).ok()?;
        let detected = detectors.iter().map(|&by| {
            let mut options = self.detection;
            options.by = by;
            let detection = Detection::new(&options, timings.message_lifetime()).ok()?;
            Some(detection.detection_bound(Duration::ZERO))
        });
        // A member that does not suspect the leader yet refuses another one.
        let detected = detected.collect::<Option<Vec<_>>>()?.into_iter().max()?;
        Some(if has_lease {
            lease.max(detected)
        } else {
            detected
        })
    }

    /// Returns the interval at which another algorithm asks about its leader, and how long it
    /// waits for an answer.
    pub(super) fn poll_and_timeout(&self) -> (Duration, Duration) {
        let timings = GroupTimings::new(self.term, &self.peers);
        let timeout = self.detection.suspect_after;
        let timeout = timeout.unwrap_or_else(|| {
            let timings = timings.expect("timings that were checked");
            timings.message_lifetime()
        });
        (self.detection.interval.unwrap_or(POLL), timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_contestant_gets_the_detection_time_that_it_is_given() {
        for algorithm in Algorithm::all() {
            for secs in [1, 3, 15, 60] {
                let time = Duration::from_secs(secs);
                let contestant = Contestant::new(algorithm).with_detection_time(time);
                let name = &contestant.name;
                let found = contestant.detection_time().expect("a detection time");
                let ratio = found.as_secs_f64() / time.as_secs_f64();
                assert!((0.7..1.1).contains(&ratio), "{name}: {found:?} of {time:?}");
            }
        }
    }

    #[test]
    fn the_defaults_of_the_library_have_the_detection_times_of_their_settings() {
        for (name, secs) in [
            ("lease", 15.0),
            ("bully", 15.0),
            ("bully-no-quorum", 1.5),
            ("bully-mixed-no-quorum", 2.5),
            ("fallback", 15.0),
            ("lease@3s", 3.0),
        ] {
            let contestant = Contestant::of_name(name).expect("a contestant");
            let found = contestant.detection_time().map(|it| it.as_secs_f64());
            assert_eq!(found, Some(secs), "{name}");
        }
    }
}
