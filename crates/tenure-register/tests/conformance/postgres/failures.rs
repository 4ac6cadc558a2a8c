//! Crashes, standbys, promotions, and connections that break.

use super::*;

/// Acknowledged values must survive a crash of the server, whatever its default is.
async fn a_crash_loses_nothing(mistake: Mistake) -> Option<()> {
    // The log is not written to the disk in the background meanwhile.
    let settings = "synchronous_commit = off\nwal_writer_delay = 10s";
    let mut server = Postgres::start("a_crash_loses_nothing", settings)?;
    let proxy = Proxy::with_mistake(server.port(), mistake);
    let (home, key) = (open(proxy.url(), "crash"), key("a"));
    let identity = absent(&home, &key).await;
    let mut version = done(create(&home, &key, &identity, "0").await);
    home.write(&key, "0".into()).await.unwrap();
    let mut expected = ["0", "0"];
    for (is_file, value) in [(false, "1"), (true, "2"), (false, "3"), (true, "4")] {
        match is_file {
            true => home.write(&key, value.into()).await.unwrap(),
            false => version = done(put(&home, &key, &identity, &version, value).await),
        }
        expected[usize::from(is_file)] = value;
        server.crash();
        server.restart();
        // The connection is gone.
        drop(home.read(&key, None).await);
        let shown = found(home.read(&key, None).await.unwrap());
        assert_eq!(shown, (version.clone(), expected[0].into()));
        assert_eq!(
            home.read_file(&key).await.unwrap(),
            Some(expected[1].into())
        );
    }
    Some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_of_a_server_that_acknowledges_early_loses_nothing() {
    a_crash_loses_nothing(("", "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_crash_finds_a_statement_that_does_not_wait_for_the_disk() {
    if shared_server("the_crash_finds_a_statement").is_none() {
        return;
    }
    let mistake = ("'synchronous_commit'", "'tenure.the_mistake'");
    let check = tokio::spawn(a_crash_loses_nothing(mistake));
    assert!(check.await.is_err(), "the mistake was not found");
}

/// A commit counts only when the synchronous standby has it.
async fn a_cancelled_wait_is_no_success(mistake: Mistake) -> Option<()> {
    let primary = Postgres::start("the cancelled wait", "client_min_messages = error")?;
    let mut standby = primary.standby("second");
    primary.require_standby("second");
    let proxy = Proxy::with_mistake(primary.port(), mistake);
    let (patient, key) = (open(proxy.url(), "waits"), key("a"));
    let identity = absent(&patient, &key).await;
    let first = done(create(&patient, &key, &identity, "first").await);

    standby.crash();
    let replace = |home, value| replace(home, &key, &identity, Some(&first), value);
    let port = primary.port();
    let cancel = tokio::task::spawn_blocking(move || Postgres::cancel_wait_for_standby(port));
    let (cancelled, cancel) = tokio::join!(replace(&patient, "second"), cancel);
    cancel.unwrap();
    // PostgreSQL says that it succeeded, with a warning; and others see the new value.
    assert!(is_unknown(&cancelled), "{cancelled:?}");
    assert!(cancelled.unwrap_err().to_string().contains("01000"));
    assert_eq!(value(&patient, &key).await, "second");
    // A repetition sees its own value, but the standby still does not have it.
    let hasty = PostgresHome::new(access(proxy.url(), "waits"), SHORT).unwrap();
    let repeated = replace(&hasty, "second").await;
    assert!(is_unknown(&repeated), "{repeated:?}");
    // The first repetition has the lock of the row.
    let repeated = replace(&hasty, "second").await;
    assert!(not_applied(repeated).contains("55P03"));

    standby.restart();
    let until = Instant::now() + PATIENCE;
    let mut repeated = replace(&patient, "second").await;
    while repeated.is_err() && Instant::now() < until {
        repeated = replace(&patient, "second").await;
    }
    let second = done(repeated.unwrap());
    assert_eq!(found(patient.read(&key, None).await.unwrap()).0, second);
    // The standby has it on its disk, and shows it soon.
    wait_for("the value at the standby", || {
        let shown = standby.query("select convert_from(value, 'UTF8') from waits.register");
        (shown == "second").then_some(())
    });
    Some(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_wait_for_a_standby_was_cancelled_is_no_success() {
    a_cancelled_wait_is_no_success(("", "")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_cancelled_wait_finds_a_statement_whose_warning_is_hidden() {
    if shared_server("the_cancelled_wait_finds_a_statement").is_none() {
        return;
    }
    let mistake = ("'client_min_messages'", "'tenure.is_a_mistake'");
    let check = tokio::spawn(a_cancelled_wait_is_no_success(mistake));
    assert!(check.await.is_err(), "the mistake was not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_was_sent_before_a_promotion_is_refused_after_it() {
    let Some(mut primary) = Postgres::start("the promotion", "") else {
        return;
    };
    let mut standby = primary.standby("second");
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/postgres",
        primary.port(),
        standby.port()
    );
    let home = open(url.clone(), "tenure");
    let mut access = access(url, "tenure");
    access.failover = Failover::Lossless;
    let lossless = PostgresHome::new(access, ATTEMPT).unwrap();
    let key = key("a");
    let before = absent(&home, &key).await;
    let lossless_before = absent(&lossless, &key).await;
    let first = done(create(&home, &key, &before, "first").await);
    wait_for("the value at the standby", || {
        let shown = standby.try_query("select convert_from(value, 'UTF8') from tenure.register");
        (shown.as_deref() == Ok("first")).then_some(())
    });
    // The standby loses this one.
    standby.crash();
    done(put(&home, &key, &before, &first, "second").await);
    primary.crash();
    standby.restart();

    // Before the promotion there is only a standby.
    drop(home.read(&key, None).await);
    let text = not_applied(replace(&home, &key, &before, Some(&first), "late").await);
    assert!(text.contains("is a standby"), "{text}");
    assert!(text.contains(&primary.port().to_string()), "{text}");
    standby.promote();

    // The promoted server has the version that the late claim names.
    let late = replace(&home, &key, &before, Some(&first), "late").await;
    let shown = checks::changed(late.unwrap());
    let after = shown.identity().clone();
    assert_ne!(after, before);
    assert_eq!(found(shown), (first.clone(), "first".into()));
    let created = replace(&home, &key, &before, None, "late").await;
    assert_eq!(found(checks::changed(created.unwrap())).0, first);
    done(put(&home, &key, &after, &first, "third").await);

    // With a fail-over that loses nothing it is the same home.
    drop(lossless.read(&key, None).await);
    let read = lossless.read(&key, None).await.unwrap();
    assert_eq!(*read.identity(), lossless_before);
    let third = found(read).0;
    done(put(&lossless, &key, &lossless_before, &third, "fourth").await);
    assert_eq!(value(&home, &key).await, "fourth");
}

#[tokio::test]
async fn a_lost_answer_was_applied_and_a_lost_request_was_not() {
    let Some(server) = shared_server("a_lost_answer") else {
        return;
    };
    let proxy = Proxy::to(server.port());
    let (home, key) = (open(proxy.url(), "proxied"), key("a"));
    let identity = absent(&home, &key).await;
    let mut version = None;
    for (mode, is_applied) in [(Mode::CloseAtAnswer, true), (Mode::CloseAtRequest, false)] {
        // First a create, and then a replace.
        for _ in 0..2 {
            let next = format!("{mode:?} after {version:?}");
            proxy.set(mode);
            let lost = replace(&home, &key, &identity, version.as_ref(), &next).await;
            assert!(is_unknown(&lost), "{lost:?}");
            let read = home.read(&key, None).await.unwrap();
            let applied = matches!(&read, Read::Found { value, .. } if *value == next);
            assert_eq!(applied, is_applied, "{read:?}");
            // The same bytes again.
            let repeated = replace(&home, &key, &identity, version.as_ref(), &next).await;
            let repeated = done(repeated.unwrap());
            let shown = found(home.read(&key, None).await.unwrap());
            assert_eq!(shown, (repeated.clone(), next.into()));
            version = Some(repeated);
        }
    }
    proxy.set(Mode::CloseAtAnswer);
    let lost = home.write(&key, "content".into()).await;
    assert!(is_unknown(&lost), "{lost:?}");
    home.write(&key, "content".into()).await.unwrap();
    assert_eq!(home.read_file(&key).await.unwrap(), Some("content".into()));
}

#[tokio::test]
async fn a_late_replace_changes_nothing_after_another_one_was_applied() {
    let Some(server) = shared_server("a_late_replace") else {
        return;
    };
    let proxy = Proxy::to(server.port());
    let direct = home(server, "late");
    let key = key("a");
    let identity = absent(&direct, &key).await;
    let late = PostgresHome::new(access(proxy.url(), "late"), SHORT).unwrap();
    absent(&late, &key).await;
    proxy.set(Mode::Hold);
    let held = replace(&late, &key, &identity, None, "late").await;
    assert!(is_unknown(&held), "{held:?}");
    let first = done(create(&direct, &key, &identity, "first").await);
    proxy.set(Mode::Forward);
    let next = done(put(&direct, &key, &identity, &first, "next").await);
    // The late one has arrived when only the session of the other home is left.
    let sessions = "select count(*) from pg_stat_activity where query like '%\"late\".register%'
        and pid <> pg_backend_pid()";
    wait_for("the late replace", || {
        (server.query(sessions) == "1").then_some(())
    });
    let shown = found(direct.read(&key, None).await.unwrap());
    assert_eq!(shown, (next, "next".into()));
}

#[tokio::test]
async fn a_lossless_fail_over_to_a_standby_that_is_not_synchronous_is_warned_of() {
    let Some(primary) = Postgres::start("the warning", "") else {
        return;
    };
    let _standby = primary.standby("second");
    // A new home checks at once, and then each minute.
    let facts = async |failover| {
        let mut access = access(primary.url("postgres", ""), "warned");
        access.failover = failover;
        let home = PostgresHome::new(access, ATTEMPT).unwrap();
        absent(&home, &key("a")).await;
        home.maintain().await;
        home.facts()
    };
    let until = Instant::now() + PATIENCE;
    let warned = loop {
        if let Some(warning) = facts(Failover::Lossless).await.warnings.pop() {
            break warning;
        }
        assert!(Instant::now() < until, "no warning");
    };
    assert!(
        warned.contains("a promotion of one of them can lose"),
        "{warned}"
    );
    let strict = facts(Failover::None).await;
    assert_eq!(strict.warnings, <[String; 0]>::default());
    let version = primary.query("show server_version");
    let version = version.split(' ').next();
    assert_eq!(strict.version.as_deref(), version);
    primary.require_standby("second");
    while !facts(Failover::Lossless).await.warnings.is_empty() {
        assert!(Instant::now() < until, "the warning does not end");
    }
}
