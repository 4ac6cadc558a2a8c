//! The metrics of a member of a group.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;

use tenure_tests::group::{Group, MEMBERS};
use tenure_tests::promtool::check_metrics;
use tenure_tests::wait_for;

use crate::{Web, status_address};

#[test]
fn a_member_shows_its_quorum_its_suspects_and_its_messages() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("command");
    fs::write(&script, "#!/bin/sh\nexec sleep 1000\n").expect("a script");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("a script");
    let mut group = Group::new(script.to_str().expect("a path of text"));
    group.set("TENURE_STATUS_LISTEN", "127.0.0.1:0");
    // The command ignores SIGTERM. If it ends late on a busy machine, the member must not end.
    group.set("TENURE_ON_OVERRUN", "report");
    group.start_all();
    let web = Web::new();
    let status: BTreeMap<_, _> = MEMBERS
        .map(|member| (member, status_address(group.member(member))))
        .into();
    let leader = wait_for("a leader", || {
        let leads = |member: &u32| web.metrics(status[member]).get("candidate_leads") == 1.0;
        MEMBERS.into_iter().find(leads)
    });
    for address in status.values() {
        web.wait_for_sample(*address, "peer_quorum", |quorum| quorum == 1.0);
        web.wait_for_sample(*address, "peer_suspects", |suspects| suspects == 0.0);
        let received = "peer_messages_total{direction=\"received\",result=\"ok\"}";
        web.wait_for_sample(*address, received, |count| count > 0.0);
    }
    let renewals = "candidate_renewals_total{result=\"ok\"}";
    web.wait_for_sample(status[&leader], renewals, |count| count >= 2.0);
    let metrics = web.metrics(status[&leader]);
    let durations = metrics.get("candidate_renewal_duration_seconds_count");
    assert_eq!(durations, metrics.get(renewals));
    let label = "tenure_peer_quorum{cluster=\"job\"} 1\n";
    assert!(metrics.text.contains(label), "{}", metrics.text);
    check_metrics(
        "a_member_shows_its_quorum_its_suspects_and_its_messages",
        &metrics.text,
    );

    // Two of five remain: the leader can't renew, and no member reaches a majority.
    let (others, gone): (Vec<u32>, Vec<u32>) = {
        let others: Vec<u32> = MEMBERS
            .into_iter()
            .filter(|member| *member != leader)
            .collect();
        (others[..1].to_vec(), others[1..].to_vec())
    };
    group.kill(&gone);
    let address = status[&leader];
    let no_answer = "candidate_renewals_total{result=\"no_answer\"}";
    web.wait_for_sample(address, no_answer, |count| count >= 1.0);
    let ended = "candidate_terms_total{end=\"renew_deadline\"}";
    web.wait_for_sample(address, ended, |count| count == 1.0);
    for member in [leader, others[0]] {
        web.wait_for_sample(status[&member], "peer_quorum", |quorum| quorum == 0.0);
    }
    let failed = "peer_messages_total{direction=\"sent\",result=\"no_answer\"}";
    web.wait_for_sample(address, failed, |count| count > 0.0);
}
