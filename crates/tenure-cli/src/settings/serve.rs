//! The table `[serve]`: settings of the store.

use std::net::{SocketAddr, ToSocketAddrs};

use humantime::format_duration;
use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::{EngineConfig, LimitSetting, Limits};

use super::table::{SettingsTable, lossy};

/// The names of the engines.
pub(crate) const ENGINES: [&str; 2] = [EMBEDDED, MEMORY];
const EMBEDDED: &str = "embedded";
const MEMORY: &str = "memory";
const DEFAULT_LISTEN: &str = "127.0.0.1:7400";
const DEFAULT_DATA_DIR: &str = "tenure-data";

const KEYS: [&str; 3 + Limits::KEYS.len()] = {
    let mut keys = ["listen"; 3 + Limits::KEYS.len()];
    (keys[1], keys[2]) = ("data_dir", "engine");
    keys.split_at_mut(3).1.copy_from_slice(&Limits::KEYS);
    keys
};

pub(crate) const TABLE: SettingsTable = SettingsTable {
    name: "serve",
    prefix: "TENURE_",
    keys: &KEYS,
};

/// The checked settings of the store.
#[derive(Debug)]
pub(crate) struct StoreSettings {
    pub(crate) listen: SocketAddr,
    pub(crate) engine: EngineConfig,
    pub(crate) limits: Limits,
}

impl StoreSettings {
    pub(crate) fn new(settings: &Settings) -> Result<Self, ConfigError> {
        let listen = settings.with("listen", resolve)?;
        let mut limits = Limits::default();
        for (key, limit) in limits.settings() {
            match limit {
                LimitSetting::Count(count, range) => {
                    *count = settings.number(key, range)?.unwrap_or(*count);
                }
                LimitSetting::Time(time, _) => *time = settings.duration(key)?.unwrap_or(*time),
            }
        }
        limits
            .check()
            .map_err(|error| settings.invalid(error.name(), error.to_string()))?;
        Ok(Self {
            listen: listen
                .unwrap_or_else(|| DEFAULT_LISTEN.parse().expect("the default is an address")),
            engine: engine(settings)?,
            limits,
        })
    }

    /// Each key with its value in effect.
    pub(crate) fn values(&self) -> Vec<(&'static str, Value)> {
        let (engine, data_dir) = match &self.engine {
            EngineConfig::Memory => (MEMORY, Value::Null),
            EngineConfig::Embedded { data_dir } => (EMBEDDED, lossy(data_dir.as_os_str()).into()),
        };
        let mut values = vec![
            ("listen", self.listen.to_string().into()),
            ("data_dir", data_dir),
            ("engine", engine.into()),
        ];
        let mut limits = self.limits.clone();
        values.extend(limits.settings().map(|(key, limit)| match limit {
            LimitSetting::Count(count, _) => (key, Value::from(*count)),
            LimitSetting::Time(time, _) => (key, format_duration(*time).to_string().into()),
        }));
        values
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    text.to_socket_addrs()
        .map_err(|error| error.to_string())
        .and_then(|mut addresses| addresses.next().ok_or_else(|| "no address".into()))
        .map_err(|error| format!("{error}; write an address and a port, such as 127.0.0.1:7400"))
}

fn engine(settings: &Settings) -> Result<EngineConfig, ConfigError> {
    let data_dir = settings.with("data_dir", |text| match text {
        "" => Err("must not be empty".into()),
        text if text.contains(char::REPLACEMENT_CHARACTER) => Err("must be UTF-8".into()),
        text => Ok(text.into()),
    })?;
    let embedded = EngineConfig::Embedded {
        data_dir: data_dir.unwrap_or_else(|| DEFAULT_DATA_DIR.into()),
    };
    let engine = settings.with("engine", |text| match text {
        EMBEDDED => Ok(embedded.clone()),
        MEMORY => Ok(EngineConfig::Memory),
        _ => Err(format!("must be {EMBEDDED:?} or {MEMORY:?}")),
    })?;
    Ok(engine.unwrap_or(embedded))
}
