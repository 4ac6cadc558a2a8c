//! Messages against the number of members.

use kuva::plot::{LegendPosition, LinePlot, MarkerShape, ScatterPlot};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;

use super::{WIDTH, colour, draw, label};

/// A contestant's counts: its place, its name, and how many messages there were among so many members.
pub(in crate::report) type Count<'a> = (usize, &'a str, Vec<(f64, f64)>);

/// One line for each contestant, on axes by powers.
pub(in crate::report) fn growth(of: &[Count<'_>], what: &str, about: &str) -> String {
    let mut plots = Vec::new();
    for (place, name, counts) in of {
        // What is none has no place among powers.
        let points: Vec<(f64, f64)> = counts.iter().copied().filter(|it| it.1 > 0.0).collect();
        let line = LinePlot::new().with_data(points.clone());
        let line = line.with_color(colour(*place)).with_stroke_width(1.5);
        let line = if place / super::COLOURS == 0 {
            line
        } else {
            line.with_dashed()
        };
        plots.push(Plot::from(line.with_legend(label(name))));
        let marks = ScatterPlot::new().with_data(points);
        let marks = marks.with_color(colour(*place)).with_size(3.5);
        plots.push(Plot::from(marks.with_marker(MarkerShape::Circle)));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_log_scale()
        .with_x_tick_format(TickFormat::Integer)
        .with_x_label("members, or candidates and a store")
        .with_y_label(what)
        .with_legend_position(LegendPosition::OutsideRightTop);
    draw(plots, layout, about)
}
