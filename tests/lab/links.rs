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
fn a_file_names_broken_links_and_halves_elect_nobody() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sites.txt");
    fs::write(&file, "# two sites\n1 2\n2 3 dead\n3 4\n").unwrap();
    let file = file.to_str().unwrap();
    let text = links(&["--file", file, "--draw"]);
    assert!(
        text.contains("the working links connect 2 at most"),
        "{text}"
    );
    assert!(text.contains("no leader: the working links connect 2 of 4 nodes at most"));
    assert!(text.contains("dead: 2-x-3"), "{text}");
    let error = refused(&["--file", file, "--initiators", "5"]);
    assert!(error.contains("the network has 4 nodes"), "{error}");
    fs::write(file, "1 2\n2 3 broken\n").unwrap();
    let error = refused(&["--file", file]);
    assert!(
        error.contains("line 2: \"broken\" is no state of a link"),
        "{error}"
    );
}

#[test]
fn bully_leads_where_a_member_reaches_a_majority_directly_or_messages_are_relayed() {
    let of = |shape: &str| -> Value {
        let json = links(&["--graph", shape, "--nodes", "7", "--up-to", "0", "--json"]);
        serde_json::from_str(&json).unwrap()
    };
    let (complete, ring) = (of("complete"), of("ring"));
    assert_eq!(row(&complete, "bully, direct")["leaders"], 1);
    assert_eq!(row(&ring, "bully, direct")["leaders"], 0);
    assert_eq!(row(&ring, "bully, relayed")["leaders"], 1);
    assert!(
        complete["choose"]
            .as_str()
            .unwrap()
            .contains("strategy bully")
    );
}

#[test]
fn the_advice_names_the_setting_of_relays_and_is_wrapped() {
    let choose = |nodes: &str| {
        let text = links(&["--graph", "ring", "--nodes", nodes, "--up-to", "0"]);
        let advice = text.find("choose: ").map(|begin| text[begin..].to_owned());
        let advice = advice.unwrap_or_else(|| panic!("{text}"));
        let width = advice.lines().map(|line| line.chars().count()).max();
        assert!(width.is_some_and(|it| it <= 100), "{advice}");
        advice.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(choose("7").ends_with("bully with relay = true in [bully]"));
    assert!(choose("16").contains("over a network that routes"));
}

#[test]
fn more_initiators_than_nodes_are_left_out_of_the_comparison_over_n() {
    let json = links(&["--initiators", "16", "--up-to", "32", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    let growth = json["growth"].as_array().unwrap();
    let nodes: Vec<u64> = growth
        .iter()
        .filter_map(|it| it["nodes"].as_u64())
        .collect();
    assert_eq!(nodes, [16, 32]);
}

#[test]
fn a_comparison_over_n_that_is_not_possible_says_why() {
    let reason = |arguments: &[&str]| {
        let text = links(arguments);
        let line = text
            .lines()
            .find(|line| line.starts_with("no comparison over n: "));
        line.map(str::to_owned)
    };
    let of_torus = reason(&["--graph", "torus", "--nodes", "9", "--up-to", "8"]);
    assert!(of_torus.is_some_and(|it| it.contains("torus can't have 8 nodes")));
    let of_many = reason(&["--initiators", "10", "--up-to", "8"]);
    assert!(of_many.is_some_and(|it| it.ends_with("10 nodes can't begin in networks of up to 8")));
    assert_eq!(reason(&["--up-to", "0"]), None);
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
