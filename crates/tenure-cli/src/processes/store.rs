//! A store as a child process.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};

use super::process::{Process, in_background, this_program};

/// The number of the store among the processes of a network; candidates have greater ones.
pub(crate) const STORE: u32 = 0;

/// Starts a store at this address, with its data and its log in this directory; port 0 takes a free
/// port.
pub(crate) fn start_store(
    folder: &Path,
    listen: SocketAddr,
    spawn: impl FnOnce(Command) -> anyhow::Result<Child>,
) -> anyhow::Result<(Process, SocketAddr)> {
    let log = folder.join(format!("{STORE}.log"));
    let mut store = this_program(&["serve"]);
    store
        .arg("--listen")
        .arg(listen.to_string())
        .arg("--data-dir")
        .arg(folder.join("store"))
        // Its network has no other machines.
        .arg("--allow-anonymous");
    in_background(&mut store, &log)?;
    store.stdout(Stdio::piped());
    let mut store = spawn(store).map(Process).context("can't start the store")?;
    let mut line = String::new();
    let stdout = store.0.stdout.take().context("the store has no stdout")?;
    BufReader::new(stdout).read_line(&mut line)?;
    let Some(address) = line
        .trim_end()
        .strip_prefix("listening on http://")
        .and_then(|text| text.parse().ok())
    else {
        let log = fs::read_to_string(log).unwrap_or_default();
        bail!("the store did not start: {line}{log}");
    };
    Ok((store, address))
}
