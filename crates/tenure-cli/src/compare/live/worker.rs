//! The leader's task in a live comparison: it writes to the receiver every few milliseconds, for as
//! long as it runs. That it stops in time is up to `tenure run`.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context;

use crate::cli::CompareWorker;
use crate::exit::Failure;
use crate::processes::now;

/// How often it writes.
const PACE: Duration = Duration::from_millis(5);

pub(crate) fn worker(arguments: &CompareWorker) -> Result<ExitCode, Failure> {
    Ok(write(arguments)?)
}

fn write(arguments: &CompareWorker) -> anyhow::Result<ExitCode> {
    let told = |name| std::env::var(name).with_context(|| format!("{name} is not set"));
    let (candidate, epoch) = (told("TENURE_CANDIDATE")?, told("TENURE_EPOCH")?);
    let mut stream = TcpStream::connect(arguments.receiver)?;
    stream.set_nodelay(true)?;
    let mut answers = BufReader::new(stream.try_clone()?);
    let mut answer = String::new();
    loop {
        // A frozen leader may stand still after this: then it acted now, and the write comes late.
        let sent = now().as_nanos();
        stream.write_all(format!("{candidate} {epoch} {sent}\n").as_bytes())?;
        answer.clear();
        if answers.read_line(&mut answer)? == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        sleep(PACE);
    }
}
