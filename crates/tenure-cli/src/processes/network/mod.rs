//! The network between processes. Its links can be cut and slowed down, and it counts messages.

mod namespaces;
mod proxies;
mod traffic;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_lab::sim::Link;

use crate::processes::store::STORE;
use namespaces::Namespaces;
use proxies::Proxies;

pub(crate) use traffic::TrafficCount;

/// The kind of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkKind {
    /// Proxies in this process
    Proxy,
    /// A network namespace for each process, and a switch between them: as root, with "ip" and
    /// "nft"
    Namespaces,
}

/// A network between processes, which are known by their numbers.
#[derive(Debug)]
pub(crate) struct Network {
    /// The addresses that they listen on.
    listen: BTreeMap<u32, SocketAddr>,
    /// Senders and receivers of the links that are cut.
    cuts: Mutex<BTreeSet<(u32, u32)>>,
    links: Links,
}

#[derive(Debug)]
enum Links {
    Proxies(Proxies),
    Namespaces(Namespaces),
}

impl NetworkKind {
    /// Fails with the reason if this machine can't have such a network.
    pub(crate) fn check_available(self) -> anyhow::Result<()> {
        match self {
            Self::Proxy => Ok(()),
            Self::Namespaces => Namespaces::create(&[]).map(drop),
        }
    }
}

impl Network {
    /// A network of proxies for processes with these numbers, including [`STORE`] if there is one.
    pub(crate) fn start(numbers: &[u32]) -> anyhow::Result<Self> {
        Self::start_kind(NetworkKind::Proxy, numbers)
    }

    /// A network of this kind for processes with these numbers.
    pub(crate) fn start_kind(kind: NetworkKind, numbers: &[u32]) -> anyhow::Result<Self> {
        let (listen, links) = match kind {
            NetworkKind::Proxy => {
                let (listen, proxies) = Proxies::start(numbers)?;
                (listen, Links::Proxies(proxies))
            }
            NetworkKind::Namespaces => {
                let listen = numbers
                    .iter()
                    .map(|&it| (it, namespaces::listen_address(it)));
                let namespaces = Namespaces::create(numbers)?;
                (listen.collect(), Links::Namespaces(namespaces))
            }
        };
        let cuts = Mutex::default();
        Ok(Self {
            listen,
            cuts,
            links,
        })
    }

    /// The address that a process listens on.
    pub(crate) fn listen_address(&self, number: u32) -> SocketAddr {
        self.listen[&number]
    }

    /// The address at which `from` reaches `to`.
    pub(crate) fn address(&self, from: u32, to: u32) -> SocketAddr {
        let proxy = match &self.links {
            Links::Proxies(proxies) => proxies.address(from, to),
            Links::Namespaces(_) => None,
        };
        proxy.unwrap_or_else(|| self.listen[&to])
    }

    /// The setting `bully.peers` of a process, with the addresses at which it reaches its peers.
    pub(crate) fn peers_of(&self, number: u32, priority: impl Fn(u32) -> u32) -> String {
        let all = self.listen.keys().filter(|&&to| to != STORE);
        let peers = all.map(|&to| {
            let address = self.address(number, to);
            format!("{to}@{}=http://{address}", priority(to))
        });
        peers.collect::<Vec<_>>().join(",")
    }

    /// A listener of this process that all others reach, whatever is cut. Its traffic is not
    /// counted.
    pub(crate) fn listener(&self) -> anyhow::Result<TcpListener> {
        match &self.links {
            Links::Proxies(_) => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
            Links::Namespaces(namespaces) => namespaces.listener(),
        }
    }

    /// Starts a process with this number.
    pub(crate) fn spawn(&self, number: u32, mut command: Command) -> anyhow::Result<Child> {
        match &self.links {
            Links::Proxies(_) => Ok(command.spawn()?),
            Links::Namespaces(namespaces) => namespaces.spawn(number, command),
        }
    }

    /// Cuts the links between these and all others, in both directions.
    pub(crate) fn cut_off(&self, some: &[u32]) -> anyhow::Result<()> {
        let others = self.listen.keys().filter(|number| !some.contains(number));
        let pairs = others.flat_map(|&other| some.iter().map(move |&one| (one, other)));
        let pairs: Vec<_> = pairs.collect();
        let mut cuts = self.cuts();
        cuts.extend(
            pairs
                .iter()
                .flat_map(|&(one, other)| [(one, other), (other, one)]),
        );
        self.apply(&cuts)
    }

    /// Cuts the link from one process to another, for its requests and its responses.
    pub(crate) fn cut_one_way(&self, from: u32, to: u32) -> anyhow::Result<()> {
        let mut cuts = self.cuts();
        cuts.insert((from, to));
        self.apply(&cuts)
    }

    /// Restores all links.
    pub(crate) fn heal(&self) -> anyhow::Result<()> {
        let mut cuts = self.cuts();
        cuts.clear();
        self.apply(&cuts)
    }

    fn cuts(&self) -> MutexGuard<'_, BTreeSet<(u32, u32)>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, cuts: &BTreeSet<(u32, u32)>) -> anyhow::Result<()> {
        match &self.links {
            Links::Proxies(proxies) => {
                proxies.cut(cuts);
                Ok(())
            }
            Links::Namespaces(namespaces) => namespaces.cut(cuts),
        }
    }

    /// Gives all links this latency and loss; `None`: none. Only proxies can do that.
    pub(crate) fn slow(&self, link: Option<Link>) -> anyhow::Result<()> {
        match &self.links {
            Links::Proxies(proxies) => proxies.slow(link),
            Links::Namespaces(_) => anyhow::bail!("only proxies can slow links down"),
        }
        Ok(())
    }

    /// How much was sent over all links so far.
    pub(crate) fn traffic(&self) -> anyhow::Result<TrafficCount> {
        match &self.links {
            Links::Proxies(proxies) => Ok(proxies.traffic()),
            Links::Namespaces(namespaces) => namespaces.traffic(),
        }
    }

    /// The number of network namespaces. All are gone when this is dropped and all processes in
    /// them have ended.
    pub(crate) fn namespaces(&self) -> usize {
        match &self.links {
            Links::Proxies(_) => 0,
            Links::Namespaces(namespaces) => namespaces.count(),
        }
    }
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
        network.cut_one_way(1, 2).expect("a cut");
        assert_eq!(request_and_response(&network, &listener), (false, true));
        network.heal().expect("no cut");
        network.cut_one_way(2, 1).expect("a cut");
        assert_eq!(request_and_response(&network, &listener), (true, false));
        network.heal().expect("no cut");
        // On one side of the cut.
        network.cut_off(&[3]).expect("a cut");
        assert_eq!(request_and_response(&network, &listener), (true, true));
        network.cut_off(&[1]).expect("a cut");
        assert_eq!(request_and_response(&network, &listener), (false, false));
        assert!(network.traffic().expect("a count").messages >= 6);
    }
}
