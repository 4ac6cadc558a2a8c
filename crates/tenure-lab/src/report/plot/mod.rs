//! Plots, drawn by kuva as SVG that takes its colours from the page.

mod churn;
mod curves;
mod distribution;
mod lines;
mod papers;
mod timeline;
mod trade_off;

use std::sync::Arc;

use kuva::backend::svg::SvgBackend;
use kuva::plot::MarkerShape;
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;
use kuva::render::theme::Theme;

use super::page::escape;

pub use churn::churn;
pub(super) use curves::curves;
pub(super) use distribution::distribution;
pub(super) use lines::{Series, lines};
pub(super) use papers::papers;
pub(super) use timeline::timeline;
pub(super) use trade_off::trade_off;

/// The width of plots, in pixels of the page.
const WIDTH: f64 = 880.0;

/// The number of colours that the page has for contestants.
const COLOURS: usize = 8;

/// The longest name in a plot, in characters. Paths of configuration files may be long.
const LONGEST: usize = 28;

/// Returns the colour of the contestant with this index. With more contestants than colours,
/// colours repeat.
fn colour(place: usize) -> String {
    format!("var(--c{})", place % COLOURS)
}

/// The shapes of dots, for readers who cannot distinguish the colours.
const SHAPES: [(MarkerShape, char); COLOURS] = [
    (MarkerShape::Circle, '●'),
    (MarkerShape::Square, '■'),
    (MarkerShape::Triangle, '▲'),
    (MarkerShape::Diamond, '◆'),
    (MarkerShape::TriangleDown, '▼'),
    (MarkerShape::Star, '★'),
    (MarkerShape::Cross, '×'),
    (MarkerShape::Plus, '+'),
];

/// Returns the shape of the dots of the contestant with this index. A repeated colour has another
/// shape.
fn shape(place: usize) -> (MarkerShape, char) {
    SHAPES[(place + place / COLOURS) % COLOURS]
}

/// Returns the key: the colour and the shape of each contestant.
pub(super) fn key<'a>(of: impl IntoIterator<Item = (usize, &'a str)>) -> String {
    let items = of.into_iter().map(|(place, name)| {
        let (colour, (_, shape), name) = (colour(place), shape(place), escape(name));
        format!("<li><span style=\"color:{colour}\">{shape}</span> {name}</li>")
    });
    format!("<ul class=\"key\">{}</ul>", items.collect::<String>())
}

/// The least ratio of the ends of a logarithmic axis: with marks at 1, 2, 5, .. it has four marks.
const SHORTEST_RATIO: f64 = 8.0;

/// Makes both axes logarithmic, and as short as these points allow. No coordinate may be zero.
/// Without points the axes stay linear.
fn by_powers(layout: Layout, points: &[(f64, f64)]) -> Layout {
    let of_axis = |of: fn(&(f64, f64)) -> f64| logarithmic(points.iter().map(of));
    let Some(((left, right), (low, high))) = of_axis(|it| it.0).zip(of_axis(|it| it.1)) else {
        return layout;
    };
    layout
        .with_log_scale()
        .with_x_tick_format(plain_numbers())
        .with_y_tick_format(plain_numbers())
        .with_x_axis_min(left)
        .with_x_axis_max(right)
        .with_y_axis_min(low)
        .with_y_axis_max(high)
}

/// Returns the ends of a logarithmic axis that is as short as these values allow; `None` without
/// values.
fn logarithmic(values: impl Iterator<Item = f64> + Clone) -> Option<(f64, f64)> {
    let least = values.clone().reduce(f64::min)?;
    let (low, high) = (
        round(least, false),
        round(values.fold(least, f64::max), true),
    );
    // A short axis would have only two or three marks.
    let (low, high) = match high / low < SHORTEST_RATIO {
        true => (round(low, false), round(high, true)),
        false => (low, high),
    };
    // On a long axis kuva marks only powers of ten, and both ends should have a mark.
    let (first, last) = (low.log10().floor(), high.log10().ceil());
    Some(match last - first > 3.0 {
        true => (10_f64.powf(first), 10_f64.powf(last)),
        false => (low, high),
    })
}

/// Returns the format of marks without exponents.
fn plain_numbers() -> TickFormat {
    TickFormat::Custom(Arc::new(|it: f64| format!("{}", (it * 1e6).round() / 1e6)))
}

/// Returns the nearest number of .., 1, 2, 5, 10, .. above or below this one.
fn round(value: f64, up: bool) -> f64 {
    let power = 10_f64.powi(value.log10().floor() as i32);
    let ladder = [0.5, 1.0, 2.0, 5.0, 10.0].map(|it| it * power);
    let mut above = ladder.into_iter().filter(|&it| it > value);
    let mut below = ladder.into_iter().rev().filter(|&it| it < value);
    let found = if up { above.next() } else { below.next() };
    found.unwrap_or(value)
}

/// Returns the length of the steps on an axis of this length, with at most `most` steps.
fn step(length: f64, most: f64) -> f64 {
    let steps = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0];
    let mut fit = steps.into_iter().filter(|step| length <= most * step);
    fit.next().unwrap_or(50.0)
}

/// Returns the label of a name: shortened to its end if it is too long, and without the characters
/// that kuva reads as mathematics.
fn label(name: &str) -> String {
    let length = name.chars().count();
    let shown: String = if length > LONGEST {
        let tail = name.chars().skip(length - LONGEST + 1);
        std::iter::once('…').chain(tail).collect()
    } else {
        name.into()
    };
    shown.replace('$', "\\$")
}

/// Draws plots as SVG. The page sets the colours, light or dark, and the size. `about` is the text
/// for screen readers.
fn draw(plots: Vec<Plot>, layout: Layout, about: &str) -> String {
    let theme = Theme {
        background: "none".into(),
        axis_color: "var(--muted)".into(),
        grid_color: "var(--grid)".into(),
        tick_color: "var(--muted)".into(),
        text_color: "var(--text)".into(),
        legend_bg: "none".into(),
        legend_border: "none".into(),
        box_median: "var(--text)".into(),
        font_family: Some("system-ui, sans-serif".into()),
        ..Theme::light()
    };
    let layout = layout
        .with_theme(theme)
        .with_label_size(13)
        .with_tick_size(12)
        .with_body_size(12);
    let scene = render_multiple(plots, layout);
    let svg = SvgBackend::new().render_scene(&scene);
    let inner = svg.split_once('>').map_or("", |(_, inner)| inner);
    let (width, height) = (scene.width, scene.height);
    let about = escape(about);
    // An SVG inside HTML needs no namespace, but a size.
    format!(
        "<svg role=\"img\" aria-label=\"{about}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         fill=\"var(--text)\" font-family=\"system-ui, sans-serif\">{inner}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithmic_axes_end_just_outside_the_points() {
        for (value, below, above) in [(3.0, 2.0, 5.0), (0.84, 0.5, 1.0), (1.0, 0.5, 2.0)] {
            assert_eq!((round(value, false), round(value, true)), (below, above));
        }
    }

    #[test]
    fn a_logarithmic_axis_around_close_points_has_four_marks_or_more() {
        for value in [0.3, 1.0, 2.8, 7.0, 12.0] {
            let layout = by_powers(Layout::new((1.0, 9.0), (1.0, 9.0)), &[(5.0, value)]);
            let (low, high) = layout.y_axis_min.zip(layout.y_axis_max).unwrap();
            let marks = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0];
            let marks = marks.iter().filter(|mark| (low..=high).contains(mark));
            assert!(marks.count() >= 4, "{value}: {low}..{high}");
        }
    }

    #[test]
    fn a_long_name_shows_its_end_and_no_mathematics() {
        assert_eq!(label("lease"), "lease");
        assert_eq!(label("a$b$.toml"), "a\\$b\\$.toml");
        let long = label("/home/somebody/settings/of/mine/fast.toml");
        assert_eq!(long.chars().count(), LONGEST);
        assert!(long.starts_with('…') && long.ends_with("mine/fast.toml"));
    }
}
