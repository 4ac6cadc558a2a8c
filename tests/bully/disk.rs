//! Members that cannot write their promises to disk.

use std::fs;

use tenure_tests::group::{A_WHILE, Group, MEMBERS};
use tenure_tests::needs::SmallDisk;
use tenure_tests::wait_for;

use super::group;

#[test]
fn members_on_a_full_disk_make_no_promises_until_there_is_space() {
    let test = "members_on_a_full_disk_make_no_promises_until_there_is_space";
    let Some(disk) = SmallDisk::mount(test, 256) else {
        return;
    };
    let mut group = group();
    // Only the leader and one more member can write: no majority.
    let full = [3, 4, 5];
    for member in full {
        let state = disk.path().join(format!("state-{member}"));
        group.set_for(member, "TENURE_BULLY_STATE_DIR", state);
    }
    let leader = group.start_all_under(1);
    let records =
        || full.map(|member| fs::read(disk.path().join(format!("state-{member}/record"))).unwrap());
    let ballast = disk.fill();
    let before = records();
    // Their current promises are on disk, so they keep them.
    group.let_pass(A_WHILE);
    assert_eq!(group.last_leader(), leader);

    group.kill(&[1]);
    group.let_pass(A_WHILE);
    assert_eq!(group.last_leader(), leader, "a promise is not on disk");
    wait_for("a member that can't write", || {
        let stuck = |&&member: &&u32| {
            let stderr = group.member(member).stderr();
            stderr.contains("can't write the state of this member")
        };
        full.iter().find(stuck)
    });
    assert_eq!(records(), before, "earlier promises are unchanged");

    fs::remove_file(ballast).unwrap();
    let next = group.settled(leader.epoch, &Group::all_but(&[1]));
    assert_ne!(next.member, 1);
    group.start(1);
    group.wait_until_follows(1, next.member);
    // The state can be read again.
    group.kill(&MEMBERS);
    group.start_all();
    let _ = group.settled(next.epoch, &MEMBERS);
    group.receiver().assert_one_at_a_time();
}
