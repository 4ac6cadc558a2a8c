//! A leader that writes to PostgreSQL as `docs/fencing.md` says. The environment is its
//! configuration.
//!
//! Arguments: the database, the statement of each transaction, in which `$EPOCH` is the epoch, and a
//! file: if that exists, the process removes it and freezes inside a transaction.

use std::fs;
use std::time::Duration;

use nix::sys::signal::{Signal, raise};
use tenure::{Candidate, Config, Leadership, OnOverrun};
use tokio_postgres::{Error, NoTls};

/// The interval of transactions.
const PACE: Duration = Duration::from_millis(10);

#[derive(Clone)]
struct Job {
    database: String,
    write: String,
    freeze: String,
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut argument = || arguments.next().expect("three arguments");
    let job = Job {
        database: argument(),
        write: argument(),
        freeze: argument(),
    };
    let config = Config::from_env().expect("a valid configuration");
    // All of its writes are behind the fence.
    let config = config.with_on_overrun(OnOverrun::Report);
    let candidate = Candidate::start(config).await.expect("a candidate");
    let shutdown = tenure::shutdown_signal().expect("signal handlers");
    let task = |leadership: Leadership| {
        let job = job.clone();
        async move {
            println!("leads");
            // An abort does not reach it, so a frozen transaction is continued.
            let hold = leadership.hold().expect("a term");
            let led = tokio::spawn(async move {
                let ended = job.lead(leadership).await;
                println!("stopped: {ended:?}");
                drop(hold);
            });
            led.await
        }
    };
    let run = candidate.run_while_leader(shutdown, task);
    run.await.expect("a driver");
}

impl Job {
    async fn lead(self, leadership: Leadership) -> Result<(), Error> {
        let (database, connection) = tokio_postgres::connect(&self.database, NoTls).await?;
        tokio::spawn(connection);
        let (election, epoch) = (leadership.election(), leadership.epoch());
        let fence = format!("SELECT raise_fence('{election}', {epoch})");
        database.batch_execute(&fence).await?;
        let write = self.write.replace("$EPOCH", &epoch.to_string());
        while leadership.is_valid() {
            database.batch_execute(&format!("BEGIN; {write}")).await?;
            if fs::remove_file(&self.freeze).is_ok() {
                raise(Signal::SIGSTOP).expect("a signal");
            }
            database.batch_execute(&format!("{fence}; COMMIT")).await?;
            tokio::select! {
                _ = leadership.lost() => break,
                () = tokio::time::sleep(PACE) => {}
            }
        }
        Ok(())
    }
}
