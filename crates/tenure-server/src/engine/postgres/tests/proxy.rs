//! A proxy that breaks connections.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

/// Forwards connections to a server on this machine.
pub(super) struct Proxy {
    address: SocketAddr,
    mode: Arc<AtomicU8>,
}

/// How late an answer comes with [`Mode::Slow`].
const LATE: Duration = Duration::from_millis(150);

/// What the proxy does with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mode {
    Forward,
    /// The next request is forwarded, and the connection is closed when its answer begins.
    CloseAtAnswer,
    /// The connection is closed instead of forwarding the next request.
    CloseAtRequest,
    /// Each answer comes late.
    Slow,
}

impl Proxy {
    pub(super) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mode = Arc::new(AtomicU8::new(Mode::Forward as u8));
        let of_proxy = Arc::clone(&mode);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                for (from, to, closes) in [
                    (client.try_clone(), server.try_clone(), Mode::CloseAtRequest),
                    (Ok(server), Ok(client), Mode::CloseAtAnswer),
                ] {
                    let mode = Arc::clone(&of_proxy);
                    thread::spawn(move || forward(from.unwrap(), to.unwrap(), &mode, closes));
                }
            }
        });
        Self { address, mode }
    }

    pub(super) fn url(&self) -> String {
        let port = self.address.port();
        format!("host=127.0.0.1 port={port} user=postgres dbname=postgres")
    }

    /// Changes the mode. The proxy forwards again after it closed a connection.
    pub(super) fn set(&self, mode: Mode) {
        self.mode.store(mode as u8, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, mode: &AtomicU8, closes: Mode) {
    let mut buffer = [0; 65_536];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        let forward = Mode::Forward as u8;
        let exchanged =
            mode.compare_exchange(closes as u8, forward, Ordering::SeqCst, Ordering::SeqCst);
        if exchanged == Err(Mode::Slow as u8) && closes == Mode::CloseAtAnswer {
            thread::sleep(LATE);
        }
        if exchanged.is_ok() || to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
