//! Abandoned lease ids: a candidate releases them, and never leads under them.

use std::collections::BTreeSet;

use super::faults::first;
use super::front::{Asked, Fate, Front};
use super::{World, candidate};

/// Campaigns until the candidate leads. Returns its requests until then, and the released ids in
/// order. Fails if [`check`] finds a violation.
async fn campaign(rule: impl FnMut(&Asked) -> Fate + Send + 'static) -> (Vec<Asked>, Vec<String>) {
    let world = World::start();
    // This creates the blob, so that the first acquire can succeed.
    let before = world.candidate("before").await;
    before.campaign().await.unwrap().resign().await;
    let front = Front::start(world.store.address(), rule).await;
    let candidate = candidate("unlucky", front.address).await;
    let leadership = candidate.campaign().await.unwrap();
    let asked = front.asked();
    match check(&asked, leadership.epoch().get()) {
        Ok(()) => (asked.clone(), ids(&asked, "release")),
        Err(why) => panic!("{why}: {asked:#?}"),
    }
}

/// Checks the requests of a candidate that now leads under this epoch, on a machine of any speed.
/// The number of releases is not checked: each acquire may time out, and so may each release, which
/// is then repeated.
fn check(asked: &[Asked], leading: u64) -> Result<(), String> {
    let written = || asked.iter().filter(|asked| asked.epoch.is_some());
    if !written().is_sorted_by(|a, b| a.epoch < b.epoch) {
        return Err("the epochs do not increase".into());
    }
    let last = written().next_back();
    let Some(leader) = last.filter(|last| last.epoch == Some(leading)) else {
        return Err("the candidate does not lead under the last epoch".into());
    };
    let acquires = || asked.iter().filter(|asked| asked.what == "acquire");
    let released: BTreeSet<String> = ids(asked, "release").into_iter().collect();
    for acquire in acquires().filter(|acquire| acquire.done) {
        let id = acquire.id.as_ref().ok_or("an acquire has no id")?;
        match (acquire.id == leader.id, released.contains(id)) {
            (true, true) => {
                return Err(format!("the candidate leads under {id}, which it released"));
            }
            (false, false) => return Err(format!("{id} was granted and never released")),
            _ => {}
        }
    }
    for id in &released {
        let has_id = |asked: &&Asked| asked.id.as_ref() == Some(id);
        let mut acquires = acquires().filter(has_id);
        if !acquires.clone().any(|acquire| acquire.done) && acquires.any(|acquire| acquire.answered)
        {
            return Err(format!("{id} was refused, but released"));
        }
        let of_id = asked.iter().filter(has_id);
        let mut later = of_id.skip_while(|asked| asked.what != "release");
        if later.any(|asked| asked.what != "release") {
            return Err(format!("{id} was used again after its release"));
        }
    }
    Ok(())
}

/// The ids of the requests of this kind, in order.
fn ids(asked: &[Asked], what: &str) -> Vec<String> {
    let asked = asked.iter().filter(|asked| asked.what == what);
    asked.filter_map(|asked| asked.id.clone()).collect()
}

#[tokio::test]
async fn a_candidate_never_leads_under_an_epoch_without_an_acknowledged_write() {
    let (asked, released) = campaign(first("metadata", 2, Fate::LosesAnswer)).await;
    let written = ids(&asked, "metadata");
    assert_ne!(written[0], written[1], "{asked:#?}");
    for id in &written[..2] {
        assert!(released.contains(id), "{asked:#?}");
    }
}

/// The attempt times out before the epoch is written, so the service gets the acquire, and no write
/// under this id before the release.
#[tokio::test]
async fn a_granted_lease_is_released_if_its_epoch_is_not_written_in_time() {
    let (asked, released) = campaign(first("HEAD", 1, Fate::Lost)).await;
    let given_up = asked.iter().find(|asked| asked.what == "HEAD");
    let given_up = given_up.and_then(|asked| asked.id.clone()).expect("an id");
    assert!(released.contains(&given_up), "{asked:#?}");
    assert!(!ids(&asked, "metadata").contains(&given_up), "{asked:#?}");
}

#[tokio::test]
async fn a_release_without_an_answer_is_repeated_under_the_same_id() {
    let mut denied = first("metadata", 1, Fate::Denied(500, "InternalError"));
    let mut unanswered = first("release", 1, Fate::LosesAnswer);
    let rule = move |asked: &Asked| match denied(asked) {
        Fate::Passes => unanswered(asked),
        fate => fate,
    };
    let (asked, released) = campaign(rule).await;
    assert!(released.len() >= 2, "{asked:#?}");
    assert_eq!(released[0], released[1], "{asked:#?}");
}

/// The candidate cannot know that no acquire arrived: the service may have granted the lease.
#[tokio::test]
async fn an_id_is_released_after_a_lease_duration_without_an_answer_to_its_acquires() {
    let mut given_up = false;
    let rule = move |asked: &Asked| {
        given_up |= asked.what == "release";
        if asked.what == "acquire" && !given_up {
            Fate::Lost
        } else {
            Fate::Passes
        }
    };
    let (asked, released) = campaign(rule).await;
    assert_eq!(ids(&asked, "acquire")[0], released[0], "{asked:#?}");
    let granted = |asked: &Asked| asked.done && asked.id.as_ref() == Some(&released[0]);
    assert!(!asked.iter().any(granted), "{asked:#?}");
}

/// A request in a made-up history: its kind, its id, and `+` if it succeeds and is answered, `-` if
/// it is refused, `?` if it succeeds without an answer, `!` if neither.
fn request(text: &str) -> Asked {
    let [what, id, end] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("expected three words: {text}");
    };
    Asked {
        what: what.trim_end_matches(char::is_numeric).into(),
        id: Some(id.into()),
        epoch: what
            .strip_prefix("metadata")
            .map(|epoch| epoch.parse().unwrap()),
        done: matches!(end, "+" | "?"),
        answered: matches!(end, "+" | "-"),
    }
}

#[test]
fn violations_in_made_up_histories_of_abandoned_ids_are_found() {
    let leads = "acquire y +, metadata7 y +";
    for (history, fault) in [
        ("acquire x +, metadata5 x ?, release x +", None),
        ("acquire x +, release x !, release x +, release x -", None),
        ("acquire x !, acquire x !, release x -", None),
        ("release x -", None),
        ("acquire x -", None),
        (
            "acquire x +, metadata8 x ?, release x +",
            Some("the epochs do not increase"),
        ),
        ("acquire x ?", Some("x was granted and never released")),
        (
            "acquire y +, release y +",
            Some("the candidate leads under y, which it released"),
        ),
        (
            "acquire x -, release x -",
            Some("x was refused, but released"),
        ),
        (
            "acquire x +, release x +, acquire x -",
            Some("x was used again after its release"),
        ),
    ] {
        let history = format!("{history}, {leads}");
        let asked: Vec<Asked> = history.split(", ").map(request).collect();
        let checked = check(&asked, 7);
        assert_eq!(checked.err().as_deref(), fault, "{history}");
    }
    let asked: Vec<Asked> = leads.split(", ").map(request).collect();
    assert!(check(&asked, 6).is_err());
}
