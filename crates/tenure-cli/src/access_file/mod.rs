//! Changes of an access file: made under a lock, checked before they are written, and written as a
//! whole.
//!
//! Comments and the order of the file are kept.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime};

use anyhow::Context;
use chrono::{DateTime, SecondsFormat, Utc};
use tenure_server::access::{AccessFile, MAX_SECRETS, Secret};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, value};

use crate::exit;
use crate::new_files::{self, as_owner, folder_of};

/// The time to wait for another command that changes the file.
const LOCK_TIME: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The default path of the access file.
pub(crate) const DEFAULT_PATH: &str = "/etc/tenure/access.toml";

/// The beginning of a new access file.
const HEADER: &str = "\
# Access to the lease store: principals, their grants, and the hashes of their tokens.
# `tenure token` changes this file, `tenure access check` checks it, and the store reads it again
# when it changes.
version = 1
";

/// The mode of a new access file: the store's group may read it.
const MODE: u32 = 0o640;

/// A grant as the command line gives it.
#[derive(Clone, Debug)]
pub(crate) struct GrantText {
    pub(crate) role: String,
    pub(crate) namespace: Option<String>,
    pub(crate) prefix: Option<String>,
}

/// An access file that only this process may change.
#[derive(Debug)]
pub(crate) struct AccessFileEdit {
    path: PathBuf,
    document: DocumentMut,
    /// The lock of the directory, held until this is dropped, so that two commands change the file
    /// one after the other. A lock on the file itself would not last, because the file is replaced.
    _lock: File,
}

impl AccessFileEdit {
    /// Creates a new access file for a path where no file exists yet.
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let lock = lock(path)?;
        if path.exists() {
            let text = format!("{} exists already", path.display());
            return Err(exit::bad_configuration(text));
        }
        Ok(Self {
            path: path.into(),
            document: HEADER.parse().expect("the header is TOML"),
            _lock: lock,
        })
    }

    /// Opens and checks the file.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Self> {
        // A link to the file stays a link.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.into());
        let lock = lock(path)?;
        let text = as_owner(path, || fs::read_to_string(path)).map_err(|error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => "; tenure init makes one, and --file names another one",
                _ => "",
            };
            exit::bad_configuration(format!("can't read {}: {error}{hint}", path.display()))
        })?;
        check(&text, path)?;
        let document = text.parse().context("the access file is not TOML")?;
        Ok(Self {
            path: path.into(),
            document,
            _lock: lock,
        })
    }

    /// Returns the present content.
    pub(crate) fn content(&self) -> anyhow::Result<AccessFile> {
        check(&self.document.to_string(), &self.path)
    }

    pub(crate) fn has_principal(&mut self, name: &str) -> bool {
        self.principal(name).is_ok()
    }

    /// Adds a principal with a first token.
    pub(crate) fn add_principal(
        &mut self,
        name: &str,
        grants: &[GrantText],
        secret: &Secret,
        expires: Option<SystemTime>,
    ) -> anyhow::Result<()> {
        if self.has_principal(name) {
            let text = format!(
                "{name:?} exists already; tenure token rotate {name} gives it a second token"
            );
            return Err(exit::bad_configuration(text));
        }
        let mut principal = Table::new();
        principal["name"] = value(name);
        let grants = grants.iter().map(|grant| {
            let mut table = InlineTable::new();
            table.insert("role", grant.role.as_str().into());
            let optional = [("namespace", &grant.namespace), ("prefix", &grant.prefix)];
            for (key, text) in optional {
                if let Some(text) = text {
                    table.insert(key, text.as_str().into());
                }
            }
            table
        });
        principal["grants"] = value(grants.collect::<Array>());
        let mut secrets = ArrayOfTables::new();
        secrets.push(secret_table(secret, expires));
        principal["secret"] = Item::ArrayOfTables(secrets);
        let principals = self.document.entry("principal");
        let principals = principals.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        tables(principals, "principal")?.push(principal);
        Ok(())
    }

    /// Adds a second token to a principal.
    pub(crate) fn add_secret(
        &mut self,
        name: &str,
        secret: &Secret,
        expires: Option<SystemTime>,
    ) -> anyhow::Result<()> {
        let principal = self.principal(name)?;
        let secrets = principal.entry("secret");
        let secrets = secrets.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        let secrets = tables(secrets, "secret")?;
        if secrets.len() >= MAX_SECRETS {
            let ids = secrets.iter().filter_map(|table| table.get("id")?.as_str());
            let ids = ids.collect::<Vec<_>>().join(" and ");
            let text = format!(
                "{name:?} has the tokens {ids} already; tenure token list --last-used shows when each was last \
                 used, and tenure token revoke removes one"
            );
            return Err(exit::bad_configuration(text));
        }
        secrets.push(secret_table(secret, expires));
        Ok(())
    }

    /// Removes the token with this id, and returns the name of its principal.
    pub(crate) fn remove_secret(&mut self, id: &str) -> anyhow::Result<String> {
        let has_id = |table: &Table| table.get("id").and_then(Item::as_str) == Some(id);
        for principal in self.principals()? {
            let name = name_of(principal).to_owned();
            let Some(secrets) = principal.get_mut("secret") else {
                continue;
            };
            let secrets = tables(secrets, "secret")?;
            let before = secrets.len();
            secrets.retain(|table| !has_id(table));
            if secrets.len() < before {
                return Ok(name);
            }
        }
        let text = format!("{} has no token with the id {id:?}", self.path.display());
        Err(exit::error(exit::REFUSED, anyhow::Error::msg(text)))
    }

    /// Removes a principal with its grants and tokens.
    pub(crate) fn remove_principal(&mut self, name: &str) -> anyhow::Result<()> {
        self.principal(name)?;
        let principals = tables(&mut self.document["principal"], "principal")?;
        principals.retain(|table| name_of(table) != name);
        Ok(())
    }

    /// Replaces the file, and returns the new one.
    pub(crate) fn save(self) -> anyhow::Result<File> {
        let text = self.document.to_string();
        check(&text, &self.path)?;
        let before = fs::metadata(&self.path);
        let mode = before.map_or(MODE, |before| before.mode() & 0o777);
        new_files::replace(&self.path, &text, mode)
    }

    fn principals(&mut self) -> anyhow::Result<impl Iterator<Item = &mut Table>> {
        let principals = self.document.entry("principal");
        let principals = principals.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
        Ok(tables(principals, "principal")?.iter_mut())
    }

    fn principal(&mut self, name: &str) -> anyhow::Result<&mut Table> {
        let text = format!(
            "{} has no principal {name:?}; tenure token list shows all",
            self.path.display()
        );
        let found = self.principals()?.find(|table| name_of(table) == name);
        found.ok_or_else(|| exit::error(exit::REFUSED, anyhow::Error::msg(text)))
    }
}

fn name_of(principal: &Table) -> &str {
    let name = principal.get("name").and_then(Item::as_str);
    name.unwrap_or_default()
}

/// Returns the tables of `[[key]]`. A file may write them as an array of inline tables, which the
/// commands do not change.
fn tables<'a>(item: &'a mut Item, key: &str) -> anyhow::Result<&'a mut ArrayOfTables> {
    item.as_array_of_tables_mut().ok_or_else(|| {
        exit::bad_configuration(format!(
            "the access file has {key} as an array; write [[{key}]] or [[principal.{key}]] tables"
        ))
    })
}

fn secret_table(secret: &Secret, expires: Option<SystemTime>) -> Table {
    let mut table = Table::new();
    table["id"] = value(secret.id().as_str());
    table["sha256"] = value(secret.hash().to_string());
    table["created"] = time(SystemTime::now());
    if let Some(expires) = expires {
        table["expires"] = time(expires);
    }
    table
}

fn time(time: SystemTime) -> Item {
    let text = DateTime::<Utc>::from(time).to_rfc3339_opts(SecondsFormat::Secs, true);
    let time: toml_edit::Datetime = text.parse().expect("RFC 3339 is a TOML date");
    value(time)
}

fn check(text: &str, path: &Path) -> anyhow::Result<AccessFile> {
    let checked = AccessFile::parse(text, path);
    checked.map_err(|error| exit::error(exit::BAD_CONFIGURATION, error))
}

fn lock(path: &Path) -> anyhow::Result<File> {
    let folder = folder_of(path);
    let failed = || format!("can't lock {}", folder.display());
    let file = as_owner(path, || File::open(folder)).with_context(failed)?;
    let until = Instant::now() + LOCK_TIME;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                anyhow::bail!("another process has locked {}; try again", folder.display())
            }
            Err(TryLockError::Error(error)) => return Err(error).with_context(failed),
        }
    }
}

#[cfg(test)]
mod tests;
