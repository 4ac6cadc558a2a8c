//! A home in memory, with faults and a clock that tests set.

use std::collections::{BTreeMap, VecDeque};
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use tenure_core::UnixMillis;

use crate::{
    Answering, Expected, Failure, Files, Identity, Limits, Read, Register, RegisterKey, Replaced,
    Seen, Version,
};

/// A home in memory. Clones are the same home.
#[derive(Clone, Debug, Default)]
pub struct MemoryHome(Arc<Mutex<State>>);

/// The fault of one replace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemoryFault {
    /// The home refuses it: [`Failure::NotApplied`].
    Refused,
    /// The home has no space: [`Failure::Full`].
    Full,
    /// The request is lost. Its outcome is unknown.
    RequestLost,
    /// The answer is lost. The replace is applied, and its outcome is unknown.
    AnswerLost,
    /// The request arrives when [`MemoryHome::deliver`] is called. Its outcome is unknown.
    Late,
}

#[derive(Debug, Default)]
struct State {
    /// The number of promotions.
    timeline: u64,
    values: Values,
    files: BTreeMap<RegisterKey, Bytes>,
    /// The values before each write.
    past: Vec<Values>,
    /// The last version. It does not go back with the values.
    version: u64,
    now: u64,
    /// The faults of the next replaces.
    faults: VecDeque<MemoryFault>,
    late: VecDeque<(RegisterKey, Expected, Bytes)>,
}

type Values = BTreeMap<RegisterKey, (Version, Bytes)>;

impl MemoryHome {
    /// The limits of a home in memory.
    pub const LIMITS: Limits = Limits {
        value: 1 << 20,
        has_date: true,
    };

    /// Returns a home with the same content and identity, which is another one from now on.
    #[must_use]
    pub fn copied(&self) -> Self {
        let state = self.lock();
        Self(Arc::new(Mutex::new(State {
            timeline: state.timeline,
            values: state.values.clone(),
            files: state.files.clone(),
            version: state.version,
            now: state.now,
            ..State::default()
        })))
    }

    /// Sets the date of the next answers.
    pub fn set_date(&self, now: UnixMillis) {
        self.lock().now = now.get();
    }

    /// Adds a fault for the first replace that has none yet.
    pub fn fail_next(&self, fault: MemoryFault) {
        self.lock().faults.push_back(fault);
    }

    /// Delivers the oldest late replace. Returns whether it was applied; `None` if there is none.
    #[must_use]
    pub fn deliver(&self) -> Option<bool> {
        let mut state = self.lock();
        let (key, expected, value) = state.late.pop_front()?;
        let replaced = state.replace(&key, &expected, value);
        Some(matches!(replaced, Replaced::Done { .. }))
    }

    /// Deletes a value, as another program does.
    pub fn remove(&self, key: &RegisterKey) {
        self.lock().values.remove(key);
    }

    /// Loses the last writes of registers, as a restore of a backup with the same identity does.
    pub fn go_back(&self, writes: usize) {
        let mut state = self.lock();
        let left = state.past.len().saturating_sub(writes);
        if let Some(values) = state.past.get(left).cloned() {
            state.values = values;
            state.past.truncate(left);
        }
    }

    /// Loses the last writes and gets another identity, as the promotion of an asynchronous standby
    /// does.
    pub fn promote(&self, lost_writes: usize) {
        self.go_back(lost_writes);
        self.lock().timeline += 1;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn seen(&self) -> Seen {
        Seen {
            identity: Identity::new(format!("memory/{}", self.timeline)),
            date: Some(UnixMillis::new(self.now)),
        }
    }

    fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Read {
        let seen = self.seen();
        match self.values.get(key) {
            None => Read::Absent(seen),
            Some((version, _)) if Some(version) == known => Read::Unchanged(seen),
            Some((version, value)) => Read::Found {
                version: version.clone(),
                value: value.clone(),
                seen,
            },
        }
    }

    fn replace(&mut self, key: &RegisterKey, expected: &Expected, value: Bytes) -> Replaced {
        let seen = self.seen();
        let current = self.values.get(key).map(|(version, _)| version);
        if current != expected.version.as_ref() || seen.identity != expected.identity {
            return Replaced::Changed(self.read(key, None));
        }
        self.past.push(self.values.clone());
        self.version += 1;
        let version = Version::new(self.version.to_string());
        self.values.insert(key.clone(), (version.clone(), value));
        Replaced::Done { version, seen }
    }

    fn request(
        &mut self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        MemoryHome::LIMITS.check(key, &value)?;
        match self.faults.pop_front() {
            None => Ok(self.replace(key, expected, value)),
            Some(MemoryFault::Refused) => {
                Err(Failure::NotApplied("the home refuses the request".into()))
            }
            Some(MemoryFault::Full) => Err(Failure::Full("the home is full".into())),
            Some(MemoryFault::RequestLost) => Err(unknown()),
            Some(MemoryFault::AnswerLost) => {
                self.replace(key, expected, value);
                Err(unknown())
            }
            Some(MemoryFault::Late) => {
                self.late.push_back((key.clone(), expected.clone(), value));
                Err(unknown())
            }
        }
    }
}

fn unknown() -> Failure {
    Failure::Unknown("the home has not answered".into())
}

impl Register for MemoryHome {
    fn read<'a>(&'a self, key: &'a RegisterKey, known: Option<&'a Version>) -> Answering<'a, Read> {
        let read = self.lock().read(key, known);
        Box::pin(ready(Ok(read)))
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> Answering<'a, Replaced> {
        let replaced = self.lock().request(key, expected, value);
        Box::pin(ready(replaced))
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

impl Files for MemoryHome {
    fn write<'a>(&'a self, name: &'a RegisterKey, content: Bytes) -> Answering<'a, ()> {
        let written = Self::LIMITS.check(name, &content).map(|()| {
            self.lock().files.insert(name.clone(), content);
        });
        Box::pin(ready(written))
    }

    fn read_file<'a>(&'a self, name: &'a RegisterKey) -> Answering<'a, Option<Bytes>> {
        let content = self.lock().files.get(name).cloned();
        Box::pin(ready(Ok(content)))
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> Answering<'a, ()> {
        self.lock().files.retain(|name, _| !names.contains(name));
        Box::pin(ready(Ok(())))
    }

    fn list<'a>(&'a self, folder: &'a RegisterKey) -> Answering<'a, Vec<RegisterKey>> {
        let state = self.lock();
        let names = state.files.keys().filter(|name| name.is_in(folder));
        let names = names.cloned().collect();
        drop(state);
        Box::pin(ready(Ok(names)))
    }
}
