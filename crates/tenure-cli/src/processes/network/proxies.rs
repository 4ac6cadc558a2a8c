//! A proxy for each link from one process to another.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::Context;
use tenure_lab::proxy::{Proxy, ProxyMode};
use tenure_lab::sim::Link;
use tokio::runtime::Runtime;

use super::traffic::TrafficCount;
use crate::processes::store::STORE;

/// Proxies by client and server.
#[derive(Debug)]
pub(super) struct Proxies {
    all: BTreeMap<(u32, u32), Proxy>,
    /// Runs the proxies until it is dropped.
    _runtime: Runtime,
}

impl Proxies {
    /// The addresses that processes with these numbers must listen on, and proxies between them.
    pub(super) fn start(numbers: &[u32]) -> anyhow::Result<(BTreeMap<u32, SocketAddr>, Self)> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        let listen = numbers.iter().map(|&it| Ok((it, free_address(it)?)));
        let listen: BTreeMap<_, _> = listen.collect::<anyhow::Result<_>>()?;
        let mut all = BTreeMap::new();
        for (&to, &address) in &listen {
            // The store sends no requests.
            let clients = numbers.iter().copied();
            for from in clients.filter(|&from| from != to && from != STORE) {
                let proxy = runtime.block_on(Proxy::start(address));
                all.insert((from, to), proxy.context("can't start a proxy")?);
            }
        }
        let proxies = Self {
            all,
            _runtime: runtime,
        };
        Ok((listen, proxies))
    }

    /// The address at which `from` reaches `to`, if there is a proxy between them.
    pub(super) fn address(&self, from: u32, to: u32) -> Option<SocketAddr> {
        self.all.get(&(from, to)).map(Proxy::address)
    }

    /// Stops all messages from these senders to these receivers, and no others. A request has one
    /// direction, and its response the other.
    pub(super) fn cut(&self, cuts: &BTreeSet<(u32, u32)>) {
        for (&(from, to), proxy) in &self.all {
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

    pub(super) fn slow(&self, link: Option<Link>) {
        for proxy in self.all.values() {
            match link {
                Some(link) => proxy.link(link, link),
                None => proxy.link_at_once(),
            }
        }
    }

    pub(super) fn traffic(&self) -> TrafficCount {
        let all = self.all.values().map(Proxy::carried);
        all.fold(TrafficCount::default(), |sum, it| TrafficCount {
            messages: sum.messages + it.requests + it.replies,
            bytes: sum.bytes + it.bytes,
        })
    }
}

/// A free address, which stays free while its owner restarts: outgoing connections use another IP
/// address.
fn free_address(number: u32) -> anyhow::Result<SocketAddr> {
    let [.., last] = (number + 1).to_be_bytes();
    let address = Ipv4Addr::new(127, 0, 0, last);
    let listener = std::net::TcpListener::bind((address, 0));
    let listener = listener.with_context(|| format!("can't listen on {address}"))?;
    Ok(listener.local_addr()?)
}
