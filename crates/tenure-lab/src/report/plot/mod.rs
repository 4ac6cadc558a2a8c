//! Plots, drawn by kuva as SVG that takes its colours from the page.

mod distribution;
mod growth;
mod papers;
mod timeline;
mod trade_off;

use kuva::backend::svg::SvgBackend;
use kuva::render::layout::Layout;
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;
use kuva::render::theme::Theme;

use super::page::escape;

pub(super) use distribution::distribution;
pub(super) use growth::{Count, growth};
pub(super) use papers::papers;
pub(super) use timeline::timeline;
pub(super) use trade_off::trade_off;

/// How wide plots are, in the page's pixels.
const WIDTH: f64 = 880.0;

/// How many colours the page has for contestants.
const COLOURS: usize = 8;

/// The longest name that is drawn: a configuration file may lie deep.
const LONGEST: usize = 28;

/// The colour of the contestant at this place. They come again where there are more contestants than
/// colours: names stand beside everything that is drawn.
fn colour(place: usize) -> String {
    format!("var(--c{})", place % COLOURS)
}

/// A name as it is drawn: its end if it is too long, and with no sign that kuva reads as mathematics.
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

/// Draws it. The page tells its colours, light or dark, and its size; `about` is for those who do not see
/// it.
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
    // Inside of HTML an SVG needs no namespace; a size to fit into it does need.
    format!(
        "<svg role=\"img\" aria-label=\"{about}\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         fill=\"var(--text)\" font-family=\"system-ui, sans-serif\">{inner}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_shows_its_end_and_no_mathematics() {
        assert_eq!(label("lease"), "lease");
        assert_eq!(label("a$b$.toml"), "a\\$b\\$.toml");
        let long = label("/home/somebody/settings/of/mine/fast.toml");
        assert_eq!(long.chars().count(), LONGEST);
        assert!(long.starts_with('…') && long.ends_with("mine/fast.toml"));
    }
}
