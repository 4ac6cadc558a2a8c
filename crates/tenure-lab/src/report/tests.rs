use super::*;
use crate::contestant::{Algorithm, Contestant};
use crate::measure::{Comparison, Measurement, compare};
use crate::scenario;

/// The largest size of a page: 2 MiB.
const LARGEST: usize = 2 << 20;

fn made() -> Provenance {
    Provenance {
        by: "tenure compare --config '<mine>.toml'".into(),
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
    let contestants: Vec<_> = Algorithm::all().into_iter().map(Contestant::new).collect();
    let mut report = report(contestants.clone(), scenario::ALL.to_vec());
    // The report contains the largest possible number of dots.
    for row in &mut report.rows {
        row.gaps = (0..1_000).map(|run| f64::from(run) / 7.3).collect();
    }
    let page = report.html(&made());
    for scenario in scenario::ALL {
        let section = page.split_once(&format!("<details id=\"{}\"", scenario.name));
        let (section, _) = section
            .and_then(|(_, it)| it.split_once("</details>"))
            .unwrap();
        assert_eq!(section.matches("<svg").count(), 2, "{}", scenario.name);
        for contestant in contestants
            .iter()
            .filter(|it| !scenario.needs_store() || it.algorithm.uses_store())
        {
            let name = &contestant.name;
            assert!(
                section.contains(&format!(">{name}</text>")),
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
    assert_eq!(page.matches("<table>").count(), 2);
}

#[test]
fn a_page_without_any_fault_says_so() {
    let start = scenario::Scenario::of_name("start").unwrap();
    let page = report(vec![Contestant::new(Algorithm::Lease)], vec![start]).html(&made());
    assert!(page.contains("No scenario with a fault was compared."));
}

#[test]
fn a_page_of_a_fault_without_effect_on_leaders_says_so() {
    let one_way = scenario::Scenario::of_name("one-way").unwrap();
    let mut report = report(vec![Contestant::new(Algorithm::Lease)], vec![one_way]);
    report.rows[0].without_leader = Default::default();
    let page = report.html(&made());
    assert!(page.contains("no contestant was without a leader long enough"));
}

#[test]
fn a_page_of_real_processes_shows_their_processor_time_and_only_measured_plots() {
    let scenarios =
        ["kill-leader", "cut-leader"].map(|name| scenario::Scenario::of_name(name).unwrap());
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
    assert!(page.contains("Live: 7 candidates") && page.contains("4.3 % of a processor"));
    assert!(page.contains("<td>4.3</td>"));
    // One plot of the failover time against messages, and two for each scenario.
    assert_eq!(page.matches("<svg").count(), 5);
    assert!(is_self_contained(&page));
}
