//! The keys of candidates and of the store, together.

use std::fs;
use std::path::Path;

use tenure_azure::server::AzureConfig;
use tenure_config::{Key, Settings};
use tenure_server::{LimitSetting, Limits};

use super::serve::StoreSettings;
use super::{CANDIDATE, STORE, azure};

#[rustfmt::skip]
#[test]
fn what_no_program_knows_is_refused_in_each_scope_with_line_and_suggestion() {
    for (text, expected) in [
        ("[acess]\nfile = \"x\"", "unknown table [acess]; did you mean [access]?"),
        ("[Access]\nfile = \"x\"", "unknown table [Access]; did you mean [access]?"),
        ("[ACCESS]", "unknown table [ACCESS]; did you mean [access]?"),
        ("acess.file = \"x\"", "unknown table [acess]; did you mean [access]?"),
        ("\"audits\".required = true", "unknown table [audits]; did you mean [audit]?"),
        ("[tsl]", "unknown table [tsl]; did you mean [tls]?"),
        ("[[tsl]]", "unknown table [tsl]; did you mean [tls]?"),
        ("[server]\nlisten = \"x\"", "unknown table [server]; did you mean [serve]?"),
        ("[metadta]\na = \"b\"", "unknown table [metadta]; did you mean [metadata]?"),
        ("[limits]\nmax = 1", "unknown table [limits]; known are ["),
        ("data_dir = \"/data\"", "unknown key data_dir; did you mean data_dir in [serve]?"),
        ("trusted_proxies = []", "unknown key trusted_proxies; did you mean trusted_proxies in [access]?"),
        ("\"access.file\" = \"x\"", "unknown key \"access.file\"; did you mean file in [access]?"),
        ("lease_duratoin = \"1s\"", "unknown key lease_duratoin; did you mean lease_duration?"),
        ("audit = { requird = true }", "unknown key requird; did you mean required?"),
        ("[access.file]\nx = 1\n[access.fil]", "unknown key fil;"),
        ("[serve]\npriority = 1", "unknown key priority; did you mean priority above all tables?"),
        ("[cluster]\nlease = \"a\"", "did you mean lease in [kubernetes]? Known in [cluster] are "),
        ("[tls]\nca_file = \"x\"", "unknown key ca_file; did you mean ca_file above all tables or ca_file in [kubernetes]"),
        ("access = \"x\"", "access = \"x\": must be a table"),
        ("[[access]]", "must be a table: write [access]"),
    ] {
        for scope in [CANDIDATE, STORE] {
            let text = format!("# a file\n{text}\n");
            let error = Settings::of_toml(scope, &text, Path::new("t.toml"));
            let error = error.unwrap_err().to_string();
            assert!(
                error.starts_with("t.toml:") && error.contains(expected),
                "{error}"
            );
        }
    }
    // A store and a candidate may share a file.
    let text = "election = \"a\"\n[access]\nfile = \"x\"\n[metadata]\n\"a.b\" = \"c\"\n";
    for scope in [CANDIDATE, STORE] {
        Settings::of_toml(scope, text, Path::new("t.toml")).unwrap();
    }
}

#[test]
fn the_keys_of_limits_have_the_defaults_and_the_ranges_of_the_limits() {
    let empty = Settings::new(STORE);
    assert_eq!(
        StoreSettings::new(&empty).unwrap().limits,
        Limits::default()
    );
    let (mut limits, mut azure_limits) = (Limits::default(), AzureConfig::new(Vec::new()));
    let mut read = azure::config(&empty).unwrap();
    let text = |config: &mut AzureConfig| format!("{:?}", config.limits());
    assert_eq!(text(&mut read), text(&mut azure_limits));
    let of_table = |table: &'static str| move |(name, limit)| (format!("{table}.{name}"), limit);
    let all = limits.settings().into_iter().map(of_table("serve"));
    for (name, limit) in all.chain(azure_limits.limits().into_iter().map(of_table("azure"))) {
        let key = STORE.keys().find(|key| key.name == name).unwrap();
        let (least, most) = key.range().unwrap();
        let time = |text| humantime::parse_duration(text).unwrap();
        match limit {
            LimitSetting::Count(_, range) => {
                assert_eq!(
                    (least.parse(), most.parse()),
                    (Ok(*range.start()), Ok(*range.end()))
                );
            }
            LimitSetting::Time(_, range) => {
                assert_eq!((time(least), time(most)), (*range.start(), *range.end()));
            }
        }
    }
}

/// Returns the keys of a table, or those above all tables, as a table of the documentation.
fn documentation(table: &str) -> String {
    let split = |key: &'static Key| key.name.rsplit_once('.').unwrap_or((TOP, &key.name));
    let default = |key: &Key| {
        let value = || format!("`{}`", key.written);
        let default = key.described_default().map_or_else(value, str::to_owned);
        let allowed = key.allowed().map(|allowed| format!("; {allowed}"));
        default + &allowed.unwrap_or_default()
    };
    let mut page = "| key | default | meaning |\n|---|---|---|\n".to_owned();
    let keys = CANDIDATE.keys().chain(STORE.keys());
    let mut keys = keys.filter(|key| split(key).0 == table).peekable();
    while let Some(first) = keys.next() {
        let (mut names, mut defaults) = (format!("`{}`", split(first).1), vec![default(first)]);
        while let Some(key) = keys.next_if(|key| key.doc.is_none()) {
            names += &format!(", `{}`", split(key).1);
            defaults.push(default(key));
        }
        defaults.dedup();
        // The example has the other sentences.
        let doc = first.doc.as_deref().unwrap();
        let sentence = doc.split(". ").next().unwrap().trim_end();
        page += &format!("| {names} | {} | {sentence} |\n", defaults.join(", "));
    }
    page
}

/// The name of the keys that are in no table.
const TOP: &str = "above all tables";

/// The variable that makes the test below write the page.
const UPDATE: &str = "TENURE_UPDATE_CONFIGURATION";

#[test]
fn the_pages_have_the_tables_of_all_keys() {
    const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut tables = Vec::new();
    for name in ["configuration", "azure", "kubernetes-lease"] {
        let path = format!("{DOCS}/{name}.md");
        let page = fs::read_to_string(&path).unwrap();
        let mut parts = page.split("<!-- keys ");
        let mut expected = parts.next().unwrap().to_owned();
        for part in parts {
            let (table, rest) = part.split_once(" -->\n").unwrap();
            let (_, rest) = rest.split_once("<!-- end -->").unwrap();
            let name = table.trim_matches(['[', ']']);
            let keys = documentation(name);
            expected += &format!("<!-- keys {table} -->\n{keys}<!-- end -->{rest}");
            tables.push(name.to_owned());
        }
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&path, &expected).unwrap();
        }
        assert!(
            fs::read_to_string(&path).unwrap() == expected,
            "docs/{name}.md differs from the definitions of the keys; to update it:\n\
             {UPDATE}=1 cargo test -p tenure-cli --bin tenure the_pages_have_the_tables_of_all_keys"
        );
    }
    for key in CANDIDATE.keys().chain(STORE.keys()) {
        let table = key.name.rsplit_once('.').map_or(TOP, |it| it.0);
        assert!(tables.iter().any(|it| it == table), "{}", key.name);
    }
}
