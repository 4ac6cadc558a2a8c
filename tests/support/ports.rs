//! Ports for processes that a test starts.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU16, Ordering};

/// An address on which nothing listens. The ports are below those of outgoing connections, so no
/// connection takes the port before a process listens there, or while the process is restarted.
#[must_use]
pub fn free_address() -> SocketAddr {
    const FIRST: u16 = 20_000;
    const COUNT: u16 = 12_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let begin = std::process::id().wrapping_mul(97) % u32::from(COUNT);
    loop {
        let next = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let offset = u16::try_from((begin + next) % u32::from(COUNT)).unwrap_or_default();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, FIRST + offset));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}
