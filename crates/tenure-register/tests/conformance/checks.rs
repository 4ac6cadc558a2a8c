//! Checks of one home. Two connections are two clients of the same home.

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use tenure_register::{
    Bytes, Expected, Failure, Identity, MOST_BYTES, Read, Register, RegisterKey, Replaced, Version,
};

/// Runs all checks. The connections are of one home, and no other check uses this part of it.
pub(crate) async fn pass(connections: &[&dyn Register], part: &str) {
    let part: RegisterKey = part.parse().unwrap();
    let home = connections[0];
    let key = |name: &str| -> RegisterKey { format!("{part}/{name}").parse().unwrap() };
    a_value_is_replaced_only_if_it_has_the_expected_version(home, &key("one")).await;
    a_read_with_the_known_version_has_no_value(home, &key("known")).await;
    a_replace_for_another_home_changes_nothing(home, &key("identity")).await;
    a_repeated_replace_changes_nothing(home, &key("repeated")).await;
    versions_never_return(home, &key("versions")).await;
    keys_are_apart(home, &part).await;
    values_of_each_size_come_back(home, &key("sizes")).await;
    one_of_several_writers_wins(connections, &part).await;
    a_read_during_writes_shows_the_version_of_its_value(connections, &key("pairs")).await;
    several_registers_are_read_at_once(home, &part).await;
    files_are_written_listed_and_deleted(home, &key("files")).await;
}

async fn a_value_is_replaced_only_if_it_has_the_expected_version(
    home: &dyn Register,
    key: &RegisterKey,
) {
    let identity = absent(home, key).await;
    let first = done(create(home, key, &identity, "first").await);
    // The refusal shows the present value.
    let refused = create(home, key, &identity, "again").await;
    assert_eq!(found(changed(refused)), (first.clone(), "first".into()));
    let second = done(put(home, key, &identity, &first, "second").await);
    let refused = put(home, key, &identity, &first, "third").await;
    assert_eq!(found(changed(refused)), (second.clone(), "second".into()));
    assert_eq!(
        found(home.read(key, None).await.unwrap()),
        (second.clone(), "second".into())
    );

    let missing: RegisterKey = format!("{key}/missing").parse().unwrap();
    let refused = changed(put(home, &missing, &identity, &second, "x").await);
    assert!(matches!(refused, Read::Absent(_)), "{refused:?}");
}

async fn a_read_with_the_known_version_has_no_value(home: &dyn Register, key: &RegisterKey) {
    let identity = absent(home, key).await;
    let first = done(create(home, key, &identity, "first").await);
    let read = home.read(key, Some(&first)).await.unwrap();
    assert!(matches!(read, Read::Unchanged(_)), "{read:?}");
    assert_eq!(*read.identity(), identity);
    let second = done(put(home, key, &identity, &first, "second").await);
    let read = home.read(key, Some(&first)).await.unwrap();
    assert_eq!(found(read), (second, "second".into()));
}

async fn a_replace_for_another_home_changes_nothing(home: &dyn Register, key: &RegisterKey) {
    let identity = absent(home, key).await;
    let other = Identity::new("another home");
    let refused = changed(create(home, key, &other, "x").await);
    assert!(matches!(refused, Read::Absent(_)), "{refused:?}");
    assert_eq!(*refused.identity(), identity);
    let first = done(create(home, key, &identity, "first").await);
    let refused = changed(put(home, key, &other, &first, "x").await);
    assert_eq!(*refused.identity(), identity);
    assert_eq!(found(refused), (first, "first".into()));
}

async fn a_repeated_replace_changes_nothing(home: &dyn Register, key: &RegisterKey) {
    let identity = absent(home, key).await;
    let first = done(create(home, key, &identity, "first").await);
    // Whether the home answers that it is done or shows the present value, there is one write.
    for expected in [None, Some(&first)] {
        if let Some(expected) = expected {
            done(put(home, key, &identity, expected, "second").await);
        }
        let before = found(home.read(key, None).await.unwrap());
        let expected = Expected {
            version: expected.cloned(),
            identity: identity.clone(),
        };
        let repeated = home
            .replace(key, &expected, before.1.clone())
            .await
            .unwrap();
        match repeated {
            Replaced::Done(version) => assert_eq!(version, before.0),
            Replaced::Changed(read) => assert_eq!(found(read), before),
        }
        assert_eq!(found(home.read(key, None).await.unwrap()), before);
    }
}

async fn versions_never_return(home: &dyn Register, key: &RegisterKey) {
    let identity = absent(home, key).await;
    let mut version = done(create(home, key, &identity, "0").await);
    let mut versions = HashSet::from([version.as_str().to_owned()]);
    for count in 1..20 {
        // Two values alternate, and a counter makes the bytes differ, as the interface requires.
        let value = format!("{} {count}", count % 2);
        version = done(put(home, key, &identity, &version, &value).await);
        assert!(versions.insert(version.as_str().to_owned()), "{version:?}");
    }
}

async fn keys_are_apart(home: &dyn Register, part: &RegisterKey) {
    let names = ["a", "a/b", "a/b/c", "a.b", "a_b", "a-b", "A", "ab"];
    let keys: Vec<RegisterKey> = names
        .iter()
        .map(|name| format!("{part}/apart/{name}").parse().unwrap())
        .collect();
    for key in &keys {
        let identity = absent(home, key).await;
        done(create(home, key, &identity, key.as_str()).await);
    }
    for key in &keys {
        let (_, value) = found(home.read(key, None).await.unwrap());
        assert_eq!(value, key.as_str());
        // Files have other names than registers.
        assert_eq!(home.read_file(key).await.unwrap(), None);
    }
}

async fn values_of_each_size_come_back(home: &dyn Register, key: &RegisterKey) {
    let identity = absent(home, key).await;
    let bytes = |length: usize| -> Bytes { (0..length).map(|at| (at * 31 % 251) as u8).collect() };
    let mut expected = Expected {
        version: None,
        identity,
    };
    let most = MOST_BYTES;
    for length in [0, 1, 2, 255, 4096, most] {
        let replaced = home.replace(key, &expected, bytes(length)).await.unwrap();
        expected.version = Some(done(replaced));
        let (_, value) = found(home.read(key, None).await.unwrap());
        assert_eq!(value, bytes(length), "{length}");
    }
    let refused = home.replace(key, &expected, bytes(most + 1)).await;
    match refused {
        Err(Failure::Misconfigured(text)) => assert!(text.contains(&most.to_string()), "{text}"),
        other => panic!("{other:?}"),
    }
    let (_, value) = found(home.read(key, None).await.unwrap());
    assert_eq!(value.len(), most);
}

async fn one_of_several_writers_wins(connections: &[&dyn Register], part: &RegisterKey) {
    for round in 0..10 {
        let key: RegisterKey = format!("{part}/race-{round}").parse().unwrap();
        let identity = absent(connections[0], &key).await;
        let mut version = None;
        // One create, and then two replaces of one version.
        for step in 0..3 {
            let expected = Expected {
                version: version.clone(),
                identity: identity.clone(),
            };
            let values: Vec<String> = (0..connections.len())
                .map(|writer| format!("step {step} writer {writer}"))
                .collect();
            let writes = connections.iter().zip(&values);
            let writes = writes
                .map(|(home, value)| home.replace(&key, &expected, Bytes::from(value.clone())));
            let mut winners = Vec::new();
            for (replaced, value) in join_all(writes).await.into_iter().zip(&values) {
                if let Replaced::Done(version) = replaced.unwrap() {
                    winners.push((version, Bytes::from(value.clone())));
                }
            }
            assert_eq!(winners.len(), 1, "round {round}, step {step}: {winners:?}");
            let present = found(connections[0].read(&key, None).await.unwrap());
            assert_eq!(present, winners[0]);
            version = Some(present.0);
        }
    }
}

/// With the version of a later value, a reader would replace a value that it has never seen.
async fn a_read_during_writes_shows_the_version_of_its_value(
    connections: &[&dyn Register],
    key: &RegisterKey,
) {
    const WRITES: usize = 300;
    let (writer, readers) = connections.split_first().unwrap();
    let identity = absent(*writer, key).await;
    let version = done(create(*writer, key, &identity, "0").await);
    let written = Mutex::new(HashMap::from([(version.as_str().to_owned(), "0".into())]));
    let seen = Mutex::new(HashSet::new());
    let write = async {
        let mut version = version;
        for count in 1..WRITES {
            let value = count.to_string();
            version = done(put(*writer, key, &identity, &version, &value).await);
            let mut written = written.lock().unwrap();
            written.insert(version.as_str().to_owned(), value.into());
        }
    };
    let read = async |home: &dyn Register| {
        for _ in 0..WRITES {
            // A home may be late, but not wrong.
            if let Ok(read) = home.read(key, None).await {
                let (version, value) = found(read);
                let mut seen = seen.lock().unwrap();
                seen.insert((version.as_str().to_owned(), value));
            }
        }
    };
    tokio::join!(write, join_all(readers.iter().map(|home| read(*home))));
    let written: HashMap<String, Bytes> = written.into_inner().unwrap();
    for (version, value) in seen.into_inner().unwrap() {
        assert_eq!(written.get(&version), Some(&value), "{version}");
    }
}

async fn several_registers_are_read_at_once(home: &dyn Register, part: &RegisterKey) {
    let names = ["2", "missing", "1", "2"];
    let keys = names.map(|name| format!("{part}/many/{name}").parse().unwrap());
    for key in [&keys[0], &keys[2]] {
        let identity = absent(home, key).await;
        done(create(home, key, &identity, key.as_str()).await);
    }
    let reads = home.read_many(&keys).await.unwrap();
    assert_eq!(reads.len(), keys.len());
    for (key, read) in keys.iter().zip(&reads) {
        match read {
            Read::Absent(_) => assert_eq!(key, &keys[1]),
            Read::Found { value, .. } => assert_eq!(value, key.as_str()),
            Read::Unchanged(_) => panic!("{read:?}"),
        }
        let alone = home.read(key, None).await.unwrap();
        assert_eq!(read.identity(), alone.identity());
    }
    assert!(matches!(reads[1], Read::Absent(_)), "{reads:?}");
    // More than etcd reads in one request.
    let many: Vec<RegisterKey> = (0..300).map(|at| keys[at % 3].clone()).collect();
    let reads = home.read_many(&many).await.unwrap();
    assert_eq!(reads.len(), many.len());
    for (at, (key, read)) in many.iter().zip(&reads).enumerate() {
        match at % 3 {
            1 => assert!(matches!(read, Read::Absent(_)), "{at}: {read:?}"),
            _ => assert_eq!(found(read.clone()).1, key.as_str(), "{at}"),
        }
    }
    let none = home.read_many(&[]).await.unwrap();
    assert_eq!(none, []);
}

async fn files_are_written_listed_and_deleted(home: &dyn Register, folder: &RegisterKey) {
    let name = |name: &str| -> RegisterKey { format!("{folder}/{name}").parse().unwrap() };
    assert_eq!(home.list(folder).await.unwrap(), []);
    let names = [name("b"), name("a"), name("c/d"), name("c/e")];
    for name in &names {
        assert_eq!(home.read_file(name).await.unwrap(), None);
        let content = Bytes::from(name.to_string());
        home.write(name, content.clone()).await.unwrap();
        assert_eq!(home.read_file(name).await.unwrap(), Some(content));
    }
    let listed = home.list(folder).await.unwrap();
    assert_eq!(listed, [name("a"), name("b"), name("c/d"), name("c/e")]);
    assert_eq!(
        home.list(&name("c")).await.unwrap(),
        [name("c/d"), name("c/e")]
    );
    // Deleting again is no error.
    for _ in 0..2 {
        home.delete(&[name("a"), name("c/e")]).await.unwrap();
        assert_eq!(home.list(folder).await.unwrap(), [name("b"), name("c/d")]);
        assert_eq!(home.read_file(&name("a")).await.unwrap(), None);
    }
    // A file is no register.
    let read = home.read(&name("b"), None).await.unwrap();
    assert!(matches!(read, Read::Absent(_)), "{read:?}");
}

/// Runs futures side by side.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.map(|it| (Box::pin(it), None)).collect();
    std::future::poll_fn(|context| {
        let mut all = std::task::Poll::Ready(());
        for (future, output) in &mut futures {
            if output.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *output = Some(value),
                    std::task::Poll::Pending => all = std::task::Poll::Pending,
                }
            }
        }
        all
    })
    .await;
    futures
        .into_iter()
        .filter_map(|(_, output)| output)
        .collect()
}

/// Checks that there is no value, and returns the identity of the home.
pub(crate) async fn absent(home: &dyn Register, key: &RegisterKey) -> Identity {
    match home.read(key, None).await.unwrap() {
        Read::Absent(identity) => identity,
        read => panic!("{key} has a value: {read:?}"),
    }
}

pub(crate) async fn create(
    home: &dyn Register,
    key: &RegisterKey,
    identity: &Identity,
    value: &str,
) -> Replaced {
    let expected = Expected {
        version: None,
        identity: identity.clone(),
    };
    let value = Bytes::from(value.to_owned());
    home.replace(key, &expected, value).await.unwrap()
}

pub(crate) async fn put(
    home: &dyn Register,
    key: &RegisterKey,
    identity: &Identity,
    version: &Version,
    value: &str,
) -> Replaced {
    let expected = Expected {
        version: Some(version.clone()),
        identity: identity.clone(),
    };
    let value = Bytes::from(value.to_owned());
    home.replace(key, &expected, value).await.unwrap()
}

pub(crate) fn done(replaced: Replaced) -> Version {
    match replaced {
        Replaced::Done(version) => version,
        Replaced::Changed(read) => panic!("not replaced: {read:?}"),
    }
}

pub(crate) fn changed(replaced: Replaced) -> Read {
    match replaced {
        Replaced::Changed(read) => read,
        done => panic!("{done:?}"),
    }
}

pub(crate) fn found(read: Read) -> (Version, Bytes) {
    match read {
        Read::Found { version, value, .. } => (version, value),
        read => panic!("no value: {read:?}"),
    }
}
