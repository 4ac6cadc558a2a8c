//! The leader's task in a live comparison: it writes to the receiver every few milliseconds until
//! it is killed. `tenure run` must stop it in time.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;
use clap::Args;

use super::now;

#[derive(Debug, Args)]
pub(crate) struct CompareWorker {
    #[arg(long)]
    receiver: SocketAddr,
}

const WRITE_INTERVAL: Duration = Duration::from_millis(5);

impl CompareWorker {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let variable = |name| std::env::var(name).with_context(|| format!("{name} is not set"));
        let (candidate, epoch) = (variable("TENURE_CANDIDATE")?, variable("TENURE_EPOCH")?);
        let mut stream = TcpStream::connect(self.receiver)?;
        stream.set_nodelay(true)?;
        let mut responses = BufReader::new(stream.try_clone()?);
        let mut response = String::new();
        loop {
            // The leader may be frozen after this line. Then its write arrives late, and counts as
            // an act at this time.
            let sent = now().as_nanos();
            stream.write_all(format!("{candidate} {epoch} {sent}\n").as_bytes())?;
            response.clear();
            if responses.read_line(&mut response)? == 0 {
                return Ok(());
            }
            sleep(WRITE_INTERVAL);
        }
    }
}
