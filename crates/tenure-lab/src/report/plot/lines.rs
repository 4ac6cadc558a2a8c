//! Messages against the number of members.

use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, by_powers, colour, draw, shape};

/// A line with dots. Each point is a number of members and a number of messages.
#[derive(Debug)]
pub(in crate::report) struct Series {
    /// The index in the key.
    pub(in crate::report) place: usize,
    pub(in crate::report) line: Vec<(f64, f64)>,
    pub(in crate::report) dots: Vec<(f64, f64)>,
}

/// Returns the lines and dots of all series.
pub(super) fn plots(of: Vec<Series>) -> Vec<Plot> {
    let last = of.len().saturating_sub(1);
    let plots = of.into_iter().enumerate().flat_map(|(number, series)| {
        // Dots of earlier series are larger, so that they are visible below those of later ones.
        let size = 4.0 + 0.7 * (last - number) as f64;
        let line = LinePlot::new().with_data(series.line);
        let line = line.with_color(colour(series.place)).with_stroke_width(1.5);
        let dots = ScatterPlot::new().with_data(series.dots).with_size(size);
        let dots = dots.with_color(colour(series.place));
        [
            Plot::from(line),
            Plot::from(dots.with_marker(shape(series.place).0)),
        ]
    });
    plots.collect()
}

/// Draws all series on logarithmic axes.
pub(in crate::report) fn lines(
    mut of: Vec<Series>,
    (x_label, y_label): (&str, &str),
    about: &str,
) -> String {
    let mut all = Vec::new();
    for series in &mut of {
        // A logarithmic axis has no zero.
        series.line.retain(|it| it.1 > 0.0);
        series.dots.retain(|it| it.1 > 0.0);
        all.extend(series.line.iter().chain(&series.dots));
    }
    let plots = plots(of);
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_x_label(format!("{x_label} (logarithmic)"))
        .with_y_label(format!("{y_label} (logarithmic)"));
    draw(plots, by_powers(layout, &all), about)
}
