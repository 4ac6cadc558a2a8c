//! The number of messages that the papers claim, and the measurements.

use super::{Series, key, lines};
use crate::paper::{Claim, ClaimRow, Point, Value};

/// Draws one line for each formula and a dot for each measurement. Returns the plot and its key.
pub(in crate::report) fn papers(points: &[Point], about: &str) -> (String, String) {
    let (mut all, mut names) = (Vec::new(), Vec::new());
    let rows = Claim::ALL.iter().flat_map(|claim| claim.rows);
    for (place, row) in rows.enumerate() {
        let of: Vec<&Point> = points.iter().filter(|it| shown(it, row)).collect();
        if of.is_empty() {
            continue;
        }
        names.push((place, row.name));
        all.push(Series {
            place,
            line: of.iter().map(|it| (it.n.into(), it.printed)).collect(),
            dots: of
                .iter()
                .filter_map(|it| {
                    let measured = it.figure.or(it.described).and_then(Value::number);
                    Some((it.n.into(), measured?))
                })
                .collect(),
        });
    }
    let labels = ("members", "messages in one election");
    (lines(all, labels, about), key(names))
}

/// Returns whether the plot shows a point: only the best member is down, or none, and it is on the
/// down lists if the claim has any.
fn shown(point: &Point, row: &ClaimRow) -> bool {
    point.row == row.name
        && point.unit == "messages"
        && point.k <= 2
        && point.f_worse == 0
        && (row.figure.is_none() || point.l + 1 == point.k)
}
