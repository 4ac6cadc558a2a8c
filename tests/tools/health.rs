//! Health commands of `tenure run`.

use std::fs;

use tenure_tests::process::{Process, run};

use super::{Bench, code, stderr};

#[test]
fn an_unhealthy_command_loses_its_term() {
    let bench = Bench::new();
    let left_behind = bench.folder.path().join("left-behind");
    let slow = format!("sleep 600 & echo $! > {}; wait", left_behind.display());
    for health in [
        &["--health-command", "false"][..],
        &[
            "--health-command",
            "sh",
            "--health-arg",
            "-c",
            "--health-arg",
            &slow,
        ],
    ] {
        let flags = [
            &[
                "--once",
                "--health-interval",
                "100ms",
                "--health-timeout",
                "200ms",
            ],
            health,
        ];
        let mut process =
            Process::spawn(&mut bench.leading("ill", &flags.concat(), &["sleep", "600"]));
        assert_eq!(process.wait().code(), Some(76), "{}", process.stderr());
        assert!(
            process.stderr().contains("the health check has failed"),
            "{}",
            process.stderr()
        );
    }
    let pid: i32 = fs::read_to_string(&left_behind)
        .unwrap()
        .trim()
        .parse()
        .unwrap();
    assert!(
        !tenure_tests::process::is_alive(pid),
        "the processes of the health command are gone"
    );
}

#[test]
fn wrong_health_flags_are_refused_before_competing() {
    let with = |flags: &[&str]| {
        let all = [&["run", "--election", "a"], flags, &["--", "true"]].concat();
        run(&all)
    };
    assert_eq!(code(&with(&["--health-command", "/no/such/program"])), 127);
    assert_eq!(code(&with(&["--health-command", "/etc/passwd"])), 126);
    assert_eq!(code(&with(&["--health-arg", "x"])), 2);
    assert_eq!(
        code(&with(&[
            "--health-command",
            "true",
            "--health-interval",
            "0s"
        ])),
        2
    );
    let output = with(&["--priority", "-1"]);
    assert_eq!(code(&output), 2);
    let output = with(&["--priority", "low"]);
    assert!(
        code(&output) == 2 && stderr(&output).contains("flag --priority"),
        "{output:?}"
    );
}
