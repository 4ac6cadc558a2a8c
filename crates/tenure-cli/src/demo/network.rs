//! The network between workers that elect among themselves: every link goes through this process, so
//! that it can be cut.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::fleet::Worker;

/// All links, each in one direction: from who asks to who is asked.
#[derive(Debug)]
pub(super) struct Network {
    /// Where the workers listen.
    listen: BTreeMap<Worker, SocketAddr>,
    /// Where they find each other instead.
    links: BTreeMap<(Worker, Worker), SocketAddr>,
    /// Who is on the one side of the cut; nobody if there is none.
    cut: watch::Sender<Vec<Worker>>,
    /// Carries everything, until this is dropped.
    _runtime: Runtime,
}

impl Network {
    /// A network for these workers.
    pub(super) fn start(workers: &[Worker]) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let (cut, _) = watch::channel(Vec::new());
        let mut network = Self {
            listen: BTreeMap::new(),
            links: BTreeMap::new(),
            cut,
            _runtime: runtime,
        };
        for &worker in workers {
            network.listen.insert(worker, free_address(worker)?);
        }
        for (&to, &address) in &network.listen {
            for &from in workers.iter().filter(|&&from| from != to) {
                let begin = TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
                let listener = network._runtime.block_on(begin)?;
                network.links.insert((from, to), listener.local_addr()?);
                let cut = network.cut.subscribe();
                network._runtime.spawn(async move {
                    while let Ok((client, _)) = listener.accept().await {
                        tokio::spawn(carry(client, address, (from, to), cut.clone()));
                    }
                });
            }
        }
        Ok(network)
    }

    /// Where this worker listens.
    pub(super) fn listens(&self, worker: Worker) -> SocketAddr {
        self.listen[&worker]
    }

    /// All workers and where they are, as this one is to reach them.
    pub(super) fn peers_of(&self, worker: Worker) -> String {
        let peer = |(&to, own)| {
            let address = self.links.get(&(worker, to)).unwrap_or(own);
            format!("{}=http://{address}", to.0)
        };
        let peers: Vec<String> = self.listen.iter().map(peer).collect();
        peers.join(",")
    }

    /// From now on nothing gets from these to the others, nor back.
    pub(super) fn cut_off(&self, some: Vec<Worker>) {
        self.cut.send_replace(some);
    }

    /// From now on everything gets through.
    pub(super) fn heal(&self) {
        self.cut.send_replace(Vec::new());
    }
}

/// An address that is free now, and stays so while a worker is started again: connections leave from
/// another one.
fn free_address(worker: Worker) -> anyhow::Result<SocketAddr> {
    let [.., last] = (worker.0 + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, 0, 0, last);
    let listener = std::net::TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("can't listen on {address}"))?;
    Ok(listener.local_addr()?)
}

/// Carries a connection. When its link is cut it hangs, like one whose packets are lost.
async fn carry(
    mut client: TcpStream,
    to: SocketAddr,
    ends: (Worker, Worker),
    mut cut: watch::Receiver<Vec<Worker>>,
) {
    let is_cut = |side: &Vec<Worker>| side.contains(&ends.0) != side.contains(&ends.1);
    let Ok(mut server) = TcpStream::connect(to).await else {
        return;
    };
    let mut seen = cut.clone();
    tokio::select! {
        biased;
        _ = seen.wait_for(is_cut) => {}
        _ = copy_bidirectional(&mut client, &mut server) => return,
    }
    // What was under way is lost, so the connection is of no use afterwards.
    let _ = cut.wait_for(|side| !is_cut(side)).await;
}
