//! Two processes with one number.

use super::*;

async fn duplicate(inbox: &mut Inbox) -> String {
    loop {
        if let PeerEvent::Duplicate(duplicate) = next(inbox).await {
            return duplicate;
        }
    }
}

/// Starts two processes that claim to be member 1, with these incarnations. They send messages to
/// member 2 in turns.
async fn two_of(incarnations: [u64; 2]) -> [Inbox; 2] {
    let (two, inbox) = PeerServer::start(setup(2)).unwrap();
    answering(inbox);
    let address = listening_on(&two);
    let [first, second] = incarnations.map(|incarnation| {
        let incarnation = Incarnation(incarnation);
        let setup = one_with_two_at(address);
        PeerServer::start(Setup {
            incarnation,
            ..setup
        })
        .unwrap()
    });
    let heard = || {
        let counters = two.counters();
        let refused = ["older_start", "runs_twice"].map(|code| counters.refused.get(code).copied());
        counters.taken + refused.into_iter().flatten().sum::<u64>()
    };
    for (heard_of, (server, _)) in (1..).zip([&first, &second, &first]) {
        server.send(NodeId(2), pre_vote(heard_of));
        wait_until("the refusals of member 2", || heard() == heard_of).await;
    }
    // Answers to the second message of each process would arrive now.
    tokio::time::sleep(Duration::from_millis(100)).await;
    [first.1, second.1]
}

/// Returns whether the inbox ends without an event, because its server is gone.
async fn learns_nothing(inbox: &mut Inbox) -> bool {
    while let Some(event) = tokio::time::timeout(PATIENCE, inbox.recv()).await.unwrap() {
        if matches!(event, PeerEvent::Duplicate(_)) {
            return false;
        }
    }
    true
}

#[tokio::test]
async fn the_older_of_two_processes_with_one_number_is_notified() {
    let [mut older, mut newer] = two_of([5, 6]).await;
    let report = duplicate(&mut older).await;
    assert!(report.starts_with("member 2 says: "), "{report}");
    assert!(report.contains("start 5 of member 1"), "{report}");
    assert!(learns_nothing(&mut newer).await);
}

#[tokio::test]
async fn both_of_two_processes_with_one_copied_state_are_notified() {
    let [mut first, mut second] = two_of([5, 5]).await;
    for inbox in [&mut first, &mut second] {
        let report = duplicate(inbox).await;
        let words = [
            "member 2",
            "two processes",
            "start 5 of member 1",
            "stop one",
        ];
        assert!(words.iter().all(|word| report.contains(word)), "{report}");
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
