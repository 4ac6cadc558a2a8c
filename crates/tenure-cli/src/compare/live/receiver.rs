//! The fenced receiver: it takes no write of a smaller epoch than it has seen, and records who wrote
//! when.

use std::io::{BufRead, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::processes::now;

/// One write of a leader. Times are of the clock that all processes of this machine share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Write {
    pub(super) candidate: u32,
    pub(super) epoch: u64,
    /// When the leader began it.
    pub(super) sent: Duration,
    /// When it arrived.
    pub(super) at: Duration,
    /// Whether its epoch was not stale.
    pub(super) taken: bool,
}

#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    writes: Arc<Mutex<Vec<Write>>>,
}

impl Receiver {
    /// Starts one here, on threads of its own that end with this process.
    pub(super) fn start(listener: TcpListener) -> anyhow::Result<Self> {
        let address = listener.local_addr()?;
        let writes = Arc::<Mutex<Vec<Write>>>::default();
        let table = writes.clone();
        thread::spawn(move || {
            for leader in listener.incoming().map_while(Result::ok) {
                let table = table.clone();
                thread::spawn(move || serve(&leader, &table));
            }
        });
        Ok(Self { address, writes })
    }

    /// All writes so far, in the order in which they came.
    pub(super) fn writes(&self) -> Vec<Write> {
        lock(&self.writes).clone()
    }

    /// The last one that was taken.
    pub(super) fn last_taken(&self) -> Option<Write> {
        let writes = lock(&self.writes);
        writes.iter().rfind(|write| write.taken).cloned()
    }
}

fn serve(leader: &TcpStream, table: &Mutex<Vec<Write>>) {
    let mut answers = leader;
    for line in BufReader::new(leader).lines().map_while(Result::ok) {
        let taken = take(&mut lock(table), &line);
        let answer: &[u8] = match taken {
            Some(true) => b"ok\n",
            Some(false) => b"stale\n",
            None => return,
        };
        if answers.write_all(answer).is_err() {
            return;
        }
    }
}

/// Whether it is taken; `None` if it is no write.
fn take(writes: &mut Vec<Write>, line: &str) -> Option<bool> {
    let mut words = line.split(' ');
    let candidate = words.next()?.parse().ok()?;
    let epoch = words.next()?.parse().ok()?;
    let sent = Duration::from_nanos(words.next()?.parse().ok()?);
    let greatest = writes.iter().rfind(|write| write.taken);
    // Epochs that were taken never decrease, so the last one is the greatest.
    let taken = greatest.is_none_or(|write| write.epoch <= epoch);
    writes.push(Write {
        candidate,
        epoch,
        sent,
        at: now(),
        taken,
    });
    Some(taken)
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
        let taken: Vec<_> = lines.map(|line| take(&mut writes, line)).into();
        assert_eq!(taken, [Some(true), Some(true), Some(false), Some(true)]);
        assert_eq!(take(&mut writes, "no write"), None);
        assert_eq!(writes.len(), 4);
    }
}
