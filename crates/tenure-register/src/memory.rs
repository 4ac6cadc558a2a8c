//! A home in memory for tests, which can be late and go back.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;

use crate::{
    Expected, Failure, Identity, Read, Register, RegisterKey, Replaced, Version, check_size, lock,
};

/// A home in memory. Clones are the same home.
#[derive(Clone, Debug, Default)]
pub struct MemoryHome(Arc<Mutex<State>>);

#[derive(Clone, Debug, Default)]
struct State {
    /// The number of promotions.
    timeline: u64,
    values: BTreeMap<RegisterKey, (Version, Bytes)>,
    files: BTreeMap<RegisterKey, Bytes>,
    /// What each write has replaced.
    past: Vec<(RegisterKey, Option<(Version, Bytes)>)>,
    /// The last version. It does not go back with the values.
    version: u64,
    /// The number of the next replaces that are late.
    delays: usize,
    late: VecDeque<(RegisterKey, Expected, Bytes)>,
}

impl MemoryHome {
    /// Returns a home with the same content and identity, which is another one from now on. It can't go
    /// back to what was before.
    #[must_use]
    pub fn copied(&self) -> Self {
        let state = lock(&self.0);
        Self(Arc::new(Mutex::new(State {
            timeline: state.timeline,
            values: state.values.clone(),
            files: state.files.clone(),
            version: state.version,
            ..State::default()
        })))
    }

    /// Delays the first replace that is not late yet: it arrives when [`MemoryHome::deliver`] is called, and
    /// its outcome is unknown.
    pub fn delay_next(&self) {
        lock(&self.0).delays += 1;
    }

    /// Delivers the oldest late replace. Returns whether it was applied; `None` if there is none.
    #[must_use]
    pub fn deliver(&self) -> Option<bool> {
        let mut state = lock(&self.0);
        let (key, expected, value) = state.late.pop_front()?;
        let replaced = state.replace(&key, &expected, value);
        Some(matches!(replaced, Replaced::Done { .. }))
    }

    /// Deletes a value, as another program does.
    pub fn remove(&self, key: &RegisterKey) {
        lock(&self.0).values.remove(key);
    }

    /// Loses the last writes of registers, as a restore of a backup with the same identity does.
    pub fn go_back(&self, writes: usize) {
        let mut state = lock(&self.0);
        for _ in 0..writes {
            match state.past.pop() {
                Some((key, Some(before))) => drop(state.values.insert(key, before)),
                Some((key, None)) => drop(state.values.remove(&key)),
                None => return,
            }
        }
    }

    /// Loses the last writes and gets another identity, as the promotion of an asynchronous standby
    /// does.
    pub fn promote(&self, lost_writes: usize) {
        self.go_back(lost_writes);
        lock(&self.0).timeline += 1;
    }
}

impl State {
    fn identity(&self) -> Identity {
        Identity::new(format!("memory/{}", self.timeline))
    }

    fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Read {
        let identity = self.identity();
        match self.values.get(key) {
            None => Read::Absent(identity),
            Some((version, value)) => Read::found(version.clone(), value.clone(), identity, known),
        }
    }

    fn replace(&mut self, key: &RegisterKey, expected: &Expected, value: Bytes) -> Replaced {
        let current = self.values.get(key).map(|(version, _)| version);
        if current != expected.version.as_ref() || self.identity() != expected.identity {
            return Replaced::Changed(self.read(key, None));
        }
        self.version += 1;
        let version = Version::new(self.version.to_string());
        let before = self.values.insert(key.clone(), (version.clone(), value));
        self.past.push((key.clone(), before));
        Replaced::Done(version)
    }
}

#[async_trait]
impl Register for MemoryHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        Ok(lock(&self.0).read(key, known))
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        check_size(key, &value)?;
        let mut state = lock(&self.0);
        let Some(delays) = state.delays.checked_sub(1) else {
            return Ok(state.replace(key, expected, value));
        };
        state.delays = delays;
        let late = (key.clone(), expected.clone(), value);
        state.late.push_back(late);
        Err(Failure::Unknown("the home has not answered".into()))
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        check_size(name, &content)?;
        lock(&self.0).files.insert(name.clone(), content);
        Ok(())
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        Ok(lock(&self.0).files.get(name).cloned())
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        lock(&self.0).files.retain(|name, _| !names.contains(name));
        Ok(())
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        let state = lock(&self.0);
        let names = state.files.keys().filter(|name| name.is_in(folder));
        Ok(names.cloned().collect())
    }
}
