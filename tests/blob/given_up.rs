//! Lease ids that a candidate gives up: it releases them, and never leads under them.

use std::collections::BTreeSet;

use super::faults::first;
use super::front::{Asked, Fate, Front};
use super::{World, candidate};

/// Campaigns until it leads. Returns what the candidate asked for until then, and the ids that it released, in
/// order. Fails if [`judge`] finds fault with them.
async fn campaign(rule: impl FnMut(&Asked) -> Fate + Send + 'static) -> (Vec<Asked>, Vec<String>) {
    let world = World::start();
    // So that the blob is there, and the first acquire can be granted.
    let before = world.candidate("before").await;
    before.campaign().await.unwrap().resign().await;
    let front = Front::start(world.store.address(), rule).await;
    let candidate = candidate("unlucky", front.address).await;
    let leadership = candidate.campaign().await.unwrap();
    let asked = front.asked();
    match judge(&asked, leadership.epoch().get()) {
        Ok(()) => (asked.clone(), ids(&asked, "release")),
        Err(why) => panic!("{why}: {asked:#?}"),
    }
}

/// Judges the requests of one candidate that now leads under this epoch, however slow the machine is. The
/// number of releases is not judged: each attempt at an acquire may run out of time, and so may each release,
/// which is sent again then.
fn judge(asked: &[Asked], leading: u64) -> Result<(), String> {
    let written = || asked.iter().filter(|asked| asked.epoch.is_some());
    if !written().is_sorted_by(|a, b| a.epoch < b.epoch) {
        return Err("the epochs do not grow".into());
    }
    let last = written().next_back();
    let Some(leader) = last.filter(|last| last.epoch == Some(leading)) else {
        return Err("it does not lead under the last epoch".into());
    };
    let acquires = || asked.iter().filter(|asked| asked.what == "acquire");
    let released: BTreeSet<String> = ids(asked, "release").into_iter().collect();
    for acquire in acquires().filter(|acquire| acquire.done) {
        let id = acquire.id.as_ref().ok_or("an acquire has no id")?;
        match (acquire.id == leader.id, released.contains(id)) {
            (true, true) => return Err(format!("it leads under {id}, which it released")),
            (false, false) => return Err(format!("{id} was granted and never released")),
            _ => {}
        }
    }
    for id in &released {
        let has_id = |asked: &&Asked| asked.id.as_ref() == Some(id);
        let mut acquires = acquires().filter(has_id);
        if !acquires.clone().any(|acquire| acquire.done) && acquires.any(|acquire| acquire.answered)
        {
            return Err(format!("{id} was refused, and released nevertheless"));
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
async fn an_epoch_whose_writing_was_not_acknowledged_is_never_led_under() {
    let (asked, released) = campaign(first("metadata", 2, Fate::LosesAnswer)).await;
    let written = ids(&asked, "metadata");
    assert_ne!(written[0], written[1], "{asked:#?}");
    for id in &written[..2] {
        assert!(released.contains(id), "{asked:#?}");
    }
}

/// The time of the attempt is over before the epoch is written, so the service sees the grant, and no writing
/// under this id before the release.
#[tokio::test]
async fn a_lease_that_was_granted_and_whose_epoch_was_not_written_in_time_is_given_up() {
    let (asked, released) = campaign(first("HEAD", 1, Fate::Lost)).await;
    let given_up = asked.iter().find(|asked| asked.what == "HEAD");
    let given_up = given_up.and_then(|asked| asked.id.clone()).expect("an id");
    assert!(released.contains(&given_up), "{asked:#?}");
    assert!(!ids(&asked, "metadata").contains(&given_up), "{asked:#?}");
}

#[tokio::test]
async fn a_release_that_is_not_answered_is_sent_again_under_the_same_id() {
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

/// The candidate can't know that no acquire arrived: the service may have granted the lease.
#[tokio::test]
async fn an_id_of_whose_acquires_none_was_answered_for_a_lease_duration_is_given_up() {
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

/// A request in a made-up history: what is asked for, its id, and `+` if it is done and answered, `-` if it
/// is refused, `?` if it is done and not answered, `!` if neither.
fn request(text: &str) -> Asked {
    let [what, id, end] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("three words, and not {text}");
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
fn made_up_histories_of_ids_that_are_given_up_wrongly_are_found() {
    let leads = "acquire y +, metadata7 y +";
    for (history, fault) in [
        ("acquire x +, metadata5 x ?, release x +", None),
        ("acquire x +, release x !, release x +, release x -", None),
        ("acquire x !, acquire x !, release x -", None),
        ("release x -", None),
        ("acquire x -", None),
        (
            "acquire x +, metadata8 x ?, release x +",
            Some("the epochs do not grow"),
        ),
        ("acquire x ?", Some("x was granted and never released")),
        (
            "acquire y +, release y +",
            Some("it leads under y, which it released"),
        ),
        (
            "acquire x -, release x -",
            Some("x was refused, and released nevertheless"),
        ),
        (
            "acquire x +, release x +, acquire x -",
            Some("x was used again after its release"),
        ),
    ] {
        let history = format!("{history}, {leads}");
        let asked: Vec<Asked> = history.split(", ").map(request).collect();
        let judged = judge(&asked, 7);
        assert_eq!(judged.err().as_deref(), fault, "{history}");
    }
    let asked: Vec<Asked> = leads.split(", ").map(request).collect();
    assert!(judge(&asked, 6).is_err());
}
