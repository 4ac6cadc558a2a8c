//! The network between processes: every link goes through this one, so that it can be cut, and what
//! goes over it counted.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

/// The number of the store; those of candidates are above it.
pub(crate) const STORE: u32 = 0;

/// All links, each in one direction: from who asks to who is asked.
#[derive(Debug)]
pub(crate) struct Network {
    /// Where they listen.
    listen: BTreeMap<u32, SocketAddr>,
    /// Where they find each other instead.
    links: BTreeMap<(u32, u32), SocketAddr>,
    /// Who is on the one side of the cut; nobody if there is none.
    cut: watch::Sender<Vec<u32>>,
    carried: Arc<Carried>,
    /// Carries everything, until this is dropped.
    _runtime: Runtime,
}

/// How much went over all links.
#[derive(Debug, Default)]
struct Carried {
    messages: AtomicU64,
    bytes: AtomicU64,
}

impl Network {
    /// A network for these, [`STORE`] with them if there is one.
    pub(crate) fn start(numbers: &[u32]) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (cut, _) = watch::channel(Vec::new());
        let mut network = Self {
            listen: BTreeMap::new(),
            links: BTreeMap::new(),
            cut,
            carried: Arc::default(),
            _runtime: runtime,
        };
        for &number in numbers {
            network.listen.insert(number, free_address(number)?);
        }
        for (&to, &address) in &network.listen {
            let who = numbers.iter().copied();
            for from in who.filter(|&from| from != to && from != STORE) {
                let begin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                let listener = network._runtime.block_on(begin)?;
                network.links.insert((from, to), listener.local_addr()?);
                let (cut, carried) = (network.cut.subscribe(), network.carried.clone());
                network._runtime.spawn(async move {
                    while let Ok((client, _)) = listener.accept().await {
                        let (cut, carried) = (cut.clone(), carried.clone());
                        tokio::spawn(connection(client, address, (from, to), cut, carried));
                    }
                });
            }
        }
        Ok(network)
    }

    /// Where this one listens.
    pub(crate) fn listens(&self, number: u32) -> SocketAddr {
        self.listen[&number]
    }

    /// Where the one reaches the other.
    pub(crate) fn link(&self, from: u32, to: u32) -> SocketAddr {
        let link = self.links.get(&(from, to));
        *link.unwrap_or_else(|| &self.listen[&to])
    }

    /// All peers and where they are, as this one is to reach them.
    pub(crate) fn peers_of(&self, number: u32) -> String {
        let all = self.listen.keys().filter(|&&to| to != STORE);
        let peers = all.map(|&to| format!("{to}=http://{}", self.link(number, to)));
        peers.collect::<Vec<_>>().join(",")
    }

    /// From now on nothing gets from these to the others, nor back.
    pub(crate) fn cut_off(&self, some: Vec<u32>) {
        self.cut.send_replace(some);
    }

    /// From now on everything gets through.
    pub(crate) fn heal(&self) {
        self.cut.send_replace(Vec::new());
    }

    /// How many requests and answers went over the links, and how many bytes with their heads.
    pub(crate) fn carried(&self) -> (u64, u64) {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (read(&self.carried.messages), read(&self.carried.bytes))
    }
}

/// An address that is free now, and stays so while its owner is started again: connections leave from
/// another one.
fn free_address(number: u32) -> anyhow::Result<SocketAddr> {
    let [.., last] = (number + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, 0, 0, last);
    let listener = std::net::TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("can't listen on {address}"))?;
    Ok(listener.local_addr()?)
}

/// Carries a connection. When its link is cut it hangs, like one whose packets are lost.
async fn connection(
    client: TcpStream,
    to: SocketAddr,
    ends: (u32, u32),
    mut cut: watch::Receiver<Vec<u32>>,
    carried: Arc<Carried>,
) {
    let is_cut = |side: &Vec<u32>| side.contains(&ends.0) != side.contains(&ends.1);
    let Ok(server) = TcpStream::connect(to).await else {
        return;
    };
    let mut ends = (client, server);
    let mut seen = cut.clone();
    tokio::select! {
        biased;
        _ = seen.wait_for(is_cut) => {}
        _ = carry(&mut ends, &carried) => return,
    }
    // What was under way is lost, so the connection is of no use afterwards.
    let _ = cut.wait_for(|side| !is_cut(side)).await;
}

/// Until one of the two closes. Requests and answers alternate, so each turn is a message.
async fn carry(
    (client, server): &mut (TcpStream, TcpStream),
    carried: &Carried,
) -> std::io::Result<()> {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (mut up, mut down) = ([0; 16 * 1024], [0; 16 * 1024]);
    let mut last_up = None;
    loop {
        let (bytes, is_up) = tokio::select! {
            read = client.read(&mut up) => (read?, true),
            read = server.read(&mut down) => (read?, false),
        };
        if bytes == 0 {
            return Ok(());
        }
        if last_up.replace(is_up) != Some(is_up) {
            carried.messages.fetch_add(1, Ordering::Relaxed);
        }
        let count = u64::try_from(bytes).unwrap_or_default();
        carried.bytes.fetch_add(count, Ordering::Relaxed);
        if is_up {
            server.write_all(&up[..bytes]).await?;
        } else {
            client.write_all(&down[..bytes]).await?;
        }
    }
}
