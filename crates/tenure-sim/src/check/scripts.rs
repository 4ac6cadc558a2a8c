//! The fault scripts. Each script violates an invariant with its mutation, and none without it.
//!
//! In most scripts the lease lasts 6 s and a message lives 500 ms. So a silent member is suspected
//! after a little more than 1.2 s, and counts as down if it does not answer a question within 1.25
//! s after that.

use super::script::{FaultScript, ScriptBuilder, ms, node};
use crate::sim::{Fault, Target, TaskStop};

/// Peers without a quorum. The best member leads at first.
const PEERS: FaultScript = FaultScript {
    name: "",
    contestant: "bully-no-quorum",
    nodes: 3,
    starts_later: &[],
    severe: false,
    steady: false,
    task: TaskStop::Takes(ms(100)),
    lifetime: None,
    faults_end: ms(40_000),
    script: |_| {},
};

const QUORUM: FaultScript = FaultScript {
    contestant: "bully",
    ..PEERS
};

/// The latency of a slow message that arrives just in time.
const SLOW: u64 = 450;

pub(super) const ALL: &[FaultScript] = &[
    // The candidates change from a lease to both, then to peers, and back, one candidate after the
    // other. The clock of the store is an hour ahead.
    FaultScript {
        name: "change-of-strategy",
        contestant: "both",
        starts_later: &[1, 2, 3],
        task: TaskStop::Any,
        faults_end: ms(215_000),
        script: |it| {
            it.at(0, Fault::WallClock(Target::Store, 3_600_000));
            for host in [1, 2, 3] {
                it.at(0, Fault::Algorithm(node(host), "lease".into()));
                it.start(100, host);
            }
            let first = it.between(0, 3) as u32;
            let mut at = 10_000;
            for algorithm in ["both", "bully", "both", "lease"] {
                for host in [0, 1, 2].map(|it| 1 + (first + it) % 3) {
                    let change = at + it.between(0, 3_000);
                    it.at(change, Fault::Algorithm(node(host), algorithm.into()));
                    if it.between(0, 3) == 0 {
                        it.power_cut(change, host, Some(change + 1_000));
                    } else {
                        it.at(change, Fault::Leave(node(host), Some(ms(8_000))));
                    }
                    at += 15_000;
                }
            }
            // All stop. When they start again by both, no holder tells them the last epoch.
            for host in [1, 2, 3] {
                it.at(at, Fault::Algorithm(node(host), "both".into()));
                it.at(at, Fault::Leave(node(host), Some(ms(8_000))));
            }
        },
        ..PEERS
    },
    // A voter with a slow disk is killed while its vote is being written.
    FaultScript {
        name: "vote-before-disk",
        script: |it| {
            it.cut(1, 2);
            it.at(0, Fault::SlowDisk(node(3), ms(8_000)));
            let at = it.between(3_000, 5_000);
            it.power_cut(at, 3, Some(at + 50));
            it.at(20_000, Fault::SlowDisk(node(3), ms(0)));
        },
        ..QUORUM
    },
    // The voters of the leader restart, and then another candidate asks them for votes.
    FaultScript {
        name: "voters-restart",
        nodes: 5,
        script: |it| {
            it.cut(1, 2);
            let at = it.between(10_000, 12_000);
            for who in [3, 4, 5] {
                it.power_cut(at, who, Some(at + 20));
            }
        },
        ..QUORUM
    },
    // One member votes for a leader long before the last vote arrives, and then the leader is cut
    // off.
    FaultScript {
        name: "late-votes",
        nodes: 5,
        starts_later: &[1, 5],
        task: TaskStop::Slowest,
        script: |it| {
            it.cut(2, 1);
            it.cut(2, 5);
            it.slow("Halt", 2, 4, SLOW);
            it.slow("Ack", 4, 2, SLOW);
            it.lose("Renew", 2, 3);
            it.lose("Renew", 2, 4);
            for who in [1, 5] {
                let at = it.between(4_000, 6_000);
                it.start(at, who);
            }
        },
        ..QUORUM
    },
    // One member answers a renewal long before the last answer arrives, and then the leader is cut
    // off.
    FaultScript {
        name: "late-renewals",
        nodes: 5,
        starts_later: &[1, 5],
        task: TaskStop::Slowest,
        lifetime: Some(ms(1_000)),
        script: |it| {
            it.cut(2, 1);
            it.cut(2, 5);
            it.slow("RenewAck", 4, 2, 2 * SLOW);
            for who in [1, 5] {
                let at = it.between(6_000, 9_000);
                it.start(at, who);
            }
            let at = it.between(12_000, 14_000);
            it.at(at, Fault::Part(vec![node(2)]));
        },
        ..QUORUM
    },
    // A leader resigns and is elected again before its release arrives.
    FaultScript {
        name: "late-release",
        starts_later: &[1],
        script: |it| {
            it.cut(1, 2);
            it.slow("Release", 2, 3, SLOW);
            it.start(10_000, 1);
            for resigns in [15_000, 20_000, 25_000] {
                let at = it.between(resigns, resigns + 2_000);
                it.at(at, Fault::Resign(node(2)));
            }
        },
        ..QUORUM
    },
    // The leader fails permanently, and then the best of the other members does.
    FaultScript {
        name: "last-one",
        script: |it| {
            it.power_cut(10_000, 1, None);
            let at = it.between(11_000, 15_000);
            it.power_cut(at, 2, None);
        },
        ..PEERS
    },
    // The best member restarts while another member organises. It reaches the worst member before
    // the other one does, and the other one fails again when it has won.
    FaultScript {
        name: "two-organisers",
        script: |it| {
            two_organisers(it);
        },
        ..PEERS
    },
    // The same, and the worst member also restarts after it has accepted the best one.
    FaultScript {
        name: "short-memory",
        script: |it| {
            let back = two_organisers(it);
            let at = back + it.between(20, 100);
            it.power_cut(at, 3, Some(at + 20));
        },
        ..PEERS
    },
    // Acknowledgements take so long that the organiser has restarted before they arrive.
    FaultScript {
        name: "old-acks",
        script: |it| {
            it.slow("Ack", 3, 2, 6_000);
            it.lose("Norm?", 3, 2);
            it.slow("Halt", 2, 3, SLOW);
            it.power_cut(10_000, 1, None);
            let at = it.between(13_000, 14_500);
            let back = at + it.between(3_000, 6_000);
            it.power_cut(at, 2, Some(back));
        },
        ..PEERS
    },
    // One member never receives the notice that the best member has recovered.
    FaultScript {
        name: "lost-notice",
        script: |it| {
            it.lose("recovered", 1, 3);
            it.power_cut(10_000, 1, Some(15_000));
            let at = it.between(20_000, 25_000);
            it.power_cut(at, 2, Some(at + 12_000));
        },
        ..PEERS
    },
    // A new member that does not learn of the leader finds one member down, and later another one.
    FaultScript {
        name: "one-after-the-other-down",
        starts_later: &[3],
        script: |it| {
            it.lose("Norm?", 1, 3);
            let back = it.between(14_000, 16_000);
            it.power_cut(10_000, 2, Some(back));
            it.start(11_000, 3);
            let at = back + it.between(2_500, 4_000);
            it.power_cut(at, 1, Some(at + 10_000));
        },
        ..PEERS
    },
    // The same, and the member that was found down first later answers slowly.
    FaultScript {
        name: "late-verdicts",
        starts_later: &[3],
        lifetime: Some(ms(200)),
        script: |it| {
            it.lose("Norm?", 1, 3);
            it.slow("pong", 2, 3, 180);
            let back = it.between(14_000, 16_000);
            it.power_cut(10_000, 2, Some(back));
            it.start(11_000, 3);
            let at = back + it.between(1_000, 3_000);
            it.power_cut(at, 1, Some(at + 10_000));
        },
        ..PEERS
    },
    // The best member is cut off from the others for 20 s.
    FaultScript {
        name: "parted",
        severe: true,
        script: |it| {
            let at = it.between(10_000, 12_000);
            it.at(at, Fault::Part(vec![node(1)]));
            it.at(at + 20_000, Fault::Heal);
        },
        ..PEERS
    },
    // A leader fails permanently, and a better member followed it.
    FaultScript {
        name: "worse-leader",
        starts_later: &[1],
        script: |it| {
            it.start(5_000, 1);
            let at = it.between(15_000, 20_000);
            it.power_cut(at, 2, None);
        },
        ..PEERS
    },
    // Followers are killed and restart, one after the other.
    FaultScript {
        name: "followers-restart",
        steady: true,
        script: |it| come_and_go(it, [3, 2]),
        ..PEERS
    },
    // The worst member leads. Better members start, are killed, and restart.
    FaultScript {
        name: "better-ones-restart",
        steady: true,
        starts_later: &[1, 2],
        script: |it| {
            it.start(5_000, 2);
            it.start(8_000, 1);
            come_and_go(it, [1, 2]);
        },
        ..PEERS
    },
    // Members are down for about as long as the detection takes.
    FaultScript {
        name: "quick-restarts",
        script: |it| {
            let mut at = 5_000;
            while at < 35_000 {
                at += it.between(0, 2_000);
                let back = at + it.between(500, 4_000);
                let who = it.between(1, 4) as u32;
                it.power_cut(at, who, Some(back));
            }
        },
        ..PEERS
    },
];

/// Member 1 fails, and restarts after member 2 has halted member 3. Member 2 wins if member 3 waits
/// for it, and fails before it receives a message of member 1. Returns the time at which member 1
/// restarts.
fn two_organisers(it: &mut ScriptBuilder<'_>) -> u64 {
    it.slow("Halt", 1, 2, SLOW);
    it.slow("Halt", 2, 3, SLOW);
    let back = it.between(10_700, 12_200);
    it.power_cut(10_000, 1, Some(back));
    let at = back + it.between(150, SLOW);
    it.power_cut(at, 2, Some(at + 10_000));
    back
}

fn come_and_go(it: &mut ScriptBuilder<'_>, who: [u32; 2]) {
    for (from, who) in [(12_000, who[0]), (20_000, who[1]), (28_000, who[0])] {
        let at = it.between(from, from + 2_000);
        let back = at + it.between(100, 4_000);
        it.power_cut(at, who, Some(back));
    }
}
