//! A TCP proxy that fails on demand: one way between two real processes, for live comparisons and tests.
//!
//! It knows of HTTP that requests and answers take turns on a connection: each turn is a message.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use crate::sim::{Latency, Link, Rng};

/// The behaviour of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
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
    mode: watch::Sender<ProxyMode>,
    shared: Arc<Shared>,
}

/// How much has passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// Requests that came in.
    pub requests: u64,
    /// Replies that went out.
    pub replies: u64,
    /// The bytes of both, with their heads.
    pub bytes: u64,
}

/// The state that its connections share.
#[derive(Debug)]
struct Shared {
    lose_replies: AtomicUsize,
    cut_replies: AtomicUsize,
    links: Mutex<Links>,
    requests: AtomicU64,
    replies: AtomicU64,
    bytes: AtomicU64,
}

/// How requests and replies travel.
#[derive(Debug)]
struct Links {
    requests: Link,
    replies: Link,
    rng: Rng,
}

impl Proxy {
    /// Starts one in front of this address, on the runtime that this is called on.
    ///
    /// # Errors
    ///
    /// If there is no free port on the loopback interface.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (mode, modes) = watch::channel(ProxyMode::Pass);
        let shared = Arc::new(Shared {
            lose_replies: AtomicUsize::new(0),
            cut_replies: AtomicUsize::new(0),
            links: Mutex::new(Links {
                requests: Link::AT_ONCE,
                replies: Link::AT_ONCE,
                // Real processes do nothing twice alike, so it is enough that proxies differ.
                rng: Rng::new(address.port().into(), 0),
            }),
            requests: AtomicU64::new(0),
            replies: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        });
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
        Ok(Self {
            address,
            mode,
            shared,
        })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on.
    pub fn set(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
    }

    /// The next so many replies are lost: the store has acted, and its answer does not arrive.
    pub fn lose_replies(&self, count: usize) {
        self.shared.lose_replies.store(count, Ordering::SeqCst);
    }

    /// The next so many replies are cut in the middle: half of each arrives, and the connection breaks.
    pub fn cut_replies(&self, count: usize) {
        self.shared.cut_replies.store(count, Ordering::SeqCst);
    }

    /// How many replies are still to be lost.
    #[must_use]
    pub fn replies_to_lose(&self) -> usize {
        self.shared.lose_replies.load(Ordering::SeqCst)
    }

    /// From now on requests and replies arrive so much later.
    pub fn delay(&self, requests: Duration, replies: Duration) {
        let late = |delay| Link {
            latency: Latency::Constant(delay),
            ..Link::AT_ONCE
        };
        self.link(late(requests), late(replies));
    }

    /// From now on requests and replies are as late as these links say, and as many are lost: then
    /// nothing more passes on their connection, which hangs until its client closes it. On a connection
    /// nothing comes twice, or overtakes what was sent before it.
    pub fn link(&self, requests: Link, replies: Link) {
        let mut links = self.shared.links();
        (links.requests, links.replies) = (requests, replies);
    }

    /// How much has passed so far.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let read = |count: &AtomicU64| count.load(Ordering::SeqCst);
        Carried {
            requests: read(&self.shared.requests),
            replies: read(&self.shared.replies),
            bytes: read(&self.shared.bytes),
        }
    }

    /// How many replies have passed, if none is under way: each request that has passed has one.
    #[must_use]
    pub fn at_rest(&self) -> Option<u64> {
        let carried = self.carried();
        (carried.requests == carried.replies).then_some(carried.replies)
    }
}

impl Shared {
    fn links(&self) -> std::sync::MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// After how long a message arrives; `None` if it is lost.
    fn draw(&self, of: fn(&Links) -> Link) -> Option<Duration> {
        let mut links = self.links();
        let link = of(&links);
        let lost = links.rng.happens(link.loss);
        (!lost).then(|| link.latency.draw(&mut links.rng))
    }

    fn count(&self, messages: &AtomicU64, begins: bool, bytes: usize) {
        messages.fetch_add(begins.into(), Ordering::SeqCst);
        let bytes = bytes.try_into().unwrap_or(u64::MAX);
        self.bytes.fetch_add(bytes, Ordering::SeqCst);
    }
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    mut modes: watch::Receiver<ProxyMode>,
    shared: Arc<Shared>,
) {
    if *modes.borrow() == ProxyMode::Refuse {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    // A small message is not to wait for the next one.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut up, mut down) = ([0; 16 * 1024], [0; 16 * 1024]);
    // Whether the last piece went up: the first one of a turn begins a message.
    let mut went_up = None;
    loop {
        let mode = *modes.borrow_and_update();
        if mode == ProxyMode::Refuse {
            return;
        }
        let requests_pass = matches!(mode, ProxyMode::Pass | ProxyMode::HangReplies);
        let replies_pass = matches!(mode, ProxyMode::Pass | ProxyMode::HangRequests);
        tokio::select! {
            changed = modes.changed() => if changed.is_err() { return },
            read = client.read(&mut up), if requests_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let begins = went_up.replace(true) != Some(true);
                    shared.count(&shared.requests, begins, count);
                    if begins && !arrives(&shared, |links| links.requests).await {
                        return hang(&mut client).await;
                    }
                    if server.write_all(&up[..count]).await.is_err() { return }
                }
            },
            read = server.read(&mut down), if replies_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let begins = went_up.replace(false) != Some(false);
                    if begins && !arrives(&shared, |links| links.replies).await {
                        return hang(&mut client).await;
                    }
                    shared.count(&shared.replies, begins, count);
                    if take_one(&shared.lose_replies) {
                        return;
                    }
                    if take_one(&shared.cut_replies) {
                        let _ = client.write_all(&down[..count / 2]).await;
                        return;
                    }
                    if client.write_all(&down[..count]).await.is_err() { return }
                }
            },
        }
    }
}

/// Whether one of these is left; it is taken.
fn take_one(left: &AtomicUsize) -> bool {
    let order = Ordering::SeqCst;
    let taken = left.fetch_update(order, order, |left| left.checked_sub(1));
    taken.is_ok()
}

/// Waits for as long as a message is on its way, and tells whether it arrives.
async fn arrives(shared: &Shared, link: fn(&Links) -> Link) -> bool {
    let Some(latency) = shared.draw(link) else {
        return false;
    };
    if !latency.is_zero() {
        sleep(latency).await;
    }
    true
}

/// Until the client gives up.
async fn hang(client: &mut TcpStream) {
    let mut unread = [0; 1024];
    while client.read(&mut unread).await.is_ok_and(|count| count > 0) {}
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;

    /// Asks an echo through a proxy, and gives the answer if one comes in half a second.
    async fn asks(proxy: &Proxy) -> Option<[u8; 4]> {
        let mut stream = TcpStream::connect(proxy.address()).await.ok()?;
        stream.write_all(b"ping").await.ok()?;
        let mut answer = [0; 4];
        let read = tokio::time::timeout(Duration::from_millis(500), stream.read_exact(&mut answer));
        read.await.ok()?.ok().map(|_| answer)
    }

    async fn echo() -> io::Result<SocketAddr> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut reader, mut writer) = stream.split();
                    let _ = tokio::io::copy(&mut reader, &mut writer).await;
                });
            }
        });
        Ok(address)
    }

    #[test]
    fn what_passes_is_counted_and_what_is_cut_slow_or_lost_arrives_so() {
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(async {
            let proxy = Proxy::start(echo().await.expect("an echo")).await;
            let proxy = proxy.expect("a proxy");
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
            let once = Carried {
                requests: 1,
                replies: 1,
                bytes: 8,
            };
            assert_eq!((proxy.carried(), proxy.at_rest()), (once, Some(1)));
            for cut in [
                ProxyMode::Hang,
                ProxyMode::HangRequests,
                ProxyMode::HangReplies,
                ProxyMode::Refuse,
            ] {
                proxy.set(cut);
                assert_eq!(asks(&proxy).await, None, "{cut:?}");
            }
            proxy.set(ProxyMode::Pass);
            let begun = std::time::Instant::now();
            proxy.delay(Duration::from_millis(60), Duration::from_millis(40));
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
            assert!(begun.elapsed() >= Duration::from_millis(100));
            let lossy = Link {
                loss: 1_000_000,
                ..Link::AT_ONCE
            };
            for (requests, replies) in [(lossy, Link::AT_ONCE), (Link::AT_ONCE, lossy)] {
                proxy.link(requests, replies);
                assert_eq!(asks(&proxy).await, None);
            }
            proxy.link(Link::AT_ONCE, Link::AT_ONCE);
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
            let half_of_it = async {
                let mut stream = TcpStream::connect(proxy.address()).await?;
                stream.write_all(b"ping").await?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.map(|_| answer)
            };
            proxy.cut_replies(1);
            assert_eq!(half_of_it.await.expect("an end"), b"pi");
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
        });
    }
}
