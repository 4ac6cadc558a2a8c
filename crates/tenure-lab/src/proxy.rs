//! A TCP proxy that injects faults between two real processes, for live comparisons and tests.
//!
//! It assumes HTTP: requests and responses alternate on a connection. The bytes in one direction
//! until the direction changes are one message.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tenure_sim::sim::{Latency, Link, Rng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// The behaviour of the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyMode {
    /// All bytes pass.
    Pass,
    /// Connections hang, including new ones: no bytes arrive, and no connection is refused. The
    /// pending bytes arrive when the mode changes back.
    Hang,
    /// Bytes to the target hang; bytes from the target pass.
    HangRequests,
    /// Bytes from the target hang; bytes to the target pass.
    HangReplies,
    /// Requests pass; each reply is lost, and its connection is reset.
    LoseReplies,
    /// Connections are closed, including new ones.
    Refuse,
}

/// A proxy in front of a store or a member. It ends with the runtime on which it was started.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    mode: watch::Sender<ProxyMode>,
    state: Arc<Mutex<State>>,
}

/// The traffic of a proxy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// The number of requests that came in.
    pub requests: u64,
    /// The number of replies that went out.
    pub replies: u64,
    /// The bytes of both, with headers.
    pub bytes: u64,
}

/// The state that all connections share.
#[derive(Debug)]
struct State {
    /// The latency and loss of requests. The next field is for replies.
    requests: Link,
    replies: Link,
    rng: Rng,
    /// The number of the next replies that are lost. The next field is the number that are cut.
    lose_replies: usize,
    cut_replies: usize,
    /// Each reply whose number is a multiple of this one is lost; `None` if none is.
    lose_every: Option<u64>,
    /// The bytes in requests that are replaced, and others of the same length.
    replaced: Option<[&'static [u8]; 2]>,
    carried: Carried,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Proxy {
    /// Starts a proxy for this address on the current runtime.
    ///
    /// # Errors
    ///
    /// If there is no free port on the loopback interface.
    pub async fn start(target: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let (mode, modes) = watch::channel(ProxyMode::Pass);
        let state = Arc::new(Mutex::new(State {
            requests: Link::AT_ONCE,
            replies: Link::AT_ONCE,
            // The seed only makes proxies differ from each other: runs of real processes are not
            // reproducible.
            rng: Rng::new(address.port().into(), 0),
            lose_replies: 0,
            cut_replies: 0,
            lose_every: None,
            replaced: None,
            carried: Carried::default(),
        }));
        let shared = state.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(forward(client, target, modes.clone(), shared.clone()));
            }
        });
        Ok(Self {
            address,
            mode,
            state,
        })
    }

    /// Returns the address on which the proxy listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode.
    pub fn set(&self, mode: ProxyMode) {
        self.mode.send_replace(mode);
    }

    /// Loses this number of replies: the target has executed the request, and its answer does not
    /// arrive. The connection is reset.
    pub fn lose_replies(&self, count: usize) {
        lock(&self.state).lose_replies = count;
    }

    /// Loses one of this number of replies from now on; `None` loses none.
    pub fn lose_every(&self, number: Option<u64>) {
        lock(&self.state).lose_every = number;
    }

    /// Replaces these bytes of requests by others of the same length from now on, wherever one read
    /// has all of them. So a test can give a client a bug that its build does not have.
    ///
    /// # Panics
    ///
    /// If the lengths differ.
    pub fn replace_in_requests(&self, these: &'static [u8], others: &'static [u8]) {
        assert_eq!(these.len(), others.len(), "requests keep their length");
        lock(&self.state).replaced = Some([these, others]);
    }

    /// Cuts this number of replies: half of each reply arrives, and then the connection breaks.
    pub fn cut_replies(&self, count: usize) {
        lock(&self.state).cut_replies = count;
    }

    /// Returns the number of replies that will still be lost.
    #[must_use]
    pub fn replies_to_lose(&self) -> usize {
        lock(&self.state).lose_replies
    }

    /// Delays each request and each reply by these durations.
    pub fn delay(&self, requests: Duration, replies: Duration) {
        let late = |delay| Link {
            latency: Latency::Constant(delay),
            ..Link::AT_ONCE
        };
        self.link(late(requests), late(replies));
    }

    /// Gives requests and replies the latency and the loss of these links. After a loss the
    /// connection hangs until its client closes it. Messages of a connection are never repeated and
    /// stay in order.
    pub fn link(&self, requests: Link, replies: Link) {
        let mut state = lock(&self.state);
        (state.requests, state.replies) = (requests, replies);
    }

    /// Returns the traffic so far.
    #[must_use]
    pub fn carried(&self) -> Carried {
        lock(&self.state).carried
    }

    /// Returns the number of replies so far, if every request has its reply.
    #[must_use]
    pub fn at_rest(&self) -> Option<u64> {
        let carried = self.carried();
        (carried.requests == carried.replies).then_some(carried.replies)
    }
}

async fn forward(
    mut client: TcpStream,
    target: SocketAddr,
    mut modes: watch::Receiver<ProxyMode>,
    state: Arc<Mutex<State>>,
) {
    if *modes.borrow() == ProxyMode::Refuse {
        return;
    }
    let Ok(mut server) = TcpStream::connect(target).await else {
        return;
    };
    // Small messages must not wait to be combined.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut up, mut down) = ([0; 16 * 1024], [0; 16 * 1024]);
    // Whether the last bytes belonged to a request. The first bytes after a change begin a message.
    let mut went_up = None;
    loop {
        let mode = *modes.borrow_and_update();
        if mode == ProxyMode::Refuse {
            return;
        }
        let requests_pass = !matches!(mode, ProxyMode::Hang | ProxyMode::HangRequests);
        let replies_pass = !matches!(mode, ProxyMode::Hang | ProxyMode::HangReplies);
        tokio::select! {
            // A change comes before bytes that were sent after it.
            biased;
            changed = modes.changed() => if changed.is_err() { return },
            read = client.read(&mut up), if requests_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let begins = went_up.replace(true) != Some(true);
                    lock(&state).count(|it| &mut it.requests, begins, count);
                    lock(&state).replace(&mut up[..count]);
                    if begins && !arrives(&state, |it| it.requests).await {
                        return hang(&mut client).await;
                    }
                    if server.write_all(&up[..count]).await.is_err() { return }
                }
            },
            read = server.read(&mut down), if replies_pass => match read {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    let begins = went_up.replace(false) != Some(false);
                    if begins && !arrives(&state, |it| it.replies).await {
                        return hang(&mut client).await;
                    }
                    lock(&state).count(|it| &mut it.replies, begins, count);
                    if mode == ProxyMode::LoseReplies || lock(&state).loses_reply(begins) {
                        let _ = client.set_zero_linger();
                        return;
                    }
                    if take_one(&mut lock(&state).cut_replies) {
                        let _ = client.write_all(&down[..count / 2]).await;
                        return;
                    }
                    if client.write_all(&down[..count]).await.is_err() { return }
                }
            },
        }
    }
}

impl State {
    fn count(&mut self, of: fn(&mut Carried) -> &mut u64, begins: bool, bytes: usize) {
        *of(&mut self.carried) += u64::from(begins);
        self.carried.bytes += bytes as u64;
    }

    fn replace(&self, bytes: &mut [u8]) {
        let Some([these, others]) = self.replaced else {
            return;
        };
        let mut rest = bytes;
        while let Some(at) = rest.windows(these.len()).position(|it| it == these) {
            let (found, after) = rest[at..].split_at_mut(these.len());
            found.copy_from_slice(others);
            rest = after;
        }
    }

    /// Returns whether the reply that was just counted is lost.
    fn loses_reply(&mut self, begins: bool) -> bool {
        let number = self.carried.replies;
        let is_chosen = (self.lose_every).is_some_and(|every| number.is_multiple_of(every));
        begins && is_chosen || take_one(&mut self.lose_replies)
    }
}

/// Decrements the count. Returns whether it was above zero.
fn take_one(left: &mut usize) -> bool {
    let taken = left.checked_sub(1);
    *left = taken.unwrap_or_default();
    taken.is_some()
}

/// Waits for the latency of a message, and returns whether the message arrives.
async fn arrives(state: &Mutex<State>, link: fn(&State) -> Link) -> bool {
    let latency = {
        let mut state = lock(state);
        let link = link(&state);
        let lost = state.rng.happens(link.loss);
        (!lost).then(|| link.latency.draw(&mut state.rng))
    };
    if let Some(latency) = latency.filter(|latency| !latency.is_zero()) {
        sleep(latency).await;
    }
    latency.is_some()
}

/// Waits until the client closes the connection.
async fn hang(client: &mut TcpStream) {
    let mut unread = [0; 1024];
    while client.read(&mut unread).await.is_ok_and(|count| count > 0) {}
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Runtime;

    use super::*;

    /// Sends bytes to an echo server through a proxy. Returns the answer unless the connection
    /// breaks or hangs.
    async fn asks(proxy: &Proxy) -> Option<[u8; 4]> {
        asks_within(proxy, Duration::from_secs(60)).await
    }

    async fn asks_within(proxy: &Proxy, time: Duration) -> Option<[u8; 4]> {
        let mut stream = TcpStream::connect(proxy.address()).await.ok()?;
        stream.write_all(b"ping").await.ok()?;
        let mut answer = [0; 4];
        let read = tokio::time::timeout(time, stream.read_exact(&mut answer));
        read.await.ok()?.ok().map(|_| answer)
    }

    /// The same for a connection that may hang.
    async fn hangs(proxy: &Proxy) -> bool {
        asks_within(proxy, Duration::from_millis(500))
            .await
            .is_none()
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
    fn a_proxy_counts_cuts_delays_and_loses_messages() {
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
                assert!(hangs(&proxy).await, "{cut:?}");
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
                assert!(hangs(&proxy).await);
            }
            proxy.link(Link::AT_ONCE, Link::AT_ONCE);
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
            // The target gets the requests whose answers are lost, and their connections are reset.
            let carried = || (proxy.carried().requests, proxy.carried().replies);
            let (requests, replies) = carried();
            proxy.set(ProxyMode::LoseReplies);
            let mut stream = TcpStream::connect(proxy.address())
                .await
                .expect("a connection");
            stream.write_all(b"ping").await.expect("a request");
            let error = stream.read(&mut [0]).await.expect_err("no answer");
            assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
            assert_eq!(carried(), (requests + 1, replies + 1));
            proxy.set(ProxyMode::Pass);
            proxy.lose_every(Some(3));
            let mut answers = Vec::new();
            for _ in 0..6 {
                answers.push(asks(&proxy).await.is_some());
            }
            proxy.lose_every(None);
            assert_eq!(answers.iter().filter(|answered| **answered).count(), 4);
            assert_eq!(answers[..3], answers[3..]);
            let half_of_it = async {
                let mut stream = TcpStream::connect(proxy.address()).await?;
                stream.write_all(b"ping").await?;
                let mut answer = Vec::new();
                stream.read_to_end(&mut answer).await.map(|_| answer)
            };
            proxy.cut_replies(1);
            assert_eq!(half_of_it.await.expect("an end"), b"pi");
            assert_eq!(asks(&proxy).await, Some(*b"ping"));
            proxy.replace_in_requests(b"in", b"on");
            assert_eq!(asks(&proxy).await, Some(*b"pong"));
        });
    }
}
