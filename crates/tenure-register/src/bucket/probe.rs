//! The probe of a bucket.

use std::array;
use std::time::Duration;

use futures_util::future::join_all;
use object_store::path::Path;
use tokio::time::sleep;

use super::BucketHome;
use crate::{Bytes, Expected, Failure, Read, Replaced, Version, note_warning};

/// The number of requests in a race.
const RACERS: usize = 4;

/// How often a race without a winner is repeated, and how often a write is repeated that the store
/// does not permit so soon. Some permit one write of a key per second.
const ATTEMPTS: usize = 5;

/// The pause before a write is repeated.
const PAUSE: Duration = Duration::from_secs(1);

impl BucketHome {
    /// Checks that the bucket keeps the rules of a register, with fresh objects below
    /// `PREFIX/probe/`. It is needed at the start of a program: without it, two writers may both
    /// succeed. If the objects can't be deleted, [`Files::facts`](crate::Files::facts) has a warning.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the store does not keep a rule; the other failures as of
    /// [`Register::replace`](crate::Register::replace).
    pub async fn probe(&self) -> Result<(), Failure> {
        let part = Version::random()?;
        let paths: [Path; 3] = array::from_fn(|at| {
            let (prefix, part) = (&self.bucket.prefix, part.as_str());
            Path::from(format!("{prefix}/probe/{part}-{at}"))
        });
        let kept = self.check(&paths).await;
        let deleted = self.remove(paths.to_vec()).await;
        let warning = deleted.err().map(|failure| {
            format!("the bucket does not delete objects, so they take ever more space: {failure}")
        });
        note_warning(&mut self.warning(), warning);
        kept
    }

    async fn check(&self, [one, missing, raced]: &[Path; 3]) -> Result<(), Failure> {
        let check = |holds: bool, problem: &str| match holds {
            true => Ok(()),
            false => {
                let url = &self.bucket.url;
                let text = format!("{url} can't keep registers: {problem}");
                Err(Failure::Misconfigured(text))
            }
        };
        // Nothing prevents these two, so a refusal leaves their outcome unknown.
        let not_done = |what: &str, failure| match failure {
            Failure::Unknown(text) => {
                let url = &self.bucket.url;
                Failure::Unknown(format!("{url} does not {what} an object: {text}"))
            }
            failure => failure,
        };
        let first = self.try_put(one, None, "1").await;
        let first = done(first.map_err(|failure| not_done("create", failure))?);
        let again = done(self.try_put(one, None, "2").await?);
        check(
            again.is_none(),
            "it replaces an object that it is asked to create (it ignores If-None-Match)",
        )?;
        let second = self.try_put(one, first.as_ref(), "3").await;
        let second = done(second.map_err(|failure| not_done("replace", failure))?);
        check(
            second != first,
            "the ETag of an object stays the same when its content changes",
        )?;
        let late = done(self.try_put(one, first.as_ref(), "4").await?);
        check(
            late.is_none(),
            "it replaces an object with another ETag than the present one (it ignores If-Match)",
        )?;
        let (version, value) = found(self.get(one, None).await?);
        check(
            version == second && value == "3",
            "a read does not show the last write",
        )?;
        check(
            matches!(self.get(one, second.as_ref()).await?, Read::Unchanged(_)),
            "a read of an object with a known ETag sends it again",
        )?;
        let created = done(self.try_put(missing, second.as_ref(), "5").await?);
        check(
            created.is_none(),
            "it creates an object that it is asked to replace",
        )?;
        let mut version = None;
        for kind in ["creates", "replaces"] {
            version = self.race(raced, version.as_ref(), kind).await?;
            check(
                version.is_some(),
                &format!(
                    "not exactly one of {RACERS} {kind} at once is done and shown: it does not \
                     compare the ETag and write in one step"
                ),
            )?;
        }
        Ok(())
    }

    /// Writes an object by several requests at once. Returns its version if exactly one of them was
    /// done, and a read shows it.
    async fn race(
        &self,
        path: &Path,
        version: Option<&Version>,
        kind: &str,
    ) -> Result<Option<Version>, Failure> {
        let mut last = None;
        for attempt in 0..ATTEMPTS {
            let values: Vec<_> = (0..RACERS)
                .map(|racer| format!("{kind} {attempt} {racer}"))
                .collect();
            let writes = values.iter().map(|value| self.write(path, version, value));
            let mut winners = Vec::new();
            for (write, value) in join_all(writes).await.into_iter().zip(&values) {
                match write {
                    Ok(replaced) => winners.extend(done(replaced).map(|version| (version, value))),
                    Err(failure) => last = Some(failure),
                }
            }
            let (found, present) = found(self.get(path, None).await?);
            match &*winners {
                [] if found.as_ref() == version => sleep(PAUSE).await,
                [(won, value)] if found.as_ref() == Some(won) && present == **value => {
                    return Ok(found);
                }
                _ => return Ok(None),
            }
        }
        last.map_or(Ok(None), Err)
    }

    /// Writes an object, and repeats that if the store does not permit it yet.
    async fn try_put(
        &self,
        path: &Path,
        version: Option<&Version>,
        value: &str,
    ) -> Result<Replaced, Failure> {
        for _ in 1..ATTEMPTS {
            match self.write(path, version, value).await {
                Err(Failure::NotApplied(_)) => sleep(PAUSE).await,
                replaced => return replaced,
            }
        }
        self.write(path, version, value).await
    }

    async fn write(
        &self,
        path: &Path,
        version: Option<&Version>,
        value: &str,
    ) -> Result<Replaced, Failure> {
        let expected = Expected {
            version: version.cloned(),
            identity: self.identity.clone(),
        };
        let value = Bytes::from(value.to_owned());
        self.put(path, &expected, value).await
    }
}

fn done(replaced: Replaced) -> Option<Version> {
    match replaced {
        Replaced::Done { version, .. } => Some(version),
        Replaced::Changed(_) => None,
    }
}

fn found(read: Read) -> (Option<Version>, Bytes) {
    match read {
        Read::Found { version, value, .. } => (Some(version), value),
        _ => (None, Bytes::new()),
    }
}
