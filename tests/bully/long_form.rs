//! Larger groups whose members pass messages on, with each fault of a leader:
//! `cargo test -p tenure-tests --test bully long_form -- --ignored --nocapture --test-threads 1`.

use std::time::Instant;

use nix::sys::signal::Signal;
use tenure_lab::links::{GraphShape, LinkNetwork, LinkState};
use tenure_tests::group::{A_WHILE, Group, LEASE};

use super::group_of;
use super::relays::{ring, start};

/// A network of members.
struct Net {
    size: u32,
    /// The links that work in both directions.
    links: Vec<(u32, u32)>,
    /// Those that are cut, and those on which nothing arrives from the first member at the second.
    dead: Vec<(u32, u32)>,
    one_way: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
enum LeaderFault {
    /// It is killed, and starts when another member leads.
    Kill,
    /// It is killed, and starts at once.
    Restart,
    /// It is frozen until another member leads.
    Freeze,
    /// All of its links are cut until another member leads.
    Isolate,
}

const FAULTS: [LeaderFault; 4] = [
    LeaderFault::Kill,
    LeaderFault::Restart,
    LeaderFault::Freeze,
    LeaderFault::Isolate,
];

impl Net {
    fn of(size: u32, links: Vec<(u32, u32)>) -> Self {
        Self {
            size,
            links,
            dead: Vec::new(),
            one_way: Vec::new(),
        }
    }

    /// A member in the middle, and the others around it.
    fn hub(size: u32, hub: u32) -> Self {
        let spokes = (1..=size).filter(|member| *member != hub);
        Self::of(size, spokes.map(|member| (hub, member)).collect())
    }

    /// Of the 36 links of nine members 14 are cut, and 4 work one way only.
    fn mesh() -> Self {
        let network = LinkNetwork::new(GraphShape::Complete, 9, 1);
        let network = network.and_then(|it| it.with_faults(14, 4, false, 1));
        let network = network.expect("a network");
        let mut net = Self::of(9, Vec::new());
        for link in network.links() {
            let [one, other] = [link.one, link.other].map(|node| network.ids()[node as usize]);
            match link.state {
                LinkState::Works => net.links.push((one, other)),
                LinkState::Dead => net.dead.push((one, other)),
                LinkState::OneWay => net.one_way.push((other, one)),
            }
        }
        net
    }

    /// The members, which have the addresses of all whose link is here, broken or not.
    fn group(&self) -> Group {
        let all = [&self.links[..], &self.dead, &self.one_way].concat();
        let mut group = group_of(self.size).with_neighbors(all);
        if !self.dead.is_empty() {
            // A search waits for links that hang, at each member on its way.
            group.set("TENURE_LEASE_DURATION", "8s");
            group.set("TENURE_BULLY_MESSAGE_LIFETIME", "1200ms");
        }
        self.cut(&group);
        group
    }

    /// Cuts the links that are broken in this network.
    fn cut(&self, group: &Group) {
        for &(one, other) in &self.dead {
            group.partition(&[one], &[other]);
        }
        for &(from, to) in &self.one_way {
            group.cut_one_way(from, to);
        }
    }

    /// The members that these links connect to this one.
    fn part_of(&self, first: u32, is_there: impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let mut part = vec![first];
        let mut next = 0;
        while next < part.len() {
            let member = part[next];
            for &(one, other) in self.links.iter().filter(|it| is_there(it.0, it.1)) {
                for (near, far) in [(one, other), (other, one)] {
                    if near == member && !part.contains(&far) {
                        part.push(far);
                    }
                }
            }
            next += 1;
        }
        part
    }

    /// The members that are connected without this one, if they are a majority.
    fn majority_without(&self, gone: u32) -> Option<Vec<u32>> {
        let others = (1..=self.size).filter(|member| *member != gone);
        let parts = others.map(|first| self.part_of(first, |a, b| a != gone && b != gone));
        let part = parts.max_by_key(Vec::len)?;
        (part.len() > self.size as usize / 2).then_some(part)
    }

    /// A link without which all members are still connected.
    fn spare(&self) -> (u32, u32) {
        let connects = |gone: &&(u32, u32)| {
            let part = self.part_of(1, |one, other| (one, other) != **gone);
            part.len() == self.size as usize
        };
        *self.links.iter().find(connects).expect("a circle")
    }
}

/// Injects a fault into the leader. The connected majority elects another one, if there is such a
/// majority, and no member leads otherwise. In the end all members follow one leader.
fn survive(net: &Net, fault: LeaderFault) {
    let mut group = net.group();
    let old = start(&mut group);
    let begin = Instant::now();
    let (mut others, rest) = (group.all().to_vec(), net.majority_without(old.member));
    others.retain(|member| *member != old.member);
    match fault {
        LeaderFault::Kill => group.kill(&[old.member]),
        LeaderFault::Restart => {
            group.kill(&[old.member]);
            group.start(old.member);
        }
        LeaderFault::Freeze => group.member(old.member).signal(Signal::SIGSTOP),
        LeaderFault::Isolate => group.partition(&[old.member], &others),
    }
    match (fault, rest) {
        (LeaderFault::Restart, _) => {}
        (_, Some(rest)) => {
            let next = group.settled(old.epoch, &rest);
            assert!(rest.contains(&next.member), "{next:?} of {rest:?}");
        }
        (_, None) => {
            group.let_pass(LEASE + A_WHILE);
            assert_eq!(group.last_leader(), old, "no member reaches a majority");
        }
    }
    let without = begin.elapsed();
    match fault {
        LeaderFault::Kill => group.start(old.member),
        LeaderFault::Restart => {}
        LeaderFault::Freeze => {
            group.member(old.member).signal(Signal::SIGCONT);
            group.wait_until_stepped_down(old.member);
        }
        LeaderFault::Isolate => {
            group.wait_until_stepped_down(old.member);
            group.heal();
            net.cut(&group);
        }
    }
    let last = group.settled(old.epoch, group.all());
    println!(
        "{fault:?} of member {} of {}, repaired after {without:.1?}: all follow {} after {:.1?}",
        old.member,
        net.size,
        last.member,
        begin.elapsed()
    );
    group.receiver().assert_one_at_a_time();
}

#[test]
#[ignore = "takes two minutes"]
fn a_ring_of_seven_survives_each_fault_of_its_leader() {
    for fault in FAULTS {
        survive(&Net::of(7, ring(7)), fault);
    }
}

#[test]
#[ignore = "takes two minutes"]
fn a_hub_with_six_spokes_survives_each_fault_of_its_leader() {
    // Members with smaller numbers have a higher priority.
    for (hub, fault) in [1, 7]
        .iter()
        .flat_map(|hub| FAULTS.map(|fault| (*hub, fault)))
    {
        survive(&Net::hub(7, hub), fault);
    }
}

#[test]
#[ignore = "takes two minutes"]
fn a_mesh_of_nine_with_half_of_its_links_broken_survives_each_fault_of_its_leader() {
    for fault in FAULTS {
        survive(&Net::mesh(), fault);
    }
}

#[test]
#[ignore = "takes a minute"]
fn a_cut_link_that_is_not_needed_costs_no_election() {
    for net in [Net::of(7, ring(7)), Net::mesh()] {
        let mut group = net.group();
        let leader = start(&mut group);
        let (one, other) = net.spare();
        group.partition(&[one], &[other]);
        // Longer than a term without renewals.
        group.let_pass(LEASE + A_WHILE);
        assert_eq!(group.settled(0, group.all()), leader);
        group.receiver().assert_one_at_a_time();
    }
}

#[test]
#[ignore = "takes half a minute"]
fn without_relays_only_the_hub_can_lead() {
    let mut group = group_of(7);
    for spoke in 1..=5 {
        let rest: Vec<u32> = (spoke + 1..=6).collect();
        group.partition(&[spoke], &rest);
    }
    let leader = start(&mut group);
    assert_eq!(leader.member, 7, "the other members reach no majority");
    group.kill(&[7]);
    group.let_pass(LEASE + A_WHILE);
    assert_eq!(group.last_leader(), leader);
    group.start(7);
    assert_eq!(group.settled(leader.epoch, group.all()).member, 7);
    group.receiver().assert_one_at_a_time();
}
