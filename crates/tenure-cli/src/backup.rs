//! `tenure backup` and `tenure restore`.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use serde_json::{Value, json};
use tenure_server::{BackupError, Contents, Existing};

use crate::cli::{Backup, Restore};
use crate::exit::Failure;
use crate::output;

pub(crate) fn backup(arguments: &Backup) -> Result<ExitCode, Failure> {
    let existing = if arguments.force {
        Existing::Replace
    } else {
        Existing::Keep
    };
    let copied = tenure_azure::server::backup(&arguments.data_dir, &arguments.file, existing);
    let contents = match copied {
        Err(error @ BackupError::Exists { .. }) => {
            return Err(anyhow!("{error}: name another file, or use --force").into());
        }
        copied => copied?,
    };
    if arguments.json {
        output::json(&of(&contents))?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = arguments.file.display();
    output::line(format_args!("{file}: {}", words(&contents)))?;
    output::line("it has lease ids, with which leases can be taken over: keep it secret")?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn restore(arguments: &Restore) -> Result<ExitCode, Failure> {
    let restored = tenure_azure::server::restore(&arguments.file, &arguments.data_dir)?;
    let contents = &restored.contents;
    if arguments.json {
        let mut value = of(contents);
        value["epochs_above"] = restored.epochs_above.into();
        value["revisions_above"] = restored.revisions_above.into();
        output::json(&value)?;
        return Ok(ExitCode::SUCCESS);
    }
    let folder = arguments.data_dir.display();
    output::line(format_args!("{folder}: {}", words(contents)))?;
    output::line(format_args!(
        "epochs go on above {}, revisions above {}",
        restored.epochs_above, restored.revisions_above
    ))?;
    output::line(format_args!(
        "terms that began after the backup are unknown here: see to it that the old store is stopped, \
         and start this one no sooner than the longest lease in use after that; the longest in the \
         backup is {}",
        humantime::format_duration(contents.longest)
    ))?;
    if contents.infinite > 0 {
        output::line(
            "some leases are held without an end: for such ones that were granted after the backup, \
             see to it yourself that their holders have stopped",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn words(contents: &Contents) -> String {
    let epoch = contents
        .last_epoch
        .map_or_else(|| "-".into(), |epoch| epoch.to_string());
    format!(
        "{} leases, {} of them held, revision {}, greatest epoch {epoch}, {} bytes",
        contents.leases, contents.held, contents.revision, contents.bytes
    )
}

fn of(contents: &Contents) -> Value {
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    json!({
        "leases": contents.leases,
        "held": contents.held,
        "infinite": contents.infinite,
        "revision": contents.revision,
        "last_epoch": contents.last_epoch,
        "longest_ms": ms(contents.longest),
        "bytes": contents.bytes,
    })
}
