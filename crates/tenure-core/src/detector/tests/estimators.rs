//! Estimators with given arrival times of heartbeats.

use super::*;

const INTERVAL: Duration = millis(100);

fn chen(alpha: u64, window: usize) -> Chen {
    let mut chen = Chen::new(INTERVAL, millis(alpha), window);
    chen.begin(at(0));
    chen
}

fn phi(window: usize, min_deviation: u64, pause: u64) -> PhiAccrual {
    let options = PhiOptions {
        threshold: 8.0,
        window,
        min_deviation: millis(min_deviation),
        pause: millis(pause),
    };
    let mut phi = PhiAccrual::new(INTERVAL, options);
    phi.begin(at(0));
    phi
}

/// Heartbeats 1, 2 and 3 arrive 10, 30 and 20 ms late, and the sender's clock is 5 s behind: the
/// mean offset is 5,020 ms.
#[test]
fn chen_expects_the_next_heartbeat_after_the_mean_offset_of_the_window() {
    let mut chen = chen(250, 3);
    for (tick, millis) in [(1, 5_110), (2, 5_230), (3, 5_320)] {
        chen.observe(at(millis), tick);
    }
    assert_eq!(chen.expected(4), Some(at(5_420)));
    assert_eq!(chen.deadline(), at(5_670));

    // Heartbeat 4 is lost, heartbeat 5 is 60 ms late, and heartbeat 1 with its 10 ms leaves the
    // window: the mean is 5,036.67 ms.
    chen.observe(at(5_560), 5);
    let expected = chen.expected(6).unwrap();
    assert_eq!(expected.since(at(5_636)).as_micros(), 666);
}

#[test]
fn a_slow_heartbeat_delays_the_next_deadline_fully_with_a_fixed_timeout_and_hardly_with_chen() {
    let (mut chen, mut fixed) = (chen(250, 100), FixedTimeout::new(INTERVAL, millis(350)));
    for tick in 1..=99_u64 {
        chen.observe(at(100 * tick), tick);
        fixed.observe(at(100 * tick), tick);
    }
    assert_eq!(
        (chen.deadline(), fixed.deadline()),
        (at(10_250), at(10_250))
    );
    chen.observe(at(10_100), 100); // 100 ms late
    fixed.observe(at(10_100), 100);
    assert_eq!(
        (chen.deadline(), fixed.deadline()),
        (at(10_351), at(10_450))
    );
}

#[test]
fn chen_works_with_the_senders_clock_ahead_or_behind() {
    let mut chen = chen(250, 10);
    let tick = 1_000_000_000;
    chen.observe(at(3), tick);
    assert_eq!(chen.deadline(), at(353));
    chen.observe(at(103), u64::MAX); // An invalid tick from the network.
    assert!(chen.expected(u64::MAX).is_some());
}

/// By definition, half of all heartbeats arrive later than the mean (phi = log10 2), 15.87 % later
/// than one deviation after the mean (0.7995), and 2.275 % later than two (1.6430).
#[test]
fn phi_matches_the_normal_distribution() {
    let mut phi = phi(2, 1, 0);
    for millis in [1000, 1090, 1200] {
        phi.observe(at(millis), millis);
    }
    // The window contains 90 and 110 ms: the mean is 100, and the deviation is 10.
    for (millis, expected) in [
        (1300, core::f64::consts::LOG10_2),
        (1310, 0.7995),
        (1320, 1.6430),
    ] {
        let level = phi.phi(at(millis));
        assert!((level - expected).abs() < 1e-3, "{millis}: {level}");
    }
    // Phi is 8 at the deadline, 5.612 deviations after the mean.
    assert_eq!(phi.deadline().since(at(1300)).as_micros(), 56_120);
    assert!((phi.phi(phi.deadline()) - 8.0).abs() < 1e-4);
}

#[test]
fn phi_adapts_to_jitter_and_allows_for_the_pause() {
    let (mut steady, mut jittery) = (phi(100, 5, 200), phi(100, 5, 200));
    for tick in 1..=200_u64 {
        let jitter = if tick % 2 == 0 { 0 } else { 30 };
        steady.observe(at(100 * tick), tick);
        jittery.observe(at(100 * tick + jitter), tick);
    }
    let last = at(20_000);
    assert_eq!(steady.deadline().since(last).as_millis(), 100 + 200 + 28);
    // With intervals of 70 and 130 ms, the deviation is 30.
    assert_eq!(jittery.deadline().since(last).as_millis(), 100 + 200 + 168);
}

#[test]
fn the_silence_of_a_failure_is_not_sampled() {
    let mut phi = phi(100, 5, 200);
    for tick in 1..=200_u64 {
        phi.observe(at(100 * tick), tick);
    }
    let before = phi.deadline().since(at(20_000));
    phi.observe(at(80_000), 800);
    assert_eq!(phi.deadline().since(at(80_000)), before);
}

#[test]
fn windows_are_bounded_and_drop_old_samples() {
    let (mut chen, mut phi) = (chen(250, 10), phi(10, 5, 0));
    for tick in 1..=1_000_u64 {
        // From heartbeat 980 on, the link is 40 ms slower.
        let delay = if tick < 980 { 0 } else { 40 };
        chen.observe(at(100 * tick + delay), tick);
        phi.observe(at(100 * tick + delay), tick);
    }
    assert_eq!(chen.expected(1_001), Some(at(100_140)));
    assert_eq!(phi.deadline().since(at(100_040)).as_millis(), 100 + 28);
    for held in [alloc::format!("{chen:?}"), alloc::format!("{phi:?}")] {
        assert!(held.len() < 500, "{held}");
    }
}

#[test]
fn a_heartbeat_whose_successor_is_already_overdue_does_not_end_a_suspicion() {
    let mut detector = push_chen(at(0), &group(ONE, 2));
    detector.handle_input(at(0), DetectorInput::Watch(TWO));
    let heartbeat = |tick| DetectorInput::Message {
        from: TWO,
        incarnation: Incarnation(1),
        message: DetectorMessage::Heartbeat { tick },
    };
    for tick in 1..=20 {
        detector.handle_input(at(300 * tick), heartbeat(tick));
    }
    detector.handle_timeout(at(7_500));
    assert!(detector.is_suspected(TWO));
    detector.handle_input(at(15_000), heartbeat(21)); // Sent at 6.3 s.
    assert!(detector.is_suspected(TWO));
    detector.handle_input(at(15_001), heartbeat(50)); // Sent at 15 s.
    assert!(!detector.is_suspected(TWO));
}
