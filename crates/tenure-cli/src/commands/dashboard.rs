//! `tenure dashboard`.

use std::env;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use tempfile::TempDir;
use tenure::store::{Code, SessionCode, StoreError};

use crate::runtime::block_on;
use crate::settings::ClientArgs;
use crate::{new_files, output, store};

/// The time in which the browser reads the file with the address.
const READ_TIME: Duration = Duration::from_secs(10);

/// Print the address of the store's page, with a code that signs you in
///
/// The code is made with your own credential. It can be used once, within 60 seconds; the page then
/// has your rights for 12 hours at most.
#[derive(Debug, Args)]
pub(crate) struct Dashboard {
    /// Also open the page in the browser: the command in BROWSER, or the one of the desktop
    #[arg(long)]
    open: bool,
    #[command(flatten)]
    store: ClientArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Dashboard {
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let client = store::client(&self.store)?;
        let code = block_on(async {
            let caller = client.whoami().await?;
            if caller["kind"] == "anyone" {
                return Ok(None);
            }
            client.session_code().await.map(Some)
        });
        let endpoint = client.endpoint();
        let code: Option<SessionCode> = code.map_err(|error| {
            let is_unknown = matches!(
                error.downcast_ref(),
                Some(StoreError::Problem(problem)) if problem.code == Code::Unauthenticated
            );
            match is_unknown {
                true => error.context(format!(
                    "the store at {endpoint} needs a valid credential: set token_file in the configuration, \
                     --token-file or TENURE_TOKEN_FILE, or choose a context with --context"
                )),
                false => error,
            }
        })?;
        let fragment = code.as_ref().map(|code| format!("code={}", code.code));
        let url = endpoint.page(fragment.as_deref());
        match self.json {
            true => output::json(&json!({
                "url": &url,
                "code": code.as_ref().map(|code| &code.code),
                "expires_at": code.as_ref().map(|code| &code.expires_at),
            }))?,
            false => output::line(&url)?,
        }
        match self.open {
            true => open(&url),
            false => Ok(()),
        }
    }
}

/// Opens the address in a browser. All users of the machine can see the arguments of the browser,
/// so these name a file that only this user can read, and that leads to the address.
fn open(url: &str) -> anyhow::Result<()> {
    let folder = TempDir::with_prefix("tenure-").context("can't create a temporary folder")?;
    let path = folder.path().join("dashboard.html");
    // A path may have characters that HTML treats in a special way.
    let url = url.replace('&', "&amp;").replace('"', "&quot;");
    let html = format!("<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={url}\">");
    new_files::write(&path, &html, 0o600)?;
    let browser = env::var("BROWSER").ok().filter(|name| !name.is_empty());
    let opener = if cfg!(target_os = "macos") {
        "open"
    } else {
        "xdg-open"
    };
    let browser = browser.as_deref().unwrap_or(opener);
    let started = Command::new(browser)
        .arg(&path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    started.with_context(|| {
        format!("can't start the browser {browser}: open the address yourself, or set BROWSER")
    })?;
    thread::sleep(READ_TIME);
    Ok(())
}
