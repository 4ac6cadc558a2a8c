//! What a short time without a leader costs at rest.

use kuva::plot::ScatterPlot;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, colour, draw, label};

/// A contestant: its place, its name, its messages in a minute at rest, and the median and the greatest
/// of its times without a leader, in seconds.
pub(in crate::report) fn trade_off(of: &[(usize, &str, f64, f64, f64)], about: &str) -> String {
    let points = of
        .iter()
        .map(|(_, _, messages, median, _)| (*messages, *median));
    let points: Vec<(f64, f64)> = points.collect();
    let above = of.iter().map(|(_, _, _, median, max)| (0.0, max - median));
    let marks = ScatterPlot::new()
        .with_data(points)
        .with_y_err_asymmetric(above)
        .with_size(6.0)
        .with_colors(of.iter().map(|(place, ..)| colour(*place)))
        .with_color("var(--muted)")
        .with_labels(of.iter().map(|(_, name, ..)| label(name)))
        .with_repel_labels();
    let plots = vec![Plot::from(marks)];
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_log_scale()
        .with_x_label("messages in a minute at rest, by powers")
        .with_y_label("seconds without a leader, by powers");
    draw(plots, layout, about)
}
