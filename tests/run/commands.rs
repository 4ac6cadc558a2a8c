//! The start of the command, and its environment.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::getpgrp;
use tenure_tests::process::{Process, command, output, tenure};
use tenure_tests::wait_for;

use super::{BEAT, Bench, ELECTION, candidate, wait_until_gone};

#[test]
fn the_command_gets_election_candidate_and_epoch() {
    let bench = Bench::new();
    let id = candidate("env");
    let script = r#"echo "$TENURE_ELECTION $TENURE_CANDIDATE $TENURE_EPOCH"; exec sleep 60"#;
    let leader = bench.script(&id, &[], script);
    let line = wait_for("the output of the command", || {
        leader.stdout().strip_suffix('\n').map(str::to_owned)
    });
    let status = bench.status();
    assert_eq!(status["holder"], *id);
    assert_eq!(line, format!("{ELECTION} {id} {}", status["epoch"]));
}

#[test]
fn neither_the_command_nor_its_health_command_gets_secrets() {
    let bench = Bench::new();
    let asked = bench.folder.path().join("asked");
    let health = format!("env > {0}.new; mv {0}.new {0}", asked.display());
    let flags = [
        "--health-command",
        "sh",
        "--health-arg",
        "-c",
        "--health-arg",
        &health,
    ];
    let program = ["sh", "-c", "env; exec sleep 60"];
    let mut command = bench.command(&candidate("secret"), &flags, &program);
    command.env("TENURE_BULLY_KEY", "a key of all members");
    command.env("TENURE_AZURE_ACCOUNTS", "someone:c2VjcmV0");
    let leader = Process::spawn(&mut command);
    let of_health = wait_for("the health command", || fs::read_to_string(&asked).ok());
    let of_command = wait_for("the output of the command", || {
        let words = leader.stdout();
        words.contains("TENURE_EPOCH").then_some(words)
    });
    for environment in [of_health, of_command] {
        assert!(environment.contains("TENURE_ELECTION="), "{environment}");
        assert!(!environment.contains("TENURE_BULLY_KEY"), "{environment}");
        assert!(!environment.contains("TENURE_AZURE"), "{environment}");
    }
}

#[test]
fn the_command_gets_the_full_name_of_an_election_without_a_namespace() {
    let bench = Bench::new();
    let url = bench.store.url();
    let mut command = command(&["run", "--once", "--election", "nightly", "--server", &url]);
    let output = output(command.args(["--", "printenv", "TENURE_ELECTION"]));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "default/nightly\n");
}

#[test]
fn arguments_are_passed_unchanged_without_a_shell() {
    let bench = Bench::new();
    let arguments: [&OsStr; 9] = [
        OsStr::new("printf"),
        OsStr::new("[%s]"),
        OsStr::new("two words"),
        OsStr::new("$HOME"),
        OsStr::new("*"),
        OsStr::new(""),
        OsStr::new("--once"),
        OsStr::new("'\"\n"),
        OsStr::from_bytes(b"\xff\xfe"),
    ];
    let mut command = bench.command(&candidate("verbatim"), &["--once"], &arguments);
    let output = output(&mut command);
    assert_eq!(
        output.stdout,
        b"[two words][$HOME][*][][--once]['\"\n][\xff\xfe]",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_command_has_a_process_group_of_its_own() {
    let bench = Bench::new();
    let id = candidate("group");
    let program = ["sh", "-c", "cut -d' ' -f5 /proc/$$/stat; exec sleep 60"];
    let leader = bench.run(&id, &[], &program);
    let group: i32 = wait_for("the group", || leader.stdout().trim().parse().ok());
    assert_ne!(group, getpgrp().as_raw());
    assert_ne!(group, leader.pid().as_raw());
}

#[test]
fn standard_input_passes_through() {
    let bench = Bench::new();
    let mut command = bench.command(&candidate("stdin"), &["--once"], &["cat"]);
    let mut run = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"words for the command").unwrap();
    drop(stdin);
    let mut words = String::new();
    run.stdout
        .take()
        .unwrap()
        .read_to_string(&mut words)
        .unwrap();
    assert!(run.wait().unwrap().success());
    assert_eq!(words, "words for the command");
}

#[test]
fn the_temporary_folder_need_not_exist() {
    let bench = Bench::new();
    let mut command = bench.command(&candidate("tmp"), &["--once"], &["true"]);
    let output = output(command.env("TMPDIR", "/nonexistent/folder"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
}

#[test]
fn an_environment_that_is_not_utf8_is_passed_on() {
    let bench = Bench::new();
    let program = ["printenv", "ODD"];
    let mut command = bench.command(&candidate("odd"), &["--once"], &program);
    let output = output(command.env("ODD", OsStr::from_bytes(b"\xff")));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.stdout, b"\xff\n", "{stderr}");
}

#[test]
fn a_program_that_is_replaced_while_it_waits_still_leads() {
    let bench = Bench::new();
    let copy = bench.folder.path().join("tenure");
    fs::copy(tenure(), &copy).unwrap();
    let (first, second) = (candidate("first"), candidate("second"));
    let mut leader = bench.script(&first, &[], BEAT);
    let epoch = bench.next_epoch(0);

    let mut original = bench.command(&second, &[], &["sh", "-c", BEAT]);
    original.arg(bench.journal_path());
    let mut copied = Command::new(&copy);
    copied.args(original.get_args());
    let _follower = Process::spawn(&mut copied);
    bench.wait_for_waiters(1);
    fs::write(bench.folder.path().join("new"), "#!/bin/false\n").unwrap();
    fs::rename(bench.folder.path().join("new"), &copy).unwrap();
    leader.signal(Signal::SIGTERM);
    assert!(leader.wait().success());
    bench.next_epoch(epoch);
}

#[test]
fn a_run_continues_when_the_reader_of_its_stderr_is_gone() {
    let bench = Bench::new();
    let id = candidate("unread");
    let mut command = bench.command(&id, &["--once"], &["sh", "-c", "sleep 1; exit 4"]);
    let mut run = command
        .env("TENURE_LOG", "debug")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    let mut stderr = run.stderr.take().unwrap();
    stderr.read_exact(&mut first).unwrap();
    drop(stderr);
    assert_eq!(run.wait().unwrap().code(), Some(4));
    wait_until_gone(&id);
}

/// This command, started as by `nohup`.
fn without_hangups(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' HUP; exec \"$0\" \"$@\""]);
    shell.arg(command.get_program()).args(command.get_args());
    shell
}

#[test]
fn a_run_under_nohup_survives_its_terminal() {
    let bench = Bench::new();
    let mut plain = bench.command(&candidate("nohup"), &[], &["sh", "-c", BEAT]);
    plain.arg(bench.journal_path());
    let mut run = Process::spawn(&mut without_hangups(&plain));
    bench.next_epoch(0);
    run.signal(Signal::SIGHUP);
    let beats = bench.beats().len();
    wait_for("more output", || {
        assert!(!run.has_ended(), "{}", run.stderr());
        (bench.beats().len() > beats + 20).then_some(())
    });
}

#[test]
fn a_command_under_nohup_ignores_sighup_like_one_without_tenure() {
    let bench = Bench::new();
    let program = ["grep", "SigIgn", "/proc/self/status"];
    let mut direct = Command::new(program[0]);
    direct.args(&program[1..]);
    let led = bench.command(&candidate("nohup"), &["--once"], &program);
    let ignores = [direct, led].map(|command| {
        let shown = output(&mut without_hangups(&command)).stdout;
        let shown = String::from_utf8(shown).expect("text");
        let mask = shown
            .strip_prefix("SigIgn:")
            .expect("a mask of signals")
            .trim();
        let mask = u64::from_str_radix(mask, 16).expect("a number in hexadecimal digits");
        // Signal 1 is SIGHUP. A test in the background may ignore others, too.
        mask & 1 == 1
    });
    assert_eq!(ignores, [true, true]);
}
