//! Chromium, controlled through chromedriver: the parts of W3C WebDriver that these tests use, and
//! the Chrome DevTools Protocol.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, Uid};
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tempfile::TempDir;
use tenure_tests::needs;
use tenure_tests::ports::free_address;
use tenure_tests::process::{Process, descendants, is_alive};
use tokio::runtime::Runtime;

/// The codes of keys that are no characters, as WebDriver defines them.
const KEYS: &[(&str, char)] = &[
    ("Backspace", '\u{e003}'),
    ("Tab", '\u{e004}'),
    ("Enter", '\u{e007}'),
    ("Shift", '\u{e008}'),
    ("Escape", '\u{e00c}'),
    ("End", '\u{e010}'),
    ("Home", '\u{e011}'),
    ("ArrowUp", '\u{e013}'),
    ("ArrowDown", '\u{e015}'),
];

/// How long one command to the browser may take. Only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long the start of chromedriver may take, on a machine that starts many programs at once.
const START_PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one tab and its own profile. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    session: Url,
    runtime: Runtime,
    http: reqwest::Client,
    chromedriver: Process,
    _profile: TempDir,
}

impl Driver {
    /// Starts a browser; `None` if this test cannot run here.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let browsers = ["chromium", "google-chrome"];
        let has_one = browsers.into_iter().any(needs::has_program);
        let has_both = has_one && needs::has_program("chromedriver");
        let needs = "the programs chromium and chromedriver (Debian: chromium, chromium-driver)";
        needs::can_run(test, needs, has_both).then(Self::start_now)
    }

    fn start_now() -> Self {
        let profile = tempfile::tempdir().expect("a folder");
        let mut command = Command::new("chromedriver");
        // With port 0, chromedriver ends if the port that it gets for IPv4 is in use for IPv6.
        let address = free_address();
        command
            .arg(format!("--port={}", address.port()))
            // The files of both programs are then removed with the folder.
            .env("TMPDIR", profile.path());
        let mut chromedriver = Process::spawn(&mut command);
        let until = Instant::now() + START_PATIENCE;
        while !chromedriver.stdout().contains("was started successfully") {
            let is_late = chromedriver.has_ended() || Instant::now() > until;
            let (out, err) = (chromedriver.stdout(), chromedriver.stderr());
            assert!(!is_late, "chromedriver did not start: {out}{err}");
            thread::sleep(Duration::from_millis(5));
        }
        let base: Url = format!("http://{address}/").parse().expect("a URL");
        let runtime = Runtime::new().expect("a runtime");
        let http = tenure_tests::client::plain_http().timeout(PATIENCE);
        let http = http.build().expect("a client");
        let mut driver = Self {
            session: base,
            runtime,
            http,
            chromedriver,
            _profile: profile,
        };
        let capabilities = capabilities(driver._profile.path());
        let started = driver.post("session", &capabilities);
        let id = started["sessionId"].as_str().expect("an id");
        driver.session = driver
            .session
            .join(&format!("session/{id}/"))
            .expect("a URL");
        driver
    }

    /// Runs asynchronous code of a test, such as requests to a store.
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// The runtime of the asynchronous code of a test.
    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn request(&self, method: Method, path: &str, body: &Value) -> Result<Value, String> {
        let url = self.session.join(path).expect("a URL");
        let request = self.http.request(method, url).json(body);
        let answer = self.runtime.block_on(async {
            let answer = request.send().await?;
            answer.json::<Value>().await
        });
        let mut answer = answer.map_err(|error| format!("{path}: {error:?}"))?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(format!("{path}: {error}: {}", value["message"])),
            None => Ok(value),
        }
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.request(Method::POST, path, body);
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Opens a page, and waits until it is loaded.
    #[track_caller]
    pub(crate) fn go_to(&self, url: &str) {
        self.post("url", &json!({ "url": url }));
    }

    /// Runs the body of a function in the page, and returns its value.
    #[track_caller]
    pub(crate) fn js(&self, body: &str) -> Value {
        self.call(body, json!([]))
    }

    /// Runs the body of a function in the page with these `arguments`, and returns its value.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value)] // Callers write `json!` in place.
    pub(crate) fn call(&self, body: &str, arguments: Value) -> Value {
        let body = json!({ "script": body, "args": arguments });
        self.post("execute/sync", &body)
    }

    /// The same for a function whose last argument is a function that takes the value.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value)] // Callers write `json!` in place.
    pub(crate) fn call_back(&self, body: &str, arguments: Value) -> Value {
        let body = json!({ "script": body, "args": arguments });
        self.post("execute/async", &body)
    }

    /// Runs the body of a function in the page, unless the page goes away meanwhile.
    pub(crate) fn try_js(&self, body: &str) -> Option<Value> {
        let body = json!({ "script": body, "args": [] });
        self.request(Method::POST, "execute/sync", &body).ok()
    }

    /// Sends a command of the Chrome DevTools Protocol.
    #[track_caller]
    #[allow(clippy::needless_pass_by_value)] // Callers write `json!` in place.
    pub(crate) fn cdp(&self, command: &str, parameters: Value) -> Value {
        let body = json!({ "cmd": command, "params": parameters });
        self.post("goog/cdp/execute", &body)
    }

    /// Presses and releases a key, such as `Tab` or `b`.
    #[track_caller]
    pub(crate) fn press(&self, key: &str) {
        self.perform(&[("keyDown", code(key)), ("keyUp", code(key))]);
    }

    /// Presses a key while the shift key is down.
    #[track_caller]
    pub(crate) fn press_with_shift(&self, key: &str) {
        let (shift, key) = (code("Shift"), code(key));
        let actions = [
            ("keyDown", shift),
            ("keyDown", key),
            ("keyUp", key),
            ("keyUp", shift),
        ];
        self.perform(&actions);
    }

    /// Types a text into the element that has the focus.
    #[track_caller]
    pub(crate) fn type_text(&self, text: &str) {
        let keys = text
            .chars()
            .flat_map(|key| [("keyDown", key), ("keyUp", key)]);
        self.perform(&keys.collect::<Vec<_>>());
    }

    #[track_caller]
    fn perform(&self, keys: &[(&str, char)]) {
        let keys = keys.iter();
        let actions: Vec<Value> = keys
            .map(|(kind, key)| json!({ "type": kind, "value": key }))
            .collect();
        let keyboard = json!({ "type": "key", "id": "keyboard", "actions": actions });
        self.post("actions", &json!({ "actions": [keyboard] }));
    }

    /// The entries of a log (`browser` or `performance`) since the last call.
    #[track_caller]
    pub(crate) fn log(&self, kind: &str) -> Vec<Value> {
        let entries = self.post("se/log", &json!({ "type": kind }));
        entries.as_array().expect("entries").clone()
    }

    /// The whole page as a PNG file, down to this height.
    #[track_caller]
    pub(crate) fn screenshot(&self, width: u32, height: u32) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let parameters = json!({ "captureBeyondViewport": true, "clip": clip });
        let taken = self.cdp("Page.captureScreenshot", parameters);
        let data = taken["data"].as_str().expect("a picture");
        BASE64_STANDARD.decode(data).expect("base64")
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let started = descendants(self.chromedriver.pid());
        let ended = self.http.delete(self.session.clone());
        let ended = ended.timeout(Duration::from_secs(5));
        let _ = self.runtime.block_on(async { ended.send().await });
        // A browser that hangs, or whose test has failed, must not stay.
        for pid in &started {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        let until = Instant::now() + Duration::from_secs(5);
        let is_left = |pid: &Pid| *pid != self.chromedriver.pid() && is_alive(pid.as_raw());
        while started.iter().any(is_left) && Instant::now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

fn code(key: &str) -> char {
    let named = KEYS.iter().find(|(name, _)| *name == key);
    let mut characters = key.chars();
    match (named, characters.next(), characters.next()) {
        (Some((_, code)), _, _) => *code,
        (None, Some(character), None) => character,
        _ => panic!("{key} is not a key that these tests know"),
    }
}

fn capabilities(profile: &Path) -> Value {
    let profile: PathBuf = profile.join("profile");
    let mut arguments = vec![
        "--headless=new".to_owned(),
        "--disable-gpu".to_owned(),
        "--disable-dev-shm-usage".to_owned(),
        // The browser itself must not send requests to the network.
        "--disable-background-networking".to_owned(),
        "--disable-component-update".to_owned(),
        "--no-first-run".to_owned(),
        "--no-proxy-server".to_owned(),
        "--lang=en-US".to_owned(),
        format!("--user-data-dir={}", profile.display()),
    ];
    if Uid::effective().is_root() {
        // Chromium refuses to start as root with its sandbox.
        arguments.push("--no-sandbox".to_owned());
    }
    let options = json!({ "args": arguments });
    json!({ "capabilities": { "alwaysMatch": {
        "browserName": "chrome",
        "goog:chromeOptions": options,
        "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
    } } })
}
