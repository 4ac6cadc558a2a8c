//! Two processes with one number.

use super::*;

async fn impostor(inbox: &mut Inbox) -> Impostor {
    loop {
        if let Event::Impostor(impostor) = next(inbox).await {
            return impostor;
        }
    }
}

/// Two processes that say that they are member 1, of these starts, write to member 2 in turns.
async fn two_of(incarnations: [u64; 2]) -> [Option<Impostor>; 2] {
    let (two, mut inbox_of_two) = Carrier::start(setup(2)).unwrap();
    let address = listening_on(&two);
    let start = |incarnation| {
        Carrier::start(Setup {
            incarnation: Incarnation(incarnation),
            ..one_with_two_at(address)
        })
        .unwrap()
    };
    let [mut first, mut second] = incarnations.map(start);
    for (carrier, _) in [&first, &second] {
        carrier.send(NodeId(2), pre_vote(1));
        let taken = async { next_message(&mut inbox_of_two).await };
        let _ = tokio::time::timeout(Duration::from_millis(500), taken).await;
    }
    first.0.send(NodeId(2), pre_vote(2));
    let mut seen = [None, None];
    for (seen, inbox) in seen.iter_mut().zip([&mut first.1, &mut second.1]) {
        let told = tokio::time::timeout(Duration::from_secs(1), impostor(inbox)).await;
        *seen = told.ok();
    }
    seen
}

#[tokio::test]
async fn the_older_of_two_processes_with_one_number_is_told() {
    let [older, newer] = two_of([5, 6]).await;
    let older = older.expect("the older one is told");
    assert_eq!(older.seen_by, NodeId(2));
    assert!(
        older.detail.contains("start 5 of member 1"),
        "{}",
        older.detail
    );
    assert_eq!(newer, None);
}

#[tokio::test]
async fn of_two_processes_with_one_copied_state_the_second_is_told() {
    let [first, second] = two_of([5, 5]).await;
    assert_eq!(first, None);
    assert!(
        second
            .expect("the second is told")
            .detail
            .contains("two processes")
    );
}

#[tokio::test]
async fn a_process_with_my_own_number_at_my_door_is_reported() {
    let (one, mut inbox) = Carrier::start(setup(1)).unwrap();
    // It takes this member for member 2.
    let (double, _inbox) = Carrier::start(one_with_two_at(listening_on(&one))).unwrap();
    double.send(NodeId(2), pre_vote(1));
    assert_eq!(impostor(&mut inbox).await.seen_by, NodeId(1));
    assert_eq!(one.counters().refused["runs_twice"], 1);
}

#[tokio::test]
async fn an_address_that_leads_back_to_myself_is_no_double() {
    // The port is known only once it is taken.
    let (one, _inbox) = Carrier::start(setup(1)).unwrap();
    let address = listening_on(&one);
    drop(one);
    let setup = Setup {
        listen: Some(address),
        ..one_with_two_at(address)
    };
    let mut started = Carrier::start(setup);
    if started.is_err() {
        // The old listener goes when the runtime comes to it.
        tokio::time::sleep(Duration::from_millis(200)).await;
        started = Carrier::start(Setup {
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
