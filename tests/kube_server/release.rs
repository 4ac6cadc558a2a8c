//! client-go 0.34 to 0.37 with `ReleaseOnCancel` decides on a release by an old copy of the object, so it
//! can empty the object that a candidate of tenure holds.

use std::time::Duration;

use tenure_tests::electors::Elector;
use tenure_tests::proxy::ProxyMode;
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
    let (proxy, place) = bench.proxy();
    let Some(mut go) = bench.start_at(Elector::ReleasingClientGo, "go", &place) else {
        return;
    };
    bench.wait_for_term("go", 0);
    let versions = bench.versions();
    let (looks, behind) = bench.proxy();
    let mut first = bench.start_at(Elector::Tenure, "first", &behind).unwrap();
    wait_for("looks at the object", || {
        (looks.carried().requests > 5).then_some(())
    });
    proxy.set(ProxyMode::Hang);
    bench.wait_for_term("first", 0);
    let mut second = bench.run("second");
    Bench::wait_for_follower(&second);
    proxy.set(ProxyMode::Pass);
    let [before, emptied] = wait_for("the release of client-go", || {
        let versions = versions.all();
        let ours = versions.iter().position(|it| it.holder() == "first")?;
        let mut pairs = versions[ours..].array_windows();
        pairs.find(|[_, it]| it.holder().is_empty()).cloned()
    });
    assert!(!emptied.is_of_tenure(Some(&before)), "{}", emptied.object);
    assert!(!go.wait().success(), "its term was lost");
    // The leader writes the object back, and its term goes on.
    wait_for("our leader in the object", || {
        bench.assert_one_of_ours_at_a_time();
        (versions.holder() == "first").then_some(())
    });
    bench.wait_for_renewal();
    assert!(bench.terms().iter().all(|it| it.candidate != "second"));
    assert_eq!(terminate(&mut first), ["shut_down"]);
    bench.wait_for_term("second", 0);
    assert_eq!(terminate(&mut second), ["shut_down"]);
    // client-go itself acts until its release has ended.
    bench.assert_one_of_ours_at_a_time();
    assert!(emptied.mark().starts_with("running/"), "{}", emptied.mark());
}
