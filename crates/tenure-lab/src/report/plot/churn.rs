//! The share of the time in which all members agree on a leader, under churn.

use kuva::backend::svg::SvgBackend;
use kuva::plot::legend::LegendPosition;
use kuva::plot::{LinePlot, ScatterPlot};
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;

use super::{COLOURS, WIDTH, label, shape, step};
use crate::measure::ChurnRow;

/// Colours that can be told apart on white, also by readers who do not see all colours.
const ON_WHITE: [&str; COLOURS] = [
    "#0072b2", "#d55e00", "#009e73", "#c2609a", "#a67c00", "#5b3fa0", "#1f86b8", "#6b6b6b",
];

/// Draws one line for each contestant over the number of members, as a picture that stands alone.
#[must_use]
pub fn churn(rows: &[ChurnRow]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in rows {
        if !names.contains(&&row.contestant[..]) {
            names.push(&row.contestant);
        }
    }
    let plots = names.iter().enumerate().flat_map(|(place, name)| {
        let of_name = rows.iter().filter(|it| it.contestant == *name);
        let points: Vec<(f64, f64)> = of_name
            .filter_map(|it| Some((it.members.into(), it.agreed_percent?)))
            .collect();
        let colour = ON_WHITE[place % COLOURS];
        let line = LinePlot::new().with_data(points.clone()).with_color(colour);
        let dots = ScatterPlot::new().with_data(points).with_color(colour);
        let dots = dots.with_size(5.0).with_marker(shape(place).0);
        [
            Plot::from(line.with_stroke_width(1.5)),
            Plot::from(dots.with_legend(label(name))),
        ]
    });
    let plots: Vec<Plot> = plots.collect();
    let sizes = rows.iter().map(|row| row.members);
    let (least, most) = (sizes.clone().min(), sizes.max());
    let length = most.unwrap_or_default() - least.unwrap_or_default();
    let layout = Layout::auto_from_plots(&plots)
        .with_width(WIDTH)
        .with_height(420.0)
        // There is no half of a member.
        .with_x_tick_step(step(length.into(), 8.0).max(1.0))
        .with_y_axis_min(0.0)
        .with_y_axis_max(100.0)
        .with_legend_position(LegendPosition::OutsideRightTop)
        .with_x_label("members, of which every third crashes and returns")
        .with_y_label("% of the time all agree on a leader");
    SvgBackend::new().render_scene(&render_multiple(plots, layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(contestant: &str, members: u32) -> ChurnRow {
        ChurnRow {
            contestant: contestant.into(),
            members,
            seeds: 1,
            led_percent: Some(90.0),
            agreed_percent: Some(80.0),
            overlap_percent: Some(0.0),
            elections_per_minute: Some(1.0),
            election_messages_per_minute: Some(10.0),
            messages_per_minute: Some(20.0),
            floods: 0,
        }
    }

    #[test]
    fn the_marks_of_the_axis_are_whole_numbers_of_members() {
        for sizes in [
            &[3, 4][..],
            &[3, 5],
            &[5],
            &[3, 9, 15],
            &[5, 20, 50],
            &[3, 100],
        ] {
            let rows: Vec<ChurnRow> = sizes.iter().map(|size| row("bully", *size)).collect();
            let svg = churn(&rows);
            let texts = svg.split("<text").skip(1);
            let texts = texts.filter_map(|it| it.split_once('>')?.1.split_once('<'));
            let marks: Vec<f64> = texts.filter_map(|(text, _)| text.parse().ok()).collect();
            assert!(marks.len() > 6, "{sizes:?}: {marks:?}");
            let is_whole = |mark: &f64| mark.fract() == 0.0;
            assert!(marks.iter().all(is_whole), "{sizes:?}: {marks:?}");
        }
    }

    #[test]
    fn the_picture_names_every_contestant_and_stands_alone() {
        let rows = [row("bully", 5), row("textbook", 5), row("bully", 50)];
        let svg = churn(&rows);
        assert!(svg.starts_with("<svg") && svg.contains("xmlns"), "{svg}");
        assert!(svg.contains("bully") && svg.contains("textbook"), "{svg}");
    }
}
