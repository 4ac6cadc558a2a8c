//! Names of strategies and scenarios on the command line.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::ops::Range;

use anyhow::anyhow;
use tenure::config::Strategy;
use tenure_lab::contestant_of_name;
use tenure_sim::contestant::Contestant;
use tenure_sim::scenario::Scenario;

use crate::exit::{self, BAD_CONFIGURATION};

/// These names, or the default if there are none and no files either.
pub(super) fn or_default<'a>(
    names: &'a [String],
    has_files: bool,
    default: &[&'a str],
) -> Vec<&'a str> {
    if names.is_empty() && !has_files {
        default.to_vec()
    } else {
        names.iter().map(String::as_str).collect()
    }
}

/// Checks that no value of an option is given twice: its rows would be there twice.
pub(super) fn check_once(
    option: &str,
    values: impl IntoIterator<Item = impl Display>,
) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    for value in values {
        let value = value.to_string();
        if let Some(value) = seen.replace(value) {
            let error = format!("{option} {value} is given twice; give each value once");
            return Err(exit::bad_configuration(error));
        }
    }
    Ok(())
}

pub(super) fn contestants(names: &[impl AsRef<str>]) -> anyhow::Result<Vec<Contestant>> {
    check_once("--contestant", names.iter().map(AsRef::<str>::as_ref))?;
    let named = names.iter().map(|name| contestant_of_name(name.as_ref()));
    named.collect::<Result<_, _>>().map_err(unknown)
}

/// Checks that these strategies allow a group of this size.
pub(super) fn check_members(contestants: &[Contestant], members: u32) -> anyhow::Result<()> {
    for contestant in contestants {
        let checked = contestant.check_members(members);
        checked.map_err(|why| exit::bad_configuration(format!("{}: {why}", contestant.name)))?;
    }
    Ok(())
}

pub(super) fn scenarios(names: &[impl AsRef<str>]) -> anyhow::Result<Vec<Scenario>> {
    check_once("--scenario", names.iter().map(AsRef::<str>::as_ref))?;
    let named = names.iter().map(|name| Scenario::of_name(name.as_ref()));
    named.collect::<Result<_, _>>().map_err(unknown)
}

pub(super) fn unknown(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let error = anyhow!(error).context("\"tenure-lab compare --list\" lists all names");
    exit::error(BAD_CONFIGURATION, error)
}

/// The error if the strategy of a file can't be compared.
pub(super) fn not_comparable(file: &str, strategy: &Strategy, why: &str) -> anyhow::Error {
    let strategy = strategy.name();
    exit::bad_configuration(format!(
        "{file}: strategy = {strategy:?} can't be compared: {why}"
    ))
}

/// Parses a range of seeds.
pub(super) fn parse_seeds(text: &str) -> Result<Range<u64>, String> {
    let wrong = || format!("write FROM..TO, such as 0..20, not {text:?}");
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong());
    let (from, to) = (number(from)?, number(to)?);
    if from < to {
        Ok(from..to)
    } else {
        Err(format!(
            "FROM must be below TO, and {from} is not below {to}"
        ))
    }
}
