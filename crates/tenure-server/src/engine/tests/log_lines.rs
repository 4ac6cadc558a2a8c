//! The lines that a test logs.

use std::io;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tracing::Dispatch;
use tracing::subscriber::{DefaultGuard, NoSubscriber, set_default};

/// The lines that this thread logs.
#[derive(Clone, Default)]
pub(in crate::engine) struct LogLines(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogLines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.lock().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogLines {
    /// Logs into these lines until the guard is dropped.
    pub(in crate::engine) fn begin(&self) -> DefaultGuard {
        // While there is only one subscriber, tracing asks the thread that comes first to a log call
        // whether anyone wants its lines, and remembers the answer. That may be the thread of another
        // test, which has no subscriber. With a second subscriber it asks all of them.
        static SECOND: LazyLock<Dispatch> =
            LazyLock::new(|| Dispatch::new(NoSubscriber::default()));
        LazyLock::force(&SECOND);
        let writer = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        set_default(subscriber)
    }

    pub(in crate::engine) fn text(&self) -> String {
        String::from_utf8(self.lock().clone()).unwrap()
    }

    pub(in crate::engine) fn count(&self, text: &str) -> usize {
        self.text().matches(text).count()
    }

    #[track_caller]
    pub(in crate::engine) fn assert_once(&self, text: &str) {
        assert_eq!(self.count(text), 1, "{text:?} in\n{}", self.text());
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
