//! Tests of commands that change the access file: killed at any time, and several at the same time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::thread;

use tenure_server::access;
use tenure_tests::needs::{can_run, has_program};
use tenure_tests::process::{Process, output};
use tenure_tests::wait_for;

use crate::{Place, read};

/// The system calls that change files. Not every machine has all of them.
const CALLS: &str = "?write,?fsync,?fdatasync,?rename,?renameat,?renameat2,?link,?linkat,?unlink,\
                     ?unlinkat,?chmod,?fchmod,?fchmodat,?chown,?fchown,?fchownat,?ftruncate";

/// Returns the names of the principals in the access file, which must be valid.
fn principals(place: &Place) -> Vec<String> {
    let file = access::check_file(&place.path("etc/access.toml"));
    let file = file.expect("a valid access file");
    let names = file.principals().iter();
    names
        .map(|listed| listed.principal.name.to_string())
        .collect()
}

/// Returns this command under strace with these options.
fn traced(place: &Place, options: &[&str], arguments: &[&str]) -> Command {
    let inner = place.command(arguments);
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq"]).args(options);
    strace.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => strace.env(name, value),
            None => strace.env_remove(name),
        };
    }
    strace.current_dir(place.folder.path());
    strace
}

/// Returns the calls of this command that change files: each name with the number of its calls.
fn calls_of(place: &Place, arguments: &[&str]) -> BTreeMap<String, u32> {
    let trace = place.text("trace");
    let which = format!("trace={CALLS}");
    let ran = output(&mut traced(place, &["-o", &trace, "-e", &which], arguments));
    assert!(ran.status.success(), "{ran:?}");
    let mut calls = BTreeMap::new();
    for line in read(&place.path("trace")).lines() {
        // A line is `PID CALL(...`; lines about signals and ends of processes have no parenthesis.
        let call = line
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.split_once('('));
        if let Some((name, _)) = call {
            *calls.entry(name.to_owned()).or_default() += 1;
        }
    }
    calls
}

/// Runs a command that changes the access file, and kills it at each call that changes a file.
fn kill_at_each_call(place: &Place, arguments: impl Fn(&str) -> Vec<String>) {
    let path = place.path("etc/access.toml");
    let before = (read(&path), principals(place));
    let mode = fs::metadata(&path).expect("a file").mode();
    let restore = || fs::write(&path, &before.0).expect("the file as before");
    let run = |number: &str, run: &mut dyn FnMut(&[&str])| {
        let arguments = arguments(number);
        run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    };
    let mut calls = BTreeMap::new();
    run("all", &mut |arguments| calls = calls_of(place, arguments));
    restore();
    let (mut old, mut new) = (0, 0);
    for (call, count) in calls {
        for n in 1..=count {
            let trace = format!("trace={call}");
            let inject = format!("inject={call}:signal=KILL:when={n}");
            let options = ["-o", "/dev/null", "-e", &trace, "-e", &inject];
            run(&format!("{call}-{n}"), &mut |arguments| {
                let ran = output(&mut traced(place, &options, arguments));
                assert_eq!(ran.status.signal(), Some(9), "{call} {n}: {ran:?}");
            });
            let now = (read(&path), principals(place));
            assert_eq!(
                fs::metadata(&path).expect("a file").mode(),
                mode,
                "{call} {n}"
            );
            if now == before {
                old += 1;
            } else {
                // The file has exactly one principal more or one fewer.
                let is_kept = |name: &&String| now.1.contains(name);
                let kept = before.1.iter().filter(is_kept).count();
                assert!(kept + 1 >= before.1.len(), "{call} {n}: {now:?}");
                assert_eq!(
                    now.1.len().abs_diff(before.1.len()),
                    1,
                    "{call} {n}: {now:?}"
                );
                new += 1;
                restore();
            }
        }
    }
    // The calls are at least the write, the sync and the rename of the new file, and then the sync
    // of its directory.
    assert!(
        old >= 3 && new >= 1,
        "{old} runs changed nothing, {new} the file"
    );
}

#[test]
fn a_token_command_that_is_killed_leaves_the_old_file_or_the_new_one() {
    let test = "a_token_command_that_is_killed_leaves_the_old_file_or_the_new_one";
    if !can_run(test, "strace", has_program("strace")) {
        return;
    }
    let place = Place::new();
    place.init();
    place.create("worker");
    let file = place.text("etc/access.toml");
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    kill_at_each_call(&place, |number| {
        let token = format!("{number}.token");
        let create = [
            "token",
            "create",
            "next",
            "--role",
            "candidate",
            "--namespace",
            "tests",
        ];
        words(&[&create[..], &["--output", &token, "--file", &file]].concat())
    });
    kill_at_each_call(&place, |_| {
        words(&["token", "revoke", "--principal", "worker", "--file", &file])
    });
}

#[test]
fn two_token_commands_at_once_keep_both_entries() {
    let place = Place::new();
    place.init();
    let file = place.text("etc/access.toml");
    let create = |name: &str| {
        let words = [
            "token",
            "create",
            name,
            "--role",
            "read",
            "--namespace",
            "a",
        ];
        words
            .map(str::to_owned)
            .into_iter()
            .chain(["--file".into(), file.clone()])
    };
    let create = |name: &str| create(name).collect::<Vec<String>>();
    thread::scope(|scope| {
        for number in 0..6 {
            let (place, create) = (&place, &create);
            scope.spawn(move || {
                let words = create(&format!("p{number}"));
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                place.succeed(&words);
            });
        }
    });
    let mut names = principals(&place);
    names.sort();
    assert_eq!(names, ["ada", "p0", "p1", "p2", "p3", "p4", "p5"]);
    // The first command has read the file and not yet replaced it when the second one begins.
    let test = "two_token_commands_at_once_keep_both_entries";
    if !can_run(test, "strace", has_program("strace")) {
        return;
    }
    let calls = "?rename,?renameat,?renameat2";
    let delay = format!("inject={calls}:delay_enter=2s");
    let words = create("slow");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let trace = format!("trace={calls}");
    let mut slow = Process::spawn(&mut traced(
        &place,
        &["-o", "/dev/null", "-e", &trace, "-e", &delay],
        &words,
    ));
    let is_new = |name: &str| name.starts_with(".access");
    wait_for("the new file of the first command", || {
        let mut entries = fs::read_dir(place.path("etc")).expect("a folder").flatten();
        entries.find(|entry| is_new(&entry.file_name().to_string_lossy()))
    });
    let words = create("quick");
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    place.succeed(&words);
    assert!(slow.wait().success());
    let names = principals(&place);
    for name in ["slow", "quick"] {
        assert!(names.iter().any(|known| known == name), "{name}: {names:?}");
    }
}
