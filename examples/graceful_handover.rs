//! A worker that takes files from an inbox, one after the other, and hands over without dropping
//! one: told to stop, it finishes the file at hand, and the next worker goes on within milliseconds.
//!
//! Start a store with `tenure serve`, then several of these, and stop the one that leads (Ctrl-C, or
//! a `kill` as containers get it):
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

/// How long one file takes; stands for an upload. It must fit into the stop grace, 4 s by default:
/// a task that has not ended by then is aborted.
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
    // The lease is renewed until the task has ended, and released then: nobody waits for it to
    // expire.
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
        // Between two files is where it stops: when it is told to, and when renewals fail, so that
        // there is time left for what was begun.
        while !stop.is_cancelled()
            && let Ok(epoch) = leadership.check()
        {
            let begin = !leadership.is_at_risk();
            match oldest(&self.inbox)?.filter(|_| begin) {
                Some(file) => self.upload(&file, epoch).await?,
                None => tokio::select! {
                    () = stop.cancelled() => {}
                    () = tokio::time::sleep(Duration::from_millis(100)) => {}
                },
            }
        }
        Ok(())
    }

    /// Takes one file from the inbox to the outbox. Doing it twice does no harm, so a leader that was
    /// killed in the middle leaves nothing to clean up.
    async fn upload(&self, file: &Path, epoch: Epoch) -> anyhow::Result<()> {
        let name = file.file_name().context("a file has a name")?;
        println!("taking {} under epoch {epoch}", name.display());
        tokio::time::sleep(ONE_FILE).await;
        match fs::rename(file, self.outbox.join(name)) {
            // The leader before was slower than its lease, and did it after all.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            moved => moved?,
        }
        println!("done {}", name.display());
        Ok(())
    }
}

/// The file that waits longest, by its name.
fn oldest(inbox: &Path) -> anyhow::Result<Option<PathBuf>> {
    let entries = fs::read_dir(inbox).with_context(|| format!("can't list {}", inbox.display()))?;
    let paths = entries.map(|entry| Ok(entry?.path()));
    let paths: Vec<PathBuf> = paths.collect::<std::io::Result<_>>()?;
    Ok(paths.into_iter().min())
}
