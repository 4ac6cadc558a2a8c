//! A client of a stream of events.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::Value;
use tokio::time::timeout;

use crate::common::SOON;

/// Long enough to notice an event that should not come, if the machine is not very busy.
const A_MOMENT: Duration = Duration::from_millis(100);

/// One event: its id, its name and its data.
pub(crate) type Event = (Option<u64>, String, Value);

/// An open stream of events.
pub(crate) struct Stream {
    pub(crate) response: Response,
    text: String,
    /// All text that has arrived.
    pub(crate) all: String,
}

impl Stream {
    pub(crate) async fn open(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        // Otherwise proxies such as nginx collect the events before they pass them on.
        assert_eq!(response.headers()["x-accel-buffering"], "no");
        assert_eq!(
            response.headers()["cache-control"],
            "no-store, no-transform"
        );
        let (text, all) = (String::new(), String::new());
        Self {
            response,
            text,
            all,
        }
    }

    /// Returns the next event, or `None` if the stream ends first.
    pub(crate) async fn next_or_end(&mut self) -> Option<Event> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let event = parse(block);
                self.text = rest.to_owned();
                if event.is_some() {
                    return event;
                }
                continue;
            }
            let chunk = timeout(SOON, self.response.chunk());
            let chunk = chunk.await.expect("an event or a heartbeat").ok()??;
            let chunk = std::str::from_utf8(&chunk).unwrap();
            self.text += chunk;
            self.all += chunk;
        }
    }

    pub(crate) async fn next(&mut self) -> Event {
        self.next_or_end().await.expect("an event")
    }

    /// Returns the next event, which must have this name.
    pub(crate) async fn expect(&mut self, name: &str) -> Event {
        let event = self.next().await;
        assert_eq!(event.1, name, "{event:?}");
        event
    }

    pub(crate) async fn expect_nothing(&mut self) {
        let next = timeout(A_MOMENT, self.next()).await;
        assert!(next.is_err(), "{next:?}");
    }
}

/// Parses a block of lines; `None` if it is a comment.
fn parse(block: &str) -> Option<Event> {
    let field = |name: &str| {
        let mut lines = block.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    };
    let data = serde_json::from_str(field("data")?).unwrap();
    let id = field("id").map(|id| id.parse().unwrap());
    Some((id, field("event")?.to_owned(), data))
}
