//! The table `[audit]`: the settings of the audit log.

use tenure::__cli::{Settings, link_free_path};
use tenure::config::ConfigError;
use tenure_server::audit::{AuditConfig, AuditLevel, AuditTarget};

/// The value that means standard error.
const STDERR: &str = "stderr";

/// The value of the level `operators`.
const OPERATORS: &str = "operators";
const CHANGES: &str = "changes";

/// Returns the configuration of the audit log, if one is set. Its file can be opened.
pub(crate) fn checked(settings: &Settings) -> Result<Option<AuditConfig>, ConfigError> {
    let (name, is_required) = (level(settings)?, is_required(settings)?);
    let level = match name {
        CHANGES => AuditLevel::Changes,
        _ => AuditLevel::Operators,
    };
    let target = match settings.path("audit.file")? {
        None if is_required => {
            let reason = "needs an audit log: set audit.file to a path, or to \"stderr\"";
            return Err(settings.invalid("audit.required", reason.into()));
        }
        None => return Ok(None),
        Some(path) if path.as_os_str() == STDERR => AuditTarget::Stderr,
        Some(path) => {
            let free = link_free_path(&path);
            AuditTarget::File(
                free.map_err(|error| settings.invalid("audit.file", error.to_string()))?,
            )
        }
    };
    let config = AuditConfig {
        target,
        level,
        is_required,
    };
    match config.check() {
        Ok(()) => Ok(Some(config)),
        Err(error) => Err(settings.invalid("audit.file", error.to_string())),
    }
}

/// Returns the name of the level in effect.
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
