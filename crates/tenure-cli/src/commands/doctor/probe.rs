//! `tenure doctor --probe`: asks the store of this machine or container whether it is ready.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use reqwest::Client;
use tenure_config::{ConfigError, Settings};

use crate::exit::{self, UNREACHABLE};
use crate::runtime::block_on;
use crate::settings::STORE;
use crate::settings::serve::StoreSettings;
use crate::{logging, output};

/// The configuration that `tenure init` makes. It is used if it exists and no other one is named,
/// so that the health check of an image needs no arguments.
const DEFAULT_CONFIG: &str = "/etc/tenure/tenure.toml";

/// The time that an answer may take. Supervisors end a health check sooner or later anyway.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks `/readyz` at the address in the store's own settings.
pub(super) fn run(config: Option<&Path>) -> anyhow::Result<ExitCode> {
    let default = Path::new(DEFAULT_CONFIG);
    let config = config.or_else(|| default.exists().then_some(default));
    let url = url(&Settings::load(STORE, config)?)?;
    // The certificate may be for any name, and after a renewal it differs from its file for a
    // moment. The request contains no secret, and goes to an address of this machine.
    let client = Client::builder()
        .no_proxy()
        .tls_danger_accept_invalid_certs(true)
        .timeout(TIMEOUT)
        .build()
        .context("can't make an HTTP client")?;
    let answer = block_on(async { Ok::<_, reqwest::Error>(client.get(&url).send().await) })?;
    match answer {
        Ok(answer) if answer.status().is_success() => {
            output::line(format_args!("{url}: ready"))?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(answer) => {
            logging::print(format_args!("{url}: not ready ({})", answer.status()));
            Ok(exit::success_if(false))
        }
        Err(error) => {
            let error = anyhow::Error::new(error.without_url());
            logging::print(format_args!("{url}: not reachable: {error:#}"));
            Ok(ExitCode::from(UNREACHABLE))
        }
    }
}

/// The address of the probe, by the settings of a store.
fn url(settings: &Settings) -> Result<String, ConfigError> {
    let listen = StoreSettings::new(settings)?.listen;
    let scheme = match settings.path("tls.certificate")? {
        Some(_) => "https",
        None => "http",
    };
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let address = SocketAddr::new(ip, listen.port());
    Ok(format!("{scheme}://{address}/readyz"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_asks_the_address_of_the_store() {
        for (text, expected) in [
            ("", "http://127.0.0.1:7400/readyz"),
            (
                "[serve]\nlisten = \"0.0.0.0:1\"",
                "http://127.0.0.1:1/readyz",
            ),
            ("[serve]\nlisten = \"[::]:1\"", "http://[::1]:1/readyz"),
            (
                "[serve]\nlisten = \"10.0.0.5:1\"\n[tls]\ncertificate = \"a\"\nkey = \"b\"",
                "https://10.0.0.5:1/readyz",
            ),
        ] {
            let file = tempfile::NamedTempFile::new().unwrap();
            std::fs::write(&file, text).unwrap();
            let settings = Settings::of_file(STORE, file.path());
            assert_eq!(url(&settings.unwrap()).unwrap(), expected);
        }
    }
}
