//! Invalid input is refused before the campaign begins.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_tests::needs::{can_run, has_program, output_of};
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

#[test]
fn a_stop_signal_that_no_command_can_handle_is_refused_with_the_right_ones() {
    for wrong in ["KILL", "9", "STOP", "SIGSEGV", "TERMINATE", "0"] {
        let flags = ["--election", "a/b", "--stop-signal", wrong];
        let (code, stderr) = refused(&flags, &["true"]);
        assert_eq!(code, Some(2), "{stderr}");
        let told = ["--stop-signal", wrong, "TERM, INT, QUIT"];
        assert!(told.iter().all(|text| stderr.contains(text)), "{stderr}");
    }
}

/// Runs this program as a user who may have this number of processes and threads.
fn limited(limit: u32, arguments: &[&str]) -> std::process::Output {
    use std::os::unix::process::CommandExt;
    let inner = command(arguments);
    let mut limited = std::process::Command::new("prlimit");
    limited.arg(format!("--nproc={limit}"));
    limited.arg(inner.get_program()).args(inner.get_args());
    limited.current_dir("/").env_clear().uid(60_123).gid(60_123);
    output(&mut limited)
}

#[test]
fn a_limit_of_processes_is_named_before_the_campaign_and_before_the_store_is_opened() {
    let test = "a_limit_of_processes_is_named_before_the_campaign_and_before_the_store_is_opened";
    let can_limit = nix::unistd::geteuid().is_root() && has_program("prlimit");
    if !can_run(test, "root and prlimit", can_limit) {
        return;
    }
    let run = [
        "run",
        "--server",
        NOWHERE,
        "--election",
        "a/b",
        "--",
        "true",
    ];
    let serve = ["serve", "--home", "memory", "--listen", "127.0.0.1:0"];
    for (arguments, limit) in [
        (&run[..], 1),
        (&run, 3),
        (&run, 9),
        (&serve, 1),
        (&serve, 2),
        (&serve, 6),
    ] {
        let output = limited(limit, arguments);
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(71), "{limit}: {stderr}");
        for told in [
            "processes and threads",
            "ulimit -u",
            &format!("{limit} for the user"),
        ] {
            assert!(stderr.contains(told), "{limit}: {stderr}");
        }
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_system_without_proc_is_refused_before_the_campaign_with_the_path() {
    let test = "a_system_without_proc_is_refused_before_the_campaign_with_the_path";
    let unshare = || {
        let mut command = std::process::Command::new("unshare");
        command.args(["--mount", "sh", "-c"]);
        command
    };
    let hide = "mount -t tmpfs none /proc";
    if !can_run(
        test,
        "namespaces of Linux (root)",
        output_of(unshare().arg(hide)).is_some(),
    ) {
        return;
    }
    let run = command(&[
        "run",
        "--server",
        NOWHERE,
        "--election",
        "a/b",
        "--",
        "true",
    ]);
    let mut hidden = unshare();
    hidden.arg(format!("{hide} && exec \"$0\" \"$@\""));
    hidden.arg(run.get_program()).args(run.get_args());
    let output = output(&mut hidden);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(71), "{stderr}");
    assert!(stderr.contains("/proc/self/exe"), "{stderr}");
}
