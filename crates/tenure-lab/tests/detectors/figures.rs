//! Calculates the figures in `docs/detectors.md`, prints them, and compares them with the page.
//!
//! Node 1 of five watches the others. A message takes 1 ms plus an exponentially distributed time
//! with a mean of 2 ms.

use tenure_sim::sim::Rng;

use super::network::up_to;
use super::*;
use crate::quality::Quality;

const DOCS: &str = include_str!("../../../../docs/detectors.md");

const CRASHES: u64 = 100;
const HOURS: u64 = 1;

fn delay(rng: &mut Rng) -> Option<Duration> {
    let spread = -libm::log(1.0 - rng.unit());
    Some(millis(1) + millis(2).mul_f64(spread))
}

fn lossy(rng: &mut Rng) -> Option<Duration> {
    if rng.unit() < 0.1 { None } else { delay(rng) }
}

/// Crashes node 3 at a random time.
fn crashes(make: Make) -> Quality {
    let mut quality = Quality::default();
    for seed in 0..CRASHES {
        let mut network = Network::new(make, 5).with_delay(seed, delay);
        let when = at(5_000) + up_to(&mut Rng::from_seed(!seed), millis(6_000));
        network.run_until(when).crash(THREE);
        network.run_until(at(20_000));
        quality.add(&network.quality());
    }
    quality
}

fn row(name: &str, make: Make) -> String {
    let bound = Network::new(make, 5).bound(millis(20));
    let detection = crashes(make).detection;

    let mut quiet = Network::new(make, 5).with_delay(1, delay);
    quiet.run_until(at(60_000));
    let before = quiet.sent;
    quiet.run_until(at(180_000));
    let messages = (quiet.sent - before) as f64 / 2.0;

    let mut noisy = Network::new(make, 5).with_delay(2, lossy);
    noisy.run_until(at(HOURS * 3_600_000));
    let quality = noisy.quality();
    let secs = |time: Duration| time.as_secs_f64();
    format!(
        "| {name} | {messages:.0} | {:.2} s | {:.2} s | {:.2} s | {:.1} | {:.2} s | {:.3} % |",
        secs(bound),
        secs(detection.mean().unwrap()),
        secs(detection.longest),
        quality.mistake_rate() * 3600.0,
        quality.mistakes.mean().map_or(0.0, secs),
        quality.query_accuracy() * 100.0,
    )
}

#[test]
fn the_figures_in_the_docs_are_the_measured_ones() {
    let rows: Vec<String> = ALL.iter().map(|(name, make)| row(name, *make)).collect();
    rows.iter().for_each(|row| println!("{row}"));
    for row in rows {
        assert!(
            DOCS.contains(&row),
            "docs/detectors.md lacks the row: {row}"
        );
    }
}
