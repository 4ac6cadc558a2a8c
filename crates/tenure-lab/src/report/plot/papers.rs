//! The number of messages that the papers claim, and the measurements.

use super::{Series, key, lines};
use crate::contestant::Algorithm;
use crate::paper::{Claim, Point};

/// Draws one line for each formula and a dot for each measurement. Returns the plot and its key.
pub(in crate::report) fn papers(points: &[Point], about: &str) -> (String, String) {
    let (mut all, mut names) = (Vec::new(), Vec::new());
    for (place, claim) in Claim::ALL.iter().enumerate() {
        let of: Vec<&Point> = points.iter().filter(|it| shown(it, claim)).collect();
        if of.is_empty() {
            continue;
        }
        names.push((place, claim.name));
        all.push(Series {
            place,
            line: of.iter().map(|it| (it.n.into(), it.formula)).collect(),
            dots: of
                .iter()
                .filter_map(|it| Some((it.n.into(), it.measured?)))
                .collect(),
        });
    }
    let labels = ("members", "messages in one election");
    (lines(all, labels, about), key(names))
}

/// Returns whether the plot shows a point: only the best member is down, or none, and it is on the
/// down lists if the claim has any.
fn shown(point: &Point, claim: &Claim) -> bool {
    let lists = claim.algorithm == Algorithm::Published;
    point.claim.name == claim.name
        && point.unit == "messages"
        && point.k <= 2
        && (!lists || point.l + 1 == point.k)
}
