//! `tenure-lab compare papers`: the claims of the papers, and what the values say about them.

use std::fs;

use serde_json::Value;
use tenure_tests::process::run_lab;

/// Runs `tenure-lab compare papers` with these arguments.
fn papers(more: &[&str]) -> String {
    let output = run_lab(&[&["compare", "papers"], more].concat());
    assert_eq!(output.status.code(), Some(0), "{more:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_claims_of_the_papers_are_printed_by_paper_in_every_form() {
    let points: Vec<Value> = serde_json::from_str(&papers(&["--json"])).unwrap();
    let all: Vec<Value> = serde_json::from_str(&papers(&["--json", "--all"])).unwrap();
    assert!(all.len() > 50 && points.len() < all.len(), "{}", all.len());
    assert!(points.iter().all(|point| all.contains(point)));
    let csv = papers(&["--csv"]);
    let (head, lines) = csv.split_once('\n').unwrap();
    assert!(
        head.contains("printed,described,described_holds,figure"),
        "{head}"
    );
    assert_eq!(lines.lines().count(), points.len());
    // The last column is the verdict.
    assert!(head.ends_with(",named,verdict"), "{head}");
    for (line, point) in lines.lines().zip(&points) {
        let text = |key: &str| {
            point[key]
                .as_str()
                .unwrap_or_else(|| panic!("{key}: {point}"))
        };
        let formula = format!(",{},{},", text("row"), text("formula"));
        assert!(line.contains(&formula), "{formula}: {line}");
        let verdict = text("verdict");
        let last = line.strip_suffix('"').map_or_else(
            || line.rsplit(',').next().unwrap(),
            |line| line.rsplit(",\"").next().unwrap(),
        );
        assert_eq!(last, verdict, "{line}");
        assert!(verdict.starts_with("described: ") || verdict.starts_with("figure: "));
    }
    let table = papers(&[]);
    assert!(
        table.lines().all(|line| line.chars().count() <= 100),
        "{table}"
    );
    for (place, value) in [
        (
            "S.-H. Park, An Efficient Coordinator Election Algorithm",
            "",
        ),
        (
            "  Table 1: messages in one election",
            "PRINTED   DESCRIBED   FIGURE",
        ),
        ("      n=10 f=3 l=0", "63          69       93"),
        ("  (3.5): how much faster Bully_FD is, in T_m", "FIGURE"),
        (
            "        described: 1.5 less than printed: -2.1 because N-N_f counts the winner",
            "",
        ),
    ] {
        let found = |line: &str| line.starts_with(place) && line.ends_with(value);
        assert!(table.lines().any(found), "{place} {value}: {table}");
    }
}

#[test]
fn the_example_in_the_documents_is_what_the_command_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/comparison.md");
    let page = fs::read_to_string(page).unwrap();
    let (before, rest) = page
        .split_once("prints, below its legend:\n\n```text\n")
        .unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    assert!(before.contains("`tenure-lab compare papers --claim 2 --failed 0`"));
    let printed = papers(&["--claim", "2", "--failed", "0"]);
    assert!(printed.ends_with(&format!("\n\n{example}\n")), "{printed}");
}

/// The rows of the tables of claims on a page: claim, row, parameters, printed, described, figure.
fn claims_on(page: &str) -> Vec<Vec<String>> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells
            .map(|cell| cell.trim().replace('`', ""))
            .collect::<Vec<_>>()
    });
    cells
        .filter(|cells| cells.len() == 6 && cells[2].starts_with("n="))
        .collect()
}

#[test]
fn the_numbers_of_the_claims_in_the_documents_are_those_that_the_command_prints() {
    let points: Vec<Value> = serde_json::from_str(&papers(&["--json"])).unwrap();
    let number = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        value => format!("{}", (value.as_f64().unwrap() * 100.0).round() / 100.0),
    };
    let parameters = |point: &Value| {
        let mut text = format!("n={} f={} l={}", point["n"], point["f"], point["l"]);
        if point["unit"] != "messages" {
            text += &format!(" T_o={}", number(&point["t_o"]));
        }
        if point["t_p"].as_f64() > Some(0.0) {
            text += &format!(" T_p={}", number(&point["t_p"]));
        }
        text
    };
    let mut printed: Vec<Vec<String>> = points
        .iter()
        .map(|point| {
            let name = |key: &str| point[key].as_str().unwrap().to_owned();
            let values = ["printed", "described", "figure"].map(|key| number(&point[key]));
            [
                vec![name("claim"), name("row"), parameters(point)],
                values.to_vec(),
            ]
            .concat()
        })
        .collect();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/papers");
    let pages = fs::read_dir(folder).unwrap();
    let mut documented: Vec<Vec<String>> = pages
        .flat_map(|page| claims_on(&fs::read_to_string(page.unwrap().path()).unwrap()))
        .collect();
    printed.sort();
    documented.sort();
    for row in &documented {
        assert!(
            printed.contains(row),
            "docs/papers has {row:?}, and the command prints {printed:#?}"
        );
    }
    for row in &printed {
        assert!(documented.contains(row), "docs/papers lacks {row:?}");
    }
}
