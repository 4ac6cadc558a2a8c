//! Exact runs in which every message takes one unit of time.

use tenure_core::random::{Random, SplitMix64};

use super::*;

/// Runs a network, and returns a line for each message: its time, both nodes, and the message.
/// Nodes have the numbers of their identifiers.
fn run(net: Net, settings: ForestSettings) -> (Vec<String>, Vec<ForestNode>) {
    let mut nodes = net.nodes(settings);
    let (mut lines, mut flying) = (Vec::new(), Vec::new());
    for node in &mut nodes {
        node.wake();
    }
    for time in 0.. {
        for (from, node) in nodes.iter_mut().enumerate() {
            while let Some(ForestOutput { port, message }) = node.poll_output() {
                let to = net.neighbour(from, port);
                let shown = shown(&message);
                lines.push(format!("t{time} {}>{} {shown}", from + 1, to + 1));
                if !net.is_dead(from, to) {
                    flying.push((from, to, message));
                }
            }
        }
        if flying.is_empty() {
            break;
        }
        for (from, to, message) in flying.split_off(0) {
            nodes[to].handle_message(net.port(to, from), message);
        }
    }
    (lines, nodes)
}

fn shown(message: &ForestMessage) -> String {
    let label = |it: FragmentLabel| format!("({},{})", it.level, it.core);
    match *message {
        ForestMessage::Test(it) => format!("Test{}", label(it)),
        ForestMessage::Accept(it) => format!("Accept{}", label(it)),
        ForestMessage::Connect(it) => format!("Connect{}", label(it)),
        ForestMessage::Initiate {
            label: it,
            is_edge,
            goal,
        } => {
            let edge = if is_edge { " edge" } else { "" };
            let goal = goal.map(|it| format!(" {it}")).unwrap_or_default();
            format!("Initiate{}{edge}{goal}", label(it))
        }
        ForestMessage::Up { open, counted, .. } => format!("Up {open} {counted}"),
        ForestMessage::Grow { open, counted, .. } => format!("Grow {open} {counted}"),
        ForestMessage::Quota { quota, .. } => format!("Quota {quota}"),
        ForestMessage::Elected(it) => format!("Elected {it}"),
        other => format!("{other:?}"),
    }
}

#[test]
fn two_nodes_elect_with_nine_messages() {
    let (lines, nodes) = run(PAIR, PAIR.settings());
    let expected = [
        "t0 1>2 Hello",
        "t0 2>1 Hello",
        "t1 1>2 Test(0,1)",
        "t1 2>1 Test(0,2)",
        "t2 1>2 Connect(0,1)",
        "t2 2>1 Accept(0,2)",
        "t3 2>1 Initiate(1,2) edge",
        "t4 1>2 Grow 0 1",
        "t5 2>1 Elected 2",
    ];
    assert_eq!(lines, expected);
    assert!(nodes[1].leads() && nodes[0].leader().unwrap().port == Some(Port(0)));
}

#[test]
fn a_ring_of_four_with_a_dead_link_elects_with_thirty_messages() {
    let (lines, nodes) = run(RING_4.cut(), RING_4.cut().settings());
    let expected = [
        "t0 1>2 Hello",
        "t0 1>4 Hello",
        "t0 2>1 Hello",
        "t0 2>3 Hello",
        "t0 3>2 Hello",
        "t0 3>4 Hello",
        "t0 4>3 Hello",
        "t0 4>1 Hello",
        "t1 1>2 Test(0,1)",
        "t1 2>1 Test(0,2)",
        "t1 3>2 Test(0,3)",
        "t1 4>3 Test(0,4)",
        "t2 1>2 Connect(0,1)",
        "t2 2>1 Accept(0,2)",
        "t2 2>3 Connect(0,2)",
        "t2 3>4 Connect(0,3)",
        "t3 4>3 Initiate(1,4) edge",
        "t3 4>3 Quota 1",
        "t4 3>2 Initiate(1,4) edge",
        "t4 3>4 Grow 1 1",
        "t5 2>1 Initiate(1,4) edge",
        "t5 4>3 Quota 1",
        "t6 3>2 Quota 1",
        "t7 2>3 Grow 1 1",
        "t8 3>4 Up 1 2",
        "t9 4>3 Elected 4",
        "t9 4>1 Elected 4",
        "t10 3>2 Elected 4",
        "t11 2>1 Elected 4",
        "t12 1>4 Elected 4",
    ];
    assert_eq!(lines, expected);
    let known = nodes.iter().filter_map(ForestNode::leader);
    assert_eq!(known.filter(|it| it.id == CoreId(4)).count(), 4);
}

#[test]
fn with_a_handshake_each_link_costs_two_messages_more_and_a_silent_answer_is_no_proof() {
    let (lines, nodes) = run(PAIR, PAIR.settings().with_handshake());
    assert_eq!(lines.len(), 11, "{lines:?}");
    assert!(nodes[1].leads());
    let mut node = ForestNode::new(
        ForestSettings::new(2, 1).with_handshake(),
        CoreId(1),
        ForestRole::Initiator,
        1,
    );
    node.wake();
    node.handle_message(Port(0), ForestMessage::Hello);
    assert_eq!(node.port_state(Port(0)), Some(PortState::Quiet));
    node.handle_message(Port(0), ForestMessage::HelloAck);
    assert_eq!(node.port_state(Port(0)), Some(PortState::Testing));
}

#[test]
fn a_part_without_silent_ports_and_without_a_majority_says_so() {
    let (_, nodes) = run(PAIR, ForestSettings::new(4, 0));
    let cores: Vec<bool> = nodes.iter().map(ForestNode::is_without_majority).collect();
    assert_eq!(cores, [false, true]);
    assert!(nodes.iter().all(|node| node.leader().is_none()));
}

#[test]
fn one_process_elects_itself_and_a_follower_never_does() {
    let alone = |role| {
        let mut node = ForestNode::new(ForestSettings::new(1, 0), CoreId(7), role, 0);
        node.wake();
        node.handle_message(Port(0), ForestMessage::Hello);
        node
    };
    assert!(alone(ForestRole::Initiator).leads());
    assert_eq!(alone(ForestRole::Follower).leader(), None);
}

#[test]
fn a_process_that_knows_the_leader_sends_nothing_more() {
    let mut node = ForestNode::new(
        ForestSettings::new(3, 0),
        CoreId(1),
        ForestRole::Initiator,
        2,
    );
    node.handle_message(Port(0), ForestMessage::Elected(CoreId(9)));
    let sent: Vec<ForestOutput> = std::iter::from_fn(|| node.poll_output()).collect();
    let told = ForestOutput {
        port: Port(1),
        message: ForestMessage::Elected(CoreId(9)),
    };
    assert_eq!(sent, vec![told]);
    node.wake();
    node.handle_message(Port(1), ForestMessage::Hello);
    assert_eq!(node.poll_output(), None);
}

#[test]
fn the_memory_of_a_node_is_bounded_by_its_ports_whatever_arrives() {
    let settings = ForestSettings::new(1_000, 2);
    let mut rng = SplitMix64::new(1);
    for role in [ForestRole::Initiator, ForestRole::Follower] {
        let mut node = ForestNode::new(settings, CoreId(3), role, 4);
        node.wake();
        for _ in 0..20_000 {
            let mut draw = |end: u64| (rng.next_u64() >> 32) % end;
            let port = Port(draw(5) as u16);
            let label = match draw(2) {
                0 => node.label(),
                _ => FragmentLabel {
                    level: draw(4) as i8,
                    core: CoreId(u128::from(draw(6))),
                },
            };
            let (open, counted) = (draw(7) as u32, draw(40) as u32);
            let message = match draw(13) {
                0 => ForestMessage::Hello,
                1 => ForestMessage::HelloAck,
                2 => ForestMessage::Test(label),
                3 => ForestMessage::Accept(label),
                4 => ForestMessage::Reject,
                5 => ForestMessage::Found(label),
                6 => ForestMessage::ChangeRoot(label),
                7 | 8 => ForestMessage::Connect(label),
                9 => ForestMessage::RaiseRequest(label),
                10 => ForestMessage::Initiate {
                    label,
                    is_edge: open > 3,
                    goal: (counted > 20).then_some(counted),
                },
                11 => ForestMessage::Up {
                    label,
                    open,
                    counted,
                },
                _ => ForestMessage::Quota {
                    label,
                    quota: counted,
                },
            };
            node.handle_message(port, message);
            while node.poll_output().is_some() {}
            assert!(node.queue.len() <= 4 && node.pending.len() <= 4, "{node:?}");
        }
        assert_eq!(node.leader(), None);
    }
}
