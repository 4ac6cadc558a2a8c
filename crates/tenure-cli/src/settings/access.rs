//! The table `[access]`: who may send requests to the store.

use std::path::PathBuf;

use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;

use super::table::SettingsTable;

pub(crate) const TABLE: SettingsTable = SettingsTable {
    name: "access",
    prefix: "TENURE_ACCESS_",
    keys: &["file", "hosts", "allow_plain_http", "allow_anonymous"],
};

/// The checked settings of access control.
#[derive(Debug, Default)]
pub(crate) struct AccessSettings {
    /// The access file, if the store has one.
    pub(crate) file: Option<PathBuf>,
    /// The names of the store in requests, while nobody has to sign in.
    pub(crate) hosts: Vec<String>,
    pub(crate) allow_plain_http: bool,
    pub(crate) allow_anonymous: bool,
}

impl AccessSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let file = settings.with("file", |text| match text {
            "" => Err("must be the path of an access file".into()),
            text => Ok(text.into()),
        })?;
        let hosts = settings.texts("hosts")?.into_iter();
        let hosts = hosts.filter(|host| !host.is_empty());
        let hosts: Vec<String> = hosts.map(Into::into).collect();
        if let Some(wrong) = hosts.iter().find(|host| !is_host(host)) {
            let reason =
                format!("{wrong:?} is not a host name; write it without a scheme and a port");
            return Err(settings.invalid("hosts", reason));
        }
        Ok(Self {
            file,
            hosts,
            allow_plain_http: settings.flag("allow_plain_http")?.unwrap_or_default(),
            allow_anonymous: settings.flag("allow_anonymous")?.unwrap_or_default(),
        })
    }
}

/// Each key with its value in effect; all values are checked.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let AccessSettings {
        file,
        hosts,
        allow_plain_http,
        allow_anonymous,
    } = AccessSettings::new(settings)?;
    let file = file.map(|file| file.to_string_lossy().into_owned());
    Ok(vec![
        ("file", file.into()),
        ("hosts", hosts.into()),
        ("allow_plain_http", allow_plain_http.into()),
        ("allow_anonymous", allow_anonymous.into()),
    ])
}

fn is_host(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    text.bytes().all(is_part)
}
