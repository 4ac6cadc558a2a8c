//! The network between processes: a proxy for each link from one process to another. Links can be
//! cut and slowed down, and messages are counted.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;
use tenure_lab::proxy::{Proxy, ProxyMode};
use tenure_sim::sim::{Link, Traffic};
use tokio::runtime::{Builder, Runtime};

/// The number of the store among the processes; candidates have greater ones.
pub(super) const STORE: u32 = 0;

/// A network between processes, which are known by their numbers.
#[derive(Debug)]
pub(super) struct Network {
    /// The addresses that they listen on.
    listen: BTreeMap<u32, SocketAddr>,
    /// By client and server.
    proxies: BTreeMap<(u32, u32), Proxy>,
    /// Senders and receivers of the links that are cut.
    cuts: Mutex<BTreeSet<(u32, u32)>>,
    /// Runs the proxies until it is dropped.
    _runtime: Runtime,
}

impl Network {
    /// A network for processes with these numbers, including [`STORE`] if there is one.
    pub(super) fn start(numbers: &[u32]) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listen = numbers.iter().map(|&it| Ok((it, free_address(it)?)));
        let listen: BTreeMap<_, _> = listen.collect::<anyhow::Result<_>>()?;
        let mut proxies = BTreeMap::new();
        for (&to, &address) in &listen {
            // The store sends no requests.
            let clients = numbers.iter().copied();
            for from in clients.filter(|&from| from != to && from != STORE) {
                let proxy = runtime.block_on(Proxy::start(address));
                proxies.insert((from, to), proxy.context("can't start a proxy")?);
            }
        }
        Ok(Self {
            listen,
            proxies,
            cuts: Mutex::default(),
            _runtime: runtime,
        })
    }

    /// The address that a process listens on.
    pub(super) fn listen_address(&self, number: u32) -> SocketAddr {
        self.listen[&number]
    }

    /// The address at which `from` reaches `to`.
    pub(super) fn address(&self, from: u32, to: u32) -> SocketAddr {
        let proxy = self.proxies.get(&(from, to));
        proxy.map_or_else(|| self.listen[&to], Proxy::address)
    }

    /// The setting `bully.peers` of a process, with the addresses at which it reaches its peers.
    pub(super) fn peers_of(&self, number: u32, priority: impl Fn(u32) -> u32) -> String {
        let all = self.listen.keys().filter(|&&to| to != STORE);
        let peers = all.map(|&to| {
            let address = self.address(number, to);
            format!("{to}@{}=http://{address}", priority(to))
        });
        peers.collect::<Vec<_>>().join(",")
    }

    /// Cuts the links between these and all others, in both directions.
    pub(super) fn cut_off(&self, some: &[u32]) {
        let others = self.listen.keys().filter(|number| !some.contains(number));
        let pairs = others.flat_map(|&other| some.iter().map(move |&one| (one, other)));
        let both_ways = pairs.flat_map(|(one, other)| [(one, other), (other, one)]);
        self.change_cuts(|cuts| cuts.extend(both_ways));
    }

    /// Cuts the link from one process to another, for its requests and its responses.
    pub(super) fn cut_one_way(&self, from: u32, to: u32) {
        self.change_cuts(|cuts| cuts.extend([(from, to)]));
    }

    /// Restores all links.
    pub(super) fn heal(&self) {
        self.change_cuts(BTreeSet::clear);
    }

    /// Stops all messages from the senders to the receivers of the cuts, and no others. A request
    /// has one direction, and its response the other.
    fn change_cuts(&self, change: impl FnOnce(&mut BTreeSet<(u32, u32)>)) {
        let mut cuts = self.cuts.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut cuts);
        for (&(from, to), proxy) in &self.proxies {
            proxy.set(
                match (cuts.contains(&(from, to)), cuts.contains(&(to, from))) {
                    (false, false) => ProxyMode::Pass,
                    (true, false) => ProxyMode::HangRequests,
                    (false, true) => ProxyMode::HangReplies,
                    (true, true) => ProxyMode::Hang,
                },
            );
        }
    }

    /// Gives all links this latency and loss.
    pub(super) fn slow(&self, link: Link) {
        for proxy in self.proxies.values() {
            proxy.link(link, link);
        }
    }

    /// Returns the traffic of all links so far. All messages count as messages of elections.
    pub(super) fn traffic(&self) -> Traffic {
        let all = self.proxies.values().map(Proxy::carried);
        all.fold(Traffic::default(), |sum, it| {
            let messages = sum.messages + it.requests + it.replies;
            let bytes = sum.bytes + it.bytes;
            Traffic {
                election: messages,
                election_bytes: bytes,
                messages,
                bytes,
                // The proxies see no disks.
                ..sum
            }
        })
    }
}

/// A free address, which stays free while its owner restarts: outgoing connections use another IP
/// address.
fn free_address(number: u32) -> anyhow::Result<SocketAddr> {
    let [.., last] = (number + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, 0, 0, last);
    let listener = TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("can't listen on {address}"))?;
    Ok(listener.local_addr()?)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// Whether 2 receives the request of 1 within 200 ms, and 1 the response.
    fn request_and_response(network: &Network, listener: &TcpListener) -> (bool, bool) {
        let mut client = TcpStream::connect(network.address(1, 2)).expect("a proxy");
        let (mut server, _) = listener.accept().expect("the proxy's connection");
        let sends = |from: &mut TcpStream, to: &mut TcpStream| {
            from.write_all(b"!").expect("a connection");
            let wait = Some(Duration::from_millis(200));
            to.set_read_timeout(wait).expect("a socket");
            to.read_exact(&mut [0]).is_ok()
        };
        (
            sends(&mut client, &mut server),
            sends(&mut server, &mut client),
        )
    }

    #[test]
    fn a_cut_stops_messages_in_its_direction_only() {
        let network = Network::start(&[1, 2, 3]).expect("a network");
        // Bound once: a process that another test starts holds a closed listener's address until
        // it executes its program.
        let listener = TcpListener::bind(network.listen_address(2)).expect("its address is free");
        assert_eq!(request_and_response(&network, &listener), (true, true));
        network.cut_one_way(1, 2);
        assert_eq!(request_and_response(&network, &listener), (false, true));
        network.heal();
        network.cut_one_way(2, 1);
        assert_eq!(request_and_response(&network, &listener), (true, false));
        network.heal();
        // On one side of the cut.
        network.cut_off(&[3]);
        assert_eq!(request_and_response(&network, &listener), (true, true));
        network.cut_off(&[1]);
        assert_eq!(request_and_response(&network, &listener), (false, false));
        assert!(network.traffic().messages >= 6);
    }
}
