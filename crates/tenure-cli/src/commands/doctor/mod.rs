//! `tenure doctor`: checks the clock, the store and the timings that leadership on this machine
//! depends on.

mod cluster;
mod home;
mod members;
mod probe;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeDelta, Utc};
use clap::Args;
use nix::time::{ClockId, clock_gettime};
use serde::{Serialize, Serializer};
use serde_json::Value;
use tenure::backend::{AwaitedTerm, BackendError, LeaseService};
use tenure::config::{ConfigError, Strategy};
use tenure::store::{ClusterView, Code, Endpoint, Pong, StoreClient, StoreError};
use tenure::{Config, ElectionName, StartError, Timings};
use tenure_config::Settings;

use crate::exit::{self, UNREACHABLE};
use crate::lease_view;
use crate::output;
use crate::runtime::block_on;
use crate::servers::{self, ServerReport};
use crate::settings::{ClientArgs, with_any_election};
use crate::store;
use home::HomeReport;
use members::MemberReport;

/// Check this machine's clock, the connection to the store, and the timings
///
/// Checks each address of the store, and with a fallback also each member: whether it answers, its
/// settings, and the id of its store. With the configuration of a server whose home is a bucket, it probes
/// the bucket, too. Exits with 0 if all checks pass, 1 if a check fails, 69 if no
/// address can be reached.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    #[command(flatten)]
    store: ClientArgs,
    /// Election whose lease is checked [default: any; a Lease object of Kubernetes needs it]
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    election: Option<String>,
    /// Also print the limits of the store
    #[arg(long)]
    verbose: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Only ask the store of this machine or container whether it is ready, for health checks: at
    /// the address in its own settings [--config, or else /etc/tenure/tenure.toml if it exists]
    #[arg(long, conflicts_with_all = ["server", "context", "election", "json", "verbose"])]
    probe: bool,
}

/// The number of measured round trips, after the first one, which connects.
const PINGS: usize = 10;

/// The number of attempts of a renewal that should fit between the renew interval and the renew
/// deadline.
const ATTEMPTS: u32 = 4;

/// With a shorter lease duration, a pause of the scheduler or of a disk may end a term.
const SHORT_LEASE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
struct Report {
    clock: Clock,
    stores: Vec<StoreReport>,
    /// The active server that a standby names, if it is not among the addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    named: Option<ServerReport>,
    /// The home of the servers, if it is a bucket that the configuration names.
    #[serde(skip_serializing_if = "Option::is_none")]
    home: Option<HomeReport>,
    /// The members of the fallback.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    members: Vec<MemberReport>,
    timings: Value,
    /// The checks that failed.
    findings: Vec<String>,
}

/// The clock that terms are measured with.
#[derive(Debug, Serialize)]
struct Clock {
    source: &'static str,
    readable: bool,
    /// How long this machine has been suspended since it was started. The monotonic clock, which
    /// timers use, is behind by this time.
    suspended_ms: Option<u64>,
}

/// One address of the store.
#[derive(Debug, Default, Serialize)]
struct StoreReport {
    /// The name of such a service.
    #[serde(skip)]
    kind: &'static str,
    server: String,
    /// The id of the store.
    id: Option<String>,
    /// Whether anything answers at the address.
    answers: bool,
    /// Whether a store answers, or the other service.
    reachable: bool,
    ready: bool,
    connect_ms: Option<f64>,
    round_trip_ms: Option<RoundTrip>,
    /// How far its wall clock is ahead of this machine's, in whole seconds. Elections do not depend
    /// on it.
    wall_clock_ahead_s: Option<i64>,
    /// The caller according to the store: its principal, its grants, and the end of its token.
    caller: Option<Value>,
    /// The state of the server in its cluster, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    cluster: Option<ClusterView>,
    /// The right that this credential lacks for a candidate, as the service reviews it.
    #[serde(skip_serializing_if = "Option::is_none")]
    missing_right: Option<String>,
    /// The reason why the service does not review rights.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_reviewed: Option<String>,
    /// The term that candidates wait for although the lease has no valid holder, or a holder with a
    /// long duration.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_json")]
    awaited: Option<AwaitedTerm>,
    /// The limits that the store reports, if it does.
    limits: Option<BTreeMap<String, u64>>,
    error: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct RoundTrip {
    min: f64,
    median: f64,
    max: f64,
}

impl Doctor {
    pub(crate) fn run(&self) -> anyhow::Result<ExitCode> {
        if self.probe {
            return probe::run(self.store.store.config.as_deref());
        }
        let mut settings = self.store.settings()?;
        settings.set_flag("election", &self.election);
        store::require_store(&settings)?;
        require_object(&settings)?;
        let config = Config::from_settings(&with_any_election(&settings))?;
        let has_lease_duration = settings.origin("lease_duration").is_some();
        // Its connections block on a runtime of their own.
        let home = home::examine(self.store.store.config.as_deref())?;
        let mut report = block_on(examine(&settings, &config, has_lease_duration))?;
        report
            .findings
            .extend(home.as_ref().and_then(|it| it.error.clone()));
        report.home = home;
        if self.json {
            output::json(&report)?;
        } else {
            report.print(config.timings(), self.verbose)?;
        }
        if report.stores.iter().all(|store| !store.reachable) {
            return Ok(ExitCode::from(UNREACHABLE));
        }
        Ok(exit::success_if(report.findings.is_empty()))
    }
}

/// Fails if nothing names the object of Kubernetes: the rights of another object tell nothing.
fn require_object(settings: &Settings) -> Result<(), ConfigError> {
    let is_set = |key| settings.origin(key).is_some();
    if settings.list("strategy") != ["kubernetes"]
        || is_set("election")
        || is_set("kubernetes.lease")
    {
        return Ok(());
    }
    Err(ConfigError::Missing {
        key: "election".into(),
        reason: "it names the Lease object: write --election, TENURE_ELECTION or the key election, such as \
                 billing/nightly"
            .into(),
    })
}

async fn examine(
    settings: &Settings,
    config: &Config,
    has_lease_duration: bool,
) -> anyhow::Result<Report> {
    let clock = Clock::read();
    let mut findings = Vec::new();
    if !clock.readable {
        let source = clock.source;
        findings.push(format!(
            "{source} can't be read: no candidate can run on this machine"
        ));
    }
    let mut stores = Vec::new();
    for service in services(config)? {
        let store = StoreReport::examine(&service, &config.election).await;
        findings.extend(store.finding(config.timings()));
        let server = &store.server;
        let missing = store.missing_right.iter();
        findings.extend(missing.map(|right| format!("{server}: {right}")));
        stores.push(store);
    }
    let ids: BTreeSet<&str> = stores.iter().filter_map(|it| it.id.as_deref()).collect();
    if ids.len() > 1 {
        let ids: Vec<&str> = ids.iter().copied().collect();
        findings.push(format!(
            "the addresses are of several stores, with the ids {}: each of them grants the lease to another \
             candidate",
            ids.join(", ")
        ));
    }
    let mut servers: Vec<_> = stores.iter().filter_map(|it| it.cluster.as_ref()).collect();
    let named = named_active(config, &servers).await;
    servers.extend(named.iter().filter_map(|it| it.view.as_ref()));
    findings.extend(cluster::findings(&servers, config.timings()));
    let members = members::examine(settings).await?;
    let ids: Vec<&str> = ids.into_iter().collect();
    findings.extend(members::findings(&members, &ids));
    let lease_duration = config.timings().lease_duration();
    if has_lease_duration && lease_duration < SHORT_LEASE {
        findings.push(format!(
            "a lease of {lease_duration:?} is short: a machine that is busy for a moment loses it"
        ));
    }
    Ok(Report {
        clock,
        stores,
        named,
        home: None,
        members,
        timings: output::timings(config.timings()),
        findings,
    })
}

/// Asks the active server that one of these servers names at another address than those of the store.
async fn named_active(config: &Config, servers: &[&ClusterView]) -> Option<ServerReport> {
    let client = StoreClient::with_root_certificates(config.servers(), &config.roots).ok()?;
    servers::ask_named(&client, servers.iter().copied()).await
}

impl Clock {
    fn read() -> Self {
        let now = |clock| clock_gettime(clock).map(Duration::from).ok();
        let (boot, monotonic) = (now(ClockId::CLOCK_BOOTTIME), now(ClockId::CLOCK_MONOTONIC));
        let suspended = boot
            .zip(monotonic)
            .map(|(boot, monotonic)| boot.saturating_sub(monotonic));
        Self {
            source: "CLOCK_BOOTTIME",
            readable: boot.is_some(),
            suspended_ms: suspended.map(output::millis),
        }
    }
}

/// A service that grants the lease.
enum Service {
    /// One address of a lease store.
    Store(Endpoint, StoreClient),
    Other(LeaseService),
}

/// Each address of the store, or the other service of the configuration.
fn services(config: &Config) -> Result<Vec<Service>, StartError> {
    if !matches!(config.strategy, Strategy::Lease | Strategy::Both(_))
        && let Some(service) = LeaseService::from_config(config)?
    {
        return Ok(vec![Service::Other(service)]);
    }
    let service = |server: &Endpoint| {
        let roots = &config.roots;
        let client = StoreClient::with_root_certificates(std::slice::from_ref(server), roots)?
            .with_credentials(config.credentials().clone())?;
        Ok(Service::Store(server.clone(), client))
    };
    config.servers().iter().map(service).collect()
}

impl Service {
    fn kind(&self) -> &'static str {
        match self {
            Self::Store(..) => "store",
            Self::Other(service) => service.kind(),
        }
    }

    fn address(&self) -> String {
        match self {
            Self::Store(server, _) => server.to_string(),
            Self::Other(service) => service.address(),
        }
    }

    async fn ping(&self) -> Result<Pong, BackendError> {
        match self {
            Self::Store(_, client) => Ok(client.ping().await?),
            Self::Other(service) => service.ping().await,
        }
    }
}

impl StoreReport {
    async fn examine(service: &Service, election: &ElectionName) -> Self {
        let mut store = Self {
            kind: service.kind(),
            server: service.address(),
            ..Self::default()
        };
        if let Err(error) = store.measure(service, election).await {
            let problem = error.get_ref().downcast_ref::<StoreError>();
            let has_answered = !matches!(error, BackendError::Unreachable(_));
            store.answers |= has_answered;
            store.reachable |= match service {
                Service::Store(..) => matches!(problem, Some(StoreError::Problem(_))),
                Service::Other(_) => has_answered,
            };
            store.error = Some(error.to_string());
        }
        if let (Service::Other(service), true) = (service, store.reachable) {
            match service.missing_right().await {
                Ok(right) => store.missing_right = right,
                Err(error) => store.not_reviewed = Some(error.to_string()),
            }
            // A missing right would refuse the write, too.
            if store.missing_right.is_none()
                && store.error.is_none()
                && let Err(error) = service.check_write().await
            {
                store.ready = false;
                store.error = Some(error.to_string());
            }
        }
        store
    }

    async fn measure(
        &mut self,
        service: &Service,
        election: &ElectionName,
    ) -> Result<(), BackendError> {
        let first = service.ping().await?;
        self.answers = true;
        self.connect_ms = Some(millis(first.round_trip));
        self.id = first.store;
        let mut round_trips = Vec::new();
        for _ in 0..PINGS {
            let pong = service.ping().await?;
            self.wall_clock_ahead_s = ahead(&pong, SystemTime::now().into());
            round_trips.push(pong.round_trip);
        }
        round_trips.sort_unstable();
        self.round_trip_ms = Some(RoundTrip {
            min: millis(round_trips[0]),
            median: millis(round_trips[PINGS / 2]),
            max: millis(round_trips[PINGS - 1]),
        });
        if let Service::Store(_, client) = service {
            // Other servers may have the path of the ping; only a store answers for a lease.
            let answered = client.lease(election).await;
            self.reachable = matches!(&answered, Ok(_) | Err(StoreError::Problem(_)));
            let mut servers = client.cluster().await;
            self.cluster = servers.pop().and_then(|(_, view)| view.ok());
            match answered {
                // The server is a standby, which answers for no lease.
                Err(StoreError::Problem(problem)) if problem.code == Code::NotActive => {}
                answered => drop(answered?),
            }
            self.limits = client.limits().await.ok();
            self.caller = client.whoami().await.ok();
            client.ready().await?;
        }
        if let Service::Other(service) = service {
            self.awaited = service.awaited().await?;
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
        // By default this is a third of the lease duration.
        (slowest * ATTEMPTS > room).then(|| {
            format!(
                "{}: a round trip took {slowest:.1?}, and only {room:?} remain for retries between renew \
                 interval and renew deadline; choose a lease_duration of at least {:?}",
                self.server,
                Duration::from_secs((slowest * ATTEMPTS * 3).as_secs() + 1)
            )
        })
    }
}

/// How many seconds the wall clock of the service is ahead of this machine's. The date of a
/// response has whole seconds, so a difference below two seconds counts as none.
fn ahead(pong: &Pong, received: DateTime<Utc>) -> Option<i64> {
    let date = DateTime::parse_from_rfc2822(pong.date.as_deref()?).ok()?;
    let one_way = TimeDelta::from_std(pong.round_trip / 2).ok()?;
    let ahead = date.to_utc() + one_way - received;
    Some(match ahead.num_seconds() {
        -1..=1 => 0,
        seconds => seconds,
    })
}

fn as_json<S: Serializer>(awaited: &Option<AwaitedTerm>, to: S) -> Result<S::Ok, S::Error> {
    awaited.as_ref().map(lease_view::awaited_json).serialize(to)
}

fn millis(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

impl Report {
    fn print(&self, timings: &Timings, verbose: bool) -> anyhow::Result<()> {
        let clock = &self.clock;
        let state = match clock.suspended_ms {
            _ if !clock.readable => "not readable".into(),
            Some(0) | None => "readable, never suspended".into(),
            Some(ms) => format!(
                "readable, suspended for {} since the machine was started",
                humantime::format_duration(Duration::from_millis(ms))
            ),
        };
        row("clock", format_args!("{}: {state}", clock.source))?;
        for store in &self.stores {
            store.print(verbose)?;
        }
        for note in self.named.iter().flat_map(ServerReport::notes) {
            row("store", note)?;
        }
        if let Some(home) = &self.home {
            home.print()?;
        }
        for member in &self.members {
            member.print()?;
        }
        row("timings", timings)?;
        for finding in &self.findings {
            row("check failed", finding)?;
        }
        if self.findings.is_empty() {
            row("all checks passed", "")?;
        }
        Ok(())
    }
}

impl StoreReport {
    fn print(&self, verbose: bool) -> anyhow::Result<()> {
        let state = match (self.ready, self.reachable, self.answers) {
            (true, _, _) => "ready",
            (false, true, _) => "not ready",
            (false, false, true) => "answers, but not like a lease store",
            (false, false, false) => "not reachable",
        };
        row(self.kind, format_args!("{}: {state}", self.server))?;
        if let (Some(RoundTrip { min, median, max }), Some(connect)) =
            (self.round_trip_ms, self.connect_ms)
        {
            row(
                "  round trip",
                format_args!(
                    "min {min:.1} ms, median {median:.1} ms, max {max:.1} ms of {PINGS}; {connect:.1} ms with \
                     connecting"
                ),
            )?;
        }
        if let Some(ahead) = self.wall_clock_ahead_s {
            let offset = match ahead {
                0 => "below 1 s".into(),
                1.. => format!("{ahead} s ahead of this machine; elections do not depend on it"),
                _ => format!(
                    "{} s behind this machine; elections do not depend on it",
                    -ahead
                ),
            };
            row("  clock offset", offset)?;
        }
        if let Some(id) = &self.id {
            row("  id", id)?;
        }
        if let Some(awaited) = &self.awaited {
            row("  awaited", lease_view::awaited_text(awaited))?;
        }
        if let Some(error) = &self.not_reviewed {
            row("  rights", format_args!("not reviewed: {error}"))?;
        }
        if let Some(view) = &self.cluster {
            cluster::print(view)?;
        }
        if let Some(caller) = &self.caller {
            row("  let in as", caller_text(caller))?;
        }
        for (name, value) in self.limits.iter().flatten().filter(|_| verbose) {
            row("  limit", format_args!("{name} = {value}"))?;
        }
        Ok(())
    }
}

/// Describes a caller, for example with the text
/// `worker with candidate on billing/nightly*, until 2027-01-01T00:00:00Z`.
fn caller_text(caller: &Value) -> String {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let Some(principal) = caller["principal"].as_str() else {
        return "anyone: the store has no access control".into();
    };
    let grants = caller["grants"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|grant| {
            let (role, namespace) = (text(grant, "role"), text(grant, "namespace"));
            match grant["prefix"].as_str() {
                Some(prefix) => format!("{role} on {namespace}/{prefix}*"),
                None => format!("{role} on {namespace}"),
            }
        });
    let grants = grants.collect::<Vec<_>>().join(", ");
    let grants = if grants.is_empty() {
        "no grants"
    } else {
        &grants
    };
    let end = match caller["expires"].as_str() {
        Some(expires) => format!(", until {expires}"),
        None => String::new(),
    };
    format!("{} with {grants}{end}", output::escape(principal))
}

fn row(key: &str, value: impl Display) -> anyhow::Result<()> {
    let line = format!("{key:<16}{value}");
    Ok(output::line(line.trim_end())?)
}
