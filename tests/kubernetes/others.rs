//! Candidates of other programs on the same object.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_tests::needs::kubernetes_python;
use tenure_tests::process::Process;
use tenure_tests::wait_for;
use tokio::sync::watch;

use super::api::Fate;
use super::client_go::ClientGo;
use super::{Bench, DURATION, LEASE, NAMESPACE, assert_epochs_increase, holder};

const CLIENT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/kubernetes/client.py");

#[test]
fn a_candidate_with_the_rules_of_client_go_and_ours_never_lead_at_once() {
    let bench = Bench::new();
    let (stop, stopped) = watch::channel(false);
    let ours = ["first", "second"].map(|id| bench.candidate(id));
    let mut epoch = bench.receiver.next_leader(0).epoch;
    for turn in 0..3 {
        let go = ClientGo::new(bench.api.address(), &format!("go-{turn}"), DURATION);
        let receiver = bench.receiver.address();
        let time = Duration::from_millis(1_200);
        let led = bench
            .runtime
            .spawn(go.lead_once(receiver, time, stopped.clone()));
        // Both candidates of ours stand still, so the other one takes the object when it has
        // expired.
        for process in &ours {
            process.signal(Signal::SIGSTOP);
        }
        let next = bench.receiver.next_leader(epoch);
        assert_eq!(next.candidate, format!("go-{turn}"));
        assert_eq!(holder(&bench.api.lease().unwrap()), next.candidate);
        for process in &ours {
            process.signal(Signal::SIGCONT);
        }
        bench.runtime.block_on(led).unwrap();
        // It has released the object, so one of ours takes it without waiting.
        epoch = bench.receiver.next_leader(next.epoch).epoch;
    }
    stop.send_replace(true);
    bench.verify();
    // Each turn has two changes, and more if a busy machine delays a leader.
    let events = bench.api.events();
    let holders = events.iter().map(|event| holder(&event.object));
    let holders: Vec<_> = holders.collect();
    let changes = holders
        .windows(2)
        .filter(|it| it[0] != it[1] && !it[1].is_empty());
    let changes = changes.count();
    assert!(changes >= 6, "{holders:?}");
    let transitions = &bench.api.lease().unwrap()["spec"]["leaseTransitions"];
    assert_eq!(
        *transitions, changes,
        "every program counts each change of the holder"
    );
}

#[test]
fn a_candidate_with_the_rules_of_client_go_takes_a_released_object_at_once() {
    /// Without the release, the object would be taken after more than half of this time.
    const DURATION: Duration = Duration::from_secs(20);
    let bench = Bench::new();
    let url = bench.api.url();
    let mut first = Process::spawn(&mut bench.candidate_command("first", &url, DURATION));
    let epoch = bench.receiver.next_leader(0).epoch;
    let (_stop, stopped) = watch::channel(false);
    let go = ClientGo::new(bench.api.address(), "go", DURATION);
    let receiver = bench.receiver.address();
    let led = bench
        .runtime
        .spawn(go.lead_once(receiver, Duration::from_millis(500), stopped));
    // It has seen the record of the leader before the release.
    bench.wait_for_follower("");
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success());
    let ended = bench.receiver.note("first", "ended");
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "go");
    let took = next.at - ended.at;
    assert!(took < DURATION / 2, "{took:?}");
    bench.runtime.block_on(led).unwrap();
    bench.verify();
}

#[test]
fn a_candidate_with_the_rules_of_client_go_that_empties_our_object_makes_no_second_leader() {
    /// The other program waits for two thirds of this time for the read before its release.
    const DURATION: Duration = Duration::from_secs(9);
    let bench = Bench::new();
    let go = ClientGo::new(bench.api.address(), "go", DURATION);
    let (_stop, stopped) = watch::channel(false);
    let receiver = bench.receiver.address();
    let led = go.lead_once(receiver, 10 * DURATION, stopped);
    let led = bench.runtime.spawn(led);
    assert_eq!(bench.receiver.next_leader(0).candidate, "go");
    // It is cut off: its renewals are lost, and the read before its release is late.
    bench.api.set_rule(|asked| match asked.user.as_str() {
        "" => Fate::Held,
        _ => Fate::Passes,
    });
    let mut first = bench.run("first", DURATION);
    bench.wait_for_follower("first");
    wait_for("our leader", || {
        bench.log().contains(" first ").then_some(())
    });
    let _second = bench.run("second", DURATION);
    bench.wait_for_follower("second");
    let term = |lease: &Value| {
        let term = lease["metadata"]["annotations"]["tenure/term"].as_str();
        term.unwrap_or_default().to_owned()
    };
    let before = term(&bench.api.lease().unwrap());
    bench.api.set_rule(|_| Fate::Passes);
    bench.api.let_held_pass();
    bench.runtime.block_on(led).unwrap();
    let emptied = bench
        .api
        .events()
        .into_iter()
        .rfind(|it| holder(&it.object).is_empty());
    assert_eq!(
        term(&emptied.unwrap().object),
        before,
        "it empties the object of our leader"
    );
    // The leader writes the object back, and renews its term as usual.
    wait_for("our leader in the object", || {
        (holder(&bench.api.lease().unwrap()) == "first").then_some(())
    });
    bench.wait_for_renewal();
    assert!(!bench.log().contains(" second "), "{}", bench.log());
    first.signal(Signal::SIGTERM);
    assert!(first.wait().success());
    wait_for("our next leader", || {
        bench.log().contains(" second ").then_some(())
    });
    assert_epochs_increase(&bench.api);
}

#[test]
fn the_python_client_of_kubernetes_and_our_candidates_never_lead_at_once() {
    /// The client of Python judges others by its own duration, so all have the same one.
    const DURATION: Duration = Duration::from_secs(8);
    let name = "the_python_client_of_kubernetes_and_our_candidates_never_lead_at_once";
    let Some(python) = kubernetes_python(name) else {
        return;
    };
    let bench = Bench::new();
    let start = |id| {
        let url = bench.api.url();
        Process::spawn(&mut bench.candidate_command(id, &url, DURATION))
    };
    let first = start("first");
    let ours = bench.receiver.next_leader(0).epoch;
    let other = Process::spawn(
        Command::new(&python)
            .arg(CLIENT)
            .args([bench.api.url(), bench.receiver.address().to_string()])
            .args([NAMESPACE, LEASE, "python"]),
    );
    bench.wait_for_follower("");
    bench.wait_for_renewal();
    // The leader dies, and the other program waits for its lease to expire.
    first.signal(Signal::SIGKILL);
    let python = bench.receiver.next_leader(ours);
    assert_eq!(python.candidate, "python", "{}", other.stderr());
    assert!(python.at - bench.receiver.last_of("first", ours).at > DURATION / 2);
    // The other program leads over several renewals, and dies.
    let second = start("second");
    std::thread::sleep(DURATION);
    bench.wait_for_renewal();
    other.signal(Signal::SIGKILL);
    let next = bench.receiver.next_leader(python.epoch);
    assert_eq!(next.candidate, "second");
    let last = bench.receiver.last_of("python", python.epoch).at;
    assert!(next.at - last > DURATION / 2, "{:?}", next.at - last);
    drop(second);
    bench.verify();
}
