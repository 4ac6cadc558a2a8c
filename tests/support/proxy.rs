//! A TCP proxy that fails on demand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

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
    shared: Arc<Shared>,
}

/// What its connections share.
#[derive(Debug, Default)]
struct Shared {
    lose_replies: AtomicUsize,
    /// By how many milliseconds requests, and replies, are late.
    late_requests: AtomicU64,
    late_replies: AtomicU64,
    /// How many requests and replies have passed.
    requests: AtomicUsize,
    replies: AtomicUsize,
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
        let shared = Arc::<Shared>::default();
        let of_connections = shared.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(
                    client,
                    target,
                    modes.clone(),
                    of_connections.clone(),
                ));
            }
        });
        Self {
            address,
            mode,
            shared,
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
        self.shared.lose_replies.store(count, Ordering::SeqCst);
    }

    /// How many replies are still to be lost.
    #[must_use]
    pub fn replies_to_lose(&self) -> usize {
        self.shared.lose_replies.load(Ordering::SeqCst)
    }

    /// From now on requests and replies arrive so much later.
    pub fn delay(&self, requests: Duration, replies: Duration) {
        let millis = |delay: Duration| delay.as_millis().try_into().unwrap_or(u64::MAX);
        let shared = &self.shared;
        shared
            .late_requests
            .store(millis(requests), Ordering::SeqCst);
        shared.late_replies.store(millis(replies), Ordering::SeqCst);
    }

    /// How many replies have passed, if none is under way: each request that has passed has one.
    #[must_use]
    pub fn at_rest(&self) -> Option<usize> {
        let replies = self.shared.replies.load(Ordering::SeqCst);
        (self.shared.requests.load(Ordering::SeqCst) == replies).then_some(replies)
    }
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    mut modes: watch::Receiver<Mode>,
    shared: Arc<Shared>,
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
                Ok(count) => {
                    shared.requests.fetch_add(1, Ordering::SeqCst);
                    late(&shared.late_requests).await;
                    if server.write_all(&up[..count]).await.is_err() { return }
                }
            },
            read = server.read(&mut down), if replies_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    late(&shared.late_replies).await;
                    shared.replies.fetch_add(1, Ordering::SeqCst);
                    let lost = shared.lose_replies.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
                    if lost.is_ok() || client.write_all(&down[..count]).await.is_err() {
                        return;
                    }
                }
            },
        }
    }
}

async fn late(millis: &AtomicU64) {
    let millis = millis.load(Ordering::SeqCst);
    if millis > 0 {
        tokio::time::sleep(Duration::from_millis(millis)).await;
    }
}
