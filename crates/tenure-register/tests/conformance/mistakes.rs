//! Homes with a mistake, which the checks must find.

use tenure_register::memory::MemoryHome;
use tenure_register::{
    Answering, Bytes, Expected, Failure, Files, Read, Register, RegisterKey, Replaced, Version,
};

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

impl Register for WrongHome {
    fn read<'a>(&'a self, key: &'a RegisterKey, known: Option<&'a Version>) -> Answering<'a, Read> {
        Box::pin(async move { self.0.read(&self.key(key), known).await })
    }

    fn replace<'a>(
        &'a self,
        key: &'a RegisterKey,
        expected: &'a Expected,
        value: Bytes,
    ) -> Answering<'a, Replaced> {
        Box::pin(async move {
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
        })
    }
}

impl Files for WrongHome {
    fn write<'a>(&'a self, name: &'a RegisterKey, content: Bytes) -> Answering<'a, ()> {
        self.0.write(name, content)
    }

    fn read_file<'a>(&'a self, name: &'a RegisterKey) -> Answering<'a, Option<Bytes>> {
        self.0.read_file(name)
    }

    fn delete<'a>(&'a self, names: &'a [RegisterKey]) -> Answering<'a, ()> {
        self.0.delete(names)
    }

    fn list<'a>(&'a self, folder: &'a RegisterKey) -> Answering<'a, Vec<RegisterKey>> {
        self.0.list(folder)
    }
}
