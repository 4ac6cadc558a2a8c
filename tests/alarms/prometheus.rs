//! A Prometheus process.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;
use std::time::Duration;

use reqwest::{Client, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::ports::free_address;
use tenure_tests::process::Process;
use tenure_tests::wait_for;
use tokio::runtime::Runtime;

/// A Prometheus that scrapes and evaluates once a second. It is killed when this is dropped.
pub(crate) struct Prometheus {
    process: Process,
    url: String,
    client: Client,
    runtime: Runtime,
    _folder: TempDir,
}

/// The labels of a series.
pub(crate) type Labels = BTreeMap<String, String>;

impl Prometheus {
    /// Starts a Prometheus with these rules and these `scrape_configs`.
    pub(crate) fn start(rules: &Value, scrapes: &[Value]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name);
        // JSON is valid YAML.
        fs::write(path("rules.yaml"), rules.to_string()).expect("a file");
        let config = json!({
            "global": {
                "scrape_interval": "1s",
                "scrape_timeout": "1s",
                "evaluation_interval": "1s",
            },
            "rule_files": ["rules.yaml"],
            "scrape_configs": scrapes,
        });
        fs::write(path("prometheus.yaml"), config.to_string()).expect("a file");
        let client = tenure_tests::client::plain_http()
            .timeout(Duration::from_secs(10))
            .build()
            .expect("a client");
        let runtime = Runtime::new().expect("a runtime");
        let address = free_address();
        let mut command = Command::new("prometheus");
        command
            .arg(format!(
                "--config.file={}",
                path("prometheus.yaml").display()
            ))
            .arg(format!("--storage.tsdb.path={}", path("data").display()))
            .arg(format!("--web.listen-address={address}"));
        let mut process = Process::spawn(&mut command);
        let url = format!("http://{address}");
        wait_for("Prometheus to be ready", || {
            assert!(!process.has_ended(), "{}", process.stderr());
            let request = client.get(format!("{url}/-/ready"));
            let answer = runtime.block_on(async { request.send().await });
            answer
                .is_ok_and(|answer| answer.status().is_success())
                .then_some(())
        });
        Self {
            process,
            url,
            client,
            runtime,
            _folder: folder,
        }
    }

    /// The series of an expression now, with their values as text.
    pub(crate) fn query(&self, expr: &str) -> Vec<(Labels, String)> {
        let answer = self.get("query", &[("query", expr)]);
        let series = answer["result"].as_array().expect("series").iter();
        let of = |series: &Value| {
            let labels = serde_json::from_value(series["metric"].clone()).expect("labels");
            (
                labels,
                series["value"][1].as_str().expect("a value").to_owned(),
            )
        };
        series.map(of).collect()
    }

    /// All alerts that have fired since the start, by environment, name and severity.
    pub(crate) fn fired(&self) -> BTreeSet<[String; 3]> {
        let fired = self.query("max_over_time(ALERTS{alertstate=\"firing\"}[1h])");
        let labels = fired.into_iter().map(|(labels, _)| {
            let label = |name| labels.get(name).cloned().unwrap_or_default();
            ["environment", "alertname", "severity"].map(label)
        });
        labels.collect()
    }

    /// The alerts that are firing or pending now.
    pub(crate) fn alerts(&self) -> Vec<Value> {
        let answer = self.get("alerts", &[]);
        answer["alerts"].as_array().expect("alerts").clone()
    }

    fn get(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let url = format!("{}/api/v1/{path}", self.url);
        let url = Url::parse_with_params(&url, query).expect("a URL");
        let answer = async { self.client.get(url).send().await?.json::<Value>().await };
        let answer = self
            .runtime
            .block_on(answer)
            .expect("an answer of Prometheus");
        assert_eq!(answer["status"], "success", "{query:?}: {answer}");
        answer["data"].clone()
    }

    /// The names of all metrics that it has scraped.
    pub(crate) fn metric_names(&self) -> BTreeSet<String> {
        let names = self
            .query("count by (__name__) ({job=~\"tenure.*\"})")
            .into_iter();
        names
            .filter_map(|(mut labels, _)| labels.remove("__name__"))
            .collect()
    }

    /// The log of the process.
    pub(crate) fn log(&self) -> String {
        self.process.stderr()
    }
}
