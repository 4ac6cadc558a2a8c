//! Messages that the papers claim, and what was measured.

use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, by_powers, colour, draw, key, shape};
use crate::contestant::Algorithm;
use crate::paper::{Claim, Point};

/// One line for each formula and a dot for each measurement, on axes by powers; and whose they are.
pub(in crate::report) fn papers(points: &[Point], about: &str) -> (String, String) {
    let (mut plots, mut all, mut names) = (Vec::new(), Vec::new(), Vec::new());
    let claims = Claim::ALL.iter().enumerate();
    for (place, claim) in claims {
        let of: Vec<&Point> = points.iter().filter(|it| shown(it, claim)).collect();
        if of.is_empty() {
            continue;
        }
        names.push((place, claim.name));
        let formula = of.iter().map(|it| (f64::from(it.n), it.formula));
        let measured = of
            .iter()
            .filter_map(|it| Some((f64::from(it.n), it.measured?)));
        all.extend(formula.clone().chain(measured.clone()));
        let line = LinePlot::new().with_data(formula).with_color(colour(place));
        plots.push(Plot::from(line.with_stroke_width(1.5)));
        let dots = ScatterPlot::new().with_data(measured).with_size(4.5);
        let dots = dots.with_color(colour(place)).with_marker(shape(place).0);
        plots.push(Plot::from(dots));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_x_label("members (logarithmic)")
        .with_y_label("messages in one election (logarithmic)");
    (draw(plots, by_powers(layout, &all), about), key(names))
}

/// The best member, or none, is down, and on all down lists where there are some.
fn shown(point: &Point, claim: &Claim) -> bool {
    let lists = claim.algorithm == Algorithm::Published;
    point.claim.name == claim.name
        && point.unit == "messages"
        && point.k <= 2
        && (!lists || point.l + 1 == point.k)
}
