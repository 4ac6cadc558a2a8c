//! Ports for processes that a test starts.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use nix::unistd::Uid;

/// The first port. All ports are below those of outgoing connections, so no connection takes a port
/// before a process listens there, or while the process is restarted.
const FIRST: u16 = 20_000;

/// The number of ports of a test program.
const COUNT: u16 = 1_000;

/// The greatest number of test programs that run at the same time.
const PROGRAMS: u16 = 12;

/// Returns an address on which nothing listens. Other test programs of this user that run at the same
/// time get other ports.
///
/// # Panics
///
/// If twelve other test programs use ports, or each port of this one is in use.
#[must_use]
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    static PORTS: LazyLock<Ports> = LazyLock::new(Ports::reserve);
    (0..COUNT)
        .map(|_| {
            let offset = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
            SocketAddr::from((Ipv4Addr::LOCALHOST, PORTS.first + offset))
        })
        .find(|address| TcpListener::bind(address).is_ok())
        .expect("a free port")
}

/// The ports of this program. The lock of the file ends with the process.
struct Ports {
    first: u16,
    _lock: File,
}

impl Ports {
    fn reserve() -> Self {
        let user = Uid::current();
        let reserve = |index: u16| {
            let name = format!("tenure-tests-ports-{user}-{index}");
            let path = std::env::temp_dir().join(name);
            let file = File::create(path).ok()?;
            file.try_lock().ok()?;
            Some(Self {
                first: FIRST + index * COUNT,
                _lock: file,
            })
        };
        let reserved = (0..PROGRAMS).find_map(reserve);
        reserved.expect("ports that no other test program has reserved")
    }
}
