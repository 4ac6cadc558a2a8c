//! `tenure list`, `status`, `history`, `break` and `handover`: looking at a store's leases, and
//! ending terms.

use std::future::Future;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Local, Utc};
use comfy_table::Table;
use humantime::format_duration;
use tenure::__cli::Settings;
use tenure::backend::LeaseService;
use tenure::config::{ConfigError, Origin};
use tenure::store::{
    BreakRequest, DurationMs, HandOverRequest, LeaseList, LeaseView, State, StoreClient,
    StoreError, TermEnd, TermView,
};
use tenure::{ElectionName, Name};
use tracing::warn;

use crate::cli::{Break, Handover, History, List, Status, StoreArgs};
use crate::exit::{BAD_CONFIGURATION, Failure, REFUSED};
use crate::output;

/// How long a lease that nobody holds is kept for the candidate that it is handed over to.
const NOBODY_HOLDS: Duration = Duration::from_secs(10);

pub(crate) fn list(arguments: &List) -> Result<ExitCode, Failure> {
    let client = client(&arguments.store)?;
    let leases = ask(all(
        &client,
        &arguments.namespace,
        arguments.prefix.as_ref(),
    ))?;
    if arguments.json {
        output::json(&LeaseList { leases, next: None })?;
    } else {
        output::print_table(&table(&leases))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All pages of a list.
pub(crate) async fn all(
    client: &StoreClient,
    namespace: &Name,
    prefix: Option<&Name>,
) -> Result<Vec<LeaseView>, StoreError> {
    let mut leases = Vec::new();
    let mut after = None;
    loop {
        let page = client.list(namespace, prefix, after.as_deref()).await?;
        leases.extend(page.leases);
        after = page.next;
        if after.is_none() {
            return Ok(leases);
        }
    }
}

pub(crate) fn status(arguments: &Status) -> Result<ExitCode, Failure> {
    let view = match blob(arguments)? {
        Some(client) => ask(client.lease(&arguments.name))?,
        None => ask(client(&arguments.store)?.lease(&arguments.name))?,
    };
    let Some(view) = view else {
        return Err(unknown(&arguments.name));
    };
    show(&view, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn history(arguments: &History) -> Result<ExitCode, Failure> {
    let client = client(&arguments.store)?;
    let Some(history) = ask(client.history(&arguments.name))? else {
        return Err(unknown(&arguments.name));
    };
    if arguments.json {
        output::json(&history)?;
    } else {
        output::print_table(&terms(&history.terms))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn unknown(name: &ElectionName) -> Failure {
    let error = anyhow::anyhow!("there is no lease {name}: nobody has ever competed for it");
    Failure::new(REFUSED, error)
}

pub(crate) fn break_lease(arguments: &Break) -> Result<ExitCode, Failure> {
    let client = client(&arguments.store)?;
    let Some(view) = ask(client.lease(&arguments.name))? else {
        return Err(unknown(&arguments.name));
    };
    let period = time_to_stop(&view, arguments.period, "--period")?;
    let request = BreakRequest {
        break_period_ms: Some(period.into()),
        reason: arguments.reason.clone(),
    };
    let view = ask(client.break_lease(&arguments.name, &request))?;
    show(&view, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn hand_over(arguments: &Handover) -> Result<ExitCode, Failure> {
    let client = client(&arguments.store)?;
    let Some(view) = ask(client.lease(&arguments.name))? else {
        return Err(unknown(&arguments.name));
    };
    let within = time_to_stop(&view, arguments.within, "--within")?;
    let request = HandOverRequest {
        lease_id: None,
        to: arguments.to.to_string(),
        within_ms: within.into(),
    };
    let view = ask(client.hand_over(&arguments.name, &request))?;
    if view.holder.as_deref() == Some(arguments.to.as_str()) {
        warn!(lease = %arguments.name, candidate = %arguments.to,
            "this candidate holds the lease now: its own term ends, and it must compete again");
    } else if view.waiters == 0 {
        warn!(lease = %arguments.name, candidate = %arguments.to,
            "nobody waits for this lease now: the candidate must come, or nobody leads until its \
            time is over");
    }
    show(&view, arguments.json)?;
    Ok(ExitCode::SUCCESS)
}

/// How long the holder of this lease gets to stop: what the operator says, or else the lease's duration.
///
/// The store ends a break after the period, or when the lease ends anyway, if that is sooner. So a period
/// of the whole duration shortens nothing: the holder stops before, as it does before any end of its lease
/// (see `tenure_core::lease::candidate`), whether it hears of the break or not, and whatever its timings are. It
/// does hear of it, with its next renewal, and gives the lease up as soon as its task is gone, so nobody waits for
/// longer than that. With a shorter period that renewal may come too late, or never.
fn time_to_stop(
    view: &LeaseView,
    asked: Option<Duration>,
    flag: &str,
) -> Result<Duration, Failure> {
    let lease = &view.lease;
    if view.duration_ms == Some(DurationMs::Infinite) {
        let asked = asked.ok_or_else(|| {
            let error = anyhow::anyhow!(
                "the lease {lease} is infinite: its holder need not renew it, so no time is sure to be enough \
                 for it to notice; say by {flag} how long it gets"
            );
            Failure::new(BAD_CONFIGURATION, error)
        })?;
        warn!(%lease, "this lease is infinite: its holder need not renew it, and if it does not notice in \
            time it still acts when another leads");
        return Ok(asked);
    }
    let Some(safe) = fixed(view.duration_ms) else {
        return Ok(asked.unwrap_or(NOBODY_HOLDS));
    };
    let period = asked.unwrap_or(safe);
    if period < safe {
        let (period, safe) = (format_duration(period), format_duration(safe));
        warn!(%lease, "after {period} another may lead while the holder still acts: it notices with its next \
            renewal, and not at all while it can't reach the store; from {flag} {safe} on, the lease's duration, \
            it has stopped for sure");
    }
    Ok(period)
}

/// The blob that has the lease, if candidates are elected by one.
fn blob(arguments: &Status) -> Result<Option<LeaseService>, Failure> {
    let mut settings = settings(&arguments.store)?;
    if !is_by_blob(&arguments.store, &settings) {
        return Ok(None);
    }
    let name = arguments.name.to_string();
    let election = settings.parse::<ElectionName>("election")?;
    let is_another = election.is_some_and(|election| election != arguments.name);
    if is_another && settings.origin("azure_blob.blob").is_some() {
        let reason = format!("it is the blob of another election than {name}");
        return Err(settings.invalid("azure_blob.blob", reason).into());
    }
    settings.set("election", [name], Origin::Flag("NAME".into()));
    let config = tenure::__cli::from_settings(&settings)?;
    Ok(LeaseService::from_config(&config)?)
}

/// Whether candidates are elected by the lease of a blob, and no store was named instead.
fn is_by_blob(arguments: &StoreArgs, settings: &Settings) -> bool {
    arguments.server.is_empty() && settings.list("strategy") == ["azure-blob"]
}

/// A client of the store that flags, environment and file name, in this order.
pub(crate) fn client(arguments: &StoreArgs) -> Result<StoreClient, Failure> {
    let settings = settings(arguments)?;
    if is_by_blob(arguments, &settings) {
        let reason = "this asks a lease store, and the lease of a blob is in none: see it by tenure status, \
                      end a term by Azure's own tools (az storage blob lease break), or name a store by \
                      --server";
        return Err(settings.invalid("strategy", reason.into()).into());
    }
    check_store(&settings)?;
    let servers = tenure::__cli::servers_of(&settings)?;
    let roots = tenure::__cli::roots_of(&settings)?;
    Ok(StoreClient::with_root_certificates(&servers, &roots).map_err(anyhow::Error::new)?)
}

/// That there is a store: an election among peers has none.
pub(crate) fn check_store(settings: &Settings) -> Result<(), ConfigError> {
    if settings.list("strategy") != ["bully"] || settings.origin("servers").is_some() {
        return Ok(());
    }
    let reason = "this asks a lease store, and there is none in an election among peers: see the members by \
                  tenure peers, or name a store by --server";
    Err(settings.invalid("strategy", reason.into()))
}

/// A candidate's settings: the file, overridden by the environment, overridden by flags.
pub(crate) fn settings(arguments: &StoreArgs) -> Result<Settings, ConfigError> {
    let mut settings = tenure::__cli::settings();
    if let Some(path) = &arguments.config {
        tenure::__cli::read_file(&mut settings, path)?;
    }
    tenure::__cli::read_environment(&mut settings)?;
    if !arguments.server.is_empty() {
        settings.set(
            "servers",
            &arguments.server,
            Origin::Flag("--server".into()),
        );
    }
    if let Some(file) = &arguments.ca_file {
        settings.set("ca_file", [file], Origin::Flag("--ca-file".into()));
    }
    Ok(settings)
}

fn ask<T, E: Into<Failure>>(question: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(question).map_err(Into::into)
}

fn table(leases: &[LeaseView]) -> Table {
    let mut table = output::table(&[
        "NAME", "STATE", "HOLDER", "EPOCH", "LEFT", "WAITERS", "SINCE",
    ]);
    for view in leases {
        table.add_row([
            view.lease.clone(),
            state(view.state).into(),
            view.holder.clone().unwrap_or_else(none),
            view.epoch.map_or_else(none, |epoch| epoch.to_string()),
            left(view),
            view.waiters.to_string(),
            since(view),
        ]);
    }
    table
}

fn terms(terms: &[TermView]) -> Table {
    let mut table = output::table(&["EPOCH", "HOLDER", "BEGAN", "ENDED", "END", "REASON"]);
    for term in terms {
        table.add_row([
            term.epoch.to_string(),
            tame(&term.holder),
            term.began_at.as_deref().map_or_else(none, local_time),
            term.ended_at.as_deref().map_or_else(none, local_time),
            term.end.map_or_else(none, |end| ended(end).into()),
            term.reason.as_deref().map_or_else(none, tame),
        ]);
    }
    table
}

const fn ended(end: TermEnd) -> &'static str {
    match end {
        TermEnd::Released => "released",
        TermEnd::Expired => "expired",
        TermEnd::Broken => "broken",
        TermEnd::HandedOver => "handed over",
    }
}

/// What the store says of a time, in this machine's time zone.
fn local_time(text: &str) -> String {
    let local = |time: DateTime<_>| {
        let time = time.with_timezone(&Local);
        time.format("%Y-%m-%d %H:%M:%S").to_string()
    };
    DateTime::parse_from_rfc3339(text).map_or_else(|_| tame(text), local)
}

fn show(view: &LeaseView, json: bool) -> Result<(), Failure> {
    if json {
        output::json(view)?;
        return Ok(());
    }
    let mut rows = vec![
        ("lease", format!("{}/{}", view.namespace, view.lease)),
        ("state", state(view.state).into()),
    ];
    if let (Some(holder), Some(epoch)) = (&view.holder, view.epoch) {
        rows.push(("holder", holder.clone()));
        rows.push(("epoch", epoch.to_string()));
        // A blob tells none of these, nor who waits, nor a revision.
        let times = [
            ("since", since(view)),
            ("duration", duration(view.duration_ms)),
            ("left", left(view)),
        ];
        rows.extend(times.into_iter().filter(|(_, time)| *time != none()));
    }
    if view.revision > 0 {
        rows.push(("waiters", view.waiters.to_string()));
        rows.push(("revision", view.revision.to_string()));
    }
    for (key, value) in view.metadata.iter().flatten() {
        rows.push(("metadata", format!("{} = {}", tame(key), tame(value))));
    }
    for (key, value) in rows {
        output::line(format_args!("{key:<10}{value}"))?;
    }
    Ok(())
}

/// Anybody may hold a lease and say what they like: no line ends, nothing for the terminal.
pub(crate) fn tame(text: &str) -> String {
    text.chars()
        .flat_map(|c| {
            let escaped = c.is_control().then(|| c.escape_default());
            let plain = (!c.is_control()).then_some(c);
            escaped.into_iter().flatten().chain(plain)
        })
        .collect()
}

pub(crate) fn none() -> String {
    "-".into()
}

pub(crate) const fn state(state: State) -> &'static str {
    match state {
        State::Available => "available",
        State::Leased => "leased",
        State::Breaking => "breaking",
        State::Broken => "broken",
        State::Expired => "expired",
    }
}

fn duration(duration: Option<DurationMs>) -> String {
    match duration {
        Some(DurationMs::Infinite) => "infinite".into(),
        duration => fixed(duration).map_or_else(none, |fixed| format_duration(fixed).to_string()),
    }
}

/// A duration that is one and has an end.
fn fixed(duration: Option<DurationMs>) -> Option<Duration> {
    let Some(DurationMs::Fixed(number)) = duration else {
        return None;
    };
    let ms = number.within("duration_ms", 0, u64::MAX).ok()?;
    Some(Duration::from_millis(ms))
}

fn left(view: &LeaseView) -> String {
    match (view.remaining_ms, view.duration_ms) {
        (Some(ms), _) => format!("{:.1}s", Duration::from_millis(ms).as_secs_f64()),
        (None, Some(DurationMs::Infinite)) => "infinite".into(),
        (None, _) => none(),
    }
}

/// The beginning of the term in local time, and how long ago that is by this machine's wall clock.
fn since(view: &LeaseView) -> String {
    let Some(text) = &view.granted_at else {
        return none();
    };
    let Ok(granted) = DateTime::parse_from_rfc3339(text) else {
        return text.clone();
    };
    let ago = (DateTime::<Utc>::from(SystemTime::now()) - granted.to_utc())
        .to_std()
        .unwrap_or_default();
    let ago = format_duration(Duration::from_secs(ago.as_secs()));
    format!("{} ({ago} ago)", local_time(text))
}
