//! The table `[audit]`: the audit log of the store.

use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::audit::{Audit, AuditConfig, AuditLevel, AuditTarget};

/// The file that stands for standard error.
const STDERR: &str = "stderr";

/// The levels by their names.
const LEVELS: [(&str, AuditLevel); 2] = [
    ("operators", AuditLevel::Operators),
    ("changes", AuditLevel::Changes),
];

/// Opens the audit log, if one is set.
pub(crate) fn open(settings: &Settings) -> Result<Audit, ConfigError> {
    let (name, is_required) = (level(settings)?, is_required(settings)?);
    let target = match settings.text("audit.file")? {
        None | Some("") => return Ok(Audit::none()),
        Some(STDERR) => AuditTarget::Stderr,
        Some(path) => AuditTarget::File(path.into()),
    };
    let level = LEVELS.iter().find(|(known, _)| *known == name);
    let config = AuditConfig {
        target,
        level: level.map_or_else(AuditLevel::default, |(_, level)| *level),
        is_required,
    };
    Audit::open(config).map_err(|error| settings.invalid("audit.file", error.to_string()))
}

/// The name of the level in effect.
pub(crate) fn level(settings: &Settings) -> Result<&'static str, ConfigError> {
    let level = settings.with("audit.level", |text| {
        let known = LEVELS.iter().map(|(name, _)| *name);
        let mut found = known.filter(|name| *name == text.trim());
        found.next().ok_or_else(|| "must be \"operators\" or \"changes\"".into())
    })?;
    Ok(level.unwrap_or(LEVELS[0].0))
}

pub(crate) fn is_required(settings: &Settings) -> Result<bool, ConfigError> {
    Ok(settings.flag("audit.required")?.unwrap_or_default())
}
