//! The curves of contestants over their detection time.

use kuva::render::layout::Layout;

use super::lines::plots;
use super::{Series, WIDTH, draw, logarithmic};

/// Draws all series with a linear horizontal axis, which may have zeros, and a logarithmic vertical
/// axis, which may not.
pub(in crate::report) fn curves(
    of: Vec<Series>,
    (x_label, y_label): (&str, &str),
    about: &str,
) -> String {
    let heights: Vec<f64> = of.iter().flat_map(|it| &it.line).map(|it| it.1).collect();
    let plots = plots(of);
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
