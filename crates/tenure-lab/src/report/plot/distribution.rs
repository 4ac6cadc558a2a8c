//! The time without a leader in each run.

use kuva::plot::{BoxPlot, LinePlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, colour, draw, label};

/// The largest number of dots. If there are more runs, this number is shown, at equal distances in
/// rank.
const DOTS: usize = 40;

/// The least length of an axis, in seconds. Shorter times are negligible.
const SHORTEST: f64 = 0.9;

/// Draws one box for each contestant, given by its index in the key, its name, and its times in
/// seconds.
pub(in crate::report) fn distribution(of: &[(usize, &str, &[f64])], about: &str) -> String {
    let boxes = BoxPlot::new()
        .with_horizontal(true)
        .with_width(0.6)
        .with_strip(0.25)
        .with_overlay_size(2.5)
        .with_overlay_color("var(--dots)")
        .with_group_colors(of.iter().rev().map(|(place, ..)| colour(*place)));
    // The first category is at the bottom of the axis, so the first contestant comes last.
    let finite = |times: &[f64]| {
        let times = times.iter().copied();
        times.filter(|it| it.is_finite()).collect::<Vec<_>>()
    };
    let boxes = of.iter().rev().fold(boxes, |boxes, (_, name, times)| {
        boxes.with_group(label(name), thinned(&finite(times)))
    });
    let boxes = Plot::from(boxes);
    let longest = of.iter().flat_map(|(_, _, times)| finite(times));
    let longest = longest.fold(SHORTEST, f64::max);
    let (end, step) = scale(longest);
    let layout = Layout::auto_from_plots(std::slice::from_ref(&boxes))
        .with_width(WIDTH)
        .with_height(70.0 + 26.0 * of.len() as f64)
        .with_x_axis_min(0.0)
        .with_x_axis_max(end)
        .with_x_tick_step(step)
        .with_x_label("longest time without a leader in a run, in seconds");
    // kuva draws no grid lines across an axis of names.
    let height = of.len() as f64 + 0.5;
    let steps = (1..).map(|line| f64::from(line) * step);
    let lines = steps.take_while(|at| *at <= end).map(|at| {
        let line = LinePlot::new().with_data([(at, 0.5), (at, height)]);
        Plot::from(line.with_color("var(--grid)").with_stroke_width(1.0))
    });
    draw(lines.chain([boxes]).collect(), layout, about)
}

/// Returns the end of an axis from zero, and the length of its steps: at most eight steps.
fn scale(longest: f64) -> (f64, f64) {
    let step = super::step(longest * 1.03, 8.0);
    ((longest * 1.03 / step).ceil().max(1.0) * step, step)
}

/// Returns at most [`DOTS`] times, with the least and the greatest, and with the same median within
/// a rank.
fn thinned(times: &[f64]) -> Vec<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    if sorted.len() <= DOTS {
        return sorted;
    }
    let last = sorted.len() - 1;
    let ranks = (0..DOTS).map(|dot| dot * last / (DOTS - 1));
    ranks.map(|rank| sorted[rank]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_runs_are_shown_by_some_from_the_least_to_the_greatest() {
        let times: Vec<f64> = (0..=1_000).rev().map(f64::from).collect();
        let shown = thinned(&times);
        assert_eq!(shown.len(), DOTS);
        assert_eq!((shown[0], shown[DOTS - 1]), (0.0, 1_000.0));
        let median = (shown[DOTS / 2 - 1] + shown[DOTS / 2]) / 2.0;
        assert!((median - 500.0).abs() < 1.0);
        assert_eq!(thinned(&[2.0, 1.0]), [1.0, 2.0]);
    }

    #[test]
    fn an_axis_ends_after_the_longest_in_few_steps() {
        for longest in [0.0, 0.004, 0.9, 7.9, 15.4, 119.0] {
            let (end, step) = scale(longest);
            assert!(end > longest && end / step <= 8.001, "{longest}");
        }
    }
}
