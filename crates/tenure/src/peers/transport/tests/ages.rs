//! Ages of messages.

use proptest::prelude::*;

use super::*;
use crate::peers::wire::age::{PeerClock, time_ms};

fn micros(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

proptest! {
    /// Two clocks with different origins and rates; an answer and a message that take any amount of
    /// time.
    #[test]
    fn no_message_is_valid_for_longer_than_its_lifetime(
        other_is_ahead in 0_u64..1 << 40,
        told_at in 1_000_000_u64..1 << 40,
        answer_takes in 0_u64..10_000_000,
        made in 0_u64..1 << 41,
        lifetime_ms in 20_u64..10_000,
        rate_ppm in -900_i64..=900,
    ) {
        let lifetime = Duration::from_millis(lifetime_ms);
        let here = |real: u64| Instant::default() + micros(real);
        let there = |real: u64| {
            let drift = i64::try_from(real).unwrap() / 1_000_000 * rate_ppm;
            Instant::default() + micros((real + other_is_ahead).checked_add_signed(drift).unwrap())
        };
        let clock = PeerClock {
            instance: 1,
            time_ms: time_ms(there(told_at)),
            at: here(told_at + answer_takes),
        };
        // A message may be older than the answer, because a message that waits is sent again.
        let good_until = clock.good_until(here(made), lifetime).time_ms;
        prop_assert!(good_until <= time_ms(there(made) + lifetime));
    }
}

#[test]
fn a_message_after_a_quick_answer_is_valid_for_nearly_all_of_its_lifetime() {
    let at = |ms| Instant::default() + Duration::from_millis(ms);
    let clock = PeerClock {
        instance: 1,
        time_ms: 70_000,
        at: at(1_000),
    };
    let lifetime = Duration::from_millis(500);
    let good = |made| clock.good_until(at(made), lifetime).time_ms;
    assert_eq!(good(1_000), 70_500);
    // Five seconds later, minus five milliseconds for the drift.
    assert_eq!(good(6_000), 75_495);
    // A message that was created shortly before the answer arrived.
    assert!((70_400..70_500).contains(&good(950)));
}
