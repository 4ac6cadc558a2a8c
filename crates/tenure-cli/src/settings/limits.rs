//! Limits of the store as settings.

use humantime::format_duration;
use serde_json::Value;
use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::LimitSetting;

/// Sets limits to the values of their settings. A limit that is not set stays as it is.
pub(super) fn read<'a>(
    settings: &Settings,
    limits: impl IntoIterator<Item = (&'static str, LimitSetting<'a>)>,
) -> Result<(), ConfigError> {
    for (key, limit) in limits {
        match limit {
            LimitSetting::Count(count, range) => {
                *count = settings.number(key, range)?.unwrap_or(*count);
            }
            LimitSetting::Time(time, _) => *time = settings.duration(key)?.unwrap_or(*time),
        }
    }
    Ok(())
}

/// Each limit with its value in effect.
pub(super) fn values<'a>(
    limits: impl IntoIterator<Item = (&'static str, LimitSetting<'a>)>,
) -> impl Iterator<Item = (&'static str, Value)> {
    limits.into_iter().map(|(key, limit)| match limit {
        LimitSetting::Count(count, _) => (key, Value::from(*count)),
        LimitSetting::Time(time, _) => (key, format_duration(*time).to_string().into()),
    })
}
