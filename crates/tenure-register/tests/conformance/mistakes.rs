//! Homes with a mistake, which the checks must find.

use async_trait::async_trait;
use tenure_register::memory::MemoryHome;
use tenure_register::{Bytes, Expected, Failure, Read, Register, RegisterKey, Replaced, Version};

use crate::checks;

/// The mistake of a home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mistake {
    None,
    /// A create replaces a value, as in a bucket that ignores `If-None-Match`.
    CreateReplaces,
    /// A replace does not compare the version, as in a bucket that ignores `If-Match`.
    IgnoresVersion,
    /// The condition is checked first, and the value is written later without it.
    ChecksAndWrites,
    /// The identity is not compared.
    IgnoresIdentity,
    /// Keys do not differ by case.
    IgnoresCase,
    /// A refusal does not show the present value.
    HidesValue,
}

#[derive(Debug)]
struct WrongHome(MemoryHome, Mistake);

#[tokio::test]
async fn the_checks_find_each_mistake_of_a_home() {
    let mistakes = [
        Mistake::CreateReplaces,
        Mistake::IgnoresVersion,
        Mistake::ChecksAndWrites,
        Mistake::IgnoresIdentity,
        Mistake::IgnoresCase,
        Mistake::HidesValue,
    ];
    assert!(passes(Mistake::None).await);
    for mistake in mistakes {
        assert!(!passes(mistake).await, "{mistake:?} was not found");
    }
}

async fn passes(mistake: Mistake) -> bool {
    let checks = tokio::spawn(async move {
        let home = MemoryHome::default();
        let (one, two) = (WrongHome(home.clone(), mistake), WrongHome(home, mistake));
        checks::pass(&[&one, &two], "part").await;
    });
    checks.await.is_ok()
}

impl WrongHome {
    fn key(&self, key: &RegisterKey) -> RegisterKey {
        match self.1 {
            Mistake::IgnoresCase => key.as_str().to_lowercase().parse().unwrap(),
            _ => key.clone(),
        }
    }

    /// Returns the condition that the present value meets.
    async fn present(&self, key: &RegisterKey) -> Result<Expected, Failure> {
        let read = self.0.read(key, None).await?;
        let version = match &read {
            Read::Found { version, .. } => Some(version.clone()),
            _ => None,
        };
        let identity = read.identity().clone();
        Ok(Expected { version, identity })
    }
}

#[async_trait]
impl Register for WrongHome {
    async fn read(&self, key: &RegisterKey, known: Option<&Version>) -> Result<Read, Failure> {
        self.0.read(&self.key(key), known).await
    }

    async fn replace(
        &self,
        key: &RegisterKey,
        expected: &Expected,
        value: Bytes,
    ) -> Result<Replaced, Failure> {
        let (key, mut expected) = (self.key(key), expected.clone());
        let present = self.present(&key).await?;
        match self.1 {
            Mistake::CreateReplaces if expected.version.is_none() => expected = present,
            Mistake::IgnoresVersion if expected.version.is_some() => expected = present,
            Mistake::IgnoresIdentity => expected.identity = present.identity,
            Mistake::ChecksAndWrites if expected == present => {
                tokio::task::yield_now().await;
                expected = self.present(&key).await?;
            }
            _ => {}
        }
        let replaced = self.0.replace(&key, &expected, value).await?;
        Ok(match replaced {
            Replaced::Changed(read) if self.1 == Mistake::HidesValue => {
                Replaced::Changed(Read::Absent(read.identity().clone()))
            }
            replaced => replaced,
        })
    }

    async fn write(&self, name: &RegisterKey, content: Bytes) -> Result<(), Failure> {
        self.0.write(name, content).await
    }

    async fn read_file(&self, name: &RegisterKey) -> Result<Option<Bytes>, Failure> {
        self.0.read_file(name).await
    }

    async fn delete(&self, names: &[RegisterKey]) -> Result<(), Failure> {
        self.0.delete(names).await
    }

    async fn list(&self, folder: &RegisterKey) -> Result<Vec<RegisterKey>, Failure> {
        self.0.list(folder).await
    }
}
