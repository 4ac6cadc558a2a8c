//! Tests of valid and invalid access files.

use super::*;
use crate::access::jwt::KeySource;
use crate::access::rights::{AccessGrant, AccessScope};

const HASH: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

fn parse(text: &str) -> Result<AccessFile, String> {
    AccessFile::parse(text, Path::new("access.toml")).map_err(|error| error.to_string())
}

#[track_caller]
fn assert_wrong(text: &str, expected: &str) {
    let error = parse(text).expect_err("the file is wrong");
    assert_eq!(error, format!("access.toml:{expected}"));
}

#[test]
fn a_file_has_principals_with_grants_and_tokens() {
    let file = parse(&format!(
        r#"
version = 1
[[principal]]
name = "worker-billing"
grants = [{{ role = "candidate", namespace = "billing", prefix = "nightly" }}]
[[principal.secret]]
id = "k3v9x2aq"
sha256 = "{HASH}"
created = 2026-11-22T05:00:00Z
expires = 2026-11-22T06:00:00+01:00
[[principal]]
name = "ada"
grants = [{{ role = "admin", namespace = "*" }}, {{ role = "metrics" }}]
[kubernetes]
audience = "tenure"
[[match]]
identity = "k8s:billing/*"
grants = [{{ role = "candidate", namespace = "$namespace" }}]
[[deny]]
identity = "k8s:billing/old-worker"
"#
    ))
    .unwrap();
    let [worker, ada] = file.principals() else {
        panic!("{file:?}")
    };
    assert_eq!(&*worker.principal.name, "worker-billing");
    let scope = AccessScope::new(Some("billing".parse().unwrap()), "nightly");
    let role = Role::Candidate;
    assert_eq!(*worker.principal.grants, [AccessGrant { role, scope }]);
    let [secret] = &worker.secrets[..] else {
        panic!("{worker:?}")
    };
    assert_eq!(secret.id.as_str(), "k3v9x2aq");
    assert_eq!(secret.hash.to_string(), HASH);
    assert_eq!(secret.created, secret.expires);
    assert_eq!(ada.principal.grants.len(), 2);
    assert!(ada.secrets.is_empty());
    assert!(file.identity_rules[0].identity.matches("k8s:billing/x"));
    assert!(!file.identity_rules[0].identity.matches("k8s:bill/x"));
    assert!(file.denied[0].matches("k8s:billing/old-worker"));
    assert!(!file.denied[0].matches("k8s:billing/old-worker-2"));
}

#[test]
fn a_file_without_principals_lets_nobody_in_and_is_valid() {
    assert!(parse("version = 1\n").unwrap().principals().is_empty());
}

#[test]
fn a_wrong_value_is_named_with_its_line_and_a_valid_one() {
    assert_wrong("", "1: missing field `version`");
    assert_wrong(
        "version = 2",
        "1: version = \"2\": this version of tenure reads 1",
    );
    assert_wrong(
        "version = 1\n\nprincipals = []",
        "3: unknown key principals; did you mean principal?",
    );
    assert_wrong(
        "version = 1\n[[principal]]\nname = \"a\"\ngrant = []",
        "4: unknown key grant; did you mean grants?",
    );
    let grant =
        |grant: &str| format!("version = 1\n[[principal]]\nname = \"a\"\ngrants = [{grant}]");
    assert_wrong(
        &grant("{ role = \"boss\", namespace = \"x\" }"),
        "4: role = \"boss\": a role is one of read, candidate, operator, metrics, admin",
    );
    assert_wrong(
        &grant("{ role = \"read\" }"),
        "4: role = \"read\": the grant has no namespace; write a name, or \"*\" for all of them",
    );
    assert_wrong(
        &grant("{ role = \"metrics\", namespace = \"x\" }"),
        "4: role = \"metrics\": metrics are of the whole store; give the grant no namespace and no \
         prefix",
    );
    assert_wrong(
        &grant("{ role = \"read\", namespace = \"a/b\" }"),
        "4: namespace = \"a/b\": name \"a/b\" has '/', only A-Z a-z 0-9 . _ - are allowed; or write \
         \"*\"",
    );
    assert_wrong(
        &grant("{ role = \"read\", namespace = \"$namespace\" }"),
        "4: namespace = \"$namespace\": only a [[match]] may use $namespace; write a name or \"*\"",
    );
    assert_wrong(
        &grant("{ role = \"read\", namespace = \"a\", prefix = \"\" }"),
        "4: prefix = \"\": a name must have 1 to 128 characters and this one is empty",
    );
    let name = |name: &str| format!("version = 1\n[[principal]]\nname = {name:?}");
    for wrong in ["", "a b", "ä", &"x".repeat(129)] {
        let error = parse(&name(wrong)).unwrap_err();
        assert!(error.starts_with("access.toml:3: name = "), "{error}");
        assert!(error.contains("1 to 128 visible ASCII"), "{error}");
    }
    assert!(parse(&name("k8s:a/b")).unwrap_err().contains("no colon"));
    assert_wrong(
        &format!("{}\n{}", name("a"), "[[principal]]\nname = \"a\""),
        "5: name = \"a\": a principal has this name already; names are unique",
    );
    assert_wrong(
        "version = 1\n[[match]]\nidentity = \"web\"\ngrants = []",
        "3: identity = \"web\": an identity is k8s:NAMESPACE/SERVICEACCOUNT, NAME:SUBJECT, \
         spiffe://DOMAIN/PATH or cert:NAME, and may \
         end with one *",
    );
    assert_wrong(
        "version = 1\n[[issuer]]\nname = \"ci\"\nissuer = \"i\"\naudience = \"a\"\n\
         key_set_file = \"k\"\n[[match]]\nidentity = \"ci:*\"\n\
         grants = [{ role = \"read\", namespace = \"$namespace\" }]",
        "9: namespace = \"$namespace\": only identities that begin with k8s: have a namespace",
    );
}

#[test]
fn a_wrong_token_is_named_with_its_line() {
    let secret = |id: &str, hash: &str, more: &str| {
        format!("[[principal.secret]]\nid = {id:?}\nsha256 = {hash:?}\n{more}\n")
    };
    let file = |secrets: &[String]| {
        format!(
            "version = 1\n[[principal]]\nname = \"a\"\n{}",
            secrets.concat()
        )
    };
    assert_wrong(
        &file(&[secret("K3V9X2AQ", HASH, "")]),
        "5: id = \"K3V9X2AQ\": an id has 8 characters of a-z and 0-9",
    );
    assert_wrong(
        &file(&[secret("k3v9x2aq", "abc", "")]),
        "6: sha256 = \"abc\": a SHA-256 has 64 characters of 0-9 and a-f",
    );
    assert_wrong(
        &file(&[secret("k3v9x2aq", HASH, "expires = 2026-11-22")]),
        "7: expires = \"2026-11-22\": write a date, a time and an offset, such as \
         2027-01-31T12:00:00Z",
    );
    let one = secret("aaaaaaaa", HASH, "");
    assert_wrong(
        &file(&[one.clone(), one.clone()]),
        "9: id = \"aaaaaaaa\": \"a\" has a token with this id; ids are unique",
    );
    let others = [
        one,
        secret("bbbbbbbb", HASH, ""),
        secret("cccccccc", HASH, ""),
    ];
    assert_wrong(
        &file(&others),
        "13: id = \"cccccccc\": a principal has at most 2 tokens, the present one and its successor",
    );
}

#[test]
fn an_issuer_has_keys_and_a_name_that_rules_use() {
    let issuer = |name: &str, keys: &str| {
        format!(
            "version = 1\n[[issuer]]\nname = {name:?}\nissuer = \"i\"\naudience = \"a\"\n{keys}\n"
        )
    };
    let file = "key_set_file = \"keys.json\"";
    let valid = parse(&issuer("ci", file)).unwrap();
    assert_eq!(valid.issuers[0].keys, KeySource::File("keys.json".into()));
    for (text, expected) in [
        (
            issuer("k8s", file),
            "3: name = \"k8s\": a name has characters of a-z, 0-9 and -; k8s, azure, spiffe and cert are \
             reserved",
        ),
        (
            issuer("ci", "key_set_url = \"http://x\""),
            "6: key_set_url = \"http://x\": write an https address: whoever changes the keys can sign in",
        ),
        (
            issuer("ci", ""),
            "3: name = \"ci\": the [[issuer]] needs key_set_file or key_set_url, and not both",
        ),
        (
            issuer("ci", "key_set_file = \"~/keys.json\""),
            "6: key_set_file = \"~/keys.json\": begins with ~, which only a shell replaces: write the whole \
             path, or ./~ for a file with this name",
        ),
        (
            issuer("ci", &format!("{file}\n[[deny]]\nidentity = \"cd:x\"")),
            "8: identity = \"cd:x\": no [[issuer]] has the name \"cd\"",
        ),
        (
            "version = 1\n[[deny]]\nidentity = \"k8s:a/b\"".into(),
            "3: identity = \"k8s:a/b\": add a table [kubernetes] with the audience of the tokens",
        ),
    ] {
        assert_wrong(&text, expected);
    }
}
