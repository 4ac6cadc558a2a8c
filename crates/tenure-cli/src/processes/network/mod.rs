//! The network between processes: what goes over it can be cut, slowed down and counted.

mod namespaces;
mod proxies;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Sub;
use std::process::{Child, Command};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tenure_lab::sim::Link;

use namespaces::Namespaces;
use proxies::Proxies;

/// The number of the store; those of candidates are above it.
pub(crate) const STORE: u32 = 0;

/// What lies between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum NetworkKind {
    /// Proxies in this process
    Proxy,
    /// A network namespace for each process, and a switch between them: Linux, as root, with "ip" and "nft"
    Namespaces,
}

/// All ways between some processes.
#[derive(Debug)]
pub(crate) struct Network {
    /// Where they listen.
    listen: BTreeMap<u32, SocketAddr>,
    /// From whom to whom nothing gets.
    cuts: Mutex<BTreeSet<(u32, u32)>>,
    ways: Ways,
}

#[derive(Debug)]
enum Ways {
    Proxies(Proxies),
    Namespaces(Namespaces),
}

/// How much went over all ways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Requests and answers.
    pub(crate) messages: u64,
    /// With the heads of all that they are wrapped in.
    pub(crate) bytes: u64,
}

impl NetworkKind {
    /// Fails with what is missing if there can't be such a network.
    pub(crate) fn can_be(self) -> anyhow::Result<()> {
        match self {
            Self::Proxy => Ok(()),
            Self::Namespaces => Namespaces::make(&[]).map(drop),
        }
    }
}

impl Network {
    /// A network of proxies for these, [`STORE`] with them if there is one.
    pub(crate) fn start(numbers: &[u32]) -> anyhow::Result<Self> {
        Self::of(NetworkKind::Proxy, numbers)
    }

    /// The same, of this kind.
    pub(crate) fn of(kind: NetworkKind, numbers: &[u32]) -> anyhow::Result<Self> {
        let (listen, ways) = match kind {
            NetworkKind::Proxy => {
                let (listen, proxies) = Proxies::start(numbers)?;
                (listen, Ways::Proxies(proxies))
            }
            NetworkKind::Namespaces => {
                let listen = numbers.iter().map(|&it| (it, namespaces::listens(it)));
                let namespaces = Namespaces::make(numbers)?;
                (listen.collect(), Ways::Namespaces(namespaces))
            }
        };
        let cuts = Mutex::default();
        Ok(Self { listen, cuts, ways })
    }

    /// Where this one listens.
    pub(crate) fn listens(&self, number: u32) -> SocketAddr {
        self.listen[&number]
    }

    /// Where the one reaches the other.
    pub(crate) fn link(&self, from: u32, to: u32) -> SocketAddr {
        let proxy = match &self.ways {
            Ways::Proxies(proxies) => proxies.address(from, to),
            Ways::Namespaces(_) => None,
        };
        proxy.unwrap_or_else(|| self.listen[&to])
    }

    /// All peers with their ranks, and where they are, as this one is to reach them.
    pub(crate) fn peers_of(&self, number: u32, priority: impl Fn(u32) -> u32) -> String {
        let all = self.listen.keys().filter(|&&to| to != STORE);
        let peers = all.map(|&to| {
            let address = self.link(number, to);
            format!("{to}@{}=http://{address}", priority(to))
        });
        peers.collect::<Vec<_>>().join(",")
    }

    /// A port of this process that all reach, whatever is cut. What comes there is not counted.
    pub(crate) fn listener(&self) -> anyhow::Result<TcpListener> {
        match &self.ways {
            Ways::Proxies(_) => Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?),
            Ways::Namespaces(namespaces) => namespaces.listener(),
        }
    }

    /// Starts a process where this one belongs.
    pub(crate) fn spawn(&self, number: u32, mut command: Command) -> anyhow::Result<Child> {
        match &self.ways {
            Ways::Proxies(_) => Ok(command.spawn()?),
            Ways::Namespaces(namespaces) => namespaces.spawn(number, command),
        }
    }

    /// From now on nothing gets from these to the others, nor back.
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

    /// From now on nothing gets from the one to the other, neither what it asks nor what it answers.
    pub(crate) fn cut_one_way(&self, from: u32, to: u32) -> anyhow::Result<()> {
        let mut cuts = self.cuts();
        cuts.insert((from, to));
        self.apply(&cuts)
    }

    /// From now on everything gets through.
    pub(crate) fn heal(&self) -> anyhow::Result<()> {
        let mut cuts = self.cuts();
        cuts.clear();
        self.apply(&cuts)
    }

    fn cuts(&self) -> MutexGuard<'_, BTreeSet<(u32, u32)>> {
        self.cuts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, cuts: &BTreeSet<(u32, u32)>) -> anyhow::Result<()> {
        match &self.ways {
            Ways::Proxies(proxies) => {
                proxies.cut(cuts);
                Ok(())
            }
            Ways::Namespaces(namespaces) => namespaces.cut(cuts),
        }
    }

    /// From now on messages are as late as this says, and as many are lost; `None`: no longer. Only
    /// proxies can do that.
    pub(crate) fn slow(&self, link: Option<Link>) -> anyhow::Result<()> {
        match &self.ways {
            Ways::Proxies(proxies) => proxies.slow(link),
            Ways::Namespaces(_) => anyhow::bail!("only proxies slow links down"),
        }
        Ok(())
    }

    /// How much went over all ways so far.
    pub(crate) fn carried(&self) -> anyhow::Result<Carried> {
        match &self.ways {
            Ways::Proxies(proxies) => Ok(proxies.carried()),
            Ways::Namespaces(namespaces) => namespaces.carried(),
        }
    }

    /// How many network namespaces there are; all are gone when this is dropped and all processes in
    /// them have ended.
    pub(crate) fn namespaces(&self) -> usize {
        match &self.ways {
            Ways::Proxies(_) => 0,
            Ways::Namespaces(namespaces) => namespaces.count(),
        }
    }
}

impl Sub for Carried {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(earlier.messages),
            bytes: self.bytes.saturating_sub(earlier.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;

    /// Whether 2 hears what 1 asks in a while, and 1 the answer.
    fn asks(network: &Network) -> (bool, bool) {
        let listener = TcpListener::bind(network.listens(2)).expect("its address is free");
        let mut asks = TcpStream::connect(network.link(1, 2)).expect("a proxy");
        let (mut hears, _) = listener.accept().expect("the proxy's connection");
        let says = |from: &mut TcpStream, to: &mut TcpStream| {
            from.write_all(b"!").expect("a connection");
            let wait = Some(Duration::from_millis(200));
            to.set_read_timeout(wait).expect("a socket");
            to.read_exact(&mut [0]).is_ok()
        };
        (says(&mut asks, &mut hears), says(&mut hears, &mut asks))
    }

    #[test]
    fn a_cut_takes_what_goes_its_way_and_nothing_else() {
        let network = Network::start(&[1, 2, 3]).expect("a network");
        assert_eq!(asks(&network), (true, true));
        network.cut_one_way(1, 2).expect("a cut");
        assert_eq!(asks(&network), (false, true));
        network.heal().expect("no cut");
        network.cut_one_way(2, 1).expect("a cut");
        assert_eq!(asks(&network), (true, false));
        network.heal().expect("no cut");
        // On one side of the cut.
        network.cut_off(&[3]).expect("a cut");
        assert_eq!(asks(&network), (true, true));
        network.cut_off(&[1]).expect("a cut");
        assert_eq!(asks(&network), (false, false));
        assert!(network.carried().expect("a count").messages >= 6);
    }
}
