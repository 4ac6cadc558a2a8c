//! A candidate process for the tests of faults. While it leads it acts at the receiver, and it
//! reports the end of each term.
//!
//! Arguments: receiver, stores (separated by commas), election, candidate, timings in milliseconds
//! (the lease duration, optionally with renew interval, renew deadline and stop grace), and a file:
//! if that exists, the process removes it and freezes between its check and its action. If the
//! environment names a strategy, the environment is the configuration, and the arguments override
//! it.

use std::fs;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use tenure::{Candidate, Config, Leadership, OnOverrun, Timings, TimingsOptions};
use tenure_tests::receiver::{Link, now};
use tokio::signal::unix::{SignalKind, signal};

/// The interval of the leader's actions.
const PACE: Duration = Duration::from_millis(10);

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [receiver, stores, election, id, timings, freeze] = &arguments[..] else {
        panic!("six arguments");
    };
    let receiver = receiver.parse().expect("an address");
    exit_with(receiver);
    let link = Arc::new(Mutex::new(Link::connect(receiver, id)));
    let mut timings = timings
        .split(',')
        .map(|ms| Duration::from_millis(ms.parse().expect("a number")));
    let mut options = TimingsOptions::default();
    options.lease_duration = timings.next();
    options.renew_interval = timings.next();
    options.renew_deadline = timings.next();
    options.stop_grace = timings.next();
    options.cool_down = Some(Duration::ZERO);
    let config = match std::env::var_os("TENURE_STRATEGY") {
        Some(_) => Config::from_env().expect("a valid configuration"),
        None => Config::new(election.parse().expect("an election")),
    };
    let config = config
        .with_candidate(id.parse().expect("a candidate id"))
        .with_servers(stores.split(',').map(|url| url.parse().expect("a URL")))
        .with_timings(Timings::new(&options).expect("valid timings"))
        // Its actions are behind a fence, and it may freeze in one of them.
        .with_on_overrun(OnOverrun::Report);
    let candidate = Candidate::start(config).await.expect("a candidate");
    let mut terminate = signal(SignalKind::terminate()).expect("a signal handler");
    loop {
        let task = |leadership| lead(leadership, link.clone(), freeze.clone());
        let term = candidate.run_one_term(
            async {
                terminate.recv().await;
            },
            task,
        );
        let Some(term) = term.await.expect("a driver") else {
            return;
        };
        let reason = term.reason.to_string();
        lock(&link).note(&format!("ended {reason} {}", term.epoch));
        if reason == "shut_down" {
            return;
        }
    }
}

async fn lead(leadership: Leadership, link: Arc<Mutex<Link>>, freeze: String) {
    loop {
        let before = now();
        if !leadership.is_valid() {
            // The check of the clock noticed the end first; `lost` returns when the reason is
            // known.
            leadership.lost().await;
            break;
        }
        let after = now();
        if fs::remove_file(&freeze).is_ok() {
            raise(Signal::SIGSTOP).expect("a signal");
        }
        lock(&link).act(leadership.epoch().get(), before, after);
        tokio::select! {
            _ = leadership.lost() => break,
            () = tokio::time::sleep(PACE) => {}
        }
    }
    lock(&link).note(&format!("stopped {}", leadership.epoch()));
}

/// Exits when the receiver is gone, so that a killed test leaves no candidates behind.
fn exit_with(receiver: SocketAddr) {
    let mut stream = TcpStream::connect(receiver).expect("a receiver");
    std::thread::spawn(move || {
        let _ = stream.read(&mut [0]);
        std::process::exit(1);
    });
}

fn lock(link: &Mutex<Link>) -> MutexGuard<'_, Link> {
    link.lock().unwrap_or_else(PoisonError::into_inner)
}
