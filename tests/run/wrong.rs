//! Impossible runs are refused before they compete.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_tests::process::{command, output, run};

/// An address without a store: a candidate there competes forever.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Runs this and returns its exit code and its stderr.
fn refused(flags: &[&str], program: &[&str]) -> (Option<i32>, String) {
    let mut command = command(&["run", "--server", NOWHERE]);
    let output = output(command.args(flags).arg("--").args(program));
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_command_that_is_not_there_is_refused_at_once() {
    for program in ["no-such-command", "./no/such/command", "", "/"] {
        let (code, said) = refused(&["--election", "a/b"], &[program]);
        let expected = if program == "/" { 126 } else { 127 };
        assert_eq!(code, Some(expected), "{program:?}: {said}");
        assert!(said.contains(program), "{said}");
        assert!(!said.contains("retrying"), "{said}");
    }
}

#[test]
fn a_command_that_is_not_executable_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, said) = refused(&["--election", "a/b"], &[file.to_str().unwrap()]);
    assert_eq!(code, Some(126), "{said}");
    assert!(said.contains("script"), "{said}");
}

#[test]
fn impossible_timings_are_refused_with_both_numbers() {
    for (flags, numbers) in [
        (
            ["--lease-duration", "2s", "--stop-grace", "3s"],
            ["2s", "3s"],
        ),
        (
            ["--lease-duration", "1s", "--stop-grace", "999ms"],
            ["1s", "999ms"],
        ),
        (
            ["--lease-duration", "500ms", "--stop-grace", "0s"],
            ["500ms", "1s"],
        ),
    ] {
        let flags = [&["--election", "a/b"][..], &flags].concat();
        let (code, said) = refused(&flags, &["true"]);
        assert_eq!(code, Some(2), "{said}");
        for number in numbers {
            assert!(said.contains(number), "{number}: {said}");
        }
    }
}

#[test]
fn bad_values_are_refused_with_flag_and_value() {
    for (flag, value) in [
        ("--lease-duration", "5"),
        ("--lease-duration", "soon"),
        ("--stop-grace", "-1s"),
        ("--election", "a b"),
        ("--election", "a/b/c"),
        ("--election", ""),
        ("--election", "/"),
        ("--candidate", "two words"),
        ("--candidate", ""),
        ("--server", "localhost:7400"),
        ("--server", "ftp://127.0.0.1"),
        ("--config", "/no/such/file"),
    ] {
        let assignment = format!("{flag}={value}");
        let mut flags = vec![assignment.as_str()];
        if flag != "--election" {
            flags.extend(["--election", "a/b"]);
        }
        let (code, said) = refused(&flags, &["true"]);
        assert_eq!(code, Some(2), "{assignment}: {said}");
        assert!(said.contains(value), "{assignment}: {said}");
    }
}

#[test]
fn bad_values_of_the_environment_and_the_file_are_refused_with_their_place() {
    let mut from_environment = command(&["run", "--election", "a/b", "--", "true"]);
    let output = output(from_environment.env("TENURE_LEASE_DURATION", "soon"));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("TENURE_LEASE_DURATION") && said.contains("soon"),
        "{said}"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    fs::write(&file, "election = \"a/b\"\nlease_durations = \"5s\"\n").unwrap();
    let output = run(&["run", "--config", file.to_str().unwrap(), "--", "true"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("tenure.toml:2"), "{said}");
    assert!(said.contains("did you mean lease_duration?"), "{said}");
}

#[test]
fn a_run_without_an_election_is_refused() {
    let (code, said) = refused(&[], &["true"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("--election"), "{said}");
}
