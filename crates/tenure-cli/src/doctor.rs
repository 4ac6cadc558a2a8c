//! `tenure doctor`: looks at what leadership rests on here.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::Value;
use tenure::__cli::Settings;
use tenure::backend::{BackendError, LeaseService};
use tenure::config::Strategy;
use tenure::store::{Endpoint, Pong, StoreClient, StoreError};
use tenure::{Config, ElectionName, Timings};

use crate::cli::Doctor;
use crate::config::{timings_json, with_any_election};
use crate::exit::{Failure, UNREACHABLE};
use crate::output;
use crate::store;

/// How often each address is asked for a sign of life, after a first time that connects.
const PINGS: usize = 10;

/// How many tries of a renewal should fit between the renew interval and the renew deadline.
const TRIES: u32 = 4;

/// What was found out.
#[derive(Debug, Serialize)]
struct Report {
    clock: Clock,
    stores: Vec<Store>,
    timings: Value,
    /// What somebody should look at.
    findings: Vec<String>,
}

/// The clock that terms are counted on.
#[derive(Debug, Serialize)]
struct Clock {
    source: &'static str,
    readable: bool,
    /// For how long this machine has been suspended since it was started: by so much the monotonic
    /// clock, on which timers run, is behind.
    suspended_ms: Option<u64>,
}

/// One address of the store.
#[derive(Debug, Serialize)]
struct Store {
    server: String,
    /// Whether anything does there.
    answers: bool,
    /// Whether it is a store, or the service that has the blob.
    reachable: bool,
    ready: bool,
    connect_ms: Option<f64>,
    round_trip_ms: Option<RoundTrip>,
    /// By how much its wall clock is ahead of this machine's, in whole seconds; it decides nothing.
    wall_clock_ahead_s: Option<i64>,
    /// How much it takes of everything, as far as it tells: older ones don't.
    limits: Option<BTreeMap<String, u64>>,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct RoundTrip {
    min: f64,
    median: f64,
    max: f64,
}

pub(crate) fn doctor(arguments: &Doctor) -> Result<ExitCode, Failure> {
    let settings = store::settings(&arguments.store)?;
    store::check_store(&settings)?;
    let config = tenure::__cli::from_settings(&with_any_election(&settings))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let report = runtime.block_on(examine(&config, &settings))?;
    if arguments.json {
        output::json(&report)?;
    } else {
        print(&report, config.timings())?;
    }
    Ok(if report.stores.iter().all(|store| !store.reachable) {
        ExitCode::from(UNREACHABLE)
    } else if report.findings.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

async fn examine(config: &Config, settings: &Settings) -> anyhow::Result<Report> {
    let clock = clock();
    let mut findings = Vec::new();
    if !clock.readable {
        findings.push(format!(
            "{} can't be read: no candidate can run here",
            clock.source
        ));
    }
    let mut stores = Vec::new();
    for way in ways(config)? {
        let store = Store::examine(&way, config.election()).await;
        findings.extend(store.finding(config.timings()));
        stores.push(store);
    }
    if settings.origin("lease_duration").is_some() && config.timings().lease_duration() < SHORT {
        findings.push(format!(
            "a lease of {:?} is short: a machine that is busy for a moment loses it",
            config.timings().lease_duration()
        ));
    }
    Ok(Report {
        clock,
        stores,
        timings: timings_json(config.timings()),
        findings,
    })
}

/// A lease duration below which a pause of the scheduler or of a disk may cost a term.
const SHORT: Duration = Duration::from_secs(2);

fn clock() -> Clock {
    let now = |clock| clock_gettime(clock).map(Duration::from);
    let (boot, monotonic) = (now(ClockId::CLOCK_BOOTTIME), now(ClockId::CLOCK_MONOTONIC));
    let suspended = match (boot, monotonic) {
        (Ok(boot), Ok(monotonic)) => Some(boot.saturating_sub(monotonic)),
        _ => None,
    };
    Clock {
        source: "CLOCK_BOOTTIME",
        readable: boot.is_ok(),
        suspended_ms: suspended.and_then(|time| u64::try_from(time.as_millis()).ok()),
    }
}

/// A lease service, or one address of a lease store.
enum Way {
    Store(Endpoint, StoreClient),
    Service(LeaseService),
}

/// Each address of a store, or the lease service of the configuration.
fn ways(config: &Config) -> Result<Vec<Way>, tenure::StartError> {
    if !matches!(config.strategy(), Strategy::Lease | Strategy::Both(_))
        && let Some(service) = LeaseService::from_config(config)?
    {
        return Ok(vec![Way::Service(service)]);
    }
    let way = |server: &Endpoint| {
        let roots = config.root_certificates();
        let client = StoreClient::with_root_certificates(std::slice::from_ref(server), roots)?;
        Ok(Way::Store(server.clone(), client))
    };
    config.servers().iter().map(way).collect()
}

impl Way {
    fn address(&self) -> String {
        match self {
            Self::Store(endpoint, _) => endpoint.to_string(),
            Self::Service(service) => service.address(),
        }
    }

    async fn ping(&self) -> Result<Pong, BackendError> {
        match self {
            Self::Store(_, client) => Ok(client.ping().await?),
            Self::Service(service) => service.ping().await,
        }
    }
}

impl Store {
    async fn examine(way: &Way, election: &ElectionName) -> Self {
        let mut store = Self {
            server: way.address(),
            answers: false,
            reachable: false,
            ready: false,
            connect_ms: None,
            round_trip_ms: None,
            wall_clock_ahead_s: None,
            limits: None,
            error: None,
        };
        let asked = store.ask(way, election).await;
        if let Err(error) = asked {
            let problem = error.get_ref().downcast_ref::<StoreError>();
            store.answers |= !error.is_unreachable();
            store.reachable |= matches!(problem, Some(StoreError::Problem(_)));
            store.error = Some(error.to_string());
        }
        store
    }

    async fn ask(&mut self, way: &Way, election: &ElectionName) -> Result<(), BackendError> {
        let first = way.ping().await?;
        self.answers = true;
        self.connect_ms = Some(millis(first.round_trip));
        let mut round_trips = Vec::new();
        for _ in 0..PINGS {
            let pong = way.ping().await?;
            self.wall_clock_ahead_s = ahead(&pong, SystemTime::now().into());
            round_trips.push(pong.round_trip);
        }
        round_trips.sort_unstable();
        self.round_trip_ms = Some(RoundTrip {
            min: millis(round_trips[0]),
            median: millis(round_trips[PINGS / 2]),
            max: millis(round_trips[PINGS - 1]),
        });
        if let Way::Store(_, client) = way {
            // Others have such paths, too; whether it is a store shows when it is asked for a lease.
            client.lease(election).await?;
            self.reachable = true;
            self.limits = client.limits().await.ok();
            client.ready().await?;
        }
        self.reachable = true;
        self.ready = true;
        Ok(())
    }

    fn finding(&self, timings: &Timings) -> Option<String> {
        if let Some(error) = &self.error {
            return Some(format!("{}: {error}", self.server));
        }
        let slowest = Duration::from_secs_f64(self.round_trip_ms?.max / 1000.0);
        let room = timings.renew_deadline() - timings.renew_interval();
        // By default that room is a third of the lease.
        (slowest * TRIES > room).then(|| {
            format!(
                "{}: a round trip took {slowest:.1?}, and only {room:?} are left for trying again \
                 between renew interval and renew deadline; choose a lease_duration of at least \
                 {:?}",
                self.server,
                Duration::from_secs((slowest * TRIES * 3).as_secs() + 1)
            )
        })
    }
}

/// By how many seconds the wall clock of who answered is ahead of this one. A date has whole seconds,
/// so less than two say nothing.
fn ahead(pong: &Pong, received: DateTime<Utc>) -> Option<i64> {
    let date = DateTime::parse_from_rfc2822(pong.date.as_deref()?).ok()?;
    let way = TimeDelta::from_std(pong.round_trip / 2).ok()?;
    let ahead = date.to_utc() + way - received;
    Some(match ahead.num_seconds() {
        -1..=1 => 0,
        seconds => seconds,
    })
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

fn print(report: &Report, timings: &Timings) -> anyhow::Result<()> {
    let clock = &report.clock;
    let state = match clock.suspended_ms {
        _ if !clock.readable => "can't be read".into(),
        Some(0) | None => "readable, never suspended".into(),
        Some(ms) => format!(
            "readable, {} suspended since the machine was started",
            humantime::format_duration(Duration::from_millis(ms))
        ),
    };
    row("clock", format_args!("{}: {state}", clock.source))?;
    for store in &report.stores {
        let state = match store {
            Store { ready: true, .. } => "ready",
            Store {
                reachable: true, ..
            } => "not ready",
            // What else it is, the error says.
            Store { answers: true, .. } => "answers, and not as a store should",
            _ => "not reachable",
        };
        row("store", format_args!("{}: {state}", store.server))?;
        if let (Some(trip), Some(connect)) = (store.round_trip_ms, store.connect_ms) {
            let RoundTrip { min, median, max } = trip;
            row(
                "  way",
                format_args!(
                    "{min:.1} / {median:.1} / {max:.1} ms (least, median, most of {PINGS}), \
                     {connect:.1} ms with connecting"
                ),
            )?;
        }
        let clock = match store.wall_clock_ahead_s {
            None => continue,
            Some(0) => "the same, as far as whole seconds tell".into(),
            Some(ahead @ 1..) => format!("{ahead} s ahead of this machine's; it decides nothing"),
            Some(behind) => format!("{} s behind this machine's; it decides nothing", -behind),
        };
        row("  wall clock", clock)?;
        for (name, value) in store.limits.iter().flatten() {
            row("  limit", format_args!("{name} = {value}"))?;
        }
    }
    row("timings", timings)?;
    for finding in &report.findings {
        row("look at", finding)?;
    }
    if report.findings.is_empty() {
        row("all well", "")?;
    }
    Ok(())
}

fn row(key: &str, value: impl std::fmt::Display) -> anyhow::Result<()> {
    let line = format!("{key:<14}{value}");
    Ok(output::line(line.trim_end())?)
}
