//! `tenure-lab compare papers`: the claims of the papers, and what the values say about them.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use tenure_tests::process::run_lab;

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value}"))
}

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
fn the_claims_of_the_papers_can_be_selected_and_have_parameters() {
    let of = |more: &[&str]| -> Vec<Value> {
        serde_json::from_str(&papers(&[&["--json"], more].concat())).unwrap()
    };
    let claims = |points: &[Value]| {
        let names = points
            .iter()
            .map(|it| it["claim"].as_str().unwrap().to_owned());
        names.collect::<BTreeSet<_>>()
    };
    let of_2008 = claims(&of(&["--paper", "2008"]));
    assert_eq!(of_2008.len(), 4, "{of_2008:?}");
    assert!(of_2008.iter().all(|name| name.starts_with("formula-3.")));
    let own = of(&[
        "--claim", "3.3", "--n", "20", "--failed", "5", "--t-o", "30",
    ]);
    assert_eq!(own.len(), 2, "{own:?}");
    for point in &own {
        assert_eq!(
            (&point["n"], &point["f"]),
            (&20.into(), &5.into()),
            "{point}"
        );
        // N_f T_o + (N-N_f) T_e, with T_e = 2 + 0.1.
        let formula = 5.0 * 30.0 + 15.0 * 2.1;
        assert!(
            (number(&point["printed"]) - formula).abs() < 1e-6,
            "{point}"
        );
        assert_eq!(point["described"], point["described_holds"], "{point}");
    }
    let listed = of(&["--claim", "table-1", "--failed", "4", "--listed", "4"]);
    let row = |name| listed.iter().find(|it| it["row"] == name).unwrap();
    let best = row("detector-best");
    assert_eq!(
        (number(&best["printed"]), number(&best["described"])),
        (5.0, 5.0),
        "{best}"
    );
    // 5(n-k) + (k-1-l)
    assert_eq!(number(&best["figure"]), 25.0, "{best}");
    for (arguments, said) in [
        (&["--claim", "3.9"][..], "there is no claim \"3.9\""),
        (
            &["--paper", "1999"],
            "choose one of 2004, 2008, bully, ring",
        ),
        (&["--paper", "2004", "--claim", "3.3"], "table-1"),
        (&["--paper", "aflea"], "\"tenure-lab compare links\" runs"),
        (&["--paper", "aFLEU"], "\"tenure-lab compare links\" runs"),
        (&["--n", "1000"], "from 2 to 200"),
        (&["--failed", "3", "--listed", "4"], "4 members are listed"),
        (&["--all", "--n", "5"], "--all"),
    ] {
        let output = run_lab(&[&["compare", "papers"], arguments].concat());
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

/// A line of the table with its three values, and the sentences about it.
#[derive(Debug)]
struct Line<'a> {
    text: &'a str,
    values: [&'a str; 3],
    sentences: Vec<String>,
}

/// The lines of all points in a table. Points with the same verdict share it.
fn lines_of(table: &str) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    let mut sentences: Vec<String> = Vec::new();
    // From below, where the sentences come first.
    for text in table.lines().rev() {
        if let Some(part) = text.strip_prefix("        ") {
            if !text.starts_with("         ") {
                sentences.push(part.to_owned());
            }
        } else if text.starts_with("      n=") {
            let mut values = text.rsplit(' ').filter(|it| !it.is_empty());
            let mut next = || values.next().expect("three values");
            let (figure, described, printed) = (next(), next(), next());
            let said = match &lines.last() {
                Some(below) if sentences.is_empty() => below.sentences.clone(),
                _ => join(sentences.drain(..).rev()),
            };
            lines.push(Line {
                text,
                values: [printed, described, figure],
                sentences: said,
            });
        }
    }
    lines
}

/// Joins the lines of wrapped sentences. Each sentence begins with the name of an algorithm.
fn join(lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut sentences: Vec<String> = Vec::new();
    for line in lines {
        let is_first = line.starts_with("described: ") || line.starts_with("figure: ");
        match sentences.last_mut().filter(|_| !is_first) {
            Some(sentence) => *sentence += &format!(" {line}"),
            None => sentences.push(line),
        }
    }
    sentences
}

#[test]
fn the_verdict_below_a_line_agrees_with_its_values() {
    let mut points = 0;
    for arguments in [
        &["--all"][..],
        &["--n", "2"],
        &["--failed", "0"],
        &["--failed", "9"],
        &["--failed", "1", "--failed-worse", "2"],
        &["--failed", "3", "--failed-worse", "6"],
        &[
            "--failed",
            "4",
            "--listed",
            "2",
            "--failed-worse",
            "1",
            "--listed-worse",
            "1",
        ],
        &["--n", "20", "--failed", "5", "--t-o", "50", "--t-p", "1"],
        &["--t-o", "3"],
        &["--t-p", "0.4", "--t-o", "100"],
    ] {
        let table = papers(arguments);
        for line in lines_of(&table) {
            points += 1;
            assert!(line.text.contains(" l="), "{line:?}");
            let [printed, described, figure] = line.values;
            let printed: f64 = printed.parse().expect("a number");
            let mut sentences = line.sentences.iter();
            for (name, value) in [("described: ", described), ("figure: ", figure)] {
                if value == "-" {
                    continue;
                }
                let sentence = sentences.next().unwrap_or_else(|| panic!("{line:?}"));
                let said = sentence
                    .strip_prefix(name)
                    .unwrap_or_else(|| panic!("{line:?}"));
                let said = said
                    .split_once("the gain is ")
                    .map_or(said, |(_, rest)| rest);
                let end = said.find([',', ':', ';']).unwrap_or(said.len());
                let expected = match value.parse::<f64>() {
                    Err(_) => {
                        assert_eq!((value, &said[..end]), ("never", "never ends"), "{line:?}");
                        continue;
                    }
                    Ok(value) => value - printed,
                };
                let words: Vec<&str> = said[..end].split(' ').collect();
                let off = match words[..] {
                    ["as", "printed"] => 0.0,
                    [more, "more", "than", "printed"] => more.parse::<f64>().unwrap(),
                    [less, "less", "than", "printed"] => -less.parse::<f64>().unwrap(),
                    _ => panic!("{line:?}"),
                };
                // The values in the table have two decimal places.
                assert!((off - expected).abs() < 0.011, "{line:?}");
            }
            assert_eq!(sentences.next(), None, "{line:?}");
        }
        assert!(
            table.lines().all(|line| line.chars().count() <= 100),
            "{table}"
        );
    }
    assert!(points > 500, "{points}");
}

#[test]
fn a_parameter_that_a_claim_does_not_use_is_named_on_stderr() {
    for (arguments, note) in [
        (
            &["--claim", "worst-case", "--failed", "3"][..],
            "note: --failed is 0 and not 3 in worst-case\n",
        ),
        (
            &["--claim", "3.2", "--n", "7"],
            "note: --n is 2 and not 7 in formula-3.2\n",
        ),
        (
            &["--claim", "3.2", "--t-o", "2", "--t-p", "5"],
            "note: --t-o is 13 and not 2 in formula-3.2\n",
        ),
        (
            &["--claim", "2", "--t-p", "5"],
            "note: --t-p is 0 and not 5 in formula-2\n",
        ),
        (
            &["--claim", "3.3", "--listed", "2"],
            "note: --listed is 0 and not 2 in formula-3.3\n",
        ),
        (
            &["--claim", "ring-worst", "--t-o", "30"],
            "note: --t-o is 20 and not 30 in ring-worst\n",
        ),
        (
            &["--claim", "3.2", "--failed", "2"],
            "note: --failed is 0 and not 2 in formula-3.2\n",
        ),
        (&["--claim", "3.3", "--failed", "2", "--t-p", "1"], ""),
        (&["--claim", "table-1", "--listed", "2"], ""),
        (&["--claim", "worst-case", "--n", "7", "--failed", "0"], ""),
    ] {
        for form in [&[][..], &["--json"], &["--csv"]] {
            let output = run_lab(&[&["compare", "papers"], arguments, form].concat());
            assert_eq!(output.status.code(), Some(0), "{arguments:?}");
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(said, note, "{arguments:?} {form:?}");
            if form == ["--json"] {
                let points: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
                assert!(!points.is_empty());
            }
        }
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

#[test]
fn the_help_says_which_commands_make_the_page_and_run_the_other_elections() {
    let help = run_lab(&["compare", "papers", "--help"]);
    let help = String::from_utf8(help.stdout).unwrap();
    for part in [
        "tenure-lab compare --report FILE",
        "tenure-lab compare links",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
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

#[test]
fn the_counter_examples_are_printed_as_sequence_charts() {
    let show = |name| run_lab(&["compare", "papers", "--show", name]);
    let part = show("part");
    assert_eq!(part.status.code(), Some(0), "{part:?}");
    let part = String::from_utf8(part.stdout).unwrap();
    for text in ["restarts", "Halt", "Norm 1 <1,1,0>", "Norm 2 <2,0,0>"] {
        assert!(part.contains(text), "{text}: {part}");
    }
    let hang = String::from_utf8(show("hang").stdout).unwrap();
    assert!(hang.contains("Elec2 <2,0,0>"), "{hang}");
    let wrong = show("hung");
    assert_eq!(wrong.status.code(), Some(2), "{wrong:?}");
}
