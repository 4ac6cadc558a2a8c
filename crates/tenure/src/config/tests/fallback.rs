//! The settings of the fallback.

use super::load;
use crate::Guarantee;
use crate::config::{BesideStore, Bully, Config, Fallback, Peer, Strategy};
use tenure_core::NodeId;

/// Three members, seen from the second one.
const FALLBACK: &str = r#"
    election = "nightly"
    [fallback]
    node = 2
    members = ["1=http://a:1", "2@50=http://b:2", "3=http://c:3"]
"#;

fn quorums(config: &Config) -> (Option<usize>, usize) {
    let plan = config.election_plan().unwrap().unwrap();
    let quorums = plan.quorums().unwrap();
    (quorums.with_store(), quorums.without_store())
}

#[test]
fn a_fallback_is_a_table_beside_the_strategy() {
    let config = load(FALLBACK, &[]).unwrap();
    assert!(matches!(config.strategy, Strategy::Lease));
    assert_eq!(config.guarantee(), Guarantee::StoreOrMembers);
    assert_eq!(quorums(&config), (Some(1), 3));
    assert_eq!(config.members().unwrap().node, Some(NodeId(2)));
    // The waiters of the store are in the order in which the members elect.
    assert_eq!(config.priority, 50);
    assert!(load(FALLBACK, &[("TENURE_PRIORITY", "50")]).is_ok());
    let plan = config.election_plan().unwrap().unwrap();
    let survives = plan
        .facts()
        .into_iter()
        .find(|(name, _)| *name == "survives");
    assert!(survives.is_some_and(|(_, text)| text.contains("the loss of 2 members")));
}

#[test]
fn k_is_a_number_or_the_name_of_a_policy() {
    let five = FALLBACK.replace(
        "3=http://c:3\"",
        "3=http://c:3\", \"4=http://d:4\", \"5=http://e:5\"",
    );
    for (k, expected) in [
        ("1", (Some(1), 5)),
        ("\"1\"", (Some(1), 5)),
        ("\"lease\"", (Some(1), 5)),
        ("\"balanced\"", (Some(2), 4)),
        ("\"majority\"", (Some(3), 3)),
        ("3", (Some(3), 3)),
    ] {
        let config = load(&format!("{five}\nk = {k}"), &[]).unwrap();
        assert_eq!(quorums(&config), expected, "{k}");
    }
    let config = load(&five, &[("TENURE_FALLBACK_K", "3")]).unwrap();
    assert_eq!(quorums(&config), (Some(3), 3));
    for k in ["lease", "balanced", "majority", "2"] {
        assert_eq!(k.parse::<BesideStore>().unwrap().to_string(), k);
    }
}

#[test]
fn an_invalid_fallback_is_refused_with_key_and_values() {
    for (name, value, words) in [
        (
            "TENURE_FALLBACK_K",
            "0",
            ["fallback.k", "1 to 2 with 3 members"],
        ),
        (
            "TENURE_FALLBACK_K",
            "3",
            ["k is 3", "could each elect themselves"],
        ),
        ("TENURE_FALLBACK_K", "half", ["fallback.k", "\"balanced\""]),
        ("TENURE_FALLBACK_NODE", "4", ["fallback.node", "member 4"]),
        (
            "TENURE_FALLBACK_MEMBERS",
            "http://a:1",
            ["fallback.members", "1=http://10.0.0.1:7500"],
        ),
        (
            "TENURE_FALLBACK_LISTEN",
            "7500",
            ["fallback.listen", "0.0.0.0:7500"],
        ),
        (
            "TENURE_FALLBACK_MESSAGE_LIFETIME",
            "3s",
            ["fallback.message_lifetime", "5s"],
        ),
        (
            "TENURE_FALLBACK_ACCEPT_CHANGES",
            "now",
            ["fallback.accept_changes", "true or false"],
        ),
        (
            "TENURE_STRATEGY",
            "static",
            ["[fallback]", "strategy = \"lease\""],
        ),
        (
            "TENURE_STRATEGY",
            "bully",
            ["[fallback]", "strategy = \"lease\""],
        ),
        (
            "TENURE_STRATEGY",
            "both",
            ["[fallback]", "strategy = \"lease\""],
        ),
        (
            "TENURE_LOCK_DELAY",
            "2s",
            ["lock_delay", "must be 0s with [fallback]"],
        ),
        (
            "TENURE_PRIORITY",
            "7",
            ["priority", "priority 50 in fallback.members"],
        ),
    ] {
        let text = FALLBACK.replace(
            "[fallback]",
            "[bully]\nnode = 1\npeers = [\"1=http://a:1\"]\n[fallback]",
        );
        let error = load(&text, &[(name, value)]).unwrap_err();
        let told = words.iter().all(|word| error.contains(word));
        assert!(told, "{name}={value}: {error}");
    }
    for (key, hint) in [
        ("preempt = true", "preempt"),
        ("quorum = false", "quorum"),
        ("relay = true", "relay"),
    ] {
        let error = load(&format!("{FALLBACK}\n{key}"), &[]).unwrap_err();
        assert!(
            error.contains("unknown key") && error.contains(hint),
            "{error}"
        );
    }
    let error = load(&FALLBACK.replace("node = 2", ""), &[]).unwrap_err();
    assert!(error.contains("fallback.node is not set"), "{error}");
}

#[test]
fn a_fallback_in_code_is_checked_like_one_in_a_file() {
    let peers =
        [1, 2, 3].map(|id| Peer::new(NodeId(id), &format!("http://127.0.0.1:{id}")).unwrap());
    let members = || Bully::new(NodeId(1), peers.clone());
    let refused = |config: Config| config.election_plan().unwrap_err().to_string();
    let config = || Config::new("nightly".parse().unwrap());
    let good = config().with_fallback(Fallback::new(members()).with_k(BesideStore::Lease));
    assert_eq!(quorums(&good), (Some(1), 3));
    let text = refused(
        good.clone()
            .with_lock_delay(std::time::Duration::from_secs(1)),
    );
    assert!(text.contains("lock delay is 1s and must be 0s"), "{text}");
    let text = refused(good.with_strategy(Strategy::Static));
    assert!(text.contains("the strategy is \"static\""), "{text}");
    let text =
        refused(config().with_fallback(Fallback::new(members()).with_k(BesideStore::Members(3))));
    assert!(text.contains("k is 3 and must be 1 to 2"), "{text}");
    let mut preempting = members();
    preempting.preempt = true;
    let text = refused(config().with_fallback(Fallback::new(preempting)));
    assert!(text.contains("preempt is set"), "{text}");
    let mut relaying = members();
    relaying.relay = true;
    let text = refused(config().with_fallback(Fallback::new(relaying)));
    assert!(text.contains("relay is set"), "{text}");
    let mut without_address = members();
    without_address.peers[2] = Peer::new(NodeId(3), "relay").unwrap();
    let text = refused(config().with_fallback(Fallback::new(without_address)));
    assert!(text.contains("member 3 has no address"), "{text}");
}

#[test]
fn two_members_are_allowed_with_a_warning() {
    let two = FALLBACK.replace(", \"3=http://c:3\"", "");
    let plan = load(&two, &[]).unwrap().election_plan().unwrap().unwrap();
    let warned = plan.warnings.iter().any(|it| it.contains("2 members"));
    assert!(warned, "{:?}", plan.warnings);
}
