//! Limits of the store as settings.

use tenure_config::{ConfigError, Settings};
use tenure_server::LimitSetting;

/// Sets limits to the values of their settings in this table.
pub(super) fn read<'a>(
    settings: &Settings,
    table: &str,
    limits: impl IntoIterator<Item = (&'static str, LimitSetting<'a>)>,
) -> Result<(), ConfigError> {
    for (name, limit) in limits {
        let key = &format!("{table}.{name}");
        match limit {
            LimitSetting::Count(count, _) => *count = settings.number(key)?.unwrap_or(*count),
            LimitSetting::Time(time, _) => *time = settings.duration(key)?.unwrap_or(*time),
        }
    }
    Ok(())
}
