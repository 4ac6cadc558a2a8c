//! A TCP proxy that fails on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the proxy does with what passes through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Passes everything on.
    Pass,
    /// Lets connections hang, new ones too: nothing arrives, nothing is refused. What was sent
    /// meanwhile arrives when things pass again.
    Hang,
    /// Lets what goes to the target hang; what comes from it passes.
    HangRequests,
    /// Lets what comes from the target hang; what goes to it passes.
    HangReplies,
    /// Closes connections, new ones too.
    Refuse,
}

/// A proxy in front of a store or a member. It ends with the runtime it was started on.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<Mode>,
    lose_replies: Arc<AtomicUsize>,
}

impl Proxy {
    /// Starts one in front of this address.
    ///
    /// # Panics
    ///
    /// If there is no free port.
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener
            .local_addr()
            .expect("a bound socket has an address");
        let (mode, modes) = watch::channel(Mode::Pass);
        let lose_replies = Arc::new(AtomicUsize::new(0));
        let lose = lose_replies.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target, modes.clone(), lose.clone()));
            }
        });
        Self {
            address,
            mode,
            lose_replies,
        }
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// The next so many replies are lost: the store has acted, and its answer does not arrive.
    pub fn lose_replies(&self, count: usize) {
        self.lose_replies.store(count, Ordering::SeqCst);
    }

    /// How many replies are still to be lost.
    #[must_use]
    pub fn replies_to_lose(&self) -> usize {
        self.lose_replies.load(Ordering::SeqCst)
    }
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    mut modes: watch::Receiver<Mode>,
    lose: Arc<AtomicUsize>,
) {
    if *modes.borrow() == Mode::Refuse {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    let (mut up, mut down) = ([0; 16 * 1024], [0; 16 * 1024]);
    loop {
        let mode = *modes.borrow_and_update();
        if mode == Mode::Refuse {
            return;
        }
        let requests_pass = matches!(mode, Mode::Pass | Mode::HangReplies);
        let replies_pass = matches!(mode, Mode::Pass | Mode::HangRequests);
        tokio::select! {
            changed = modes.changed() => if changed.is_err() { return },
            read = client.read(&mut up), if requests_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => if server.write_all(&up[..count]).await.is_err() { return },
            },
            read = server.read(&mut down), if replies_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let lost = lose.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                    if lost.is_ok() || client.write_all(&down[..count]).await.is_err() {
                        return;
                    }
                }
            },
        }
    }
}
