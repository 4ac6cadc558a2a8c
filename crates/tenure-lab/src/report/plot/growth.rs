//! Messages against the number of members.

use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, by_powers, colour, draw, shape};

/// A contestant's counts: its place, and how many messages there were among so many members.
pub(in crate::report) type Count = (usize, Vec<(f64, f64)>);

/// One line for each contestant, on axes by powers.
pub(in crate::report) fn growth(of: &[Count], what: &str, about: &str) -> String {
    let (mut plots, mut all) = (Vec::new(), Vec::new());
    for (place, counts) in of {
        // What is none has no place among powers.
        let points: Vec<(f64, f64)> = counts.iter().copied().filter(|it| it.1 > 0.0).collect();
        let line = LinePlot::new().with_data(points.clone());
        let line = line.with_color(colour(*place)).with_stroke_width(1.5);
        plots.push(Plot::from(line));
        all.extend(&points);
        let marks = ScatterPlot::new().with_data(points);
        let marks = marks.with_color(colour(*place)).with_size(4.0);
        let marks = marks.with_marker(shape(*place).0);
        plots.push(Plot::from(marks));
    }
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_x_label("members, or candidates and a store (logarithmic)")
        .with_y_label(format!("{what} (logarithmic)"));
    draw(plots, by_powers(layout, &all), about)
}
