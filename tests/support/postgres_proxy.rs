//! A proxy that breaks, delays and changes requests to PostgreSQL.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// Forwards connections to a server on this machine.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
}

/// How late an answer comes with [`Mode::Slow`].
const LATE: Duration = Duration::from_millis(150);

/// What the proxy does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Mode {
    /// It forwards them.
    Forward,
    /// The next request is forwarded, and the connection is closed when its answer begins.
    CloseAtAnswer,
    /// The connection is closed instead of forwarding the next request.
    CloseAtRequest,
    /// Requests are forwarded after the next change of the mode.
    Hold,
    /// Each answer comes late.
    Slow,
}

/// A text of statements, and the text of the same length that replaces it.
pub type Mistake = (&'static str, &'static str);

impl Proxy {
    /// Starts a proxy to the server at this port of this machine.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    #[must_use]
    pub fn to(port: u16) -> Self {
        Self::with_mistake(port, ("", ""))
    }

    /// Starts a proxy that plants a mistake in all statements.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    #[must_use]
    pub fn with_mistake(port: u16, mistake: Mistake) -> Self {
        assert_eq!(mistake.0.len(), mistake.1.len(), "{mistake:?}");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        let mode = Arc::new(AtomicU8::new(Mode::Forward as u8));
        let of_proxy = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else {
                    continue;
                };
                for (from, to, closes) in [
                    (client.try_clone(), server.try_clone(), Mode::CloseAtRequest),
                    (Ok(server), Ok(client), Mode::CloseAtAnswer),
                ] {
                    let mode = Arc::clone(&of_proxy);
                    let (from, to) = (from.expect("a socket"), to.expect("a socket"));
                    thread::spawn(move || forward(from, to, &mode, closes, mistake));
                }
            }
        });
        Self { address, mode }
    }

    /// A connection string for the superuser.
    #[must_use]
    pub fn url(&self) -> String {
        let port = self.address.port();
        format!("postgres://postgres@127.0.0.1:{port}/postgres")
    }

    /// Changes the mode. The proxy forwards again after it closed a connection.
    pub fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    mode: &AtomicU8,
    closes: Mode,
    (right, wrong): Mistake,
) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let forward = Mode::Forward as u8;
        let exchanged =
            mode.compare_exchange(closes as u8, forward, Ordering::SeqCst, Ordering::SeqCst);
        if exchanged == Err(Mode::Slow as u8) && closes == Mode::CloseAtAnswer {
            thread::sleep(LATE);
        }
        while closes == Mode::CloseAtRequest && mode.load(Ordering::SeqCst) == Mode::Hold as u8 {
            thread::sleep(Duration::from_millis(5));
        }
        let bytes = &mut buffer[..read];
        let place = bytes
            .windows(right.len().max(1))
            .position(|it| it == right.as_bytes());
        if let Some(place) = place {
            bytes[place..place + wrong.len()].copy_from_slice(wrong.as_bytes());
        }
        if exchanged.is_ok() || to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
