//! Clients that follow events, lose their connections, and go on where they were.

use std::fmt::Write;
use std::time::Duration;

use futures_util::StreamExt;
use sse_stream::{Sse, SseStream};
use tenure_core::wire::{EventKind, Reset};
use tokio::time::{Instant, timeout, timeout_at};

use super::{QUIET, ROUGH, SECRET, Session};
use crate::history::{Heard, Stream, now};

/// What is watched, all leases or one, and whether renewals are told.
pub(super) const WATCHED: [(Option<&str>, bool); 4] = [
    (None, false),
    (None, true),
    (Some(QUIET[0]), true),
    (Some(ROUGH[0]), false),
];

/// How long a reader goes on when everything is settled.
pub(super) const CATCHING_UP: Duration = Duration::from_millis(1_500);

pub(super) async fn run(mut session: Session, lease: Option<&'static str>, renewed: bool) {
    let mut reader = Reader {
        stream: Stream {
            client: session.name.clone(),
            lease: lease.map(str::to_owned),
            renewed,
            heard: Vec::new(),
        },
        last: None,
    };
    let world = session.world.clone();
    let following = async {
        loop {
            let until = session.millis(100, 4_000);
            let _ = timeout(until, reader.follow(&mut session)).await;
            session.pause(0, 200).await;
        }
    };
    tokio::select! {
        () = world.settled() => {}
        () = following => {}
    }
    session.routes = [0, 0];
    let until = Instant::now() + CATCHING_UP;
    while Instant::now() < until {
        let _ = timeout_at(until, reader.follow(&mut session)).await;
    }
    reader.stream.heard.push((now(), Heard::End));
    world.recorder.add_stream(reader.stream);
}

struct Reader {
    stream: Stream,
    last: Option<u64>,
}

impl Reader {
    /// Reads one connection, until it breaks. It may be cancelled.
    async fn follow(&mut self, session: &mut Session) {
        let Some(mut line) = session.new_line().await else {
            return;
        };
        let lease = self.stream.lease.as_deref();
        let opening = line.watch(lease, self.stream.renewed, self.last).await;
        let response = match opening {
            Ok(response) if response.status() == 200 => response,
            _ => return session.pause(20, 100).await,
        };
        self.hear(Heard::Opened(self.last));
        let mut blocks = SseStream::new(response.into_body());
        while let Some(Ok(block)) = blocks.next().await {
            let heard = heard(block);
            if let Heard::Event { id: Some(id), .. } | Heard::Reset(id) = heard {
                self.last = Some(id);
            }
            self.hear(heard);
        }
    }

    fn hear(&mut self, heard: Heard) {
        self.stream.heard.push((now(), heard));
    }
}

fn heard(block: Sse) -> Heard {
    let data = block.data.unwrap_or_default();
    let id = block.id.and_then(|id| id.parse().ok());
    let mut secret = String::new();
    let _ = write!(secret, "{:08x}-", SECRET >> 32);
    let parsed = match block.event.as_deref().and_then(EventKind::of_name) {
        Some(EventKind::Reset) => {
            serde_json::from_str(&data).map(|Reset { revision }| Heard::Reset(revision))
        }
        Some(kind) => serde_json::from_str(&data).map(|event| Heard::Event {
            kind,
            id,
            event: Box::new(event),
            has_lease_id: data.contains(&secret),
        }),
        None => return Heard::Strange(format!("{:?} {data}", block.event)),
    };
    parsed.unwrap_or_else(|error| Heard::Strange(format!("{error}: {data}")))
}
