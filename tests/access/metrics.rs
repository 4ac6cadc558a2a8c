//! Tests of the metrics of a real store with everything turned on: Prometheus accepts their text,
//! and `docs/metrics.md` lists exactly these metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;

use tenure_tests::process::Process;
use tenure_tests::promtool::check_metrics;
use tenure_tests::wait_for;

use crate::json_web_tokens::signer::{AUDIENCE, ISSUER, Signer};
use crate::{Place, read};

/// A metric: its type, and the names of its labels.
type Family = (String, BTreeSet<String>);

/// A store whose listener for metrics has a free port, and the metrics of the store.
struct Scraped {
    place: Place,
    _store: Process,
    text: String,
}

impl Scraped {
    fn start() -> Self {
        let (place, signer) = (Place::new(), Signer::new());
        place.init();
        let keys = place.path("keys.json");
        fs::write(&keys, signer.key_set("one")).expect("the keys");
        let rules = format!(
            "[[issuer]]\nname = \"ci\"\nissuer = \"{ISSUER}\"\naudience = \"{AUDIENCE}\"\n\
             key_set_file = {keys:?}\n"
        );
        append(&place, "etc/access.toml", &rules);
        let output = place.text("prometheus.token");
        place.token_command(&[
            "create",
            "prometheus",
            "--role",
            "metrics",
            "--expires",
            "90d",
            "--output",
            &output,
        ]);
        let audit = place.path("audit.jsonl");
        let settings = format!(
            "\n[audit]\nfile = {audit:?}\n[metrics]\nlisten = \"127.0.0.1:0\"\n\
             expected = [\"tests/missing\"]\n"
        );
        append(&place, "etc/tenure.toml", &settings);
        let bundle = place.create("worker");
        let store = place.serve();
        let run = ["run", "--election", "tests/job", "--config", &bundle];
        let leader =
            place.command(&[&run[..], &["--", "sh", "-c", "echo leads; sleep 1000"]].concat());
        let leader = Process::spawn(&mut { leader });
        wait_for("a leader", || {
            leader.stdout().contains("leads").then_some(())
        });
        let scrape = |url: &str, token: &str| get(&place, url, token);
        // The first scrape is the first request of its route.
        let url = format!("{}/metrics", place.url());
        let token = read(&place.path("prometheus.token"));
        scrape(&url, token.trim()).expect("metrics");
        let text = scrape(&url, token.trim()).expect("metrics");
        assert_eq!(scrape(&url, ""), None, "a scrape needs a credential");
        let log = store.stderr();
        let (_, rest) = log.split_once("address=127.0.0.1:").expect("an address");
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let listener = format!("http://127.0.0.1:{port}/metrics");
        let local = scrape(&listener, "").expect("metrics of the listener");
        assert!(local.contains("tenure_build_info{"), "{local}");
        Self {
            place,
            _store: store,
            text,
        }
    }
}

fn append(place: &Place, file: &str, text: &str) {
    let file = fs::OpenOptions::new().append(true).open(place.path(file));
    let written = file.expect("a file").write_all(text.as_bytes());
    written.expect("more text");
}

/// Returns the body of a successful answer.
fn get(place: &Place, url: &str, token: &str) -> Option<String> {
    let ca = reqwest::Certificate::from_pem(read(&place.path("etc/tls/ca.pem")).as_bytes());
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([ca.expect("a certificate")]);
    let request = client.build().expect("a client").get(url);
    let request = match token {
        "" => request,
        token => request.bearer_auth(token),
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let response = request.send().await.expect("an answer");
        match response.status().is_success() {
            true => Some(response.text().await.expect("text")),
            false => None,
        }
    })
}

/// Returns the metrics in the text of a scrape.
fn families(text: &str) -> BTreeMap<String, Family> {
    let mut families = BTreeMap::<String, Family>::new();
    let mut current = String::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a type");
            current = name.into();
            families.insert(name.into(), (kind.into(), BTreeSet::new()));
        } else if !line.starts_with('#')
            && let Some((_, labels)) = line.split_once('{')
        {
            let names = labels.split("=\"").filter_map(|part| {
                let start = part.rfind(['{', ',', '"']).map_or(0, |at| at + 1);
                let name = &part[start..];
                (!name.is_empty() && !name.contains('}')).then(|| name.to_owned())
            });
            let family = families.get_mut(&current).expect("a metric");
            family.1.extend(names.filter(|name| name != "le"));
        }
    }
    families
}

/// Returns the metrics in the tables of the page.
fn documented(page: &str) -> BTreeMap<String, Family> {
    let (_, of_store) = page.split_once("\n## The store\n").expect("a section");
    let of_store = of_store.split("\n## ").next().expect("a section");
    let rows = of_store.lines().filter_map(|line| {
        let columns: Vec<&str> = line.split(" | ").collect();
        let name = columns.first()?.strip_prefix("| `")?.strip_suffix('`')?;
        let labels = columns[2].split('`').skip(1).step_by(2);
        let family = (columns[1].to_owned(), labels.map(str::to_owned).collect());
        Some((name.to_owned(), family))
    });
    rows.collect()
}

#[test]
fn a_store_shows_the_metrics_that_the_page_lists_and_promtool_accepts_them() {
    let scraped = Scraped::start();
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
    let page = fs::read_to_string(page).expect("the page of metrics");
    assert_eq!(
        families(&scraped.text),
        documented(&page),
        "{}",
        scraped.text
    );
    for token in ["prometheus.token", "worker.toml"] {
        let text = read(&scraped.place.path(token));
        assert!(!text.is_empty() && !scraped.text.contains(text.trim()));
    }

    let test = "a_store_shows_the_metrics_that_the_page_lists_and_promtool_accepts_them";
    check_metrics(test, &scraped.text);
}

#[test]
fn the_labels_of_a_metric_are_found_in_its_text() {
    let text = "# HELP a A.\n# TYPE a counter\na{x=\"1,y=\",z=\"\"} 1\n# TYPE h histogram\n\
                h_bucket{r=\"1\",le=\"+Inf\"} 1\nh_sum{r=\"1\"} 1\n# TYPE g gauge\ng 1\n";
    let found = families(text);
    let labels = |name: &str| found[name].1.iter().cloned().collect::<Vec<_>>();
    assert_eq!(labels("h"), ["r"]);
    assert!(labels("g").is_empty());
    assert_eq!(found["a"].0, "counter");
    let page = "\n## The store\n| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n\
                | `g` | gauge | | | a |\n| `h` | histogram | `r` | s | `x` |\n\n## Other\n| `x` | gauge | | |\n";
    let documented = documented(page);
    assert_eq!(documented.len(), 2);
    assert_eq!(documented["h"].1.len(), 1);
}
