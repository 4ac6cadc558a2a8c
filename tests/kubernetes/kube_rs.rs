//! Candidates by electors around kube on the same object, as published: `kubert`, which judges others
//! by its wall clock, and `kube-coordinate`, which has the rules of client-go. `.ci/kube` builds them
//! and runs these tests.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::Value;
use tenure_tests::needs::{can_run, preload};
use tenure_tests::process::Process;
use tenure_tests::receiver::overlap;

use super::api::{Asked, Fate};
use super::{Bench, DURATION, LEASE, NAMESPACE, holder};

/// Starts a candidate of the program in `kube-rs`.
struct Electors<'a> {
    bench: &'a Bench,
    program: String,
}

impl<'a> Electors<'a> {
    /// `None` if the test cannot run.
    fn find(test: &str, bench: &'a Bench) -> Option<Self> {
        let program = std::env::var("TENURE_KUBERNETES_KUBE").ok();
        let needs = "the program of tests/kubernetes/kube-rs, which TENURE_KUBERNETES_KUBE names";
        can_run(test, needs, program.is_some()).then(|| Self {
            bench,
            program: program.unwrap_or_default(),
        })
    }

    /// Starts a candidate. Its token is its id.
    fn start(&self, elector: &str, id: &str, duration: Duration) -> Process {
        Process::spawn(&mut self.command(elector, id, duration))
    }

    fn command(&self, elector: &str, id: &str, duration: Duration) -> Command {
        let mut command = Command::new(&self.program);
        command
            .args([elector, &self.bench.api.url()])
            .arg(self.bench.receiver.address().to_string())
            .args([NAMESPACE, LEASE, id, &duration.as_secs().to_string()]);
        command
    }
}

impl Bench {
    /// Waits for the first request of this candidate.
    fn wait_for_first_request(&self, id: &str) {
        tenure_tests::wait_for("a request", || {
            self.api
                .asked()
                .iter()
                .any(|it| it.user == id)
                .then_some(())
        });
    }

    /// The writes of this candidate that were acknowledged.
    fn writes_of(&self, id: &str) -> Vec<Asked> {
        let asked = self.api.asked().into_iter();
        let written = asked.filter(|it| it.user == id && it.method != "GET" && it.status < 300);
        written.collect()
    }

    /// Checks that the object counts each change of its holder.
    fn assert_transitions(&self) {
        let mut last = String::new();
        let mut changes = -1;
        for event in self.api.events() {
            let holder = holder(&event.object);
            if !holder.is_empty() && holder != last {
                changes += 1;
                last = holder.into();
            }
        }
        let lease = self.api.lease().unwrap();
        assert_eq!(lease["spec"]["leaseTransitions"], changes, "{lease}");
    }
}

fn version(asked: &Asked) -> &Value {
    &asked.object["metadata"]["resourceVersion"]
}

#[test]
#[ignore = "its electors take minutes to compile: .ci/kube"]
fn kubert_and_our_candidates_never_lead_at_once() {
    let bench = Bench::new();
    let test = "kubert_and_our_candidates_never_lead_at_once";
    let Some(electors) = Electors::find(test, &bench) else {
        return;
    };
    let first = bench.candidate("first");
    let mut epoch = bench.receiver.next_leader(0).epoch;
    let kubert = electors.start("kubert", "kubert", DURATION);
    bench.wait_for_first_request("kubert");
    bench.wait_for_renewal();
    // The leader freezes, and later finds its term over.
    first.signal(Signal::SIGSTOP);
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "kubert", "{}", kubert.stderr());
    first.signal(Signal::SIGCONT);
    // kubert leads over several renewals, freezes, and finds its claim over.
    bench.wait_for_follower("first");
    std::thread::sleep(DURATION);
    bench.wait_for_renewal();
    kubert.signal(Signal::SIGSTOP);
    let frozen = bench.receiver.last_of("kubert", next.epoch);
    epoch = bench.receiver.next_leader(next.epoch).epoch;
    assert_eq!(holder(&bench.api.lease().unwrap()), "first");
    kubert.signal(Signal::SIGCONT);
    bench.wait_for_renewal();
    let ours = bench.receiver.last_of("first", epoch);
    assert!(ours.before - frozen.before > DURATION / 2);
    // A release of ours is taken, and a release of kubert's, which removes fields of the object.
    first.signal(Signal::SIGTERM);
    epoch = bench.receiver.next_leader(epoch).epoch;
    assert_eq!(holder(&bench.api.lease().unwrap()), "kubert");
    let second = bench.candidate("second");
    bench.wait_for_follower("second");
    kubert.signal(Signal::SIGTERM);
    let next = bench.receiver.next_leader(epoch);
    assert_eq!(next.candidate, "second");
    // A crash of ours.
    let other = electors.start("kubert", "other", DURATION);
    bench.wait_for_first_request("other");
    second.signal(Signal::SIGKILL);
    let next = bench.receiver.next_leader(next.epoch);
    assert_eq!(next.candidate, "other", "{}", other.stderr());
    bench.verify();
    bench.assert_transitions();
    let mut writes = bench.writes_of("kubert").into_iter();
    assert!(writes.all(|write| version(&write).is_string()));
}

#[test]
#[ignore = "its electors take minutes to compile: .ci/kube"]
fn kube_coordinate_and_our_candidates_take_over_from_dead_leaders() {
    let bench = Bench::new();
    let test = "kube_coordinate_and_our_candidates_take_over_from_dead_leaders";
    let Some(electors) = Electors::find(test, &bench) else {
        return;
    };
    let ours = ["first", "second"].map(|id| bench.candidate(id));
    let mut epoch = bench.receiver.next_leader(0).epoch;
    for turn in ["one", "two"] {
        let other = electors.start("kube-coordinate", turn, DURATION);
        bench.wait_for_first_request(turn);
        bench.wait_for_renewal();
        for process in &ours {
            process.signal(Signal::SIGSTOP);
        }
        let next = bench.receiver.next_leader(epoch);
        assert_eq!(next.candidate, turn, "{}", other.stderr());
        for process in &ours {
            process.signal(Signal::SIGCONT);
        }
        // It leads over several renewals, and dies.
        std::thread::sleep(DURATION);
        bench.wait_for_renewal();
        other.signal(Signal::SIGKILL);
        let last = bench.receiver.next_leader(next.epoch);
        epoch = last.epoch;
        let end = bench.receiver.last_of(turn, next.epoch).at;
        assert!(last.at - end > DURATION / 2, "{:?}", last.at - end);
        let mut writes = bench.writes_of(turn).into_iter();
        assert!(writes.all(|write| version(&write).is_string()));
    }
    bench.verify();
    bench.assert_transitions();
}

/// The documentation says so: the clocks of all machines must agree.
#[test]
#[ignore = "its electors take minutes to compile: .ci/kube"]
fn kubert_with_a_clock_that_is_ahead_takes_the_object_from_a_leader() {
    let bench = Bench::new();
    let test = "kubert_with_a_clock_that_is_ahead_takes_the_object_from_a_leader";
    let Some(electors) = Electors::find(test, &bench) else {
        return;
    };
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/support/wall.c");
    let program = Path::new(&electors.program);
    let Some(library) = preload(test, source, bench.folder.path(), program) else {
        return;
    };
    let ahead = bench.folder.path().join("ahead");
    std::fs::write(&ahead, "60").unwrap();
    let _first = bench.candidate("first");
    let ours = bench.receiver.next_leader(0);
    let mut command = electors.command("kubert", "ahead", DURATION);
    command
        .env("LD_PRELOAD", library)
        .env("WALL_CLOCK_AHEAD", ahead);
    let other = Process::spawn(&mut command);
    let next = bench.receiver.next_leader(ours.epoch);
    assert_eq!(next.candidate, "ahead", "{}", other.stderr());
    let ended = bench.receiver.note("first", "ended");
    assert!(overlap(&bench.receiver.acts()).is_some());
    assert!(
        ended.at - next.at < DURATION,
        "it ends with its next renewal"
    );
}

/// `kube-coordinate` is not safe if a leader releases the object: it forgets the version of a free
/// object, and its next write replaces whatever is there. The documentation says so; this fails with
/// a version of the crate that is mended.
#[test]
#[ignore = "its electors take minutes to compile: .ci/kube"]
fn kube_coordinate_replaces_the_next_holder_after_a_release() {
    /// Long enough for the second of ours to take the object before the other one gives up.
    const DURATION: Duration = Duration::from_secs(12);
    let bench = Bench::new();
    let test = "kube_coordinate_replaces_the_next_holder_after_a_release";
    let Some(electors) = Electors::find(test, &bench) else {
        return;
    };
    let start = |id| {
        let url = bench.api.url();
        Process::spawn(&mut bench.candidate_command(id, &url, DURATION))
    };
    let first = start("first");
    let epoch = bench.receiver.next_leader(0).epoch;
    let _second = start("second");
    let _other = electors.start("kube-coordinate", "other", DURATION);
    bench.wait_for_first_request("other");
    bench.wait_for_follower("second");
    // The request of the other one is on its way while the second of ours takes the object.
    bench.api.set_rule(|asked| {
        if asked.user == "other" && asked.method == "PATCH" {
            return Fate::Held;
        }
        Fate::Passes
    });
    first.signal(Signal::SIGTERM);
    let ours = bench.receiver.next_leader(epoch);
    assert_eq!(ours.candidate, "second");
    bench.api.let_held_pass();
    let next = bench.receiver.next_leader(ours.epoch);
    assert_eq!(next.candidate, "other");
    let ended = bench.receiver.note("second", "ended");
    let writes = bench.writes_of("other");
    assert!(version(&writes[0]).is_null(), "{writes:?}");
    assert!(overlap(&bench.receiver.acts()).is_some());
    assert!(
        ended.at - next.at < DURATION,
        "it ends with its next renewal"
    );
}
