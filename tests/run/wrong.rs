//! Invalid input is refused before the campaign begins.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_tests::process::{command, output, run};

/// An address without a server: a campaign there would not end.
const NOWHERE: &str = "http://127.0.0.1:1";

/// Runs the command, and returns its exit code and stderr.
fn refused(flags: &[&str], program: &[&str]) -> (Option<i32>, String) {
    let mut command = command(&["run", "--server", NOWHERE]);
    let output = output(command.args(flags).arg("--").args(program));
    (
        output.status.code(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

#[test]
fn a_command_that_does_not_exist_is_refused_at_once() {
    for program in ["no-such-command", "./no/such/command", "", "/"] {
        let (code, stderr) = refused(&["--election", "a/b"], &[program]);
        let expected = if program == "/" { 126 } else { 127 };
        assert_eq!(code, Some(expected), "{program:?}: {stderr}");
        assert!(stderr.contains(program), "{stderr}");
        assert!(!stderr.contains("retrying"), "{stderr}");
    }
}

#[test]
fn a_command_that_is_not_executable_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("script");
    fs::write(&file, "#!/bin/sh\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let (code, stderr) = refused(&["--election", "a/b"], &[file.to_str().unwrap()]);
    assert_eq!(code, Some(126), "{stderr}");
    assert!(stderr.contains("script"), "{stderr}");
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
        let (code, stderr) = refused(&flags, &["true"]);
        assert_eq!(code, Some(2), "{stderr}");
        for number in numbers {
            assert!(stderr.contains(number), "{number}: {stderr}");
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
        let (code, stderr) = refused(&flags, &["true"]);
        assert_eq!(code, Some(2), "{assignment}: {stderr}");
        assert!(stderr.contains(value), "{assignment}: {stderr}");
    }
}

#[test]
fn bad_values_in_the_environment_and_the_file_are_refused_with_their_origin() {
    let mut from_environment = command(&["run", "--election", "a/b", "--", "true"]);
    let output = output(from_environment.env("TENURE_LEASE_DURATION", "soon"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(
        stderr.contains("TENURE_LEASE_DURATION") && stderr.contains("soon"),
        "{stderr}"
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tenure.toml");
    fs::write(&file, "election = \"a/b\"\nlease_durations = \"5s\"\n").unwrap();
    let output = run(&["run", "--config", file.to_str().unwrap(), "--", "true"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("tenure.toml:2"), "{stderr}");
    assert!(stderr.contains("did you mean lease_duration?"), "{stderr}");
}

#[test]
fn a_missing_election_is_reported_with_its_flag() {
    let (code, stderr) = refused(&[], &["true"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("--election"), "{stderr}");
}
