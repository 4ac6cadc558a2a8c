//! One page in a browser, with everything that each page must keep: no error on the console, no
//! violation of the content security policy, no request to another origin, no violation of the
//! rules of accessibility, no sideways scrolling, no cookie.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Deref;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tenure_tests::process::tenure;
use tenure_tests::{PATIENCE, needs};

use crate::driver::Driver;

/// The widths of a desk's window and of a phone, in pixels.
pub(crate) const WIDE: u32 = 1280;
pub(crate) const NARROW: u32 = 360;

/// A longer page is cut on its screenshot.
const TALLEST: u64 = 2_400;

/// Runs before the page's own scripts in every document. The listeners keep what the console does
/// not show; `ran` is what an injected script would set.
const BEFORE: &str = r"
    window.tests = {violations: [], errors: [], ran: []};
    addEventListener('securitypolicyviolation', event => window.tests.violations.push(
        `${event.effectiveDirective}: ${event.blockedURI} ${event.sample}`));
    addEventListener('error', event => window.tests.errors.push(String(event.message)));
    addEventListener('unhandledrejection', event => window.tests.errors.push(
        `not handled: ${event.reason?.stack ?? event.reason}`));
    window.alert = text => window.tests.ran.push(String(text));
";

const AXE: &str = r"
    const done = arguments[arguments.length - 1];
    const options = {resultTypes: ['violations'], rules: {'target-size': {enabled: true}}};
    // The rows are all made of one template, and axe takes a long time for hundreds of them.
    const context = {include: [document], exclude: ['#rows tr:nth-child(n + 30)']};
    axe.run(context, options).then(result => done(result.violations.flatMap(violation =>
        violation.nodes.map(node =>
            `${violation.id} (${violation.impact}) at ${node.target.join(' ')}: `
            + `${node.failureSummary.replaceAll('\n', ' ')}`))),
        error => done([String(error)]));
";

/// The elements that reach beyond the right edge, the innermost first.
const TOO_WIDE: &str = r"
    const [width] = arguments;
    if (document.documentElement.scrollWidth <= width) return [];
    const wide = [...document.querySelectorAll('body *')].filter(element => {
        const box = element.getBoundingClientRect();
        return box.width > 0 && box.right > width + 0.5;
    });
    return [`the page is ${document.documentElement.scrollWidth} px wide`,
        ...wide.reverse().slice(0, 12).map(element => {
            const name = element.tagName.toLowerCase() + (element.id && '#' + element.id)
                + [...element.classList].map(name => '.' + name).join('');
            return `${name} to ${element.getBoundingClientRect().right}`;
        })];
";

const MOVES: &str = r"
    const running = document.getAnimations().filter(animation => animation.playState === 'running'
        && animation.effect.getComputedTiming().duration > 1);
    return running.map(animation => {
        const {tagName, id, className} = animation.effect.target;
        return `${tagName} ${id} ${className} moves although less motion was asked for`;
    });
";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Theme {
    Light,
    Dark,
}

impl Theme {
    const fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }
}

/// A browser that shows pages of one origin. Each wait and each command has its own limit, so tests
/// of many states need none for the whole.
#[derive(Debug)]
pub(crate) struct Page {
    driver: Driver,
    origin: RefCell<String>,
    /// Parts of messages of the console that this test expects.
    expected: RefCell<Vec<&'static str>>,
    /// What was found wrong so far; a test goes on, so that one run tells all.
    wrong: RefCell<Vec<String>>,
    requested: RefCell<BTreeSet<String>>,
    is_finished: Cell<bool>,
}

impl Deref for Page {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl Page {
    /// Starts a browser for the pages of this origin, such as `http://127.0.0.1:7400`; `None` if
    /// this test cannot run here.
    pub(crate) fn start(test: &str) -> Option<Self> {
        let axe = axe(test)?;
        let driver = Driver::start(test)?;
        // The first page is the browser's own, and its requests are no concern of these tests.
        driver.go_to("about:blank");
        driver.log("performance");
        for source in [BEFORE, &axe] {
            let parameters = json!({ "source": source });
            driver.cdp("Page.addScriptToEvaluateOnNewDocument", parameters);
        }
        let page = Self {
            driver,
            origin: RefCell::default(),
            expected: RefCell::default(),
            wrong: RefCell::default(),
            requested: RefCell::default(),
            is_finished: Cell::new(false),
        };
        page.show_as(Theme::Light, WIDE);
        Some(page)
    }

    /// Opens a page of this origin, such as `http://127.0.0.1:7400`.
    #[track_caller]
    pub(crate) fn open(&self, origin: &str, path: &str) {
        *self.origin.borrow_mut() = origin.to_owned();
        // A change of the fragment alone would not load the page again.
        self.go_to("about:blank");
        self.go_to(&format!("{origin}{path}"));
    }

    /// Expects messages of the console that contain this text.
    pub(crate) fn expect_message(&self, part: &'static str) {
        self.expected.borrow_mut().push(part);
    }

    /// Changes the theme and the width without a reload.
    #[track_caller]
    pub(crate) fn show_as(&self, theme: Theme, width: u32) {
        let features = json!([
            { "name": "prefers-color-scheme", "value": theme.name() },
            // Colours in the middle of a transition are nobody's choice.
            { "name": "prefers-reduced-motion", "value": "reduce" },
        ]);
        self.cdp(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
        let is_phone = width < 600;
        let size = json!({
            "width": width,
            "height": if is_phone { 740 } else { 800 },
            "deviceScaleFactor": 1,
            "mobile": is_phone,
        });
        self.cdp("Emulation.setDeviceMetricsOverride", size);
        self.painted();
    }

    /// Waits until the page has painted what it has.
    #[track_caller]
    fn painted(&self) {
        let script = "const done = arguments[0];
            requestAnimationFrame(() => requestAnimationFrame(() => done(true)));";
        self.call_back(script, json!([]));
    }

    /// Waits until the body of this function returns a value that counts as true, and returns it.
    /// The page may be loaded again meanwhile.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, body: &str) -> Value {
        self.wait_within(PATIENCE, what, body)
    }

    /// The same with a limit.
    #[track_caller]
    pub(crate) fn wait_within(&self, limit: Duration, what: &str, body: &str) -> Value {
        match self.poll_within(limit, body) {
            Some(value) => value,
            None => {
                self.keep_picture("failed");
                let text = self.try_js("return document.body.innerText");
                panic!("timed out waiting for {what}; the page has {text:?}");
            }
        }
    }

    /// Waits for a short time until the body of this function returns a value that counts as true.
    pub(crate) fn poll(&self, body: &str) -> Option<Value> {
        self.poll_within(Duration::from_secs(10), body)
    }

    fn poll_within(&self, limit: Duration, body: &str) -> Option<Value> {
        let start = Instant::now();
        loop {
            let value = self.try_js(body).unwrap_or_default();
            let counts = match &value {
                Value::Null => false,
                Value::Bool(value) => *value,
                Value::Number(value) => value.as_f64() != Some(0.0),
                Value::String(value) => !value.is_empty(),
                Value::Array(_) | Value::Object(_) => true,
            };
            if counts {
                return Some(value);
            }
            if start.elapsed() > limit {
                return None;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Waits until the visible text of the page contains this text.
    #[track_caller]
    pub(crate) fn wait_for_text(&self, text: &str) {
        let body = format!(
            "return document.body.innerText.includes({})",
            Value::from(text)
        );
        self.wait(&format!("the text {text:?}"), &body);
    }

    /// Checks the present state of the page in both themes and widths, and keeps a screenshot of
    /// each as `NAME-THEME-WIDTH.png`.
    #[track_caller]
    pub(crate) fn check(&self, name: &str) {
        self.check_after(name, || {});
    }

    /// The same for a state that may end by itself before all checks are done: `begin` begins it
    /// again before each of them, if it has ended.
    #[track_caller]
    pub(crate) fn check_after(&self, name: &str, begin: impl Fn()) {
        for (theme, width) in [
            (Theme::Light, WIDE),
            (Theme::Dark, WIDE),
            (Theme::Dark, NARROW),
            (Theme::Light, NARROW),
        ] {
            begin();
            self.check_as(name, theme, width);
        }
        self.show_as(Theme::Light, WIDE);
        self.check_once(name);
    }

    /// Checks a state that does not last, in one theme and width.
    #[track_caller]
    pub(crate) fn check_as(&self, name: &str, theme: Theme, width: u32) {
        self.show_as(theme, width);
        let variant = format!("{name}-{}-{width}", theme.name());
        self.keep_picture(&variant);
        let wide = self.call(TOO_WIDE, json!([width]));
        self.add_wrong(&variant, &wide);
        let broken = self.call_back(AXE, json!([]));
        self.add_wrong(&variant, &broken);
        let moves = self.js(MOVES);
        self.add_wrong(&variant, &moves);
    }

    /// Checks what does not depend on the theme and the width.
    #[track_caller]
    fn check_once(&self, name: &str) {
        let cookie = self.js("return document.cookie");
        if cookie != "" {
            self.add_wrong(name, &json!([format!("the page has the cookie {cookie}")]));
        }
        self.read_logs(name);
    }

    fn add_wrong(&self, name: &str, found: &Value) {
        let found = found.as_array().expect("a list").iter();
        let found = found.map(|found| format!("{name}: {}", found.as_str().unwrap_or("?")));
        self.wrong.borrow_mut().extend(found);
    }

    /// Reads what the page has logged and requested since the last call.
    fn read_logs(&self, name: &str) {
        let expected = self.expected.borrow();
        let is_expected = |text: &str| expected.iter().any(|part| text.contains(part));
        let mut found = Vec::new();
        for entry in self.log("browser") {
            let text = entry["message"].as_str().unwrap_or_default();
            if !is_expected(text) {
                found.push(format!("the console has {text}"));
            }
        }
        let kept =
            "const kept = window.tests; window.tests = {violations: [], errors: [], ran: []};
            return kept && [kept.violations, kept.errors, kept.ran].flat()";
        for text in self.js(kept).as_array().into_iter().flatten() {
            let text = text.as_str().unwrap_or_default();
            if !is_expected(text) {
                found.push(format!("the page has {text}"));
            }
        }
        for url in self.requests() {
            let origin = self.origin.borrow();
            let rest = url.strip_prefix(origin.as_str());
            if url != "about:blank" && !rest.is_some_and(|rest| rest.starts_with('/')) {
                found.push(format!("the page sends a request to {url}"));
            }
            self.requested.borrow_mut().insert(url);
        }
        let found = found.into_iter().map(|found| format!("{name}: {found}"));
        self.wrong.borrow_mut().extend(found);
    }

    /// The URLs that the page has requested since the last call.
    fn requests(&self) -> Vec<String> {
        let entries = self.log("performance").into_iter();
        let messages = entries.filter_map(|entry| {
            let message: Value = serde_json::from_str(entry["message"].as_str()?).ok()?;
            let message = &message["message"];
            let is_request = message["method"] == "Network.requestWillBeSent";
            let url = message["params"]["request"]["url"].as_str()?;
            is_request.then(|| url.to_owned())
        });
        messages.collect()
    }

    /// All URLs that the page has requested, up to the last check.
    pub(crate) fn requested(&self) -> BTreeSet<String> {
        self.requested.borrow().clone()
    }

    /// What was found wrong so far. It no longer counts.
    pub(crate) fn take_wrong(&self) -> Vec<String> {
        self.wrong.take()
    }

    /// Ends the test: everything that was wrong on the way fails it now.
    #[track_caller]
    pub(crate) fn finish(self) {
        self.read_logs("at the end");
        let wrong = self.wrong.take();
        self.is_finished.set(true);
        assert!(wrong.is_empty(), "{wrong:#?}");
    }

    fn keep_picture(&self, name: &str) {
        let height = self.js("return document.documentElement.scrollHeight");
        let size = self.js("return [innerWidth, innerHeight]");
        let side = |index: usize| size[index].as_u64().unwrap_or_default();
        let height = height.as_u64().unwrap_or_default().max(side(1));
        let height = u32::try_from(height.min(TALLEST)).expect("a height");
        let width = u32::try_from(side(0)).expect("a width");
        let png = self.screenshot(width, height);
        let folder = pictures();
        fs::create_dir_all(&folder).expect("a folder");
        fs::write(folder.join(format!("{name}.png")), png).expect("a file");
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        if !self.is_finished.get() && thread::panicking() {
            let wrong = self.wrong.take();
            eprintln!("found wrong before: {wrong:#?}");
        }
    }
}

/// The folder of the screenshots, within the target folder.
pub(crate) fn pictures() -> PathBuf {
    let command = tenure();
    let target = command.ancestors().nth(2).expect("a target folder");
    target.join("browser-screenshots")
}

/// The folder with the packages of `package.json`; `None` if this test cannot run here.
pub(crate) fn node_modules(test: &str) -> Option<PathBuf> {
    let folder = std::env::var("TENURE_BROWSER_NODE").unwrap_or_else(|_| ".".into());
    let modules = PathBuf::from(folder).join("node_modules");
    let has_it = modules.join("axe-core/axe.min.js").is_file();
    let needs =
        "the packages of tests/browser/package.json, in a folder that TENURE_BROWSER_NODE names";
    needs::can_run(test, needs, has_it).then_some(modules)
}

fn axe(test: &str) -> Option<String> {
    let path = node_modules(test)?.join("axe-core/axe.min.js");
    Some(fs::read_to_string(path).expect("axe-core"))
}
