//! `tenure serve`: hosts a lease store.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use serde_json::Value;
use tenure::config::{ConfigError, Origin, Settings};
use tenure_azure::server::Azure;
use tenure_server::{Config, EngineConfig, Limits, Server, Store, Tls};
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};

use crate::azure;
use crate::cli::Serve;
use crate::exit::Failure;
use crate::open_files;
use crate::output;
use crate::parent;
use crate::permissions;
use crate::section::{Section, lossy};
use crate::tls;

pub(crate) const SECTION: Section = Section {
    name: "serve",
    prefix: "TENURE_",
    keys: &[
        "listen",
        "data_dir",
        "engine",
        "max_body_bytes",
        "max_header_bytes",
        "max_name_bytes",
        "max_leases_per_namespace",
        "max_namespaces",
        "max_waiters_per_lease",
        "max_waiting",
        "max_connections",
        "max_watchers",
        "max_metadata_bytes",
        "max_history",
        "header_time",
        "request_time",
    ],
};
/// Where leases are kept, by name.
pub(crate) const ENGINES: [&str; 2] = [EMBEDDED, MEMORY];
const EMBEDDED: &str = "embedded";
const MEMORY: &str = "memory";
const DEFAULT_LISTEN: &str = "127.0.0.1:7400";
const DEFAULT_DATA_DIR: &str = "tenure-data";

/// How often to look whether there is another certificate.
const LOOK_EVERY: Duration = Duration::from_secs(30);

pub(crate) fn serve(arguments: &Serve) -> Result<ExitCode, Failure> {
    if let Some(parent) = arguments.parent {
        parent::end_with(parent)?;
    }
    let settings = settings(arguments)?;
    let listen = listen(&settings)?;
    let engine = engine(&settings)?;
    let limits = limits(&settings)?;
    for warning in limits.warnings() {
        warn!("{warning}");
    }
    let tls = tls::of(arguments)?;
    let azure = azure::of(arguments, listen, tls.is_some())?;
    if !listen.ip().is_loopback() {
        warn!(%listen, "everybody who reaches this address can take and break leases: the store \
            has no authentication");
    }

    if let EngineConfig::Embedded { data_dir } = &engine {
        permissions::check_folder(data_dir);
    }
    let limits = open_files::make_room(limits);
    let store = Store::open(Config::new(engine.clone()).with_limits(limits))?;
    let azure = match azure {
        Some(config) => Some(Azure::open(&store, engine.data_dir(), config)?),
        None => None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let server =
            Server::bind(store, listen).with_context(|| format!("can't listen on {listen}"))?;
        let server = match azure {
            Some(azure) => server.with_protocol(azure),
            None => server,
        };
        let (scheme, server) = match tls {
            Some(tls) => {
                keep_current(tls.clone())?;
                ("https", server.with_tls(tls))
            }
            None => ("http", server),
        };
        output::line(format_args!(
            "listening on {scheme}://{}",
            server.local_addr()?
        ))?;
        let shutdown = async move {
            let signal = tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            };
            info!(signal, "stopping");
        };
        server
            .serve(shutdown)
            .await
            .context("the store has failed")?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Looks whether there is another certificate, now and then and on SIGHUP, which ends a store that has
/// none.
fn keep_current(tls: Tls) -> io::Result<()> {
    let mut hangup = signal(SignalKind::hangup())?;
    let mut often = tokio::time::interval(LOOK_EVERY);
    tokio::spawn(async move {
        loop {
            tokio::select! {
                Some(()) = hangup.recv() => {}
                _ = often.tick() => {}
            }
            let tls = tls.clone();
            // A panic there would be one in its own code, and the next look is as good.
            let _ = tokio::task::spawn_blocking(move || tls::reload(&tls)).await;
        }
    });
    Ok(())
}

/// Checks the values, and gives each key with what it is now.
pub(crate) fn values(settings: &Settings) -> Result<Vec<(&'static str, Value)>, ConfigError> {
    let listen = listen(settings)?;
    let (engine, data_dir) = match engine(settings)? {
        EngineConfig::Memory => (MEMORY, Value::Null),
        EngineConfig::Embedded { data_dir } => (EMBEDDED, lossy(data_dir.as_os_str()).into()),
    };
    let mut values = vec![
        ("listen", listen.to_string().into()),
        ("data_dir", data_dir),
        ("engine", engine.into()),
    ];
    let mut limits = limits(settings)?;
    values.extend(counts(&mut limits).map(|(key, count)| (key, Value::from(*count))));
    let text = |time: &mut Duration| humantime::format_duration(*time).to_string();
    values.extend(times(&mut limits).map(|(key, time)| (key, text(time).into())));
    Ok(values)
}

/// Those of file and environment, overridden by flags.
fn settings(arguments: &Serve) -> Result<Settings, ConfigError> {
    let mut settings = SECTION.of_environment(arguments.config.as_deref())?;
    let flags = [
        ("listen", "--listen", arguments.listen.clone()),
        ("engine", "--engine", arguments.engine.clone()),
        (
            "data_dir",
            "--data-dir",
            arguments
                .data_dir
                .as_ref()
                .map(|folder| lossy(folder.as_os_str())),
        ),
    ];
    for (key, flag, value) in flags {
        if let Some(value) = value {
            settings.set(key, [value], Origin::Flag(flag.into()));
        }
    }
    Ok(settings)
}

fn listen(settings: &Settings) -> Result<SocketAddr, ConfigError> {
    let resolve = |text: &str| {
        text.to_socket_addrs()
            .map_err(|error| error.to_string())
            .and_then(|mut addresses| addresses.next().ok_or_else(|| "no address".into()))
            .map_err(|error| {
                format!("{error}; write an address and a port, such as 127.0.0.1:7400")
            })
    };
    Ok(match settings.with("listen", resolve)? {
        Some(address) => address,
        None => DEFAULT_LISTEN.parse().expect("the default is an address"),
    })
}

fn engine(settings: &Settings) -> Result<EngineConfig, ConfigError> {
    let data_dir = settings.with("data_dir", |text| match text {
        "" => Err("name a folder".into()),
        text if text.contains(char::REPLACEMENT_CHARACTER) => {
            Err("the folder's name must be UTF-8".into())
        }
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

/// The usual limits, but for those that are set.
pub(crate) fn limits(settings: &Settings) -> Result<Limits, ConfigError> {
    let mut limits = Limits::default();
    for (key, count) in counts(&mut limits) {
        let range = Limits::range(key).expect("it is a limit");
        if let Some(number) = settings.number(key, range)? {
            *count = number;
        }
    }
    for (key, time) in times(&mut limits) {
        if let Some(duration) = settings.duration(key)? {
            *time = duration;
        }
    }
    limits
        .check()
        .map_err(|error| settings.invalid(error.name(), error.to_string()))?;
    Ok(limits)
}

/// The limits that are numbers, by their keys.
fn counts(limits: &mut Limits) -> [(&'static str, &mut usize); 11] {
    [
        ("max_body_bytes", &mut limits.max_body_bytes),
        ("max_header_bytes", &mut limits.max_header_bytes),
        ("max_name_bytes", &mut limits.max_name_bytes),
        (
            "max_leases_per_namespace",
            &mut limits.max_leases_per_namespace,
        ),
        ("max_namespaces", &mut limits.max_namespaces),
        ("max_waiters_per_lease", &mut limits.max_waiters_per_lease),
        ("max_waiting", &mut limits.max_waiting),
        ("max_connections", &mut limits.max_connections),
        ("max_watchers", &mut limits.max_watchers),
        ("max_metadata_bytes", &mut limits.max_metadata_bytes),
        ("max_history", &mut limits.max_history),
    ]
}

/// The limits that are durations, by their keys.
fn times(limits: &mut Limits) -> [(&'static str, &mut Duration); 2] {
    [
        ("header_time", &mut limits.header_time),
        ("request_time", &mut limits.request_time),
    ]
}
