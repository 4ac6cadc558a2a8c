//! `tenure-lab compare links`.

use std::fs;

use serde_json::Value;
use tenure_tests::process::run_lab;

/// Runs `compare links` with these arguments, and returns its output.
fn links(arguments: &[&str]) -> String {
    let output = run_lab(&[&["compare", "links"], arguments].concat());
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = run_lab(&[&["compare", "links"], arguments].concat());
    assert_eq!(output.status.code(), Some(2), "{arguments:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn row<'a>(json: &'a Value, algorithm: &str) -> &'a Value {
    let rows = json["algorithms"].as_array().unwrap();
    let row = rows.iter().find(|row| row["algorithm"] == algorithm);
    row.unwrap_or_else(|| panic!("no {algorithm}: {json}"))
}

#[test]
fn each_shape_with_a_broken_link_has_one_leader_that_all_know() {
    for shape in [
        "ring",
        "grid",
        "torus",
        "hypercube",
        "random:0.5",
        "complete",
    ] {
        for fault in ["--faulty", "--one-way"] {
            let json = links(&[
                "--graph", shape, "--nodes", "16", fault, "1", "--up-to", "0", "--json",
            ]);
            let json: Value = serde_json::from_str(&json).unwrap();
            for algorithm in ["aFLEU", "aFLEA"] {
                let row = row(&json, algorithm);
                assert_eq!((&row["leaders"], &row["knowing"]), (&1.into(), &16.into()));
                assert_eq!(row["knows_the_end"], true, "{shape}: {row}");
            }
            // Flooding never knows that it is over.
            assert_eq!(row(&json, "flooding")["knows_the_end"], false);
            assert_eq!(json["afleu"]["tree"].as_array().unwrap().len(), 15);
            assert_eq!(json["faulty"], 1);
        }
    }
}

#[test]
fn a_comparison_over_n_fits_constants_and_is_the_same_in_every_form() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("links.html");
    let arguments = [
        "--graph", "ring", "--nodes", "16", "--faulty", "1", "--up-to", "256",
    ];
    let with = |more: &[&str]| links(&[&arguments[..], more].concat());
    let text = with(&["--draw", "--report", page.to_str().unwrap()]);
    let json: Value = serde_json::from_str(&with(&["--json"])).unwrap();
    let growth = json["growth"].as_array().unwrap();
    assert_eq!(growth.len(), 6, "8 to 256");
    let fit = json["fit"]["afleu"].as_f64().unwrap();
    assert!((0.1..1.0).contains(&fit), "{fit}");
    assert!(text.contains(&format!("fitted: aFLEU {fit:.2}")), "{text}");
    let messages = row(&json, "aFLEU")["messages"].to_string();
    let line = text.lines().find(|line| line.starts_with("aFLEU  "));
    assert!(line.is_some_and(|line| line.contains(&messages)), "{text}");
    assert!(
        text.contains("choose: ") && text.contains(" leader\n"),
        "{text}"
    );
    assert!(text.contains("dead: "), "{text}");
    let html = fs::read_to_string(page).unwrap();
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(html.contains(&format!("<td>{messages}</td>")));
    assert!(html.contains(&format!("{fit:.2} of it for aFLEU")));
    assert!(!html.contains("src=") && !html.contains("{{"));
}

#[test]
fn wrong_arguments_say_what_would_be_right() {
    for (arguments, expected) in [
        (&["--graph", "rnig"][..], "did you mean \"ring\"?"),
        (&["--graph", "hypercube", "--nodes", "12"], "use 8 or 16"),
        (&["--graph", "line", "--faulty", "1"], "--anywhere"),
        (&["--nodes", "5000"], "4096"),
        (
            &["--domain", "0"],
            "--domain <D>': identifiers are numbers from 1 on; use 1 or more",
        ),
        (&["--domain", "n"], "'n' for '--domain <D>'"),
        (
            &["--up-to", "3"],
            "use 8 to 4096, or 0 for no comparison over n",
        ),
        (&["--up-to", "5000"], "use 8 to 4096"),
        (&["--initiators", "none"], "use all, third, one or a number"),
        (
            &["--initiators", "17"],
            "--initiators 17: the network has 16 nodes; use all, third, one or a number up to 16",
        ),
        (&["--delay", "unifrm"], "did you mean \"uniform\"?"),
        (&["--draw", "--nodes", "100"], "64 at most"),
        (&["--file", "/nonexistent"], "--file /nonexistent"),
    ] {
        let error = match arguments {
            // The file may appear later, so this is no wrong usage.
            ["--file", _] => {
                let output = run_lab(&[&["compare", "links"], arguments].concat());
                assert_eq!(output.status.code(), Some(1));
                String::from_utf8(output.stderr).unwrap()
            }
            _ => refused(arguments),
        };
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
