//! Limits of the store as settings.

use humantime::format_duration;
use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::LimitSetting;

/// Sets limits to the values of their settings in this table. A limit that is not set stays as it
/// is.
pub(super) fn read<'a>(
    settings: &Settings,
    table: &str,
    limits: impl IntoIterator<Item = (&'static str, LimitSetting<'a>)>,
) -> Result<(), ConfigError> {
    for (name, mut limit) in limits {
        let key = &format!("{table}.{name}");
        match &mut limit {
            LimitSetting::Count(count, range) => {
                **count = settings.number(key, range.clone())?.unwrap_or(**count);
            }
            LimitSetting::Time(time, _) => **time = settings.duration(key)?.unwrap_or(**time),
        }
        let checked = limit.check(name);
        checked.map_err(|error| settings.invalid(key, error.to_string()))?;
    }
    Ok(())
}

/// Each limit with its value in effect.
pub(crate) fn values<'a>(
    table: &str,
    limits: impl IntoIterator<Item = (&'static str, LimitSetting<'a>)>,
) -> impl Iterator<Item = (String, Value)> {
    limits.into_iter().map(move |(name, limit)| {
        let value = match limit {
            LimitSetting::Count(count, _) => Value::from(*count),
            LimitSetting::Time(time, _) => format_duration(*time).to_string().into(),
        };
        (format!("{table}.{name}"), value)
    })
}
