//! A fake of S3 and of Google Cloud Storage. Real servers are in the tests of the workspace.

mod fake;

use std::sync::Arc;
use std::time::{Duration, Instant};

use tenure_register::bucket::{BucketAccess, BucketHome};
use tenure_register::{Bytes, Expected, Failure, Identity, Register, Replaced, Version};

use self::fake::{Fake, Fault, Flaw};
use crate::checks::{self, absent, changed, create, done, found, put};

/// The longest time of a request. Nothing waits for it, unless the server does not answer.
const ATTEMPT: Duration = Duration::from_secs(60);

fn access(fake: &Fake) -> BucketAccess {
    let mut access = BucketAccess::new("s3://bucket/a/b");
    access.endpoint = Some(fake.url());
    access.settings = [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "s3cret"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec();
    access
}

fn home(fake: &Fake) -> BucketHome {
    BucketHome::new(&access(fake), ATTEMPT).unwrap()
}

async fn start() -> (Arc<Fake>, BucketHome) {
    let fake = Fake::start(Flaw::None).await;
    let home = home(&fake);
    (fake, home)
}

/// A replace whose result is not certain.
async fn replace(
    home: &BucketHome,
    key: &str,
    identity: &Identity,
    version: Option<&Version>,
    value: &str,
) -> Result<Replaced, Failure> {
    let expected = Expected {
        version: version.cloned(),
        identity: identity.clone(),
    };
    let value = Bytes::from(value.to_owned());
    home.replace(&key.parse().unwrap(), &expected, value).await
}

async fn value(home: &BucketHome, key: &str) -> Bytes {
    let read = home.read(&key.parse().unwrap(), None).await;
    found(read.unwrap()).1
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_s3_passes_all_checks_and_the_probe() {
    let fake = Fake::start(Flaw::None).await;
    let homes = [(); 4].map(|()| home(&fake));
    homes[0].probe().await.unwrap();
    assert_eq!(
        fake.names(),
        <[String; 0]>::default(),
        "the probe tidies up"
    );
    assert_eq!(homes[0].facts().warnings, <[String; 0]>::default());
    let connections: Vec<&dyn Register> = homes.iter().map(|home| home as _).collect();
    checks::pass(&connections, "part").await;
    assert!(fake.names().iter().all(|name| name.starts_with("a/b/")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_of_google_passes_all_checks_and_the_probe() {
    let fake = Fake::start(Flaw::None).await;
    let mut access = BucketAccess::new("gs://bucket/a");
    access.settings = vec![
        ("GOOGLE_BASE_URL".into(), fake.url()),
        ("GOOGLE_BEARER_TOKEN".into(), "token".into()),
    ];
    let homes = [(); 2].map(|()| BucketHome::new(&access, ATTEMPT).unwrap());
    assert_eq!(homes[0].probe().await, Ok(None));
    checks::pass(&[&homes[0], &homes[1]], "part").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_probe_names_the_rule_that_a_store_does_not_keep() {
    for (flaw, problem) in [
        (Flaw::RefusesCreates, "no certain outcome"),
        (Flaw::GivesNoETag, "ETag Header missing"),
        (Flaw::IgnoresIfNoneMatch, "it ignores If-None-Match"),
        (Flaw::RefusesReplaces, "no certain outcome"),
        (Flaw::KeepsETag, "does not change the ETag"),
        (Flaw::IgnoresIfMatch, "it ignores If-Match"),
        (Flaw::ReadsLate, "with the content of another"),
        (Flaw::CreatesMissing, "creates an object that is missing"),
        (Flaw::ChecksAndWrites, "of four writes"),
    ] {
        let fake = Fake::start(flaw).await;
        let failure = home(&fake).probe().await.unwrap_err().to_string();
        assert!(failure.contains(problem), "{flaw:?}: {failure}");
        assert!(!failure.contains("; "), "{flaw:?}: {failure}");
        assert!(failure.contains("bucket"), "{failure}");
        assert_eq!(fake.names(), <[String; 0]>::default(), "{flaw:?}");
    }
}

#[tokio::test]
async fn the_probe_names_all_rules_that_a_store_without_conditions_does_not_keep() {
    let fake = Fake::start(Flaw::IgnoresConditions).await;
    let failure = home(&fake).probe().await.unwrap_err().to_string();
    for part in [
        "ignores If-None-Match",
        "ignores If-Match",
        "creates an object that is missing",
        "use another store",
    ] {
        assert!(failure.contains(part), "{part}: {failure}");
    }
    assert!(!failure.contains("of four writes"), "{failure}");
    assert!(!failure.contains("last write"), "{failure}");
    assert_eq!(fake.names(), <[String; 0]>::default());
}

#[tokio::test]
async fn a_bucket_that_deletes_nothing_is_warned_of() {
    let fake = Fake::start(Flaw::KeepsDeleted).await;
    let home = home(&fake);
    let warning = home.probe().await.unwrap().unwrap();
    assert!(warning.contains("does not delete objects"), "{warning}");
    assert!(warning.contains("AccessDenied"), "{warning}");
}

#[tokio::test]
async fn a_write_that_is_not_permitted_so_soon_is_repeated_by_the_probe() {
    let (fake, home) = start().await;
    fake.fail_next(Fault::Refused(429, "SlowDown"));
    home.probe().await.unwrap();
}

#[tokio::test]
async fn an_etag_that_is_not_that_of_the_content_is_not_believed_while_a_write_may_be_under_way() {
    let fake = Fake::start(Flaw::None).await;
    let attempt = Duration::from_millis(100);
    let home = BucketHome::new(&access(&fake), attempt).unwrap();
    let key = "torn".parse().unwrap();
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    let second = done(put(&home, &key, &identity, &first, "second").await);
    // The store has written the ETag, and not yet the content.
    for known in [None, Some(&first)] {
        fake.tear_reads(1);
        let read = found(home.read(&key, known).await.unwrap());
        assert_eq!(read, (second.clone(), "second".into()));
    }
    // It was killed in between. After an ownership duration nothing is under way.
    fake.tear_reads(u64::MAX);
    let began = Instant::now();
    let failure = home.read(&key, None).await.unwrap_err();
    assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}");
    assert!(failure.to_string().contains("of another"), "{failure}");
    let read = loop {
        if let Ok(read) = home.read(&key, None).await {
            break found(read);
        }
    };
    assert!(began.elapsed() >= 6 * attempt);
    assert_eq!(read, (second.clone(), "first".into()));
    let third = done(put(&home, &key, &identity, &second, "third").await);
    fake.tear_reads(0);
    let read = found(home.read(&key, None).await.unwrap());
    assert_eq!(read, (third, "third".into()));
}

#[tokio::test]
async fn a_refusal_is_believed_only_if_a_read_shows_another_value() {
    let (fake, home) = start().await;
    let identity = absent(&home, &"seen".parse().unwrap()).await;
    for status in [409, 412] {
        let key = format!("created-{status}");
        fake.fail_next(Fault::Refused(status, "Code"));
        let refused = replace(&home, &key, &identity, None, "first").await;
        assert!(matches!(refused, Err(Failure::Unknown(_))), "{refused:?}");
        fake.fail_next(Fault::Applied(status));
        let first = done(
            replace(&home, &key, &identity, None, "first")
                .await
                .unwrap(),
        );
        fake.fail_next(Fault::Refused(status, "Code"));
        let refused = replace(&home, &key, &identity, Some(&first), "second").await;
        assert!(matches!(refused, Err(Failure::Unknown(_))), "{refused:?}");
        fake.fail_next(Fault::Applied(status));
        let second = replace(&home, &key, &identity, Some(&first), "second").await;
        let second = done(second.unwrap());
        fake.fail_next(Fault::Overtaken(status));
        let refused = replace(&home, &key, &identity, Some(&second), "third").await;
        assert_eq!(found(changed(refused.unwrap())).1, "overtaken");
    }
}

#[tokio::test]
async fn a_request_without_an_answer_is_sent_once_and_its_outcome_is_unknown() {
    let (fake, home) = start().await;
    let key = "a".parse().unwrap();
    let identity = absent(&home, &key).await;
    let first = done(create(&home, &key, &identity, "first").await);
    for (fault, left) in [
        (Fault::RequestLost, "first"),
        (Fault::Refused(503, "SlowDown"), "first"),
        (Fault::Refused(500, "InternalError"), "first"),
        (Fault::AnswerLost, "second"),
    ] {
        let writes = fake.writes();
        fake.fail_next(fault);
        let lost = replace(&home, "a", &identity, Some(&first), "second").await;
        assert!(
            matches!(lost, Err(Failure::Unknown(_))),
            "{fault:?}: {lost:?}"
        );
        assert_eq!(fake.writes(), writes + 1, "{fault:?}");
        assert_eq!(value(&home, "a").await, left, "{fault:?}");
    }
    // The attempt after it finds its own value.
    let second = done(put(&home, &key, &identity, &first, "second").await);
    let short = BucketHome::new(&access(&fake), Duration::from_millis(200)).unwrap();
    fake.fail_next(Fault::Hangs);
    let late = replace(&short, "a", &identity, Some(&second), "third").await;
    match late {
        Err(Failure::Unknown(text)) => assert!(text.contains("no answer in 0.2 s"), "{text}"),
        other => panic!("{other:?}"),
    }
    done(put(&home, &key, &identity, &second, "fourth").await);
}

#[tokio::test]
async fn a_failure_says_what_was_applied_and_names_the_object() {
    let (fake, home) = start().await;
    let identity = absent(&home, &"a".parse().unwrap()).await;
    let not_applied: fn(&Failure) -> bool = |it| matches!(it, Failure::NotApplied(_));
    let full: fn(&Failure) -> bool = |it| matches!(it, Failure::Full(_));
    let misconfigured: fn(&Failure) -> bool = |it| matches!(it, Failure::Misconfigured(_));
    for (status, code, is_right, text) in [
        (
            429,
            "SlowDown",
            not_applied,
            "answer 429 SlowDown: the text",
        ),
        (507, "StorageFull", full, "answer 507"),
        (403, "AccessDenied", misconfigured, "answer 40"),
        (401, "Unauthorized", misconfigured, "answer 40"),
        (
            404,
            "NoSuchBucket",
            misconfigured,
            "answer 404 NoSuchBucket",
        ),
        (501, "NotImplemented", misconfigured, "answer 501"),
        (
            301,
            "PermanentRedirect",
            misconfigured,
            "incorrectly configured region",
        ),
        (400, "InvalidArgument", misconfigured, "answer 400"),
    ] {
        fake.fail_next(Fault::Refused(status, code));
        let failure = replace(&home, "a", &identity, None, "x").await.unwrap_err();
        assert!(is_right(&failure), "{failure:?}");
        let failure = failure.to_string();
        assert!(failure.contains(text), "{failure}");
        assert!(
            failure.contains("a/b/register/a! in bucket bucket"),
            "{failure}"
        );
        assert!(!failure.contains('\n'), "{failure}");
    }
}

#[tokio::test]
async fn without_a_connection_or_credentials_the_outcome_says_what_is_known() {
    let (fake, home) = start().await;
    let key = "a".parse().unwrap();
    let identity = absent(&home, &key).await;
    let mut access = access(&fake);
    access.endpoint = Some("http://127.0.0.1:1".into());
    let away = BucketHome::new(&access, ATTEMPT).unwrap();
    let failure = replace(&away, "a", &identity, None, "x").await.unwrap_err();
    assert!(matches!(failure, Failure::Unknown(_)), "{failure:?}");
    access.endpoint = Some(fake.url());
    // There is no role either.
    access.settings = vec![("AWS_METADATA_ENDPOINT".into(), "http://127.0.0.1:1".into())];
    let anonymous = BucketHome::new(&access, ATTEMPT).unwrap();
    for failure in [
        replace(&anonymous, "a", &identity, None, "x")
            .await
            .unwrap_err(),
        anonymous.list(&key).await.unwrap_err(),
        anonymous
            .delete(std::slice::from_ref(&key))
            .await
            .unwrap_err(),
    ] {
        match failure {
            Failure::Misconfigured(text) => assert!(text.contains("AWS_ACCESS_KEY_ID"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_wrong_access_is_named_before_any_request() {
    for (url, problem) in [
        ("bucket/a", "URL of a bucket"),
        ("s3://bucket", "URL of a bucket"),
        ("s3:///a", "URL of a bucket"),
        ("file://bucket/a", "URL of a bucket"),
        ("az://account/container", "URL of a bucket"),
        ("s3://bucket/", "names with / between"),
        ("s3://bucket/a b", "names with / between"),
        ("s3://bucket/a//b", "names with / between"),
    ] {
        match BucketHome::new(&BucketAccess::new(url), ATTEMPT) {
            Err(Failure::Misconfigured(text)) => {
                assert!(text.contains(problem) && text.contains(url), "{text}");
            }
            other => panic!("{other:?}"),
        }
    }
    let mut access = BucketAccess::new("gs://bucket/a");
    access.endpoint = Some("http://127.0.0.1:1".into());
    let text = BucketHome::new(&access, ATTEMPT).unwrap_err().to_string();
    assert!(text.contains("aws_endpoint_url_s3"), "{text}");
    access = BucketAccess::new("s3://bucket/a/");
    access.endpoint = Some("127.0.0.1:1".into());
    let text = BucketHome::new(&access, ATTEMPT).unwrap_err().to_string();
    assert!(text.contains("127.0.0.1:1 does not begin"), "{text}");
    for secret in [
        "http://u:s3cret@h",
        "u:s3cret@h",
        "https://h/?key=s3cret",
        "https://h/#s3cret",
    ] {
        access.endpoint = Some(secret.into());
        let text = BucketHome::new(&access, ATTEMPT).unwrap_err().to_string();
        assert!(text.contains("without a user or a query"), "{text}");
        assert!(!text.contains("s3cret"), "{text}");
    }
    access.endpoint = None;
    access.settings = vec![("AWS_REGOIN".into(), "s3cret".into())];
    let text = BucketHome::new(&access, ATTEMPT).unwrap_err().to_string();
    assert!(text.to_lowercase().contains("aws_regoin"), "{text}");
    assert!(!format!("{access:?}").contains("s3cret"));
}
