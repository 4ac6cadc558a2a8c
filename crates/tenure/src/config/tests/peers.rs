//! The settings of an election among peers.

use std::fs;

use tenure_core::NodeId;

use super::{load, refused};
use crate::Guarantee;
use crate::config::{Config, Strategy};

/// Three members, seen from the first one.
const PEERS: &str = r#"
    election = "nightly"
    strategy = "bully"
    [bully]
    node = 1
    peers = ["1=http://a:1", "2@50=http://b:2", "3=http://c:3"]
"#;

#[test]
fn a_change_of_the_strategy_keeps_all_other_settings() {
    let config = load(PEERS, &[]).unwrap();
    assert_eq!(config.guarantee(), Guarantee::Quorum);
    let Strategy::Bully(bully) = &config.strategy else {
        panic!("another strategy")
    };
    let rules = bully.plan(config.timings()).unwrap().settings;
    let order: Vec<u32> = rules.members().iter().map(|node| node.0).collect();
    assert_eq!(order, [2, 1, 3]);
    for (strategy, guarantee) in [
        ("lease", Guarantee::FencedLease),
        ("static", Guarantee::BestEffort),
    ] {
        let config = load(PEERS, &[("TENURE_STRATEGY", strategy)]).unwrap();
        assert_eq!(config.guarantee(), guarantee);
    }
    let config = load(PEERS, &[("TENURE_BULLY_QUORUM", "false")]).unwrap();
    assert_eq!(config.guarantee(), Guarantee::BestEffort);
}

#[test]
fn invalid_peers_are_refused_with_key_and_numbers() {
    for (name, value, words) in [
        ("TENURE_STRATEGY", "paxos", ["strategy", "\"bully\""]),
        (
            "TENURE_STRATEGY",
            "links",
            ["strategy", "\"bully\" with relay = true"],
        ),
        ("TENURE_BULLY_NODE", "4", ["bully.node", "member 4"]),
        ("TENURE_BULLY_NODE", "one", ["bully.node", "whole number"]),
        (
            "TENURE_BULLY_PEERS",
            "http://a:1",
            ["bully.peers", "1=http://10.0.0.1:7500"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://a,1=http://b",
            ["bully.peers", "twice"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://a:1,2=http://a:1/",
            ["bully.peers", "members 1 and 2 have the same address"],
        ),
        (
            "TENURE_BULLY_PEERS",
            "1=http://me:secret@a:1",
            ["bully.peers", "user or a password"],
        ),
        (
            "TENURE_BULLY_LISTEN",
            "7500",
            ["bully.listen", "0.0.0.0:7500"],
        ),
        (
            "TENURE_BULLY_QUORUM",
            "maybe",
            ["bully.quorum", "true or false"],
        ),
        ("TENURE_BULLY_HOLD_DOWN", "14s", ["bully.hold_down", "15s"]),
        (
            "TENURE_BULLY_MESSAGE_LIFETIME",
            "3s",
            ["bully.message_lifetime", "5s"],
        ),
        (
            "TENURE_BULLY_DETECTOR",
            "guess",
            ["bully.detector", "\"pull\""],
        ),
        (
            "TENURE_BULLY_HEARTBEAT_INTERVAL",
            "1ms",
            ["bully.heartbeat_interval", "10ms"],
        ),
    ] {
        let error = load(PEERS, &[(name, value)]).unwrap_err();
        let told = error.contains(name) && words.iter().all(|word| error.contains(word));
        assert!(told, "{name}={value}: {error}");
    }
    let error = refused(&PEERS.replace("node", "nodes"));
    assert!(
        error.contains("tenure.toml:5") && error.contains("did you mean bully.node"),
        "{error}"
    );
    let error = refused(&PEERS.replace("node = 1", ""));
    assert!(error.contains("bully.node is not set"), "{error}");
}

#[test]
fn a_member_without_an_address_needs_relays() {
    let listed = |peers: &str, settings: &[(&str, &str)]| {
        let peers = ("TENURE_BULLY_PEERS", peers);
        let config = load(PEERS, &[&[peers], settings].concat())?;
        let Strategy::Bully(bully) = config.strategy else {
            unreachable!("these are peers")
        };
        Ok::<_, String>(bully)
    };
    let relay = ("TENURE_BULLY_RELAY", "true");
    let bully = listed("1=http://a:1,2@7=relay,3=http://c:3", &[relay]).unwrap();
    assert!(bully.relay && bully.address_without_key().is_some());
    let others = bully.others();
    assert_eq!(others[&NodeId(2)], None);
    assert!(others[&NodeId(3)].is_some());
    assert_eq!(bully.peers[1].priority, 7);
    // Members with all addresses may have messages passed on, too.
    assert!(
        load(PEERS, &[relay]).is_ok() && load(PEERS, &[("TENURE_BULLY_RELAY", "false")]).is_ok()
    );
    for (peers, settings, words) in [
        (
            "1=http://a:1,2=http://b:2,3=relay",
            &[][..],
            ["member 3 has no address", "relay = true"],
        ),
        (
            "1=relay,2=http://b:2,3=http://c:3",
            &[relay],
            ["this is member 1", "1=http://10.0.0.1:7500"],
        ),
        (
            "1=http://a:1,2=relay,3=relay",
            &[relay],
            ["no other member has an address", "at least one"],
        ),
        ("1=http://a:1,2=http://b:2,3=", &[relay], ["3=", "1=relay"]),
    ] {
        let error = listed(peers, settings).unwrap_err();
        let told =
            error.contains("TENURE_BULLY_PEERS") && words.iter().all(|word| error.contains(word));
        assert!(told && error.contains(peers), "{peers}: {error}");
    }
    let error = load(PEERS, &[("TENURE_BULLY_RELAY", "maybe")]).unwrap_err();
    assert!(error.contains("true or false"), "{error}");
    let warnings = |count: u32| {
        let peers: Vec<String> = (1..=count)
            .map(|node| format!("{node}=http://a:{node}"))
            .collect();
        let config = load(PEERS, &[relay, ("TENURE_BULLY_PEERS", &peers.join(","))]).unwrap();
        config.election_plan().unwrap().unwrap().warnings.join(" ")
    };
    assert!(!warnings(9).contains("relay with") && warnings(11).contains("relay with 11 members"));
}

#[test]
fn the_detector_of_peers_is_chosen_by_its_name() {
    let detection = |settings: &[(&str, &str)]| {
        let config = load(PEERS, settings).map_err(|error| error.to_string())?;
        let Strategy::Bully(bully) = &config.strategy else {
            unreachable!("these are peers")
        };
        let plan = bully.plan(config.timings()).unwrap();
        Ok::<_, String>(plan.detection.to_string())
    };
    let by = |name| detection(&[("TENURE_BULLY_DETECTOR", name)]);
    let push = "push every 300ms, suspected after 1.2s";
    assert_eq!(detection(&[]).as_deref(), Ok(push));
    for (name, described) in [
        ("push", push),
        ("push-fixed", "push-fixed every 300ms, suspected after 1.2s"),
        ("phi", "phi every 300ms, suspected after 600ms, threshold 8"),
        ("pull", "pull every 300ms, suspected after 1.2s"),
        ("on-demand", "on-demand every 1.25s, suspected after 1.25s"),
    ] {
        assert_eq!(by(name).as_deref(), Ok(described));
    }
    let ring = by("ring").unwrap_err();
    assert!(
        ring.contains("TENURE_BULLY_DETECTOR") && ring.contains("must be \"push\""),
        "{ring}"
    );
    let short = detection(&[("TENURE_BULLY_SUSPECT_AFTER", "499ms")]).unwrap_err();
    assert!(
        short.contains("TENURE_BULLY_SUSPECT_AFTER") && short.contains("500ms"),
        "{short}"
    );
    let phi = detection(&[
        ("TENURE_BULLY_DETECTOR", "phi"),
        ("TENURE_BULLY_PHI_THRESHOLD", "101"),
    ])
    .unwrap_err();
    assert!(
        phi.contains("TENURE_BULLY_PHI_THRESHOLD") && phi.contains("1 to 100"),
        "{phi}"
    );
}

#[test]
fn required_fencing_refuses_a_weaker_strategy() {
    let fencing = ("TENURE_REQUIRE_FENCING", "true");
    assert!(load(PEERS, &[fencing]).is_ok());
    assert!(load(PEERS, &[fencing, ("TENURE_STRATEGY", "lease")]).is_ok());
    for less in [
        ("TENURE_BULLY_QUORUM", "false"),
        ("TENURE_STRATEGY", "static"),
    ] {
        let error = load(PEERS, &[fencing, less]).unwrap_err();
        assert!(error.contains("require_fencing"), "{error}");
    }
}

#[test]
fn the_guarantee_of_both_depends_on_the_quorum_of_its_peers() {
    let of = |peers: &str| {
        let text =
            format!("election = \"a\"\nstrategy = \"both\"\n[bully]\nnode = 1\npeers = {peers}");
        load(&text, &[]).unwrap().guarantee()
    };
    let three = "[\"1=http://a:1\", \"2=http://b:2\", \"3=http://c:3\"]";
    assert_eq!(of(three), Guarantee::FencedLease);
    assert_eq!(
        of("[\"1=http://a:1\", \"2=http://b:2\"]"),
        Guarantee::BestEffort
    );
}

#[test]
fn an_observer_s_configuration_needs_no_settings_of_a_member() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tenure.toml");
    let peers = "election = \"a\"\nstrategy = \"bully\"\n[bully]\npeers = [\"1=http://a:1\", \"2=http://b:1\"]\n\
                 key_file = \"/nowhere\"";
    fs::write(&path, peers).unwrap();
    let error = Config::load(&path).unwrap_err().to_string();
    assert!(error.contains("bully.node is not set"), "{error}");
    let config = Config::load_for_observer(&path).unwrap();
    assert_eq!(config.strategy.name(), "bully");
}
