//! A worker that moves files from an inbox to an outbox, one at a time, and hands over without
//! losing one: on a stop request it finishes the current file, and the next worker continues within
//! milliseconds.
//!
//! Start a store with `tenure serve`, then several instances, and stop the leader (Ctrl-C, or
//! SIGTERM as a container runtime sends it):
//!
//! ```text
//! mkdir inbox outbox && touch inbox/{1..50}
//! export TENURE_ELECTION=files/uploads
//! cargo run -p tenure-examples --example graceful_handover -- inbox outbox
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tenure::{Candidate, Config, Epoch, Leadership};

/// Simulated duration of one upload. It must fit into the stop grace, 4 s by default: a task that
/// has not ended by then is aborted.
const ONE_FILE: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .init();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (inbox, outbox) = arguments
        .next()
        .zip(arguments.next())
        .context("usage: graceful_handover INBOX OUTBOX")?;

    let candidate = Candidate::start(Config::from_env()?).await?;
    let worker = Worker { inbox, outbox };
    let shutdown = tenure::shutdown_signal()?;
    // The candidate renews the lease until the task has ended and then releases it, so the next
    // worker need not wait until it expires.
    candidate
        .run_while_leader(shutdown, |leadership| worker.clone().lead(leadership))
        .await?;
    println!("handed over");
    Ok(())
}

#[derive(Clone)]
struct Worker {
    inbox: PathBuf,
    outbox: PathBuf,
}

impl Worker {
    async fn lead(self, leadership: Leadership) -> anyhow::Result<()> {
        println!("leading with epoch {}", leadership.epoch());
        let stop = leadership.cancellation();
        // The task stops between two files: on a stop request, and while renewals fail, so that
        // a started file has time to finish.
        while !stop.is_cancelled()
            && let Ok(epoch) = leadership.check()
        {
            let begin = !leadership.is_at_risk();
            match first_file(&self.inbox)?.filter(|_| begin) {
                Some(file) => self.upload(&file, epoch).await?,
                None => tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                },
            }
        }
        Ok(())
    }

    /// Moves one file from the inbox to the outbox. The move is idempotent, so a leader that was
    /// killed during it leaves nothing to clean up.
    async fn upload(&self, file: &Path, epoch: Epoch) -> anyhow::Result<()> {
        let name = file.file_name().context("a file has a name")?;
        println!("taking {} under epoch {epoch}", name.display());
        tokio::time::sleep(ONE_FILE).await;
        match fs::rename(file, self.outbox.join(name)) {
            // The previous leader outlived its lease and has moved the file.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        println!("done {}", name.display());
        Ok(())
    }
}

/// Returns the first file of the inbox, ordered by name.
fn first_file(inbox: &Path) -> anyhow::Result<Option<PathBuf>> {
    let entries =
        fs::read_dir(inbox).with_context(|| format!("cannot list {}", inbox.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
    Ok(paths.into_iter().min())
}
