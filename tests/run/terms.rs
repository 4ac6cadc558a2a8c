//! Terms: one command at a time, across handovers.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tenure_tests::process::{Process, run};
use tenure_tests::wait_for;

use super::{BEAT, Bench, ELECTION, STUBBORN_BEAT, candidate, processes_of, wait_until_gone};

#[test]
fn only_one_command_runs_at_a_time_over_many_hand_overs() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let mut runs = [
        bench.script(&first, &[], BEAT),
        bench.script(&second, &[], BEAT),
    ];
    let mut epoch = 0;
    for _ in 0..4 {
        epoch = bench.next_epoch(epoch);
        let holder = bench.status()["holder"].clone();
        let leader = usize::from(holder == *second);
        runs[leader].signal(Signal::SIGTERM);
        assert!(runs[leader].wait().success());
        runs[leader] = bench.script([&first, &second][leader], &[], BEAT);
    }
    bench.next_epoch(epoch);
    bench.assert_one_at_a_time();
}

#[test]
fn many_runs_lead_one_after_the_other() {
    let bench = Bench::new();
    let script =
        r#"echo "begin $TENURE_EPOCH" >> "$0"; sleep 0.05; echo "end $TENURE_EPOCH" >> "$0""#;
    let mut runs: Vec<Process> = (0..8)
        .map(|_| bench.script(&candidate("turn"), &["--once"], script))
        .collect();
    for run in &mut runs {
        assert!(run.wait().success(), "{}", run.stderr());
    }
    let journal = bench.journal();
    assert_eq!(journal.len(), 16);
    for turn in journal.chunks(2) {
        let begun = turn[0].strip_prefix("begin ").unwrap();
        assert_eq!(turn[1], format!("end {begun}"), "{journal:?}");
    }
}

#[test]
fn a_command_that_ends_runs_again_after_a_pause_whatever_its_exit_code() {
    for end in ["exit 0", "exit 1", "kill -9 $$"] {
        let bench = Bench::new();
        let script = format!(r#"echo "$TENURE_EPOCH $(date +%s%N)" >> "$0"; {end}"#);
        let mut run = bench.script(&candidate("again"), &[], &script);
        let journal = wait_for("three terms", || {
            Some(bench.journal()).filter(|journal| journal.len() >= 3)
        });
        run.signal(Signal::SIGTERM);
        assert_eq!(run.wait().code(), Some(0), "{end}");
        let terms: Vec<(u64, u64)> = journal
            .iter()
            .map(|line| {
                let (epoch, at) = line.split_once(' ').unwrap();
                (epoch.parse().unwrap(), at.parse().unwrap())
            })
            .collect();
        for pair in terms.windows(2) {
            assert!(pair[0].0 < pair[1].0, "{end}: {terms:?}");
            // The cool-down of the tests.
            let pause = pair[1].1.saturating_sub(pair[0].1);
            assert!(pause >= 290_000_000, "{end}: {terms:?}");
        }
    }
}

#[test]
fn the_lease_is_released_only_after_the_command_has_ended() {
    let bench = Bench::new();
    let script = r#"
        trap 'sleep 0.2; echo "end $TENURE_EPOCH" >> "$0"; exit 0' TERM
        echo "begin $TENURE_EPOCH" >> "$0"
        while :; do sleep 0.01; done"#;
    let begun = |count| {
        wait_for("the command", || {
            (bench.journal().len() >= count).then_some(())
        });
    };
    // Waiting for the end of this lease would take far longer than the limit.
    let mut first = bench.script(&candidate("first"), &["--lease-duration", "20s"], script);
    begun(1);
    let _second = bench.script(&candidate("second"), &[], script);
    bench.wait_for_waiters(1);
    first.signal(Signal::SIGTERM);
    begun(2);
    let ended = Instant::now();
    begun(3);
    let gap = ended.elapsed();
    eprintln!("the next command began {gap:?} after the end of the first");
    assert!(gap.as_secs() < 2, "{gap:?}: the lease was not released");
    let journal = bench.journal();
    let epoch = journal[0].strip_prefix("begin ").unwrap();
    assert_eq!(journal[1], format!("end {epoch}"), "{journal:?}");
    assert!(journal[2].starts_with("begin"), "{journal:?}");
    assert!(first.wait().success());
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_stop_grace() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    // This is long enough to notice the end of the killed processes on a busy machine.
    let timings = ["--lease-duration", "4s", "--stop-grace", "1s"];
    let mut leader = bench.script(&first, &timings, STUBBORN_BEAT);
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    bench.wait_for_waiters(1);
    let begin = Instant::now();
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.wait().code(), Some(0), "{}", leader.stderr());
    let took = begin.elapsed();
    assert!(
        took.as_millis() >= 900,
        "{took:?}: the command had its stop grace"
    );
    assert!(
        took.as_millis() < 4_000,
        "{took:?}: the command was killed in time"
    );
    bench.next_epoch(epoch);
    assert!(processes_of(&first).is_empty());
    bench.assert_one_at_a_time();
}

#[test]
fn a_command_stops_before_the_break_period_is_over() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    let _leader = bench.script(&first, &[], STUBBORN_BEAT);
    let epoch = bench.next_epoch(0);
    let url = bench.store.url();
    let begin = Instant::now();
    let broken = run(&["break", ELECTION, "--json", "--server", &url]);
    let view: serde_json::Value = serde_json::from_slice(&broken.stdout).unwrap();
    assert_eq!(view["state"], "breaking");
    let period = Duration::from_millis(view["remaining_ms"].as_u64().unwrap());
    let _follower = bench.script(&second, &[], BEAT);
    wait_until_gone(&first);
    let took = begin.elapsed();
    assert!(took < period, "{took:?} of {period:?}");
    bench.next_epoch(epoch);
    bench.assert_one_at_a_time();
}

#[test]
fn after_a_break_of_a_long_lease_the_next_grant_comes_after_the_command_has_stopped() {
    let bench = Bench::new();
    let (first, second) = (candidate("first"), candidate("second"));
    // The leader notices the break 12 to 16 s later, and has a second left then.
    let timings = ["--lease-duration", "24s", "--stop-grace", "1s"];
    let journal = bench.journal_path();
    let program = ["sh", "-c", STUBBORN_BEAT, journal.to_str().unwrap()];
    let mut leader = bench.command(&first, &timings, &program);
    let _leader = Process::spawn(leader.env("TENURE_RENEW_INTERVAL", "14s"));
    let epoch = bench.next_epoch(0);
    let _follower = bench.script(&second, &[], BEAT);
    bench.wait_for_waiters(1);
    let broken = run(&["break", ELECTION, "--server", &bench.store.url()]);
    assert!(broken.status.success(), "{broken:?}");
    bench.next_epoch(epoch);
    assert!(processes_of(&first).is_empty());
    bench.assert_one_at_a_time();
}
