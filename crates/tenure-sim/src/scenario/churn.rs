//! Members that crash and return all the time.

use std::time::Duration;

use tenure_core::NodeId;

use crate::sim::{Fault, Rng, Target};

/// The duration of the faults.
pub(super) const LASTS: Duration = Duration::from_secs(300);

/// The mean time from a return to the next crash, and from a crash to the return.
const MEAN: Duration = Duration::from_secs(10);

/// One member of this number crashes and returns, so a majority always stays up.
const ONE_OF: usize = 3;

/// The number of the random stream.
const CHURN: u64 = 5;

/// Returns the crashes of the members 1, 4, 7, .. with their times. The best member is one of them,
/// because Bully algorithms depend on it most.
pub(super) fn faults(nodes: u32, seed: u64) -> Vec<(Duration, Fault)> {
    let mut rng = Rng::new(seed, CHURN);
    let mut faults = Vec::new();
    for node in (1..=nodes).step_by(ONE_OF) {
        let mut at = rng.exponential(MEAN);
        while at < LASTS {
            let away = rng.exponential(MEAN);
            let member = Target::Node(NodeId(node));
            faults.push((at, Fault::Crash(member, Some(away))));
            at += away + rng.exponential(MEAN);
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_third_of_the_members_is_away_for_half_of_the_time() {
        let faults: Vec<_> = (0..20).flat_map(|seed| faults(20, seed)).collect();
        let away = faults.iter().map(|(_, fault)| match fault {
            Fault::Crash(Target::Node(node), Some(away)) => {
                assert_eq!(node.0 % 3, 1);
                away.as_secs_f64()
            }
            other => panic!("{other}"),
        });
        // Seven of twenty members.
        let share = away.sum::<f64>() / (20.0 * 7.0 * LASTS.as_secs_f64());
        assert!((0.45..0.55).contains(&share), "{share}");
    }
}
