use tenure_sim::contestant::{Algorithm, Contestant};
use tenure_sim::scenario;

use super::*;
use crate::measure::{Comparison, Measurement, TimingComparison, TimingPoint, compare};
use crate::paper::{Claim, Paper};

/// The largest size of a page, with every contestant: 3 MiB.
const LARGEST: usize = 3 << 20;

fn made() -> Provenance {
    Provenance {
        by: "tenure-lab compare --config '<mine>.toml'".into(),
        version: "1".into(),
        on: "a machine".into(),
        at: "today".into(),
    }
}

fn report(contestants: Vec<Contestant>, scenarios: Vec<scenario::Scenario>) -> Report {
    let comparison = Comparison {
        contestants,
        scenarios,
        seeds: 0..1,
    };
    let rows = compare(&comparison, || {});
    Report::new(&comparison, rows, || {})
}

/// Returns the contestants over their detection times, with one seed.
fn timing(contestants: &[Contestant]) -> Vec<TimingPoint> {
    let comparison = TimingComparison {
        contestants: contestants.to_vec(),
        seeds: 0..1,
        ..TimingComparison::default()
    };
    comparison.measure(|| {})
}

/// Returns whether a page loads and runs nothing.
fn is_self_contained(page: &str) -> bool {
    let signs = [
        "http://", "https://", "src=", "<script", "<link", "@import", "url(",
    ];
    // References to parts of the page are allowed.
    let page = page.replace("url(#", "");
    !signs.iter().any(|sign| page.contains(sign))
}

#[test]
fn a_page_contains_every_contestant_and_scenario_and_loads_nothing() {
    let contestants: Vec<_> = crate::algorithms()
        .into_iter()
        .map(Contestant::new)
        .collect();
    let scenarios = scenario::ALL.iter().filter(|it| !it.only_by_name);
    let scenarios: Vec<scenario::Scenario> = scenarios.copied().collect();
    let mut report = report(contestants.clone(), scenarios.clone());
    // The report contains the largest possible number of dots.
    for row in &mut report.rows {
        row.gaps = (0..1_000).map(|run| f64::from(run) / 7.3).collect();
    }
    let points = timing(&contestants[..1]);
    let of = |it: &Contestant| {
        let named = points.iter().map(|point| TimingPoint {
            contestant: it.name.clone(),
            ..point.clone()
        });
        named.collect::<Vec<_>>()
    };
    report.timing = contestants.iter().flat_map(of).collect();
    let page = report.html(&made());
    for scenario in &scenarios {
        // Browsers open closed details for a link to an element inside, not to the details.
        let inside = format!("</summary>\n<div id=\"{}\">", scenario.name);
        assert!(page.contains(&format!("<a href=\"#{}\"", scenario.name)));
        let section = page.split_once(&inside);
        let (section, _) = section
            .and_then(|(_, it)| it.split_once("</details>"))
            .unwrap();
        assert_eq!(section.matches("<svg").count(), 2, "{}", scenario.name);
        for contestant in contestants
            .iter()
            .filter(|it| !scenario.needs_store() || it.algorithm.uses_store())
        {
            let name = &contestant.name;
            let is_labelled = [
                format!(">{name}</text>"),
                format!(">{name}, flood 1/1</text>"),
            ];
            assert!(
                is_labelled.iter().any(|label| section.contains(label)),
                "{name} {}",
                scenario.name
            );
            assert!(
                section.contains(&format!(">{name}: ")),
                "{name} {}",
                scenario.name
            );
            let cells = format!("<tr><th>{}</th><th>{name}</th>", scenario.name);
            assert!(page.contains(&cells), "{name} {}", scenario.name);
        }
    }
    assert!(is_self_contained(&page));
    assert!(page.len() < LARGEST, "{} bytes", page.len());
}

/// Returns the contrast of two colours, as the Web Content Accessibility Guidelines define it.
fn contrast(one: &str, other: &str) -> f64 {
    let light = |colour: &str| {
        let digits = colour.trim_start_matches('#');
        // #abc stands for #aabbcc.
        let step = digits.len() / 3;
        let part = |at: usize| {
            let part = digits[at * step..(at + 1) * step].repeat(3 - step);
            let part = f64::from(u8::from_str_radix(&part, 16).expect("two digits")) / 255.0;
            if part <= 0.04045 {
                part / 12.92
            } else {
                ((part + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * part(0) + 0.7152 * part(1) + 0.0722 * part(2) + 0.05
    };
    let (one, other) = (light(one), light(other));
    one.max(other) / one.min(other)
}

#[test]
fn every_colour_has_contrast_to_its_background_in_light_and_dark() {
    let themes: Vec<_> = include_str!("style.css").split(":root {").skip(1).collect();
    assert_eq!(themes.len(), 2);
    for theme in themes {
        let (theme, _) = theme.split_once('}').unwrap();
        let colour = |name: &str| {
            let (_, value) = theme.split_once(&format!("--{name}: ")).expect(name);
            value.split_once(';').unwrap().0
        };
        let drawn = "up leads still acts fault c0 c1 c2 c3 c4 c5 c6 c7".split(' ');
        for name in drawn {
            for behind in ["page", "card"] {
                let contrast = contrast(colour(name), colour(behind));
                assert!(contrast >= 3.0, "{name} on {behind}: {contrast}");
            }
        }
        for behind in ["leads", "still"] {
            let contrast = contrast(colour("acts"), colour(behind));
            assert!(contrast >= 3.0, "acts on {behind}: {contrast}");
        }
    }
}

#[test]
fn names_are_escaped_everywhere() {
    let mine = Contestant {
        name: "<script src=https://example.com>&$\\alpha$\"{{table}}.toml".into(),
        ..Contestant::new(Algorithm::Lease)
    };
    let scenarios = ["start", "kill-leader"].map(|name| scenario::Scenario::of_name(name).unwrap());
    let page = report(vec![mine], scenarios.to_vec()).html(&made());
    assert!(
        page.contains("&lt;script src"),
        "the name must be on the page"
    );
    assert!(!page.contains("<script"), "the name must be escaped");
    assert!(page.contains("$\\alpha$&quot;{{table}}.toml"));
    // The times, all figures, and a table for each paper.
    assert_eq!(page.matches("<table>").count(), 2 + Paper::ALL.len());
}

#[test]
fn a_page_compares_equal_detection_times_and_judges_every_claim_of_the_papers() {
    let scenario = scenario::Scenario::of_name("kill-leader").unwrap();
    let contestants = ["lease", "bully-no-quorum"].map(|it| crate::contestant_of_name(it).unwrap());
    let mut report = report(contestants.to_vec(), vec![scenario]);
    report.timing = timing(&contestants);
    let page = report.html(&made());
    let (_, section) = page
        .split_once("<h2>At the same detection time</h2>")
        .unwrap();
    let (section, _) = section
        .split_once("<h2>Time without a leader</h2>")
        .unwrap();
    assert_eq!(section.matches("<svg").count(), 3, "three curves");
    assert!(section.contains("<th>lease</th>") && section.contains("its writes are refused"));
    let (_, papers) = page
        .split_once("<h2>The claims of the papers</h2>")
        .unwrap();
    for paper in Paper::ALL {
        assert!(
            papers.contains(&page::escape(paper.title)),
            "{}",
            paper.name
        );
    }
    for point in Claim::ALL.iter().flat_map(Claim::examples) {
        let verdict = page::escape(&point.verdict.to_string());
        assert!(papers.contains(&verdict), "{}: {verdict}", point.row);
    }
}

#[test]
fn a_page_of_real_processes_shows_their_processor_time_and_only_measured_plots() {
    let scenarios =
        ["kill-leader", "freeze-leader"].map(|name| scenario::Scenario::of_name(name).unwrap());
    let simulated = report(vec![Contestant::new(Algorithm::Lease)], scenarios.to_vec());
    let live = simulated.rows.into_iter().map(|row| Measurement {
        live: true,
        cpu_at_rest: Some(4.3),
        ..row
    });
    let setting = Setting::Live {
        candidates: 7,
        runs: 1,
        scale: 0.2,
    };
    let measured = live.zip(simulated.timelines).collect();
    let report = Report::live(vec!["lease".into()], scenarios.to_vec(), setting, measured);
    let page = report.html(&made());
    // Times of faults are those of this comparison.
    assert!(page.contains("is frozen for 6 s") && !page.contains("is frozen for 30 s"));
    assert!(page.contains("Live: 7 candidates") && page.contains("4.3 % of a processor"));
    assert!(page.contains("<td>4.3</td>") && page.contains("<th>CPU at rest, %</th>"));
    // One plot of the failover time against messages, and two for each scenario.
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(is_self_contained(&page));
}
