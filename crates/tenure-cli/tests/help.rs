//! Help, version, and errors of wrong usage.

use std::process::{Command, Output};

const SUBCOMMANDS: [&str; 6] = ["serve", "run", "list", "status", "break", "demo"];

fn tenure(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tenure"))
        .args(arguments)
        .output()
        .unwrap()
}

fn help(arguments: &[&str]) -> String {
    let output = tenure(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
    assert!(output.stderr.is_empty(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_subcommand_explains_itself_and_its_flags() {
    let top = help(&["--help"]);
    for subcommand in SUBCOMMANDS {
        assert!(top.contains(&format!("  {subcommand}  ")), "{top}");
        for text in [help(&[subcommand, "--help"]), help(&["help", subcommand])] {
            assert!(text.contains(&format!("Usage: tenure {subcommand} ")));
            let flags = text.lines().filter(|line| line.trim().starts_with("--"));
            assert!(flags.count() >= 3, "{text}");
        }
    }
}

#[test]
fn the_help_names_every_exit_code() {
    let top = help(&["--help"]);
    let (_, codes) = top.split_once("Exit codes:").unwrap();
    for code in [0, 1, 2, 3, 65, 69, 70, 75, 76, 77, 126, 127] {
        let named = codes
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&code.to_string()));
        assert!(named, "{code}: {codes}");
    }
}

#[test]
fn internal_commands_and_flags_are_not_in_the_help() {
    let top = help(&["--help"]) + &help(&["serve", "--help"]);
    for hidden in ["watchdog", "demo-worker", "compare", "--parent"] {
        assert!(!top.contains(hidden), "{hidden}");
    }
}

#[test]
fn compare_says_where_it_has_moved_and_no_completion_offers_it() {
    for arguments in [&[][..], &["--help"], &["check", "--seeds", "0..2"]] {
        let output = tenure(&[&["compare"], arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        let command = "cargo run --release -p tenure-lab -- compare";
        assert!(said.contains(command), "{said}");
    }
    for shell in ["bash", "zsh", "fish"] {
        let completion = help(&["completions", shell]);
        assert!(!completion.contains("compare"), "{shell}");
    }
}

#[test]
fn the_version_is_printed() {
    assert_eq!(
        help(&["--version"]),
        concat!("tenure ", env!("CARGO_PKG_VERSION"), "\n")
    );
}

#[test]
fn wrong_usage_is_reported_on_stderr_with_exit_code_2() {
    let wrong: [&[&str]; 13] = [
        &[],
        &["serv"],
        &["--no-such-flag"],
        &["serve", "7400"],
        &["serve", "--listen"],
        &["run"],
        &["run", "--election", "a/b", "true"],
        &["run", "--election", "a/b", "--"],
        &["list", "--json=yes"],
        &["status"],
        &["status", "a", "b"],
        &["break", "a", "--period", "5"],
        &["demo", "--log-format", "xml"],
    ];
    for arguments in wrong {
        let output = tenure(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("Usage:") || said.contains("--help"), "{said}");
    }
}

#[test]
fn an_unknown_log_level_is_refused() {
    for wrong in ["verbose", "=,=", "tenure=loud"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure"));
        command.args(["status", "a/b", "--server", "http://127.0.0.1:1"]);
        let output = command.env("TENURE_LOG", wrong).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong}: {said}");
        assert!(
            said.contains("TENURE_LOG") && said.contains(wrong),
            "{said}"
        );
    }
}
