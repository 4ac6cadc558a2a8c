//! What an operator sees before, during and after an outage of the store.

use serde_json::Value;
use tenure_tests::group::{Group, LEASE, Leader};
use tenure_tests::process::{json_of, output, stdout};
use tenure_tests::wait_for;

use super::{group, settled, shown_again_after};

/// Returns the kind of quorum that carries the term of this leader, as `tenure peers` shows it.
fn carried_by(group: &Group, leader: Leader) -> Option<Value> {
    let shown = json_of(&output(&mut group.tool(&["peers", "--json"])));
    let mut members = shown["members"].as_array()?.iter();
    let of_leader = members.find(|it| it["node"] == leader.member)?;
    Some(of_leader["view"]["carried_by"]["kind"].clone())
}

#[test]
fn an_operator_sees_which_voters_carry_the_term_and_one_line_for_each_change() {
    let mut group = group(2);
    group.start_all();
    let leader = settled(&group, 0);
    let epoch = leader.epoch.to_string();
    let is_carried = |group: &Group, kind: &str| {
        wait_for(&format!("a term that is carried by {kind}"), || {
            (carried_by(group, leader)? == kind).then_some(())
        });
    };
    is_carried(&group, "store");
    let status = output(&mut group.tool(&["status", "tests/job"]));
    assert!(status.status.success() && stdout(&status).contains(&epoch));

    group.kill_store();
    is_carried(&group, "members");
    group.let_pass(2 * LEASE);
    let status = output(&mut group.tool(&["status", "tests/job"]));
    assert!(status.status.success(), "{status:?}");
    let shown = stdout(&status);
    assert!(shown.contains("can't reach the store"), "{shown}");
    assert!(
        shown.contains(&epoch) && shown.contains("members; "),
        "{shown}"
    );
    let doctor = output(&mut group.tool(&["doctor"]));
    assert_eq!(doctor.status.code(), Some(69), "{doctor:?}");
    assert!(stdout(&doctor).contains("answers, store "), "{doctor:?}");

    group.start_store();
    let _ = shown_again_after(&group, leader);
    is_carried(&group, "store");
    let lines = || group.member(leader.member).stderr();
    let returned = "the store carries the term again";
    wait_for("the line about the store's return", || {
        lines().contains(returned).then_some(())
    });
    for line in ["the store is not heard; the members", returned] {
        let lines = lines();
        assert_eq!(lines.matches(line).count(), 1, "{line}: {lines}");
    }
    let history = stdout(&output(&mut group.tool(&[
        "history",
        "tests/job",
        "--json",
    ])));
    assert!(history.contains("without_store"), "{history}");
    assert_eq!(group.leaders(), [leader]);
}
