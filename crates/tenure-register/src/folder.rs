//! A folder of one machine as a home, for demonstrations, tests and processes of one host.
//!
//! ```text
//! FOLDER/
//!   identity          random bits, written once
//!   lock              locked during each write
//!   registers/a/b=    the register a/b
//!   files/a/b=        the file a/b
//! ```
//!
//! No key has `=`, so the name of a register is never the name of a folder. The lock is the
//! operating system's (`flock`), so a network file system whose machines do not share locks is no
//! home.

use std::fs::{self, DirEntry, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tenure_core::UnixMillis;
use tenure_core::time::millis;

use crate::{
    Answering, Expected, Failure, Files, Identity, Limits, Read, Register, RegisterKey, Replaced,
    Seen, Version,
};

/// The first line of each value.
const FORMAT: &str = "tenure-register 1";

/// The time in which a write waits for the lock. A process that is frozen may have it.
const LOCK_TIMEOUT: Duration = Duration::from_secs(2);

/// How often a write that waits tries to get the lock.
const LOCK_POLL: Duration = Duration::from_millis(2);

/// A folder. Its calls do not block the thread of the caller, and need a runtime of tokio.
#[derive(Clone, Debug)]
pub struct FolderHome {
    folder: Arc<Folder>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
}

impl FolderHome {
    /// The limits of a folder.
    pub const LIMITS: Limits = Limits {
        value: 16 << 20,
        has_date: true,
    };

    /// Opens the home in this folder. Creates the folder if its parent exists.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] or [`Failure::Full`] if the folder can't be used. Blocks.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, Failure> {
        let folder = Folder { path: path.into() };
        folder.create().map_err(|error| folder.failure(&error))?;
        let identity = folder.identity_file();
        let _lock = folder.lock()?;
        if !identity.exists() {
            let nonce = Version::random()?;
            folder.put(&identity, nonce.as_str().as_bytes())?;
        }
        let folder = Arc::new(folder);
        Ok(Self { folder })
    }

    fn run<'a, T: Send + 'static>(
        &self,
        call: impl FnOnce(&Folder) -> Result<T, Failure> + Send + 'static,
    ) -> Answering<'a, T> {
        let folder = Arc::clone(&self.folder);
        Box::pin(async move {
            let called = tokio::task::spawn_blocking(move || call(&folder)).await;
            called.unwrap_or_else(|error| Err(Failure::Unknown(error.to_string())))
        })
    }
}

impl Register for FolderHome {
    fn read<'a>(&'a self, key: &'a RegisterKey, known: Option<&'a Version>) -> Answering<'a, Read> {
        let (key, known) = (key.clone(), known.cloned());
        self.run(move |folder| folder.read(&key, known.as_ref()))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> Answering<'a, Replaced> {
        let (key, expected) = (key.clone(), expected.clone());
        self.run(move |folder| folder.replace(&key, &expected, &value))
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

impl Files for FolderHome {
    fn write<'a>(&'a self, name: &'a RegisterKey, content: Bytes) -> Answering<'a, ()> {
        let name = name.clone();
        self.run(move |folder| {
            Self::LIMITS.check(&name, &content)?;
            let _lock = folder.lock()?;
            folder.write(FILES, &name, &content).map(drop)
        })
    }

    fn read_file<'a>(&'a self, name: &'a RegisterKey) -> Answering<'a, Option<Bytes>> {
        let name = name.clone();
        self.run(move |folder| Ok(folder.value(FILES, &name)?.map(|(_, content)| content)))
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> Answering<'a, ()> {
        let names = names.to_vec();
        self.run(move |folder| {
            names
                .iter()
                .try_for_each(|name| match fs::remove_file(folder.path_of(FILES, name)) {
                    Err(error) if error.kind() != ErrorKind::NotFound => {
                        Err(folder.failure(&error))
                    }
                    _ => Ok(()),
                })
        })
    }

    fn list<'a>(&'a self, folder: &'a RegisterKey) -> Answering<'a, Vec<RegisterKey>> {
        let prefix = folder.clone();
        self.run(move |folder| folder.list(&prefix))
    }
}

/// The folder of registers.
const REGISTERS: &str = "registers";

/// The folder of files.
const FILES: &str = "files";

impl Folder {
    /// Creates the folder, without its parents: a wrong path must not become a new home.
    fn create(&self) -> io::Result<()> {
        match fs::create_dir(&self.path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            created => created,
        }
    }

    fn identity_file(&self) -> PathBuf {
        self.path.join("identity")
    }

    /// Returns the path of a register or file.
    fn path_of(&self, kind: &str, key: &RegisterKey) -> PathBuf {
        self.path.join(kind).join(format!("{key}="))
    }

    /// Locks the folder until the file is dropped.
    fn lock(&self) -> Result<File, Failure> {
        let file = File::create(self.path.join("lock")).map_err(|error| self.failure(&error))?;
        let until = Instant::now() + LOCK_TIMEOUT;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(TryLockError::Error(error)) => return Err(self.failure(&error)),
                Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_POLL),
                Err(TryLockError::WouldBlock) => {
                    let path = self.path.display();
                    let waited = LOCK_TIMEOUT.as_secs();
                    return Err(Failure::NotApplied(format!(
                        "{path}: another process has kept the lock for {waited} s"
                    )));
                }
            }
        }
    }

    /// Reads the identity: the random bits, and the number of their file. A copy of the folder has
    /// another file, so it is another home.
    fn seen(&self) -> Result<Seen, Failure> {
        let path = self.identity_file();
        let read = fs::read_to_string(&path).and_then(|nonce| Ok((nonce, file_number(&path)?)));
        let (nonce, number) = read.map_err(|error| self.failure(&error))?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Seen {
            identity: Identity::new(format!("{nonce}/{number}")),
            date: since_1970.ok().map(|it| UnixMillis::new(millis(it))),
        })
    }

    fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        let (value, seen) = (self.value(REGISTERS, key)?, self.seen()?);
        Ok(match value {
            None => Read::Absent(seen),
            Some((version, _)) if Some(&version) == known => Read::Unchanged(seen),
            Some((version, value)) => Read::Found {
                version,
                value,
                seen,
            },
        })
    }

    fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: &Bytes,
    ) -> Result<Replaced, Failure> {
        FolderHome::LIMITS.check(key, value)?;
        let _lock = self.lock()?;
        let read = self.read(key, expected.version.as_ref())?;
        let is_expected = match &read {
            Read::Absent(_) => expected.version.is_none(),
            Read::Unchanged(_) => true,
            Read::Found { .. } => false,
        };
        if !is_expected || read.seen().identity != expected.identity {
            return Ok(Replaced::Changed(self.read(key, None)?));
        }
        let version = self.write(REGISTERS, key, value)?;
        let seen = read.seen().clone();
        Ok(Replaced::Done { version, seen })
    }

    /// Writes a value, with a version that no other writer chooses.
    fn write(&self, kind: &str, key: &RegisterKey, value: &Bytes) -> Result<Version, Failure> {
        let version = Version::random()?;
        let checksum = crc32fast::hash(value);
        let mut content =
            format!("{FORMAT}\n{key}\n{} {checksum:08x}\n", version.as_str()).into_bytes();
        content.extend_from_slice(value);
        self.put(&self.path_of(kind, key), &content)?;
        Ok(version)
    }

    /// Reads a value with its version.
    fn value(&self, kind: &str, key: &RegisterKey) -> Result<Option<(Version, Bytes)>, Failure> {
        let path = self.path_of(kind, key);
        let content = match fs::read(&path) {
            Ok(content) => Bytes::from(content),
            Err(error) if error.kind() == ErrorKind::NotFound && self.identity_file().exists() => {
                return Ok(None);
            }
            Err(error) => return Err(self.failure(&error)),
        };
        parse(key, &content).map(Some).map_err(|reason| {
            Failure::Misconfigured(format!("{} is damaged: {reason}", path.display()))
        })
    }

    /// Replaces a file by one that is complete. The caller has the lock.
    fn put(&self, path: &Path, content: &[u8]) -> Result<(), Failure> {
        let new = path.with_extension("new~");
        let prepared = (|| {
            let parent = path.parent().unwrap_or(&self.path);
            fs::create_dir_all(parent)?;
            let mut file = File::create(&new)?;
            file.write_all(content)?;
            file.sync_all()
        })();
        prepared.map_err(|error| self.failure(&error))?;
        // From here on the file may have the new content, whatever the result is.
        let replaced = fs::rename(&new, path).and_then(|()| self.sync_folders(path));
        replaced
            .map_err(|error| Failure::Unknown(format!("can't write {}: {error}", path.display())))
    }

    /// Makes the names of a file and of its new folders durable.
    fn sync_folders(&self, path: &Path) -> io::Result<()> {
        let folders = path.ancestors().skip(1);
        let folders = folders.take_while(|folder| folder.starts_with(&self.path));
        for folder in folders {
            File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    fn list(&self, prefix: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let top = self.path.join(FILES).join(prefix.as_str());
        let mut names = Vec::new();
        self.collect(&top, prefix.as_str(), &mut names)?;
        names.sort();
        Ok(names)
    }

    fn collect(
        &self,
        folder: &Path,
        prefix: &str,
        names: &mut Vec<RegisterKey>,
    ) -> Result<(), Failure> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries.collect::<io::Result<Vec<DirEntry>>>(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => Err(error),
        };
        for entry in entries.map_err(|error| self.failure(&error))? {
            let name = entry.file_name();
            let name = format!("{prefix}/{}", name.to_string_lossy());
            if entry.path().is_dir() {
                self.collect(&entry.path(), &name, names)?;
            } else if let Some(key) = name.strip_suffix('=').and_then(|key| key.parse().ok()) {
                names.push(key);
            }
        }
        Ok(())
    }

    /// The failure of a call that has changed nothing.
    fn failure(&self, error: &io::Error) -> Failure {
        let text = format!("{}: {error}", self.path.display());
        match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Failure::Full(text),
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem => Failure::Misconfigured(text),
            _ => Failure::NotApplied(text),
        }
    }
}

/// Reads the content of a value, and checks that it is the one of this key.
fn parse(key: &RegisterKey, content: &Bytes) -> Result<(Version, Bytes), &'static str> {
    let mut lines = content.splitn(4, |byte| *byte == b'\n');
    let mut line = || lines.next().and_then(|line| std::str::from_utf8(line).ok());
    if line() != Some(FORMAT) {
        return Err("it has another format");
    }
    // A file system that ignores case would answer with another register.
    if line() != Some(key.as_str()) {
        return Err("it has the value of another key");
    }
    let header = line().and_then(|line| line.split_once(' '));
    let (version, checksum) = header.ok_or("its third line has no version and checksum")?;
    let value = lines.next().ok_or("it has no value")?;
    if format!("{:08x}", crc32fast::hash(value)) != checksum {
        return Err("the checksum does not match");
    }
    let value = content.slice_ref(value);
    Ok((Version::new(version), value))
}

#[cfg(unix)]
fn file_number(path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(path)?.ino())
}

#[cfg(not(unix))]
fn file_number(_: &Path) -> io::Result<u64> {
    Ok(0)
}
