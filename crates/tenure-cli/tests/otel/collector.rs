//! A collector of spans (OTLP over HTTP), which can fail on demand.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use crate::protobuf::{Span, spans};

/// How a collector answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// It takes the spans.
    Takes,
    /// It refuses them with this status.
    Refuses(u16),
    /// It does not answer.
    Hangs,
}

/// A collector, and what it has received.
#[derive(Debug)]
pub(crate) struct Collector {
    address: SocketAddr,
    received: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Collector {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let received = Arc::<Mutex<_>>::default();
        let bodies = Arc::clone(&received);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let bodies = Arc::clone(&bodies);
                thread::spawn(move || serve(stream, behaviour, &bodies));
            }
        });
        Self { address, received }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// All spans so far.
    pub(crate) fn spans(&self) -> Vec<Span> {
        let bodies = self.received.lock().expect("bodies");
        bodies.iter().flat_map(|body| spans(body)).collect()
    }

    /// All bodies so far, as text.
    pub(crate) fn text(&self) -> String {
        let bodies = self.received.lock().expect("bodies");
        String::from_utf8_lossy(&bodies.concat()).into_owned()
    }

    /// The number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.received.lock().expect("bodies").len()
    }
}

/// Serves the requests of one connection.
fn serve(stream: TcpStream, behaviour: Behaviour, bodies: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut line, mut length) = (String::new(), 0);
        let mut head = String::new();
        while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
            let line = std::mem::take(&mut line);
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().expect("a length");
            }
            head.push_str(&line);
        }
        if head.is_empty() {
            return;
        }
        assert!(head.starts_with("POST /v1/traces "), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).expect("a body");
        bodies.lock().expect("bodies").push(body);
        let status = match behaviour {
            Behaviour::Takes => 200,
            Behaviour::Refuses(status) => status,
            Behaviour::Hangs => return thread::sleep(Duration::from_secs(600)),
        };
        let answer = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}
