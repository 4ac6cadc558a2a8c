//! The rules for the start of a store. Beyond loopback a store needs an access file and TLS, unless
//! flags permit a start without them.

use std::net::SocketAddr;
use std::path::Path;

use tenure_server::access::Access;
use tracing::{info, warn};

use crate::exit;
use crate::settings::checked_store::CheckedStore;

/// The facts that decide whether a store may be served.
#[derive(Clone, Copy, Debug)]
struct Start {
    is_loopback: bool,
    has_tls: bool,
    has_access_file: bool,
    /// `true` if a store with an access file was served from this data directory before.
    was_guarded: bool,
    allow_plain_http: bool,
    allow_anonymous: bool,
}

/// The reason why a store is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refusal {
    /// A store on the network without access control: every client could send every request.
    Anonymous,
    /// A data directory that had access control, and settings that name no access file.
    WasGuarded,
    /// A store on the network without TLS: other machines could read tokens and lease ids.
    PlainHttp,
}

/// Returns the rules for access, if a store with these settings may be served at this address.
pub(crate) fn open_access(store: &CheckedStore, listen: SocketAddr) -> anyhow::Result<Access> {
    let (settings, data_dir) = (&store.access, store.serve.data_dir.as_deref());
    let start = Start {
        is_loopback: is_loopback(listen),
        has_tls: store.tls.is_some(),
        has_access_file: settings.file.is_some(),
        was_guarded: data_dir.is_some_and(tenure_server::is_guarded),
        allow_plain_http: settings.allow_plain_http,
        allow_anonymous: settings.allow_anonymous,
    };
    if let Some(refusal) = start.refusal() {
        return Err(exit::bad_configuration(refusal.text(listen, data_dir)));
    }
    match &settings.file {
        None => Ok(Access::anonymous_at(settings.hosts.clone())),
        Some(file) => {
            Access::open(file).map_err(|error| exit::error(exit::BAD_CONFIGURATION, error))
        }
    }
}

/// Logs which clients such a store does not protect itself against.
pub(crate) fn log_exposure(store: &CheckedStore, listen: SocketAddr) {
    match (&store.access.file, is_loopback(listen)) {
        (None, true) => info!(
            "the store has no access file: every program and every user of this machine can take and break \
             every lease"
        ),
        (None, false) => warn!(
            %listen, "--allow-anonymous: every client that reaches this address can take and break every lease; \
            clients name the store by an IP address, localhost, or a name in access.hosts"
        ),
        (Some(_), false) if store.tls.is_none() => warn!(
            %listen, "--allow-plain-http: tokens and lease ids come to this address unencrypted; end TLS in front \
            of it"
        ),
        (Some(_), _) => {}
    }
}

fn is_loopback(listen: SocketAddr) -> bool {
    listen.ip().to_canonical().is_loopback()
}

impl Start {
    fn refusal(self) -> Option<Refusal> {
        match self.has_access_file {
            true if self.is_loopback || self.has_tls || self.allow_plain_http => None,
            true => Some(Refusal::PlainHttp),
            false if self.allow_anonymous => None,
            false if self.was_guarded => Some(Refusal::WasGuarded),
            false if self.is_loopback => None,
            false => Some(Refusal::Anonymous),
        }
    }
}

impl Refusal {
    fn text(self, listen: SocketAddr, data_dir: Option<&Path>) -> String {
        let port = listen.port();
        match self {
            Self::Anonymous => format!(
                "{listen} is not a loopback address, and no access file is set. Do one of these:\n\
                 \x20 tenure init                          make an access file, TLS files and a configuration\n\
                 \x20 tenure serve --access FILE           use an access file, with --tls-certificate and --tls-key,\n\
                 \x20                                      or with --allow-plain-http behind a proxy that ends TLS\n\
                 \x20 tenure serve --allow-anonymous       let every client that reaches the address do everything\n\
                 \x20 tenure serve --listen 127.0.0.1:{port}  serve programs of this machine only"
            ),
            Self::WasGuarded => format!(
                "the store in {} had access control, and now no access file is set. Do one of these:\n\
                 \x20 tenure serve --access FILE           use the access file\n\
                 \x20 tenure serve --allow-anonymous       let every client that reaches the store do everything",
                data_dir.unwrap_or_else(|| Path::new("memory")).display()
            ),
            Self::PlainHttp => format!(
                "{listen} is not a loopback address, and without TLS tokens can be read on the network. Do \
                 one of these:\n\
                 \x20 tenure init                          make TLS files, an access file and a configuration\n\
                 \x20 tenure serve --tls-certificate FILE --tls-key FILE\n\
                 \x20                                      serve TLS\n\
                 \x20 tenure serve --allow-plain-http      rely on a proxy in front of the store that ends TLS\n\
                 \x20 tenure serve --listen 127.0.0.1:{port}  serve programs of this machine only"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The table of starts, written by hand: loopback, TLS, access file, previous access control,
    /// --allow-plain-http, --allow-anonymous, and the refusal.
    #[rustfmt::skip]
    const TABLE: [(&str, Option<Refusal>); 24] = [
        ("loopback",                                       None),
        ("loopback tls",                                   None),
        ("loopback file",                                  None),
        ("loopback tls file",                              None),
        ("loopback guarded",                               Some(Refusal::WasGuarded)),
        ("loopback tls guarded",                           Some(Refusal::WasGuarded)),
        ("loopback guarded plain",                         Some(Refusal::WasGuarded)),
        ("loopback guarded file",                          None),
        ("loopback guarded anonymous",                     None),
        ("",                                               Some(Refusal::Anonymous)),
        ("tls",                                            Some(Refusal::Anonymous)),
        ("plain",                                          Some(Refusal::Anonymous)),
        ("tls plain",                                      Some(Refusal::Anonymous)),
        ("anonymous",                                      None),
        ("tls anonymous",                                  None),
        ("guarded",                                        Some(Refusal::WasGuarded)),
        ("tls guarded plain",                              Some(Refusal::WasGuarded)),
        ("guarded anonymous",                              None),
        ("file",                                           Some(Refusal::PlainHttp)),
        ("file anonymous",                                 Some(Refusal::PlainHttp)),
        ("file plain",                                     None),
        ("file tls",                                       None),
        ("file tls guarded",                               None),
        ("file guarded",                                   Some(Refusal::PlainHttp)),
    ];

    #[test]
    fn a_store_is_served_as_the_table_says() {
        for (case, expected) in TABLE {
            let has = |word: &str| case.split(' ').any(|known| known == word);
            let start = Start {
                is_loopback: has("loopback"),
                has_tls: has("tls"),
                has_access_file: has("file"),
                was_guarded: has("guarded"),
                allow_plain_http: has("plain"),
                allow_anonymous: has("anonymous"),
            };
            assert_eq!(start.refusal(), expected, "{case}");
        }
    }

    #[test]
    fn a_refusal_names_the_ways_on() {
        let listen = "0.0.0.0:7400".parse().unwrap();
        let text = Refusal::Anonymous.text(listen, None);
        for way in [
            "tenure init",
            "--allow-plain-http",
            "--allow-anonymous",
            "127.0.0.1:7400",
        ] {
            assert!(text.contains(way), "{text}");
        }
        let folder = Some(Path::new("/data"));
        assert!(
            Refusal::WasGuarded
                .text(listen, folder)
                .contains("/data had access control")
        );
    }
}
