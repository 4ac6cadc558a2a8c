//! Processes whose task does not stop: they end before another candidate may lead, and only then.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use nix::sys::signal::Signal;
use nix::unistd::Uid;
use tempfile::TempDir;
use tenure_tests::needs::{can_run, has_program, preload};
use tenure_tests::process::{Process, built, descendants, fill};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::{wait_for, wait_until};

use crate::world::{ELECTION, World, ms};

/// The exit code of the default policy.
const OVERRUN: i32 = 70;

/// A leader process behind a proxy that can cut it off.
struct Bench {
    world: World,
    proxy: Proxy,
    folder: TempDir,
}

impl Bench {
    async fn new() -> Self {
        let world = World::start();
        let proxy = world.proxy().await;
        let folder = tempfile::tempdir().unwrap();
        Self {
            world,
            proxy,
            folder,
        }
    }

    fn acts_file(&self) -> PathBuf {
        self.folder.path().join("acts")
    }

    fn acts(&self) -> usize {
        let lines = fs::read_to_string(self.acts_file()).unwrap_or_default();
        lines.lines().count()
    }

    /// The program with this part of its task, started by `launcher`. The lease lasts 4 s. The task
    /// is aborted after 1 s without a renewal, and overruns after 1.75 s.
    fn command(&self, launcher: &[&str], part: &str) -> Command {
        let program = built("tenure-test-leader");
        let mut words = launcher
            .iter()
            .map(AsRef::as_ref)
            .chain([program.as_os_str()]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg(part).arg(self.acts_file());
        for (key, value) in [
            ("TENURE_ELECTION", ELECTION),
            ("TENURE_CANDIDATE", "blocked"),
            (
                "TENURE_SERVERS",
                &format!("http://{}", self.proxy.address()),
            ),
            ("TENURE_LEASE_DURATION", "4s"),
            ("TENURE_RENEW_INTERVAL", "200ms"),
            ("TENURE_RENEW_DEADLINE", "700ms"),
            ("TENURE_STOP_GRACE", "300ms"),
            ("TENURE_COOL_DOWN", "0s"),
        ] {
            command.env(key, value);
        }
        command
    }

    /// Waits until the process leads and acts.
    async fn leads(&self) {
        self.world.held_by("blocked").await;
        wait_until("an act of the leader", async || {
            (self.acts() > 0).then_some(())
        })
        .await;
    }

    /// Cuts the leader off. Fails unless it ends with the exit code for overruns before its lease
    /// expires.
    async fn ends_in_time(&self, process: &mut Process) {
        self.leads().await;
        self.proxy.set(ProxyMode::Hang);
        let expiry = self.world.earliest_expiry().await;
        assert_eq!(process.wait().code(), Some(OVERRUN), "{}", process.stderr());
        assert!(Instant::now() < expiry, "{:?} late", expiry.elapsed());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_part_of_a_task_that_does_not_stop_ends_the_process_before_the_lease_expires() {
    for (part, name) in [
        ("task", "the task"),
        ("future", "spawn() at "),
        ("closure", "spawn_blocking() at "),
        ("hold", "hold() at "),
    ] {
        let bench = Bench::new().await;
        let mut process = Process::spawn(&mut bench.command(&[], part));
        bench.ends_in_time(&mut process).await;
        let log = process.stderr();
        assert!(log.lines().any(|line| {
            line.contains("strategy=\"lease\"") && line.contains("on_overrun=\"exit\"")
        }));
        let last = log.lines().last().unwrap_or_default();
        let (_, epoch) = bench.world.holder().await.expect("the lease lasts on");
        for word in [
            "election=tests/job",
            "candidate=blocked",
            &format!("epoch={epoch}"),
            name,
            "on_overrun = \"report\"",
        ] {
            assert!(last.contains(word), "{part}: no {word} in {last}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_stderr_is_full_ends_in_time() {
    let bench = Bench::new().await;
    let (_unread, mut writer) = std::io::pipe().unwrap();
    let stderr = writer.try_clone().unwrap();
    let mut process = Process::spawn_unread(&mut bench.command(&[], "closure"), stderr);
    bench.leads().await;
    // From here on each line of the log blocks its thread, also the one that renews.
    fill(&mut writer);
    bench.ends_in_time(&mut process).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_an_exit_handler_that_blocks_ends_in_time() {
    let test = "a_process_with_an_exit_handler_that_blocks_ends_in_time";
    let bench = Bench::new().await;
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/library/exit_blocks.c");
    let program = built("tenure-test-leader");
    let Some(library) = preload(test, source, bench.folder.path(), &program) else {
        return;
    };
    let mut command = bench.command(&[], "closure");
    let mut process = Process::spawn(command.env("LD_PRELOAD", library));
    bench.ends_in_time(&mut process).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_process_of_a_container_ends_in_time() {
    let test = "the_first_process_of_a_container_ends_in_time";
    let bench = Bench::new().await;
    let Some(launcher) = as_first_process(test) else {
        return;
    };
    let mut process = Process::spawn(&mut bench.command(&launcher, "task"));
    bench.ends_in_time(&mut process).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_frozen_past_its_term_ends_at_once_if_its_task_does_not_stop() {
    let bench = Bench::new().await;
    let mut process = Process::spawn(&mut bench.command(&[], "hold"));
    bench.leads().await;
    process.signal(Signal::SIGSTOP);
    tokio::time::sleep(ms(3_000)).await;
    process.signal(Signal::SIGCONT);
    let resumed = Instant::now();
    assert_eq!(process.wait().code(), Some(OVERRUN), "{}", process.stderr());
    // An aborted task would have 750 ms otherwise.
    assert!(resumed.elapsed() < ms(500), "{:?}", resumed.elapsed());
    let log = process.stderr();
    assert!(
        !log.contains("has not stopped within the stop grace"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_was_frozen_past_its_term_leads_again_if_its_task_stops() {
    let bench = Bench::new().await;
    let mut process = Process::spawn(&mut bench.command(&[], "polite"));
    bench.leads().await;
    let (_, epoch) = bench.world.holder().await.unwrap();
    process.signal(Signal::SIGSTOP);
    bench.world.free().await;
    process.signal(Signal::SIGCONT);
    let next = bench.world.held_by("blocked").await;
    assert!(next > epoch && !process.has_ended(), "{}", process.stderr());
    let log = process.stderr();
    assert!(
        !log.contains("has not stopped within the stop grace"),
        "{log}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_waits_for_the_task_while_the_lease_is_renewed_and_a_second_signal_ends_it() {
    let test =
        "a_shutdown_waits_for_the_task_while_the_lease_is_renewed_and_a_second_signal_ends_it";
    for first_process in [false, true] {
        let bench = Bench::new().await;
        let launcher = if first_process {
            as_first_process(test)
        } else {
            Some(Vec::new())
        };
        let Some(launcher) = launcher else { return };
        let mut process = Process::spawn(&mut bench.command(&launcher, "closure"));
        bench.leads().await;
        let leader = descendants(process.pid()).into_iter().max().unwrap();
        let held = bench.world.holder().await;
        // Signals that arrive together are one request.
        for signal in [
            Signal::SIGSTOP,
            Signal::SIGINT,
            Signal::SIGTERM,
            Signal::SIGCONT,
        ] {
            nix::sys::signal::kill(leader, signal).unwrap();
        }
        let waits = wait_for("the line about the wait", || {
            let log = process.stderr();
            let line = log
                .lines()
                .find(|line| line.contains("the lease is renewed until"));
            line.map(str::to_owned)
        });
        assert!(waits.contains("spawn_blocking() at "), "{waits}");
        // Longer than the lease duration.
        tokio::time::sleep(ms(5_000)).await;
        assert_eq!(bench.world.holder().await, held);
        let log = process.stderr();
        let said = log.matches("still runs").count();
        assert_eq!((said, log.contains("others may lead")), (1, false), "{log}");

        nix::sys::signal::kill(leader, Signal::SIGTERM).unwrap();
        let status = process.wait();
        if first_process {
            assert_eq!(status.code(), Some(128 + Signal::SIGTERM as i32));
        } else {
            assert_eq!(status.signal(), Some(Signal::SIGTERM as i32));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_does_not_stop_has_an_operator_s_period_to_end_before_its_process_ends() {
    for part in ["closure", "hold"] {
        let bench = Bench::new().await;
        let mut command = bench.command(&[], part);
        // The hard stop is 3 s after the last renewal, and the overrun 250 ms later.
        let mut process = Process::spawn(command.env("TENURE_RENEW_DEADLINE", "2700ms"));
        bench.leads().await;
        let expiry = bench.world.earliest_expiry().await;
        bench.world.break_lease(None).await;
        let broken = Instant::now();
        assert_eq!(process.wait().code(), Some(OVERRUN), "{}", process.stderr());
        // The stop grace and the abort allowance take 550 ms.
        assert!(broken.elapsed() > ms(2_000), "{:?}", broken.elapsed());
        assert!(Instant::now() < expiry, "{:?} late", expiry.elapsed());
    }
}

/// The launcher of a program as the first process of a PID namespace, for which the kernel ignores
/// most signals that it sends to itself.
fn as_first_process(test: &str) -> Option<Vec<&'static str>> {
    let mut launcher = vec!["unshare"];
    if !Uid::effective().is_root() {
        launcher.extend(["--user", "--map-root-user"]);
    }
    launcher.extend(["--pid", "--fork", "--kill-child"]);
    can_run(test, "the program unshare", has_program("unshare")).then_some(launcher)
}
