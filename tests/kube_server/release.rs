//! client-go 0.34 to 0.37 with `ReleaseOnCancel` decides on a release by an old copy of the object, so it
//! can empty the object that a candidate of tenure holds.

use std::time::Duration;

use tenure_tests::electors::{Elector, Place};
use tenure_tests::proxy::{Proxy, ProxyMode};
use tenure_tests::wait_for;

use super::{Bench, terminate};

#[test]
fn a_client_go_that_releases_too_late_empties_our_object_and_no_second_candidate_leads() {
    /// client-go waits for two thirds of this time for the read before its release. So it waits after
    /// the candidate of tenure has become the leader.
    const DURATION: Duration = Duration::from_secs(12);
    let test =
        "a_client_go_that_releases_too_late_empties_our_object_and_no_second_candidate_leads";
    let Some(bench) = Bench::new(test, DURATION).map(Bench::with_rights) else {
        return;
    };
    let runtime = bench.server.runtime();
    let proxy = runtime
        .block_on(Proxy::start(bench.server.address()))
        .unwrap();
    let place = Place {
        url: format!("https://{}", proxy.address()),
        ..bench.place.clone()
    };
    let Some(mut go) = bench.start_at(Elector::ReleasingClientGo, "go", &place) else {
        return;
    };
    bench.wait_for_term("go", 0);
    let versions = bench.versions();
    let mut first = bench.run("first");
    Bench::wait_for_follower(&first);
    proxy.set(ProxyMode::Hang);
    bench.wait_for_term("first", 0);
    let mut second = bench.run("second");
    Bench::wait_for_follower(&second);
    proxy.set(ProxyMode::Pass);
    let emptied = wait_for("the release of client-go", || {
        let versions = versions.all();
        let ours = versions.iter().position(|it| it.holder() == "first")?;
        versions[ours..]
            .iter()
            .find(|it| it.holder().is_empty())
            .cloned()
    });
    assert_eq!(emptied.writer(), "client-go");
    assert!(emptied.mark().starts_with("running/"), "{}", emptied.mark());
    assert!(!go.wait().success(), "its term was lost");
    // The leader writes the object back, and its term goes on.
    wait_for("our leader in the object", || {
        (versions.holder() == "first").then_some(())
    });
    bench.wait_for_renewal();
    assert!(bench.terms().iter().all(|it| it.candidate != "second"));
    assert_eq!(terminate(&mut first), ["shut_down"]);
    bench.wait_for_term("second", 0);
    assert_eq!(terminate(&mut second), ["shut_down"]);
    bench.assert_one_at_a_time();
}
