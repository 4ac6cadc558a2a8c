//! Clients that watch events, lose their connections, and resume.

use std::fmt::Write;
use std::time::Duration;

use futures_util::StreamExt;
use sse_stream::{Sse, SseStream};
use tenure_core::wire::{EventKind, Reset};
use tokio::time::{Instant, timeout, timeout_at};

use super::{QUIET, ROUGH, SECRET, Session};
use crate::history::{Received, Stream, now};

/// The watchers: all leases or one, and whether they receive renewals.
pub(super) const WATCHED: [(Option<&str>, bool); 4] = [
    (None, false),
    (None, true),
    (Some(QUIET[0]), true),
    (Some(ROUGH[0]), false),
];

/// The time for which a watcher continues after all leases of the round were read once more.
pub(super) const CATCHING_UP: Duration = Duration::from_millis(1_500);

pub(super) async fn run(mut session: Session, lease: Option<&'static str>, renewed: bool) {
    let mut watcher = Watcher {
        stream: Stream {
            client: session.name.clone(),
            principal: session.principal,
            lease: lease.map(str::to_owned),
            renewed,
            received: Vec::new(),
        },
        last: None,
    };
    let state = session.state.clone();
    let following = async {
        loop {
            let until = session.millis(100, 4_000);
            let _ = timeout(until, watcher.follow(&mut session)).await;
            session.pause(0, 200).await;
        }
    };
    tokio::select! {
        () = state.wait_until_settled() => {}
        () = following => {}
    }
    session.routes = [0, 0];
    let until = Instant::now() + CATCHING_UP;
    while Instant::now() < until {
        let _ = timeout_at(until, watcher.follow(&mut session)).await;
    }
    watcher.stream.received.push((now(), Received::End));
    state.recorder.add_stream(watcher.stream);
}

struct Watcher {
    stream: Stream,
    last: Option<u64>,
}

impl Watcher {
    /// Reads from one connection until it breaks. It may be cancelled.
    async fn follow(&mut self, session: &mut Session) {
        session.sign_in().await;
        let Some(mut connection) = session.new_connection().await else {
            return;
        };
        let lease = self.stream.lease.as_deref();
        let (sent, (credential, _)) = (now(), session.credential());
        let opening = connection
            .watch(&credential, lease, self.stream.renewed, self.last)
            .await;
        let response = match opening {
            Ok(response) if response.status() == 200 => response,
            refused => {
                if let Ok(response) = refused {
                    session.refused(response.status().as_u16());
                }
                return session.pause(20, 100).await;
            }
        };
        self.record(Received::Opened(self.last, sent));
        let mut blocks = SseStream::new(response.into_body());
        while let Some(Ok(block)) = blocks.next().await {
            let received = received(block);
            if let Received::Event { id: Some(id), .. } | Received::Reset(id) = received {
                self.last = Some(id);
            }
            self.record(received);
        }
    }

    fn record(&mut self, received: Received) {
        self.stream.received.push((now(), received));
    }
}

fn received(block: Sse) -> Received {
    let data = block.data.unwrap_or_default();
    let id = block.id.and_then(|id| id.parse().ok());
    let mut secret = String::new();
    let _ = write!(secret, "{:08x}-", SECRET >> 32);
    let parsed = match block.event.as_deref().and_then(EventKind::of_name) {
        Some(EventKind::Reset) => {
            serde_json::from_str(&data).map(|Reset { revision }| Received::Reset(revision))
        }
        Some(kind) => serde_json::from_str(&data).map(|event| Received::Event {
            kind,
            id,
            event: Box::new(event),
            has_lease_id: data.contains(&secret),
        }),
        None => return Received::Unexpected(format!("{:?} {data}", block.event)),
    };
    parsed.unwrap_or_else(|error| Received::Unexpected(format!("{error}: {data}")))
}
