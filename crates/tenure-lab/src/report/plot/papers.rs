//! Messages that the papers claim, and what was measured.

use kuva::plot::{LegendPosition, LinePlot, ScatterPlot};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;

use super::{WIDTH, colour, draw, label};
use crate::paper::{Claim, Point};

/// One line for each formula and a dot for each measurement, on axes by powers.
pub(in crate::report) fn papers(points: &[Point], about: &str) -> String {
    let mut plots = Vec::new();
    let claims = Claim::ALL.into_iter().enumerate();
    for (place, claim) in claims {
        let of: Vec<&Point> = points.iter().filter(|it| shown(it, claim)).collect();
        if of.is_empty() {
            continue;
        }
        let formula = of.iter().map(|it| (f64::from(it.n), it.formula));
        let measured = of
            .iter()
            .filter_map(|it| Some((f64::from(it.n), it.measured?)));
        let line = LinePlot::new().with_data(formula).with_color(colour(place));
        let line = line.with_stroke_width(1.5).with_legend(label(claim.name()));
        let dots = ScatterPlot::new().with_data(measured);
        plots.push(Plot::from(line));
        plots.push(Plot::from(dots.with_color(colour(place)).with_size(4.0)));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_log_scale()
        .with_x_tick_format(TickFormat::Integer)
        .with_x_label("members")
        .with_y_label("messages in one election")
        .with_legend_position(LegendPosition::OutsideRightTop);
    draw(plots, layout, about)
}

/// The best member, or none, is down, and on all down lists where there are some.
fn shown(point: &Point, claim: Claim) -> bool {
    let lists = matches!(
        claim,
        Claim::Table1DetectorBest | Claim::Table1DetectorWorst
    );
    point.claim == claim
        && point.unit == "messages"
        && point.k <= 2
        && (!lists || point.l + 1 == point.k)
}
