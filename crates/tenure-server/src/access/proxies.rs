//! Proxies in front of a store, which add the addresses of the store's clients to requests.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

/// The header to which each proxy appends the address of its client.
const FORWARDED: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The addresses of the proxies that a store trusts; none by default. Clones share the addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Arc<[IpNet]>);

impl TrustedProxies {
    /// Creates the set of the proxies with these addresses (`10.0.0.9`) and networks
    /// (`10.0.0.0/8`).
    ///
    /// # Errors
    ///
    /// The text that is neither an address nor a network.
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let networks = texts.into_iter().map(network);
        Ok(Self(networks.collect::<Result<_, _>>()?))
    }

    /// Returns whether a trusted proxy has this address.
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the address of the client that sent a request with these headers over a connection
    /// from `peer`: the last address in `X-Forwarded-For` that is not the address of a proxy.
    ///
    /// Addresses are read from the last one, which the nearest proxy has added. The client itself
    /// may have written every address before the first one that does not belong to a proxy.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer;
        if self.0.is_empty() {
            return client;
        }
        let values = headers.get_all(FORWARDED).iter();
        let values = values.rev().map(|value| value.to_str().unwrap_or_default());
        for text in values.flat_map(|value| value.rsplit(',')) {
            if !self.contains(client) {
                break;
            }
            match address(text.trim()) {
                Some(address) => client = address,
                // The proxy that added this value does not know its client.
                None => break,
            }
        }
        client
    }
}

fn network(text: &str) -> Result<IpNet, String> {
    // Addresses are compared in this form; a socket for both protocols shows IPv4 addresses as IPv6.
    let address = text
        .parse()
        .map(|address: IpAddr| IpNet::from(address.to_canonical()));
    address.or_else(|_| text.parse()).map_err(|_| {
        format!("{text:?} is not an IP address or a network such as 10.0.0.0/8 or 2001:db8::/32")
    })
}

/// Parses an address. Some proxies write the address with the port.
fn address(text: &str) -> Option<IpAddr> {
    let unbracketed = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = unbracketed.unwrap_or(text).parse();
    address
        .or_else(|_| text.parse().map(|address: SocketAddr| address.ip()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &[&str], peer: &str, forwarded: &[&str]) -> String {
        let proxies = TrustedProxies::new(proxies.iter().copied()).unwrap();
        let mut headers = HeaderMap::new();
        for value in forwarded {
            headers.append(FORWARDED, value.parse().unwrap());
        }
        proxies.client(peer.parse().unwrap(), &headers).to_string()
    }

    #[test]
    fn the_client_is_the_last_address_that_is_no_proxys() {
        let proxies = ["10.0.0.0/8", "2001:db8::7"];
        for (peer, forwarded, expected) in [
            ("192.0.2.1", &["198.51.100.1"][..], "192.0.2.1"),
            ("10.0.0.1", &[], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("::ffff:10.0.0.1", &["198.51.100.1"], "198.51.100.1"),
            ("2001:db8::7", &["2001:db8::8"], "2001:db8::8"),
            ("2001:db8::8", &["198.51.100.1"], "2001:db8::8"),
            // An address that the client wrote itself is ignored.
            ("10.0.0.1", &["203.0.113.5, 198.51.100.1"], "198.51.100.1"),
            (
                "10.0.0.1",
                &["203.0.113.5", "198.51.100.1,10.2.3.4"],
                "198.51.100.1",
            ),
            (
                "10.0.0.1",
                &["10.1.1.1, 203.0.113.5, 10.2.3.4"],
                "203.0.113.5",
            ),
            // All addresses belong to proxies: the result is the farthest one.
            ("10.0.0.1", &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
            ("10.0.0.1", &["198.51.100.1:1234"], "198.51.100.1"),
            ("10.0.0.1", &["[2001:db8::8]:1234"], "2001:db8::8"),
            ("10.0.0.1", &["[2001:db8::8]"], "2001:db8::8"),
            ("10.0.0.1", &["198.51.100.1, unknown"], "10.0.0.1"),
            ("10.0.0.1", &["198.51.100.1, unknown, 10.0.0.2"], "10.0.0.2"),
            ("10.0.0.1", &[""], "10.0.0.1"),
        ] {
            assert_eq!(client(&proxies, peer, forwarded), expected, "{forwarded:?}");
        }
        assert_eq!(client(&[], "10.0.0.1", &["198.51.100.1"]), "10.0.0.1");
    }

    #[test]
    fn a_proxy_is_an_address_or_a_network() {
        let mapped = TrustedProxies::new(["::ffff:10.0.0.9"]).unwrap();
        assert!(mapped.contains("10.0.0.9".parse().unwrap()));
        for right in [
            "10.0.0.9",
            "10.0.0.0/8",
            "::1",
            "2001:db8::/32",
            "0.0.0.0/0",
        ] {
            assert!(TrustedProxies::new([right]).is_ok(), "{right}");
        }
        for wrong in ["proxy.lan", "10.0.0.0/33", "10.0.0", "10.0.0.1:80", "*", ""] {
            let error = TrustedProxies::new([wrong]).unwrap_err();
            assert!(error.contains(&format!("{wrong:?}")), "{error}");
        }
    }
}
