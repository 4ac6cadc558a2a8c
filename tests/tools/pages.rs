//! Help, manual pages and completions.

use std::fs;
use std::process::Command;

use tenure_tests::process::{command, output, run, tenure};

use super::{code, stderr, stdout};

#[test]
fn completions_have_no_hidden_commands() {
    let folder = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout(&run(&["completions", shell]));
        assert!(
            ["handover", "health-command", "home"]
                .iter()
                .all(|known| script.contains(known)),
            "{shell}"
        );
        for hidden in ["watchdog", "demo-worker", "--parent", "--engine"] {
            assert!(!script.contains(hidden), "{shell} has {hidden}");
        }
    }
    let bash = stdout(&run(&["completions", "bash"]));
    let values = "lease azure-blob kubernetes bully both static";
    assert!(bash.contains(&format!("-W \"{values}\"")), "{bash}");
    let path = folder.path().join("tenure.bash");
    fs::write(&path, stdout(&run(&["completions", "bash"]))).unwrap();
    let parsed = Command::new("bash").arg("-n").arg(&path).output().unwrap();
    assert!(
        parsed.status.success() && parsed.stderr.is_empty(),
        "{parsed:?}"
    );
    assert_eq!(code(&run(&["completions", "cobol"])), 2);
}

#[test]
fn flags_of_a_health_command_require_one() {
    for flag in [
        "--health-timeout=1s",
        "--health-interval=1s",
        "--health-arg=x",
    ] {
        let output = run(&["run", "--election", "a", flag, "--", "true"]);
        assert_eq!(code(&output), 2, "{flag}: {output:?}");
        assert!(stderr(&output).contains("--health-command"), "{output:?}");
    }
}

#[test]
fn manual_pages_have_every_command_and_its_options() {
    let page = stdout(&run(&["man"]));
    assert!(
        page.contains(".TH tenure 1") && page.contains("Exit codes"),
        "{page}"
    );
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let output = run(&["man", pages.to_str().unwrap()]);
    assert_eq!(code(&output), 0, "{output:?}");
    let mut names: Vec<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"tenure-config-check.1".into()), "{names:?}");
    assert!(
        names.iter().all(|name| !name.contains("watchdog")),
        "{names:?}"
    );
    let page = fs::read_to_string(pages.join("tenure-run.1")).unwrap();
    for option in [
        r"\-\-health\-command",
        r"\-\-stop\-grace",
        r"\-\-priority",
        r"\-\-once",
    ] {
        assert!(page.contains(option), "{option} is missing: {page}");
    }
    let output = run(&["man", "/proc/nowhere"]);
    assert!(
        code(&output) == 1 && stderr(&output).contains("/proc/nowhere"),
        "{output:?}"
    );
}

#[test]
fn the_help_of_every_command_is_plain_text_and_explains_it() {
    let help = stdout(&run(&["--help"]));
    for part in [
        "history",
        "watch",
        "handover",
        "doctor",
        "config",
        "completions",
        "Exit codes",
    ] {
        assert!(help.contains(part), "{part}: {help}");
    }
    for (arguments, part) in [
        (&["serve"][..], "it prints one line on stdout"),
        (&["run"], "The lease is released after the group is gone"),
        (&["list"], "List the leases of a namespace"),
        (&["history"], "Newest first"),
        (
            &["watch"],
            "The first line is the current state of the lease",
        ),
        (
            &["handover"],
            "stops and releases the lease as after a break",
        ),
        (&["doctor"], "69 if no address can be reached"),
        (&["config"], "example"),
        (&["config", "check"], "exit code is 2"),
        (&["config", "show"], "flags override the environment"),
        (&["completions"], "bash-completion"),
        (&["man"], "tenure(1)"),
    ] {
        let output = run(&[arguments, &["--help"]].concat());
        assert_eq!(code(&output), 0, "{output:?}");
        let text = stdout(&output)
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        assert!(
            text.contains("Usage: tenure") && text.contains(part),
            "{part}: {text}"
        );
    }
}

/// The output of the command on a terminal.
fn on_a_terminal(line: &str, no_color: &str) -> String {
    let line = format!("{} {line}", tenure().display());
    let mut script = Command::new("timeout");
    script
        .args(["60", "script"])
        .args(["--quiet", "--return", "--command", &line, "/dev/null"]);
    script.env("TERM", "xterm").env("NO_COLOR", no_color);
    let output = script.output().expect("script, of util-linux");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn colours_are_for_terminals_without_no_color() {
    let logs = "run --strategy static --once --election ns/job -- true";
    for line in ["run --help", "nonsense", logs] {
        let coloured = on_a_terminal(line, "");
        assert!(coloured.contains('\x1b'), "{line}: {coloured}");
        let plain = on_a_terminal(line, "1");
        assert!(
            !plain.contains('\x1b') && plain.len() > 20,
            "{line}: {plain}"
        );
    }
    let piped = run(&["run", "--help"]);
    assert!(!stdout(&piped).contains('\x1b'), "{piped:?}");
}

#[test]
fn manual_pages_over_a_limit_of_file_sizes_are_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let man = command(&["man"]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -f 0; exec \"$0\" \"$@\""]);
    limited.arg(man.get_program()).args(man.get_args());
    let ended = output(limited.arg(folder.path().join("pages")));
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let said = stderr(&ended);
    assert!(
        said.contains("pages/tenure") && said.contains("File too large"),
        "{said}"
    );
}
