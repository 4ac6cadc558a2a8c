//! Every example as a new user starts it: as a process, with a store.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use reqwest::StatusCode;
use tenure::fence::EPOCH_HEADER;
use tenure::router::LEADER_HEADER;
use tenure_tests::process::{self, Process};
use tenure_tests::store::LocalStore;
use tenure_tests::{wait_for, wait_until};

/// The example with this name, as a candidate in `examples/{name}` at this store.
fn example(name: &str, store: &LocalStore, candidate: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(process::built(&format!("examples/{name}")));
    // The variables for candidates in the environment of the tests are removed.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("TENURE_") {
            command.env_remove(name);
        }
    }
    command
        .args(arguments)
        .stdin(Stdio::null())
        .env("TENURE_SERVERS", store.url().as_str())
        .env("TENURE_ELECTION", format!("examples/{name}"))
        .env("TENURE_CANDIDATE", candidate);
    command
}

/// Starts the same example with a short lease duration, which a test can wait for.
fn quick(name: &str, store: &LocalStore, candidate: &str, arguments: &[&str]) -> Process {
    let mut command = example(name, store, candidate, arguments);
    Process::spawn(command.env("TENURE_LEASE_DURATION", "2s"))
}

/// Waits for a line of the process that begins with `start`, and returns the rest of it.
fn line(process: &Process, start: &str) -> String {
    wait_for(start, || {
        let text = process.stdout();
        let mut lines = text.lines();
        lines.find_map(|line| line.strip_prefix(start).map(str::to_owned))
    })
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("a name in UTF-8");
    let mut names: Vec<String> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn axum_worker_answers_on_every_process_and_issues_tickets_on_the_leader() {
    let store = LocalStore::start();
    let http = tenure_tests::client::plain_http()
        .build()
        .expect("a client");
    let start = |candidate| {
        let worker = quick("axum_worker", &store, candidate, &[]);
        let address = line(&worker, "listening on ");
        (worker, address)
    };
    let status = async |address: &str| {
        let answer = http.get(format!("{address}/leader")).send().await;
        answer.expect("an answer").status()
    };
    let ticket = async |address: &str| -> (u64, u64) {
        let answer = http.post(format!("{address}/tickets")).send().await;
        let text = answer.expect("an answer").error_for_status();
        let text = text.expect("a ticket").text().await.expect("text");
        let (epoch, number) = text.trim_end().split_once('-').expect("two numbers");
        (
            epoch.parse().expect("an epoch"),
            number.parse().expect("a number"),
        )
    };

    let (mut first, here) = start("worker-1");
    wait_until("leadership of worker-1", async || {
        (status(&here).await == StatusCode::OK).then_some(())
    })
    .await;
    let (mut second, there) = start("worker-2");
    // The other worker names the leader, and redirects requests to it.
    wait_until("worker-2 to see the leader", async || {
        let answer = http.get(format!("{there}/leader")).send().await;
        let answer = answer.expect("an answer");
        assert_eq!(answer.status(), StatusCode::SERVICE_UNAVAILABLE);
        (answer.headers().get(LEADER_HEADER)? == here.as_str()).then_some(())
    })
    .await;
    let (epoch, number) = ticket(&here).await;
    wait_until("a redirect by worker-2", async || {
        let answer = http.post(format!("{there}/tickets")).send().await;
        answer
            .expect("an answer")
            .status()
            .is_success()
            .then_some(())
    })
    .await;
    let (same, later) = ticket(&there).await;
    assert!(same == epoch && later > number);

    first.signal(Signal::SIGKILL);
    first.wait();
    wait_until("leadership of worker-2", async || {
        (status(&there).await == StatusCode::OK).then_some(())
    })
    .await;
    assert!(ticket(&there).await.0 > epoch);
    second.signal(Signal::SIGINT);
    assert!(second.wait().success(), "{}", second.stderr());
}

#[tokio::test(flavor = "multi_thread")]
async fn fenced_receiver_refuses_stale_writes_even_after_a_restart() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let ledger = folder.path().join("ledger.txt");
    let start = || {
        Process::spawn(&mut example(
            "fenced_receiver",
            &store,
            "none",
            &[path(&ledger)],
        ))
    };
    let http = tenure_tests::client::plain_http()
        .build()
        .expect("a client");
    let post = async |receiver: &Process, epoch: Option<u64>, entry: &'static str| {
        let url = line(receiver, "listening on ") + "/entries";
        let mut request = http.post(url).body(entry);
        if let Some(epoch) = epoch {
            request = request.header(EPOCH_HEADER, epoch);
        }
        request.send().await.expect("an answer").status().as_u16()
    };

    let mut receiver = start();
    assert_eq!(post(&receiver, Some(7), "one").await, 204);
    assert_eq!(post(&receiver, Some(9), "two").await, 204);
    assert_eq!(post(&receiver, Some(7), "late").await, 409);
    assert_eq!(post(&receiver, None, "unmarked").await, 400);

    let mut rival = start();
    assert!(!rival.wait().success(), "one ledger, one receiver");
    wait_for("the reason", || {
        rival.stderr().contains("another receiver").then_some(())
    });

    receiver.signal(Signal::SIGKILL);
    receiver.wait();
    // This is the state after a crash in the middle of an entry.
    let torn = fs::read_to_string(&ledger).expect("a ledger") + "99 to";
    fs::write(&ledger, torn).expect("a ledger");
    let receiver = start();
    assert_eq!(post(&receiver, Some(8), "late").await, 409);
    assert_eq!(post(&receiver, Some(9), "three").await, 204);
    let url = line(&receiver, "listening on ") + "/entries";
    let entries = http.get(url).send().await.expect("an answer").text().await;
    assert_eq!(entries.expect("text"), "7 one\n9 two\n9 three\n");
}

#[test]
fn graceful_handover_finishes_its_current_work() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (inbox, outbox) = (folder.path().join("inbox"), folder.path().join("outbox"));
    for folder in [&inbox, &outbox] {
        fs::create_dir(folder).expect("a folder");
    }
    let files: Vec<String> = (1..=6).map(|number| format!("file-{number}")).collect();
    for file in &files {
        fs::write(inbox.join(file), file).expect("a file");
    }
    // The default lease lasts 15 s: a quick successor has not waited for it to expire.
    let start = |candidate| {
        let arguments = [path(&inbox), path(&outbox)];
        Process::spawn(&mut example(
            "graceful_handover",
            &store,
            candidate,
            &arguments,
        ))
    };
    let mut first = start("worker-1");
    let epoch: u64 = line(&first, "leading with epoch ")
        .parse()
        .expect("an epoch");
    let mut second = start("worker-2");
    line(&first, "done file-1");
    line(&first, "taking file-2");
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success(), "{}", first.stderr());
    let stopped = Instant::now();
    let next: u64 = line(&second, "leading with epoch ")
        .parse()
        .expect("an epoch");
    assert!(
        stopped.elapsed() < Duration::from_secs(5),
        "{:?}",
        stopped.elapsed()
    );
    assert!(next > epoch);

    line(&first, "handed over");
    let output = first.stdout();
    assert!(
        output.contains("done file-2") && output.ends_with("handed over\n"),
        "{output}"
    );
    assert!(
        !output.contains("file-3"),
        "it has begun new work: {output}"
    );
    wait_for("the end of the remaining work", || {
        (names(&outbox) == files).then_some(())
    });
    assert!(names(&inbox).is_empty());
    line(&second, "done file-6");
    assert!(
        !second.stdout().contains("file-2"),
        "done twice: {}",
        second.stdout()
    );
    second.signal(Signal::SIGINT);
    assert!(second.wait().success(), "{}", second.stderr());
}

/// Waits until the process handles this signal, which would kill it otherwise.
fn wait_for_handler(process: &Process, signal: Signal) {
    let status = format!("/proc/{}/status", process.pid());
    wait_for("a handler", || {
        let status = fs::read_to_string(&status).ok()?;
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = u64::from_str_radix(caught?.trim(), 16).expect("a mask");
        (caught & (1 << (signal as u32 - 1)) != 0).then_some(())
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn every_example_stops_in_order_on_each_stop_signal() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| path(&folder.path().join(name)).to_owned();
    let (database, ledger) = (file("runs.db"), file("ledger"));
    let rows = file("work.db");
    let (logs, summary) = (path(folder.path()), file("summary.db"));
    // The examples with a text lead in this store, and print the text when they lead. The others
    // use the default address, where there may be no store.
    let examples: [(&str, &[&str], Option<&str>); 6] = [
        ("axum_worker", &[], Some("tickets are handed out here")),
        ("cron", &[LONG, &database, "true"], Some("tick 0: ")),
        ("fenced_receiver", &[&ledger], None),
        ("log_rollup", &[logs, &summary], None),
        ("smallest", &[], None),
        ("work_rows", &[&rows], Some("planned rows ")),
    ];
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        for (name, arguments, leads) in examples {
            // The default lease lasts 15 s: without a release the next example would wait for its
            // end.
            let mut process = Process::spawn(&mut example(name, &store, "worker", arguments));
            if let Some(text) = leads {
                line(&process, text);
            }
            wait_for_handler(&process, signal);
            process.signal(signal);
            assert!(process.wait().success(), "{name}: {}", process.stderr());
            if leads.is_some() {
                let lease = format!("{}v1/namespaces/examples/leases/{name}", store.url());
                let view = reqwest::get(lease).await.expect("an answer").text().await;
                let view = view.expect("text");
                assert!(view.contains(r#""state":"available""#), "{name}: {view}");
            }
        }
    }
}

/// The numbers of the rows that this process has done.
fn rows_done(process: &Process) -> Vec<i64> {
    let text = process.stdout();
    let rows = text
        .lines()
        .filter_map(|line| line.strip_prefix("done row "));
    rows.map(|row| row.parse().expect("a number")).collect()
}

#[test]
fn work_rows_are_planned_by_the_leader_and_done_by_all_instances_also_without_a_leader() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let database = folder.path().join("work.db");
    // Long enough for some rows, without a leader, on a busy machine.
    let start = |candidate| {
        let mut command = example("work_rows", &store, candidate, &[path(&database)]);
        Process::spawn(command.env("TENURE_LEASE_DURATION", "10s"))
    };
    let mut first = start("worker-1");
    let planned = line(&first, "planned rows 1 to 10 under epoch ");
    let epoch: u64 = planned.parse().expect("an epoch");
    let second = start("worker-2");
    line(&second, "done row ");
    assert!(!second.stdout().contains("planned"), "{}", second.stdout());
    first.signal(Signal::SIGKILL);
    let _ = first.wait();
    let before = rows_done(&second).len();
    // The lease of the dead leader lasts for up to 10 s more.
    wait_for("a row that is done without a leader", || {
        let more = rows_done(&second).len() > before;
        let text = second.stdout();
        assert!(more || !text.contains("planned"), "{text}");
        more.then_some(())
    });
    let next = line(&second, "planned rows ");
    let (_, next) = next.split_once("under epoch ").expect("an epoch");
    assert!(next.parse::<u64>().expect("an epoch") > epoch);
    wait_for("rows that the next leader has planned", || {
        (rows_done(&second).len() > 15).then_some(())
    });
    let mut all = [rows_done(&first), rows_done(&second)].concat();
    all.sort_unstable();
    let count = all.len();
    all.dedup();
    assert_eq!(all.len(), count, "a row was done twice");
}

/// A period that does not end during a test.
const LONG: &str = "36500d";

#[test]
fn cron_runs_a_tick_once_across_a_change_of_leaders() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (runs, log) = (folder.path().join("runs.db"), folder.path().join("log"));
    let script = format!("echo $TENURE_EPOCH >> {}", log.display());
    let arguments = [LONG, path(&runs), "sh", "-c", &script];
    let start = |candidate| quick("cron", &store, candidate, &arguments);
    let mut first = start("cron-1");
    let epoch = line(&first, "tick 0: running under epoch ");
    line(&first, "tick 0: done");
    let second = start("cron-2");
    first.signal(Signal::SIGINT);
    assert!(first.wait().success(), "{}", first.stderr());
    line(&second, "tick 0: nothing to do");
    assert_eq!(fs::read_to_string(&log).expect("a log"), epoch + "\n");
}

#[test]
fn cron_repeats_a_tick_that_a_dead_leader_has_not_finished() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (runs, log) = (folder.path().join("runs.db"), folder.path().join("log"));
    // Hangs the first time, until its leader is gone.
    let script = format!(
        "echo $TENURE_EPOCH >> {0}; [ $(wc -l < {0}) -gt 1 ] || exec sleep 20",
        log.display()
    );
    let arguments = [LONG, path(&runs), "sh", "-c", &script];
    let start = |candidate| quick("cron", &store, candidate, &arguments);
    let mut first = start("cron-1");
    let begun = || fs::read_to_string(&log).is_ok_and(|text| !text.is_empty());
    wait_for("the begin of the program", || begun().then_some(()));
    let second = start("cron-2");
    first.signal(Signal::SIGKILL);
    first.wait();
    line(&second, "tick 0: running under epoch ");
    line(&second, "tick 0: done");
    let epochs = fs::read_to_string(&log).expect("a log");
    let epochs: Vec<u64> = epochs
        .lines()
        .map(|line| line.parse().expect("an epoch"))
        .collect();
    assert!(epochs.len() == 2 && epochs[0] < epochs[1], "{epochs:?}");
}

#[test]
fn cron_runs_each_period_on_one_process() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (runs, log) = (folder.path().join("runs.db"), folder.path().join("log"));
    let script = format!("echo $CRON_TICK >> {}", log.display());
    let arguments = ["1s", path(&runs), "sh", "-c", &script];
    let _crons = ["cron-1", "cron-2"].map(|name| quick("cron", &store, name, &arguments));
    let ticks: Vec<u64> = wait_for("three ticks", || {
        let text = fs::read_to_string(&log).unwrap_or_default();
        (text.lines().count() == 3).then(|| {
            text.lines()
                .map(|line| line.parse().expect("a tick"))
                .collect()
        })
    });
    assert!(ticks.is_sorted_by(|one, other| one < other), "{ticks:?}");
}

fn backup(arguments: &[&str]) -> Command {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/backup.sh");
    let mut command = Command::new(script);
    command
        .args(arguments)
        .env_remove("TENURE_EPOCH")
        .stdin(Stdio::null());
    command
}

#[test]
fn backup_runs_under_tenure_run_and_publishes_no_stale_archive() {
    let store = LocalStore::start();
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    for folder in [&source, &target] {
        fs::create_dir(folder).expect("a folder");
    }
    fs::write(source.join("note"), "precious").expect("a file");
    let script = backup(&[]).get_program().to_owned();
    let script = script.to_str().expect("a path in UTF-8");
    let url = store.url();
    let mut run = Process::start(&[
        "run",
        "--server",
        url.as_str(),
        "--election",
        "ops/backup",
        "--lease-duration",
        "2s",
        "--",
        script,
        path(&source),
        path(&target),
        "1",
    ]);
    let latest = target.join("latest");
    let archive: PathBuf = wait_for("an archive", || fs::read_link(&latest).ok());
    let epoch = fs::read_to_string(target.join("epoch")).expect("an epoch");
    let epoch: u64 = epoch.trim_end().parse().expect("an epoch");
    assert!(
        path(&archive).ends_with(&format!("-{epoch}.tar.gz")),
        "{archive:?}"
    );
    let tar = Command::new("tar")
        .arg("-xzOf")
        .arg(target.join(&archive))
        .arg("./note")
        .output();
    assert_eq!(tar.expect("tar").stdout, b"precious");
    wait_for("the next backup", || {
        (fs::read_link(&latest).expect("a link") != archive).then_some(())
    });
    run.signal(Signal::SIGTERM);
    run.wait();

    // This backup was frozen until the folder had an archive of another leader.
    let before = fs::read_link(&latest).expect("a link");
    let mut late = backup(&[path(&source), path(&target), "1"]);
    let mut late = Process::spawn(late.env("TENURE_EPOCH", (epoch - 1).to_string()));
    assert!(!late.wait().success());
    wait_for("the reason", || {
        late.stderr().contains("is stale").then_some(())
    });
    assert_eq!(fs::read_link(&latest).expect("a link"), before);
    let left: Vec<String> = names(&target)
        .into_iter()
        .filter(|name| name.contains("part"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let mut alone = Process::spawn(&mut backup(&[path(&source), path(&target)]));
    assert!(!alone.wait().success());
    wait_for("the reason", || {
        alone.stderr().contains("tenure run").then_some(())
    });
}

#[test]
fn backup_publishes_nothing_if_it_cannot_read_the_fence() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, target) = (folder.path().join("source"), folder.path().join("target"));
    for folder in [&source, &target] {
        fs::create_dir(folder).expect("a folder");
    }
    let fence = target.join("epoch");
    // The last one has more digits than a shell can count.
    for damaged in ["", "garbage", "7 8", "-1", "0x7", "99999999999999999999999"] {
        fs::write(&fence, damaged).expect("a file");
        let mut script = backup(&[path(&source), path(&target), "1"]);
        let mut script = Process::spawn(script.env("TENURE_EPOCH", "3"));
        assert!(!script.wait().success(), "{damaged:?}");
        assert_eq!(fs::read_to_string(&fence).expect("a file"), damaged);
        assert_eq!(names(&target), ["epoch", "lock"], "{damaged:?}");
        wait_for("the reason", || {
            let output = script.stderr();
            (output.contains("is no epoch") || output.contains("is stale")).then_some(())
        });
    }
}
