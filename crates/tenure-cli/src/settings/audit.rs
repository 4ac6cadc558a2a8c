//! The table `[audit]`: the audit log of the store.

use tenure::__cli::Settings;
use tenure::config::ConfigError;
use tenure_server::audit::{Audit, AuditTarget};

/// The file that stands for standard error.
const STDERR: &str = "stderr";

/// Opens the audit log, if one is set.
pub(crate) fn open(settings: &Settings) -> Result<Audit, ConfigError> {
    let target = match settings.text("audit.file")? {
        None | Some("") => return Ok(Audit::none()),
        Some(STDERR) => AuditTarget::Stderr,
        Some(path) => AuditTarget::File(path.into()),
    };
    let is_required = settings.flag("audit.required")?.unwrap_or_default();
    Audit::open(target, is_required)
        .map_err(|error| settings.invalid("audit.file", error.to_string()))
}
