//! The table `[audit]`: the settings of the audit log.

use tenure_config::{ConfigError, Settings, link_free_path};
use tenure_server::audit::{AuditConfig, AuditLevel, AuditTarget};

/// The value that means standard error.
const STDERR: &str = "stderr";

/// Returns the configuration of the audit log, if one is set. Its file can be opened.
pub(crate) fn checked(settings: &Settings) -> Result<Option<AuditConfig>, ConfigError> {
    let is_required = settings.flag("audit.required")?;
    let level = match settings.text("audit.level")? {
        Some("changes") => AuditLevel::Changes,
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
