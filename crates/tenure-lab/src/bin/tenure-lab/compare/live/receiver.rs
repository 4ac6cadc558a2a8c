//! The fenced receiver: it refuses writes with a smaller epoch than it has accepted, and records
//! all writes.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use super::now;

/// One write of a leader. Times are of the clock that all processes of this machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) candidate: u32,
    pub(super) epoch: u64,
    /// When the leader began it.
    pub(super) sent: Duration,
    /// When it arrived.
    pub(super) at: Duration,
    /// Whether it was accepted, because its epoch was not stale.
    pub(super) accepted: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    writes: Arc<Mutex<Vec<Write>>>,
}

impl Receiver {
    /// Starts a receiver in threads that end with this process. Cuts of the network do not affect
    /// its connections, and its traffic is not counted.
    pub(super) fn start() -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let writes = Arc::<Mutex<Vec<Write>>>::default();
        let log = writes.clone();
        thread::spawn(move || {
            for leader in listener.incoming().map_while(Result::ok) {
                let log = log.clone();
                thread::spawn(move || serve(&leader, &log));
            }
        });
        Ok(Self { address, writes })
    }

    /// All writes so far, in the order of their arrival.
    pub(super) fn writes(&self) -> Vec<Write> {
        lock(&self.writes).clone()
    }

    /// The last write that was accepted.
    pub(super) fn last_accepted(&self) -> Option<Write> {
        let writes = lock(&self.writes);
        writes.iter().rfind(|write| write.accepted).cloned()
    }
}

fn serve(leader: &TcpStream, log: &Mutex<Vec<Write>>) {
    let mut responses = leader;
    for line in BufReader::new(leader).lines().map_while(Result::ok) {
        let response: &[u8] = match handle_line(&mut lock(log), &line) {
            Some(true) => b"ok\n",
            Some(false) => b"stale\n",
            None => return,
        };
        if responses.write_all(response).is_err() {
            return;
        }
    }
}

/// Records a write and returns whether it is accepted; `None` if the line is not a write.
fn handle_line(writes: &mut Vec<Write>, line: &str) -> Option<bool> {
    let mut words = line.split(' ');
    let candidate = words.next()?.parse().ok()?;
    let epoch = words.next()?.parse().ok()?;
    let sent = Duration::from_nanos(words.next()?.parse().ok()?);
    // The epochs of accepted writes never decrease, so the last one is the greatest.
    let greatest = writes.iter().rfind(|write| write.accepted);
    let accepted = greatest.is_none_or(|write| write.epoch <= epoch);
    writes.push(Write {
        candidate,
        epoch,
        sent,
        at: now(),
        accepted,
    });
    Some(accepted)
}

fn lock(writes: &Mutex<Vec<Write>>) -> MutexGuard<'_, Vec<Write>> {
    writes.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_epochs_are_refused_and_recorded() {
        let mut writes = Vec::new();
        let lines = ["1 2 10", "2 3 20", "1 2 30", "2 3 40"];
        let accepted: Vec<_> = lines.map(|line| handle_line(&mut writes, line)).into();
        assert_eq!(accepted, [Some(true), Some(true), Some(false), Some(true)]);
        assert_eq!(handle_line(&mut writes, "no write"), None);
        assert_eq!(writes.len(), 4);
    }
}
