//! The trade-off between a short time without a leader and the cost at rest.

use kuva::plot::ScatterPlot;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, by_powers, colour, draw, shape};

/// Draws one dot for each contestant, given by its index in the key, its messages per minute at
/// rest, and the median and the maximum of its times without a leader, in seconds.
pub(in crate::report) fn trade_off(of: &[(usize, f64, f64, f64)], about: &str) -> String {
    let plots = of.iter().map(|&(place, messages, median, max)| {
        let mark = ScatterPlot::new()
            .with_data([(messages, median)])
            .with_y_err_asymmetric([(0.0, max - median)])
            .with_size(6.0)
            .with_marker(shape(place).0)
            .with_color(colour(place));
        Plot::from(mark)
    });
    let plots: Vec<Plot> = plots.collect();
    let ends = of
        .iter()
        .flat_map(|&(_, messages, median, max)| [(messages, median), (messages, max)]);
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        .with_x_label("messages in a minute at rest (logarithmic)")
        .with_y_label("seconds without a leader (logarithmic)");
    draw(plots, by_powers(layout, &ends.collect::<Vec<_>>()), about)
}
