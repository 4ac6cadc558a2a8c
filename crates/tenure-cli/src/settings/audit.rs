//! The table `[audit]`: the audit log of the store.

use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::audit::{Audit, AuditConfig, AuditLevel, AuditTarget};

/// The file that stands for standard error.
const STDERR: &str = "stderr";

/// The names of the levels.
const OPERATORS: &str = "operators";
const CHANGES: &str = "changes";

/// Opens the audit log, if one is set.
pub(crate) fn open(settings: &Settings) -> Result<Audit, ConfigError> {
    let (name, is_required) = (level(settings)?, is_required(settings)?);
    let level = match name {
        CHANGES => AuditLevel::Changes,
        _ => AuditLevel::Operators,
    };
    let target = match settings.text("audit.file")? {
        None | Some("") => return Ok(Audit::none()),
        Some(STDERR) => AuditTarget::Stderr,
        Some(path) => AuditTarget::File(path.into()),
    };
    let config = AuditConfig {
        target,
        level,
        is_required,
    };
    Audit::open(config).map_err(|error| settings.invalid("audit.file", error.to_string()))
}

/// The name of the level in effect.
pub(crate) fn level(settings: &Settings) -> Result<&'static str, ConfigError> {
    let level = settings.with("audit.level", |text| {
        let known = [OPERATORS, CHANGES].into_iter();
        let mut found = known.filter(|name| *name == text.trim());
        let right = || format!("must be {OPERATORS:?} or {CHANGES:?}");
        found.next().ok_or_else(right)
    })?;
    Ok(level.unwrap_or(OPERATORS))
}

pub(crate) fn is_required(settings: &Settings) -> Result<bool, ConfigError> {
    Ok(settings.flag("audit.required")?.unwrap_or_default())
}
