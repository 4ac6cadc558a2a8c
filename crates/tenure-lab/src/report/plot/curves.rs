//! The curves of contestants over their detection time.

use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{Series, WIDTH, colour, draw, logarithmic, shape};

/// Draws all series with a linear horizontal axis, which may have zeros, and a logarithmic vertical
/// axis, which may not.
pub(in crate::report) fn curves(
    of: Vec<Series>,
    (x_label, y_label): (&str, &str),
    about: &str,
) -> String {
    let (mut plots, mut heights) = (Vec::new(), Vec::new());
    let last = of.len().saturating_sub(1);
    for (number, series) in of.into_iter().enumerate() {
        // Dots of earlier series are larger, so that they are visible below those of later ones.
        let size = 4.0 + 0.7 * (last - number) as f64;
        heights.extend(series.line.iter().map(|it| it.1));
        let line = LinePlot::new().with_data(series.line);
        let line = line.with_color(colour(series.place)).with_stroke_width(1.5);
        plots.push(Plot::from(line));
        let dots = ScatterPlot::new().with_data(series.dots).with_size(size);
        let dots = dots.with_color(colour(series.place));
        plots.push(Plot::from(dots.with_marker(shape(series.place).0)));
    }
    let mut layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_x_label(x_label)
        .with_y_label(format!("{y_label} (logarithmic)"))
        .with_x_axis_min(0.0);
    if let Some((low, high)) = logarithmic(heights.into_iter()) {
        layout = layout
            .with_log_y()
            .with_y_tick_format(super::plain_numbers())
            .with_y_axis_min(low)
            .with_y_axis_max(high);
    }
    draw(plots, layout, about)
}
