//! Lookups of names that survive an outage of the name service.
//!
//! A leader whose connection breaks while the name service is away would lose its term, although
//! the store still answers at the same address. So the last addresses of each name are kept, and
//! used if a lookup fails or takes long. With https the certificate proves the name, whatever the
//! address is.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Shared};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::time::{Instant, timeout_at};
use tracing::warn;

/// How long a lookup may take before the last addresses are used. It is a part of the shortest time
/// that a renewal has, and longer than a lookup of a name service that works.
const PATIENCE: Duration = Duration::from_millis(300);

type Addresses = Vec<SocketAddr>;
type Found = Result<Addresses, Arc<io::Error>>;
/// The start of a lookup, and its result.
type Running = (Instant, Shared<BoxFuture<'static, Found>>);

/// Looks names up, and remembers the addresses of each name. The names are those of the
/// configuration, so their number is limited.
#[derive(Clone)]
pub(crate) struct LastAddresses(Arc<Lookups>);

struct Lookups {
    look_up: fn(String) -> BoxFuture<'static, io::Result<Addresses>>,
    names: Mutex<HashMap<String, Known>>,
}

#[derive(Default)]
struct Known {
    last: Option<Addresses>,
    /// The lookup that is running, so that a name service that hangs gets one request at a time.
    running: Option<Running>,
}

impl LastAddresses {
    /// Returns the addresses that all clients of this process share. They outlive a client, which
    /// is replaced when its certificate is.
    pub(crate) fn of_process() -> Self {
        static SHARED: LazyLock<LastAddresses> = LazyLock::new(|| {
            LastAddresses::new(|name| {
                Box::pin(async move { Ok(tokio::net::lookup_host((name, 0)).await?.collect()) })
            })
        });
        SHARED.clone()
    }

    fn new(look_up: fn(String) -> BoxFuture<'static, io::Result<Addresses>>) -> Self {
        Self(Arc::new(Lookups {
            look_up,
            names: Mutex::default(),
        }))
    }

    async fn find(&self, name: String) -> Found {
        let (last, (started, lookup)) = self.0.begin(&name);
        let Some(last) = last else {
            return lookup.await;
        };
        let error = match timeout_at(started + PATIENCE, lookup).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {PATIENCE:?}"),
        };
        warn!(
            error,
            "can't look up {name}, trying the last addresses that it had"
        );
        Ok(last)
    }
}

impl Lookups {
    /// Begins a lookup unless one is running. Returns the last addresses, and the lookup.
    fn begin(self: &Arc<Self>, name: &str) -> (Option<Addresses>, Running) {
        let mut names = self.lock();
        let known = names.entry(name.into()).or_default();
        // A lookup that ended with its runtime has not removed itself.
        let is_over = |(_, lookup): &mut Running| lookup.peek().is_some();
        drop(known.running.take_if(is_over));
        let running = known.running.get_or_insert_with(|| {
            let (lookups, name) = (Arc::clone(self), name.to_owned());
            // A caller that has given up must not stop the lookup: its result is remembered.
            let task = tokio::spawn(async move { lookups.run(name).await });
            let lookup = task.map(|found| found.unwrap_or_else(|error| failed(error.to_string())));
            (Instant::now(), lookup.boxed().shared())
        });
        (known.last.clone(), running.clone())
    }

    async fn run(&self, name: String) -> Found {
        let found = match (self.look_up)(name.clone()).await {
            Ok(found) if found.is_empty() => failed("the name has no address"),
            found => found.map_err(Arc::new),
        };
        let mut names = self.lock();
        let known = names.entry(name).or_default();
        known.running = None;
        if let Ok(found) = &found {
            known.last = Some(found.clone());
        }
        found
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Known>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn failed(why: impl Into<String>) -> Found {
    Err(Arc::new(io::Error::other(why.into())))
}

impl Resolve for LastAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let names = self.clone();
        Box::pin(async move {
            let found = names.find(name.as_str().into()).await?;
            Ok(Box::new(found.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

    use super::*;

    const WORKS: u8 = 0;
    const FAILS: u8 = 1;
    const HANGS: u8 = 2;

    /// The state of the name service of the test below, the only one that uses it.
    static STATE: AtomicU8 = AtomicU8::new(WORKS);
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    fn look_up(_: String) -> BoxFuture<'static, io::Result<Addresses>> {
        Box::pin(async {
            ASKED.fetch_add(1, Ordering::Relaxed);
            match STATE.load(Ordering::Relaxed) {
                WORKS => Ok(vec![([127, 0, 0, 1], 0).into()]),
                FAILS => Err(io::Error::other("no name service")),
                _ => std::future::pending().await,
            }
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_keeps_its_last_addresses_while_the_name_service_fails_or_hangs() {
        let names = LastAddresses::new(look_up);
        let find = |name: &str| names.find(name.into());
        let found = find("store").await.unwrap();
        STATE.store(FAILS, Ordering::Relaxed);
        assert_eq!(find("store").await.unwrap(), found);
        let error = find("other").await.unwrap_err();
        assert_eq!(error.to_string(), "no name service");

        STATE.store(HANGS, Ordering::Relaxed);
        let asked = ASKED.load(Ordering::Relaxed);
        let began = Instant::now();
        for _ in 0..3 {
            assert_eq!(find("store").await.unwrap(), found);
        }
        // The attempts share one lookup, and its time.
        assert!(began.elapsed() < 2 * PATIENCE);
        assert_eq!(ASKED.load(Ordering::Relaxed), asked + 1);
    }
}
