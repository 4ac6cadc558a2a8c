use std::path::Path;
use std::sync::LazyLock;

use crate::unknown_variables::problem;
use crate::{Keys, Origin, Scope, Settings};

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    Keys::new(
        r#"# The name.
name = "some"  # default: required

# Hosts, and
# how many.
#hosts = ["a"]  # also: host
#number = 7  # 1 to 10

# How.
#mode = "one"  # "one" or "two words"
#password = "a"  # secret

# When.
[when]

# The time
# in which it ends.
#time = "10s"  # 1s to 1m
#late = "1m"  # default: 6 times the time

# Texts.
[texts]
#some = "text"  # any name
"#,
        None,
    )
});

static SERVER: LazyLock<Keys> = LazyLock::new(|| {
    Keys::new(
        "[main]\n#max_history = 1\n[other]\n#listen = \"\"\n",
        Some("main"),
    )
});

static ALL: [&LazyLock<Keys>; 2] = [&KEYS, &SERVER];
static SCOPE: Scope = Scope::new(&ALL, 0);

fn read(text: &str) -> Result<Settings, String> {
    let settings = Settings::of_toml(SCOPE, text, Path::new("t.toml"));
    settings.map_err(|error| error.to_string())
}

#[test]
fn a_key_has_the_type_the_default_and_the_comment_of_its_line() {
    let keys = SCOPE
        .keys()
        .map(|key| (&*key.name, key.doc.as_deref(), key.described_default()));
    let expected = [
        ("name", Some("The name. "), Some("required")),
        ("hosts", Some("Hosts, and how many. "), None),
        ("number", None, None),
        ("mode", Some("How. "), None),
        ("password", None, Some("none")),
        ("when.time", Some("The time in which it ends. "), None),
        ("when.late", None, Some("6 times the time")),
    ];
    assert_eq!(keys.collect::<Vec<_>>(), expected);
    let settings = read("name = \"x\"\n").unwrap();
    assert_eq!(settings.list("hosts"), ["a"]);
    assert_eq!(settings.number("number").unwrap(), Some(7));
    assert_eq!(settings.text("password").unwrap(), None);
    assert_eq!(settings.duration("when.late").unwrap(), None);
    assert!(settings.origin("hosts").is_none());
    let text = "name = \"x\"\npassword = \"y\"\nnumber = 0x9\nwhen.time = \"60s\"\nhosts = [\"http://u:p@h\", \"b\"]\n";
    let settings = read(text).unwrap();
    let shown = SCOPE
        .keys()
        .map(|key| settings.shown(key).unwrap_or_default());
    let expected = ["x", "http://u:***@h, b", "9", "one", "(secret)", "1m", ""];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_value_that_its_definition_does_not_allow_is_refused_with_what_it_allows() {
    let errors = |text: &str| {
        let settings = read(text).unwrap();
        let number = settings.number::<u8>("number").err();
        let mode = settings.text("mode").err();
        let errors = [number, mode, settings.duration("when.time").err()];
        let errors = errors.into_iter().flatten();
        errors.map(|error| error.to_string()).collect::<String>()
    };
    for text in ["number = 10", "mode = \"two words\"", "when.time = \"60s\""] {
        assert_eq!(errors(text), "", "{text}");
    }
    for (key, wrong, right) in [
        ("number", "0", "must be a whole number, 1 to 10"),
        ("number", "11", "must be a whole number, 1 to 10"),
        ("number", "1000", "must be a whole number, 1 to 10"),
        ("mode", "\"\"", "must be \"one\" or \"two words\""),
        ("mode", "\"words\"", "must be \"one\" or \"two words\""),
        ("when.time", "\"999ms\"", "must be 1s to 1m"),
        ("when.time", "\"61s\"", "must be 1s to 1m"),
    ] {
        let expected = format!("t.toml:1: {key} = {wrong}: {right}");
        assert_eq!(errors(&format!("{key} = {wrong}")), expected);
    }
}

#[test]
fn a_variable_that_no_program_knows_is_reported_unless_a_platform_makes_it() {
    for name in [
        "TENURE_HOST",
        "TENURE_hosts",
        "TENURE_WHEN_TIME",
        "TENURE_MAX_HISTORY",
        "TENURE_PORT",
        "TENURE_PORT_7400_TCP",
        "TENURE_PORT_7400_TCP_ADDR",
        "TENURE_SERVICE_HOST",
        "TENURE_STORE_SERVICE_PORT_HTTP",
        "OTHER",
    ] {
        assert_eq!(problem(SCOPE, name), None, "{name}");
    }
    for (name, meant) in [
        ("TENURE_MAX_HISTRY", "; did you mean TENURE_MAX_HISTORY?"),
        (
            "TENURE_MAIN_MAX_HISTORY",
            "; did you mean TENURE_MAX_HISTORY?",
        ),
        ("TENURE_OTHER_LISTN", "; did you mean TENURE_OTHER_LISTEN?"),
        ("TENURE_PORT_", ""),
        ("TENURE_SERVICE", ""),
    ] {
        let problem = problem(SCOPE, name).unwrap();
        assert!(problem.ends_with(meant), "{problem}");
    }
    static OWN: [&LazyLock<Keys>; 1] = [&KEYS];
    let alone = Scope::new(&OWN, 0).ignoring(&["other"]);
    assert_eq!(problem(alone, "TENURE_OTHER_LISTN"), None);
    assert!(problem(alone, "TENURE_MAX_HISTORY").is_some());
}

#[test]
fn a_replaced_key_is_refused_in_a_file_a_variable_and_a_flag_with_its_replacement() {
    static NOW: LazyLock<Keys> = LazyLock::new(|| {
        let keys = Keys::new("[main]\n#place = \"a\"\n", Some("main"));
        keys.replacing("main.path=7: seven\nmain.path: place = {}\nold: none\nold.port: port {}\n")
    });
    static BOTH: [&LazyLock<Keys>; 2] = [&NOW, &KEYS];
    let (own, other) = (Scope::new(&BOTH, 0), Scope::new(&BOTH, 1));
    for (text, expected) in [
        (
            "[main]\npath = \"a\"",
            "2: path = \"a\": there is no such key any more: place = a",
        ),
        ("[main]\npath = 7", "any more: seven"),
        (
            "[main]\npath = [\"http://a:1/\", \"https://b/\"]",
            "any more: place = a:1/,b",
        ),
        (
            "old.port = 1",
            "1: old.port = \"1\": there is no such key any more: port 1",
        ),
        (
            "[old]\nport = 1",
            "2: old.port = \"1\": there is no such key any more: port 1",
        ),
        (
            "[old]",
            "1: old = \"[old]\": there is no such key any more: none",
        ),
        (
            "[main]\npath = \"http://a:b@c\"",
            "path = \"http://a:***@c\"",
        ),
    ] {
        for scope in [own, other] {
            let error = Settings::of_toml(scope, text, Path::new("t.toml"));
            let error = error.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
    }
    for (name, key) in [("TENURE_PATH", "path"), ("TENURE_OLD_PORT", "old.port")] {
        let variable = || [(name.to_owned(), "1".to_owned())];
        let error = Settings::new(own).read_environment(variable()).unwrap_err();
        let expected = format!("environment variable {name}: {key} = \"1\": there is no such key");
        assert!(error.to_string().starts_with(&expected), "{error}");
        Settings::new(other).read_environment(variable()).unwrap();
    }
    let error = Settings::new(own)
        .refuse_replaced("main.path", "b", &Origin::Flag("--path".into()))
        .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("flag --path: path = \"b\": there"),
        "{error}"
    );
}
