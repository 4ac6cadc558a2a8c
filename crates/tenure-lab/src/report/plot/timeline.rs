//! Leaders, frozen processes and running tasks over time, host by host.

use kuva::plot::{LegendEntry, LegendPosition, LegendShape, LinePlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;

use super::{WIDTH, draw, label, step};
use crate::report::{LaneState, Span, Timeline};

/// The states, each with its colour, thickness and label. Later states cover earlier ones.
const STATES: [(LaneState, &str, f64, &str); 4] = [
    (LaneState::Up, "var(--up)", 2.0, "up"),
    (LaneState::Leads, "var(--leads)", 10.0, "leads"),
    (LaneState::Frozen, "var(--still)", 6.0, "frozen"),
    (LaneState::Acts, "var(--acts)", 2.5, "task running"),
];

/// The distance between two hosts, and the additional distance between two contestants, in pixels.
const PITCH: f64 = 14.0;
const GAP: f64 = 10.0;

/// The shown seconds of the run before and after the first fault, or from the start if there is no
/// fault.
const BEFORE: f64 = 10.0;
const AFTER: f64 = 90.0;
const FROM_START: f64 = 30.0;

/// The shortest gap that is drawn, as a fraction of the shown time: the width of a dot.
const BREAK: f64 = 0.005;

/// Returns the spans of this state. Spans with less than `shortest` seconds between them are
/// joined, because there may be thousands.
fn joined(spans: &[Span], state: LaneState, shortest: f64) -> Vec<(f64, f64)> {
    let mut joined: Vec<(f64, f64)> = Vec::new();
    for span in spans.iter().filter(|span| span.state == state) {
        match joined.last_mut() {
            Some((_, until)) if span.from - *until < shortest => *until = span.to,
            _ => joined.push((span.from, span.to)),
        }
    }
    joined
}

/// Draws the runs of some contestants, one below the other. Times count from the first fault of
/// each run, and are `scale` times those of the simulation.
pub(in crate::report) fn timeline(of: &[(&str, &Timeline)], scale: f64, about: &str) -> String {
    let has_faults = of.iter().any(|(_, run)| !run.faults.is_empty());
    let zero = |run: &Timeline| run.faults.first().copied().unwrap_or_default();
    let (from, to) = match has_faults {
        true => (-BEFORE * scale, AFTER * scale),
        false => (0.0, FROM_START * scale),
    };
    // Live runs end as soon as possible.
    let ends = of.iter().flat_map(|(_, run)| {
        let spans = run.lanes.iter().flat_map(|lane| &lane.spans);
        spans.map(|span| span.to - zero(run))
    });
    let to = to.min(ends.fold(0.0, f64::max).max(from + 1.0));
    let shortest = BREAK * (to - from);
    let height: f64 = of
        .iter()
        .map(|(_, run)| PITCH * run.lanes.len() as f64 + GAP)
        .sum();
    let mut plots = Vec::new();
    let (mut names, mut places) = (Vec::new(), Vec::new());
    // The lanes are drawn from top to bottom.
    let mut y = height;
    for (name, run) in of {
        let top = y - PITCH / 2.0;
        for (number, lane) in run.lanes.iter().enumerate() {
            y -= PITCH;
            let node = match lane.node.0 {
                0 => "store".into(),
                node => node.to_string(),
            };
            names.push(match number {
                0 => format!("{}: {node}", label(name)),
                _ => node,
            });
            places.push(y);
            for (state, colour, thick, _) in STATES {
                for (since, until) in joined(&lane.spans, state, shortest) {
                    let (since, until) =
                        ((since - zero(run)).max(from), (until - zero(run)).min(to));
                    if since < until {
                        let line = LinePlot::new().with_data([(since, y), (until, y)]);
                        let line = line.with_color(colour).with_stroke_width(thick);
                        plots.push(Plot::from(line));
                    }
                }
            }
        }
        y -= GAP;
        let faults = run.faults.iter().map(|fault| fault - zero(run));
        for fault in faults.filter(|fault| (from..=to).contains(fault)) {
            // In live runs each contestant has its own fault times.
            let line = LinePlot::new().with_data([(fault, top), (fault, y + GAP - PITCH / 2.0)]);
            let line = line.with_color("var(--fault)").with_stroke_width(1.0);
            plots.push(Plot::from(line.with_dashed()));
        }
    }
    let legend = STATES.map(|(_, colour, _, label)| LegendEntry {
        label: label.into(),
        color: colour.into(),
        shape: LegendShape::Rect,
        dasharray: None,
    });
    let mut layout = Layout::new((from, to), (-GAP, height))
        .with_width(WIDTH)
        .with_height(height + 110.0)
        .with_y_categories(names)
        .with_x_axis_min(from)
        .with_x_axis_max(to)
        .with_x_tick_step(step(to - from, 10.0))
        .with_y_axis_min(-GAP)
        .with_y_axis_max(height)
        .with_x_label(match has_faults {
            true => "seconds since the first fault",
            false => "seconds since the start",
        })
        .with_legend_position(LegendPosition::OutsideBottomColumns)
        .with_legend_entries(legend.into());
    layout.y_category_positions = Some(places);
    draw(plots, layout, about)
}
