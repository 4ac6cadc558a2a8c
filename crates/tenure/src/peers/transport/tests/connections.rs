//! Connections that are refused, that fail silently, and that are old.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::listener::MAX_CONNECTIONS;
use super::*;

/// A link that can discard the data on its connections.
#[derive(Clone)]
pub(super) struct Link {
    pub(super) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    /// The link discards all data on the connections up to this number.
    hole_up_to: Arc<AtomicUsize>,
    swallowed: Arc<AtomicBool>,
}

impl Link {
    pub(super) async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let link = Self {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            hole_up_to: Arc::default(),
            swallowed: Arc::default(),
        };
        let of_task = link.clone();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = of_task.connections.fetch_add(1, Ordering::SeqCst) + 1;
                let Ok(member) = TcpStream::connect(target).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_member, to_member) = member.into_split();
                tokio::spawn(of_task.clone().pump(number, from_client, to_member));
                tokio::spawn(of_task.clone().pump(number, from_member, to_client));
            }
        });
        link
    }

    async fn pump(
        self,
        number: usize,
        mut from: tokio::net::tcp::OwnedReadHalf,
        mut to: tokio::net::tcp::OwnedWriteHalf,
    ) {
        let mut bytes = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut bytes).await {
            if number <= self.hole_up_to.load(Ordering::SeqCst) {
                self.swallowed.store(true, Ordering::SeqCst);
            } else if to.write_all(&bytes[..read]).await.is_err() {
                return;
            }
        }
    }

    /// From now on nothing passes, as on a broken link.
    pub(super) fn cut(&self) {
        self.hole_up_to.store(usize::MAX, Ordering::SeqCst);
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn a_refused_connection_gives_a_hint() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let (one, mut inbox) = PeerServer::start(one_with_two_at(address)).unwrap();
    one.send(NodeId(2), pre_vote(1));
    let event = next(&mut inbox).await;
    assert!(matches!(event, PeerEvent::Refused(NodeId(2))), "{event:?}");
    assert_eq!(one.counters().failed, 1);
}

/// The end of a process closes its connections. No other sign of the end arrives as early.
#[tokio::test]
async fn a_connection_that_ends_without_notice_gives_a_hint() {
    let (two, mut inbox) = PeerServer::start(setup(2)).unwrap();
    let (one, answers) = PeerServer::start(one_with_two_at(listening_on(&two))).unwrap();
    one.send(NodeId(2), pre_vote(1));
    let event = next(&mut inbox).await;
    assert!(matches!(event, PeerEvent::Message(_)), "{event:?}");
    drop((one, answers, event));
    let event = next(&mut inbox).await;
    assert!(matches!(event, PeerEvent::Refused(NodeId(1))), "{event:?}");
}

#[tokio::test]
async fn silence_gives_no_hint_and_ends_after_one_lifetime() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let setup = Setup {
        message_lifetime: Duration::from_millis(200),
        ..one_with_two_at(silent.local_addr().unwrap())
    };
    let (one, mut inbox) = PeerServer::start(setup).unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("the time-out", || one.counters().failed == 1).await;
    let event = tokio::time::timeout(Duration::from_millis(50), inbox.recv()).await;
    assert!(event.is_err(), "{event:?}");
}

/// Sends messages until one is answered, because a busy machine may take too long for one message.
async fn until_answered(one: &PeerServer) {
    let before = one.counters().answered;
    while one.counters().answered == before {
        let sent = one.counters();
        one.send(NodeId(2), pre_vote(sent.sent));
        wait_until("an end", || {
            let now = one.counters();
            now.answered + now.failed > sent.answered + sent.failed
        })
        .await;
    }
}

#[tokio::test]
async fn a_connection_that_failed_silently_is_replaced() {
    let (two, inbox) = PeerServer::start(setup(2)).unwrap();
    answering(inbox);
    let link = Link::to(listening_on(&two)).await;
    let setup = Setup {
        message_lifetime: Duration::from_secs(1),
        ..one_with_two_at(link.address)
    };
    let (one, _inbox) = PeerServer::start(setup).unwrap();
    until_answered(&one).await;
    let connections = link.connections();
    link.hole_up_to.store(connections, Ordering::SeqCst);
    until_answered(&one).await;
    assert!(link.swallowed.load(Ordering::SeqCst));
    assert!(link.connections() > connections);
    assert!(one.counters().failed > 0);
}

#[tokio::test]
async fn an_old_connection_is_replaced_by_a_new_one() {
    let (clock, time) = manual_clock();
    let two = Setup {
        clock: clock.clone(),
        ..setup(2)
    };
    let (two, mut inbox) = PeerServer::start(two).unwrap();
    let hinted = Arc::new(AtomicBool::new(false));
    let hint = hinted.clone();
    tokio::spawn(async move {
        while let Some(event) = inbox.recv().await {
            match event {
                PeerEvent::Message(message) => reply(message, vec![ack(1)]),
                event => hint.store(matches!(event, PeerEvent::Refused(_)), Ordering::SeqCst),
            }
        }
    });
    let link = Link::to(listening_on(&two)).await;
    let one = Setup {
        clock,
        ..one_with_two_at(link.address)
    };
    let (one, _inbox) = PeerServer::start(one).unwrap();
    let mut rounds = 0;
    let mut connections_after = async |rounds_more: u64| {
        for _ in 0..rounds_more {
            rounds += 1;
            one.send(NodeId(2), pre_vote(rounds));
            wait_until("an answer", || one.counters().answered == rounds).await;
        }
        link.connections()
    };
    assert_eq!(connections_after(5).await, 1, "new connections are kept");
    time.send_modify(|time| *time = *time + Duration::from_secs(11));
    // The first request announces the end of the old connection.
    assert_eq!(connections_after(2).await, 2);
    assert_eq!(connections_after(5).await, 2);
    assert!(
        !hinted.load(Ordering::SeqCst),
        "an announced end is no hint"
    );
}

#[tokio::test]
async fn a_member_that_has_started_anew_is_reached_within_one_message() {
    let (two, inbox) = PeerServer::start(setup(2)).unwrap();
    answering(inbox);
    let address = listening_on(&two);
    let (one, _inbox) = PeerServer::start(one_with_two_at(address)).unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("the first", || one.counters().answered == 1).await;
    drop(two);
    let mut again = None;
    while again.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        again = PeerServer::start(Setup {
            listen: Some(address),
            incarnation: Incarnation(2),
            ..setup(2)
        })
        .ok();
    }
    let (_two, inbox) = again.unwrap();
    answering(inbox);
    one.send(NodeId(2), pre_vote(2));
    wait_until("the second", || one.counters().answered == 2).await;
}

/// Opens more connections than a member accepts, without authentication.
async fn unauthenticated_at(address: SocketAddr) -> Vec<TcpStream> {
    let mut unauthenticated = Vec::new();
    for _ in 0..MAX_CONNECTIONS + 50 {
        unauthenticated.push(TcpStream::connect(address).await.unwrap());
    }
    unauthenticated
}

async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(PATIENCE, stream.read(&mut [0])).await;
    matches!(read, Ok(Ok(0) | Err(_)))
}

#[tokio::test]
async fn idle_unauthenticated_connections_do_not_exclude_members() {
    let (two, mut inbox) = PeerServer::start(setup(2)).unwrap();
    let hinted = Arc::new(AtomicBool::new(false));
    let hint = hinted.clone();
    tokio::spawn(async move {
        while let Some(event) = inbox.recv().await {
            match event {
                PeerEvent::Message(message) => reply(message, vec![ack(1)]),
                _ => hint.store(true, Ordering::SeqCst),
            }
        }
    });
    let address = listening_on(&two);
    let link = Link::to(address).await;
    let (one, _inbox) = PeerServer::start(one_with_two_at(link.address)).unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("an answer before", || one.counters().answered == 1).await;
    let mut unauthenticated = unauthenticated_at(address).await;
    // The connection of member 1 remains, and a new member also gets a connection.
    one.send(NodeId(2), pre_vote(2));
    wait_until("an answer among unauthenticated", || {
        one.counters().answered == 2
    })
    .await;
    assert_eq!(link.connections(), 1);
    let mut three = setup(3);
    three.peers.insert(NodeId(2), Some(at(address)));
    let (three, _inbox_of_three) = PeerServer::start(three).unwrap();
    three.send(NodeId(2), pre_vote(1));
    wait_until("an answer to a newcomer", || three.counters().answered == 1).await;
    assert_eq!(three.counters().failed, 0);
    // The oldest connections were closed at once.
    assert!(is_closed(&mut unauthenticated[0]).await);
    assert!(!hinted.load(Ordering::SeqCst));
}

#[tokio::test]
async fn a_connection_without_a_member_is_closed_soon_and_one_of_a_member_is_kept() {
    let two = Setup {
        message_lifetime: Duration::from_millis(500),
        ..setup(2)
    };
    let (two, inbox) = PeerServer::start(two).unwrap();
    answering(inbox);
    let link = Link::to(listening_on(&two)).await;
    let (one, _inbox) = PeerServer::start(one_with_two_at(link.address)).unwrap();
    one.send(NodeId(2), pre_vote(1));
    wait_until("an answer", || one.counters().answered == 1).await;
    let mut silent = TcpStream::connect(listening_on(&two)).await.unwrap();
    let mut slow = TcpStream::connect(listening_on(&two)).await.unwrap();
    slow.write_all(b"GET /v1/peers/billing/status HTTP/1.1\r\n")
        .await
        .unwrap();
    assert!(is_closed(&mut silent).await, "earlier than a member's");
    assert!(is_closed(&mut slow).await);
    one.send(NodeId(2), pre_vote(2));
    wait_until("another answer", || one.counters().answered == 2).await;
    assert_eq!(link.connections(), 1);
}
