//! The strategies under comparison: those of this project, and older algorithms.

use tenure_sim::UnknownName;
use tenure_sim::contestant::{Algorithm, Contestant, DetectorKind};

use crate::baseline::OlderAlgorithm;
use crate::detector::ATTENDANCE_RING;

/// Returns all algorithms.
#[must_use]
pub fn algorithms() -> Vec<Algorithm> {
    let detector = DetectorKind::Other(&ATTENDANCE_RING);
    let with_ring = [true, false].map(|quorum| Algorithm::Bully { detector, quorum });
    let mut all = Algorithm::all();
    all.extend(with_ring);
    all.extend(OlderAlgorithm::ALL);
    all
}

/// Returns the contestant with this name: see [`Contestant::of_name`].
///
/// # Errors
///
/// [`UnknownName`], which contains the most similar known name.
pub fn contestant_of_name(name: &str) -> Result<Contestant, UnknownName> {
    Contestant::among(&algorithms(), name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use super::*;

    #[test]
    fn every_algorithm_has_a_name_of_its_own() {
        let names: BTreeSet<String> = algorithms().iter().map(|it| it.name()).collect();
        assert_eq!(names.len(), algorithms().len());
        for algorithm in algorithms() {
            let found = contestant_of_name(&algorithm.name());
            assert_eq!(found.map(|it| it.algorithm), Ok(algorithm));
        }
    }

    #[test]
    fn older_algorithms_have_the_detection_time_that_they_are_given_and_the_ring_has_none() {
        let detection_time = |name: &str, secs| {
            let contestant = contestant_of_name(name).expect("a contestant");
            contestant
                .with_detection_time(Duration::from_secs(secs))
                .detection_time()
        };
        for secs in [1, 3, 15, 60] {
            let published = detection_time("published", secs).expect("a detection time");
            assert_eq!(published.as_secs_f64().round(), secs as f64);
            assert_eq!(detection_time("bully-ring", secs), None);
        }
        let published = contestant_of_name("published").expect("a contestant");
        assert_eq!(
            published.detection_time(),
            Some(Duration::from_millis(1_500))
        );
    }
}
