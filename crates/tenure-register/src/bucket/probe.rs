//! The probe of a bucket.

use std::time::Duration;

use futures_util::future::join_all;
use object_store::path::Path;
use tokio::time::sleep;

use super::BucketHome;
use crate::{Bytes, Expected, Failure, Read, Replaced, Version};

/// How often a write is sent that the store does not permit so soon, and the pause before it is sent
/// again. Some stores permit one write of an object per second.
const ATTEMPTS: usize = 5;
const PAUSE: Duration = Duration::from_secs(1);

impl BucketHome {
    /// Checks that the bucket keeps the rules of a register, with fresh objects below
    /// `PREFIX/probe/`. Each program needs it at its start: in a store that does not keep them, two
    /// writers may both succeed. Returns a warning if the objects can't be deleted.
    ///
    /// # Errors
    ///
    /// [`Failure::Misconfigured`] if the store does not keep a rule; the other failures as of
    /// [`Register::replace`](crate::Register::replace).
    pub async fn probe(&self) -> Result<Option<String>, Failure> {
        let part = Version::random()?;
        let paths = ["one", "missing", "raced"].map(|name| {
            let (prefix, part) = (&self.prefix, part.as_str());
            Path::from(format!("{prefix}/probe/{part}/{name}"))
        });
        let kept = self.check(&paths).await;
        let deleted = self.remove(paths.to_vec()).await;
        kept?;
        Ok(deleted.err().map(|failure| {
            format!(
                "the bucket does not delete objects, so they take ever more space: give the servers the \
                 right to delete below the prefix: {failure}"
            )
        }))
    }

    async fn check(&self, [one, missing, raced]: &[Path; 3]) -> Result<(), Failure> {
        let first = self.write(one, None, "1").await?;
        let again = self.write(one, None, "2").await?;
        // Each check counts from what stands there, so that one broken rule is not named as two.
        let current = again.clone().or(first);
        let second = self.write(one, current.as_ref(), "3").await?;
        let late = self.write(one, current.as_ref(), "4").await?;
        let shown = match self.get(one, None).await? {
            Read::Found { version, value, .. } => (Some(version), value),
            _ => (None, Bytes::new()),
        };
        let created = self.write(missing, second.as_ref(), "5").await?;
        let won = self.race(raced, None).await?;
        let is_raced = won.is_some() && self.race(raced, won.as_ref()).await?.is_some();
        let mut problems = Vec::new();
        if again.is_some() {
            problems.push("a create replaces an object (it ignores If-None-Match)");
        }
        if second == current {
            problems.push("a replace does not change the ETag");
        } else if late.is_some() {
            problems.push("a replace does not compare the ETag (it ignores If-Match)");
        }
        // Without conditions all writes of a race are done.
        let is_conditional = problems.is_empty();
        let last = match late {
            None => (second, "3".into()),
            late => (late, "4".into()),
        };
        if shown != last {
            problems.push("a read does not show the last write");
        }
        if created.is_some() {
            problems.push("a replace creates an object that is missing");
        }
        if is_conditional && !is_raced {
            problems.push("of four writes with one condition at once, not exactly one is done");
        }
        if problems.is_empty() {
            return Ok(());
        }
        let (identity, problems) = (&self.identity, problems.join("; "));
        Err(Failure::Misconfigured(format!(
            "{identity} can't keep registers: {problems}: use another store, or a version of this one that \
             keeps these rules"
        )))
    }

    /// Writes an object by four requests at once. Returns its version if exactly one of them was done.
    async fn race(
        &self,
        path: &Path,
        version: Option<&Version>,
    ) -> Result<Option<Version>, Failure> {
        let values = [0, 1, 2, 3].map(|racer| format!("{version:?} {racer}"));
        let writes = values.iter().map(|value| self.write(path, version, value));
        let outcomes = join_all(writes).await;
        let winners = outcomes.iter().filter_map(|it| it.as_ref().ok()?.clone());
        match winners.collect::<Vec<_>>().as_slice() {
            [winner] => Ok(Some(winner.clone())),
            // A loser may have been refused while the winner was under way.
            [] => outcomes
                .into_iter()
                .find(Result::is_err)
                .unwrap_or(Ok(None)),
            _ => Ok(None),
        }
    }

    /// Writes an object. Returns its version; `None` if the write was refused.
    async fn write(
        &self,
        path: &Path,
        version: Option<&Version>,
        value: &str,
    ) -> Result<Option<Version>, Failure> {
        let expected = Expected {
            version: version.cloned(),
            identity: self.identity.clone(),
        };
        let value = Bytes::from(value.to_owned());
        for attempt in 1.. {
            match self.put(path, &expected, value.clone()).await {
                Ok(Replaced::Done(version)) => return Ok(Some(version)),
                Ok(Replaced::Changed(_)) => break,
                Err(Failure::NotApplied(_)) if attempt < ATTEMPTS => sleep(PAUSE).await,
                Err(Failure::Unknown(text)) => {
                    let text = format!("a write of the probe has no certain outcome: {text}");
                    return Err(Failure::Unknown(text));
                }
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }
}
