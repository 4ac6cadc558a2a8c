//! A value in a file that other programs replace while this process runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tracing::{info, warn};

/// The interval at which a file is read again. Kubernetes and certificate managers replace tokens
/// and certificates long before the old ones expire.
const INTERVAL: Duration = Duration::from_secs(10);

/// A credential or a set of trust anchors that is read from a file, and read again while it is in
/// use. A wrong file keeps the value before it. Clones are handles to the same value.
#[derive(Clone)]
pub(crate) struct FileValue<T>(Arc<Shared<T>>);

struct Shared<T> {
    /// The noun for the value, for the log.
    what: &'static str,
    /// The file, for the log.
    origin: String,
    load: Option<Box<Load<T>>>,
    known: Mutex<Known<T>>,
}

/// Reads the value. Returns `None` if it equals the known value. The error names the file.
type Load<T> = dyn Fn(Option<&T>) -> Result<Option<T>, String> + Send + Sync;

struct Known<T> {
    value: T,
    /// The error of the last reading, which is logged once.
    error: Option<String>,
    read_at: Instant,
    is_reading: bool,
}

impl<T: Clone + Send + Sync + 'static> FileValue<T> {
    /// Creates a value that never changes.
    pub(crate) fn fixed(value: T) -> Self {
        Self::new("", String::new(), None, value)
    }

    /// Reads a value with the function `load`. The text `what` is a noun such as `token`.
    pub(crate) fn read(
        what: &'static str,
        origin: String,
        load: impl Fn(Option<&T>) -> Result<Option<T>, String> + Send + Sync + 'static,
    ) -> Result<Self, String> {
        let value = load(None)?.expect("a value differs from none");
        Ok(Self::new(what, origin, Some(Box::new(load)), value))
    }

    fn new(what: &'static str, origin: String, load: Option<Box<Load<T>>>, value: T) -> Self {
        let known = Mutex::new(Known {
            value,
            error: None,
            read_at: Instant::now(),
            is_reading: false,
        });
        Self(Arc::new(Shared {
            what,
            origin,
            load,
            known,
        }))
    }

    /// Returns the value. If the file was read long ago, another task reads it again: a slow file
    /// system must not delay a renewal.
    pub(crate) fn get(&self) -> T {
        let is_stale = self.0.lock().read_at.elapsed() >= INTERVAL;
        if is_stale {
            self.start_reading();
        }
        self.0.lock().value.clone()
    }

    /// Lets another task read the file again, unless one does.
    pub(crate) fn start_reading(&self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let mut known = self.0.lock();
        if self.0.load.is_some() && !known.is_reading {
            known.is_reading = true;
            let reading = Reading(Arc::clone(&self.0));
            runtime.spawn_blocking(move || reading.0.read_again());
        }
    }

    /// Reads the file again, and returns its value. Returns `None` if no file is read.
    pub(crate) async fn read_now(&self) -> Option<T> {
        self.0.load.as_ref()?;
        let shared = Arc::clone(&self.0);
        let read = move || {
            shared.read_again();
            shared.lock().value.clone()
        };
        tokio::task::spawn_blocking(read).await.ok()
    }

    /// Lets the file count as read long ago.
    #[cfg(test)]
    pub(crate) fn outdate(&self) {
        let long_ago = Instant::now().checked_sub(INTERVAL);
        self.0.lock().read_at = long_ago.expect("a time after the start of the machine");
    }
}

impl<T: Clone> Shared<T> {
    fn read_again(&self) {
        let Some(load) = &self.load else {
            return;
        };
        let before = self.lock().value.clone();
        let loaded = load(Some(&before));
        let (what, origin) = (self.what, &self.origin);
        let mut known = self.lock();
        known.read_at = Instant::now();
        match loaded {
            Ok(value) => {
                known.error = None;
                if let Some(value) = value {
                    known.value = value;
                    info!(file = %origin, "another {what} is used from now on");
                }
            }
            Err(error) => {
                if known.error.as_ref() != Some(&error) {
                    warn!(file = %origin, error, "can't use the {what}, keeping the one before");
                }
                known.error = Some(error);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lets the next reading begin when it is dropped, even if its runtime ended before the reading
/// began: candidates on several runtimes may share the value.
struct Reading<T>(Arc<Shared<T>>);

impl<T> Drop for Reading<T> {
    fn drop(&mut self) {
        let known = &self.0.known;
        let mut known = known.lock().unwrap_or_else(PoisonError::into_inner);
        known.is_reading = false;
    }
}

/// Omits the value, which may be a secret.
impl<T> fmt::Debug for FileValue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.origin)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn number(path: &Path) -> FileValue<u32> {
        let file = path.to_owned();
        FileValue::read("number", path.display().to_string(), move |known| {
            let text = fs::read_to_string(&file).map_err(|error| error.to_string())?;
            let number = text.parse().map_err(|_| format!("{text:?} is no number"))?;
            Ok((known != Some(&number)).then_some(number))
        })
        .unwrap()
    }

    #[tokio::test]
    async fn a_wrong_file_keeps_the_value_before_and_a_right_one_replaces_it() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("number");
        fs::write(&path, "1").unwrap();
        let value = number(&path);
        for wrong in ["", "x", "2x"] {
            fs::write(&path, wrong).unwrap();
            assert_eq!(value.read_now().await, Some(1), "{wrong:?}");
            assert!(value.0.lock().error.is_some());
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(value.read_now().await, Some(1));
        fs::write(&path, "2").unwrap();
        assert_eq!(value.get(), 1, "the file was read just now");
        assert_eq!(value.read_now().await, Some(2));
        assert_eq!((value.get(), value.0.lock().error.clone()), (2, None));
        assert_eq!(FileValue::fixed(1).read_now().await, None);
    }

    #[tokio::test]
    async fn a_file_is_read_again_after_a_while_and_when_it_is_asked_for() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("number");
        fs::write(&path, "0").unwrap();
        let value = number(&path);
        for (next, is_stale) in [(1, true), (2, false)] {
            fs::write(&path, next.to_string()).unwrap();
            if is_stale {
                value.outdate();
            } else {
                value.start_reading();
            }
            let wait = async {
                while value.get() != next {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let waited = tokio::time::timeout(Duration::from_secs(10), wait).await;
            waited.expect("the next value");
        }
    }
}
