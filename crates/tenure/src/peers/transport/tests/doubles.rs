//! Two processes with one number.

use super::*;

async fn duplicate(inbox: &mut Inbox) -> String {
    loop {
        if let PeerEvent::Duplicate(duplicate) = next(inbox).await {
            return duplicate;
        }
    }
}

#[tokio::test]
async fn an_answer_of_a_process_that_was_replaced_is_ignored() {
    let two_of = |incarnation| Setup {
        incarnation: Incarnation(incarnation),
        ..setup(2)
    };
    let (old, mut inbox_of_old) = PeerServer::start(two_of(5)).unwrap();
    let (one, mut inbox) = PeerServer::start(one_with_two_at(listening_on(&old))).unwrap();
    let mut new = two_of(6);
    new.peers.insert(NodeId(1), Some(at(listening_on(&one))));
    let (new, _inbox) = PeerServer::start(new).unwrap();
    one.send(NodeId(2), pre_vote(1));
    let asked = next_message(&mut inbox_of_old).await;
    new.send(NodeId(1), pre_vote(2));
    assert_eq!(next_message(&mut inbox).await.incarnation, Incarnation(6));
    reply(asked, vec![ack(1)]);
    wait_until("the answer", || {
        one.counters().refused.contains_key("older_start")
    })
    .await;
    let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(event.is_err(), "{event:?}");
}

#[tokio::test]
async fn a_process_with_this_members_number_is_reported() {
    let (one, mut inbox) = PeerServer::start(setup(1)).unwrap();
    // The other process treats this member as member 2.
    let (double, _inbox) = PeerServer::start(one_with_two_at(listening_on(&one))).unwrap();
    double.send(NodeId(2), pre_vote(1));
    let report = duplicate(&mut inbox).await;
    assert!(report.starts_with("member 1 says: "), "{report}");
    assert_eq!(one.counters().refused["runs_twice"], 1);
}

#[tokio::test]
async fn an_address_that_leads_back_to_this_member_is_no_duplicate() {
    // The port is known only after it was opened.
    let (one, _inbox) = PeerServer::start(setup(1)).unwrap();
    let address = listening_on(&one);
    drop(one);
    let setup = Setup {
        listen: Some(address),
        ..one_with_two_at(address)
    };
    let mut started = PeerServer::start(setup);
    if started.is_err() {
        // The old listener closes when the runtime runs its task.
        tokio::time::sleep(Duration::from_millis(200)).await;
        started = PeerServer::start(Setup {
            listen: Some(address),
            ..one_with_two_at(address)
        });
    }
    let (one, mut inbox) = started.unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("the refusal", || one.counters().refused_by_peers == 1).await;
    assert_eq!(one.counters().refused["misdirected"], 1);
    let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(event.is_err(), "{event:?}");
}
