//! Names, metadata and reasons that try to be markup, scripts, other text or wide rows.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tenure_tests::wait_for;

use crate::page::{NARROW, Page, Theme, WIDE};
use crate::states::{wait_for_row, wait_for_view, wait_until_visible};
use crate::store::{TestStore, lease};

/// Texts that run, hide, reorder or widen something if a page is careless. `{w}` stands for many
/// letters without a place for a line break.
const HOSTILE: &[&str] = &[
    "<img/src=x/onerror=alert(1)>",
    "<img src=x onerror=alert(2)>",
    "<script>alert(3)</script>",
    "</script><script>alert(4)</script>",
    "\"><script>alert(5)</script>",
    "'><svg/onload=alert(6)>",
    "<svg><script>alert(7)</script></svg>",
    "<iframe/srcdoc='<script>parent.alert(8)</script>'>",
    "javascript:alert(9)",
    "data:text/html,<script>alert(10)</script>",
    "\"onmouseover=\"alert(11)",
    "'onfocus='alert(12)'autofocus='",
    "<a/href=javascript:alert(13)>x</a>",
    "<style>*{display:none}</style>",
    "<base/href=//localhost:1/>",
    "<meta/http-equiv=refresh/content=0;url=//localhost:1/>",
    "<form/action=//localhost:1/><button>x</button>",
    "<template><script>alert(14)</script></template>",
    "<math><mtext></mtext><mglyph><style><!--</style><img/src/onerror=alert(15)>",
    "<!--<script>alert(16)</script>",
    "]]><script>alert(17)</script>",
    "{{constructor.constructor('alert(18)')()}}",
    "${alert(19)}",
    "`+alert(20)+`",
    "\\u003cscript\\u003ealert(21)\\u003c/script\\u003e",
    "&lt;script&gt;alert(22)&lt;/script&gt;",
    "&#60;img/src=x/onerror=alert(23)&#62;",
    "%3Cscript%3Ealert(24)%3C/script%3E",
    "__proto__",
    "constructor",
    "toString",
    "hasOwnProperty",
    "../../../v1/access",
    "..%2f..%2fv1",
    "?code=1#code=2",
    "#/billing/nightly",
    "'; DROP TABLE leases;--",
    "null",
    "NaN",
    "-1e999",
    "{w}",
    "<{w}>",
    "\u{202e}thgir ot tfel\u{202c}",
    "\u{2067}\u{5d0}\u{5d1}\u{5d2} leads\u{2069}",
    "\u{200f}\u{627}\u{644}\u{639}\u{631}\u{628}\u{64a}\u{629}",
    "a\u{300}\u{301}\u{302}\u{303}\u{304}\u{305}\u{306}\u{307}\u{308}\u{309}\u{30a}",
    "\u{feff}\u{200b}\u{200d}",
    "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f3f3}\u{fe0f}",
    "two\nlines\tand a tab",
    "  blanks at both ends  ",
];

fn texts() -> Vec<String> {
    let texts = HOSTILE.iter();
    let texts: Vec<_> = texts
        .map(|text| text.replace("{w}", &"w".repeat(128)))
        .collect();
    assert_eq!(texts.len(), 50);
    texts
}

/// A holder is visible ASCII; other texts are in metadata and reasons alone.
fn holder(text: &str) -> &str {
    let is_allowed = text.bytes().all(|byte| byte.is_ascii_graphic());
    if is_allowed { text } else { "worker-1" }
}

fn election(index: usize) -> String {
    match index {
        // The longest names that there may be.
        0 => format!("{}/{}", "w".repeat(128), "w".repeat(128)),
        1 => "__proto__/constructor".to_owned(),
        2 => "../..".to_owned(),
        3 => "-/_".to_owned(),
        _ => format!("hostile/job-{index:02}"),
    }
}

/// Whether an election of this name can exist: a path has no dots alone.
fn exists(index: usize) -> bool {
    index != 2
}

/// The heights of all rows, and the rows whose content is wider than the table.
const ROWS: &str = r"
    // Rows out of sight have the height of their last painting otherwise.
    for (const row of document.querySelectorAll('#rows tr')) row.style.contentVisibility = 'visible';
    const table = document.getElementById('elections').getBoundingClientRect();
    return [...document.querySelectorAll('#rows tr')].map(row => {
        const cells = [...row.querySelectorAll('td, th, td *, th *')];
        const over = cells.filter(cell => cell.checkVisibility()
            && cell.getBoundingClientRect().right > table.right + 0.5);
        return [row.dataset.election, row.getBoundingClientRect().height, over.length];
    });
";

#[track_caller]
fn assert_no_row_breaks(page: &Page, most: f64) {
    let rows = page.js(ROWS);
    let rows = rows.as_array().expect("rows");
    let height = |row: &Value| row[1].as_f64().expect("a height");
    let mut heights: Vec<f64> = rows.iter().map(height).collect();
    heights.sort_by(f64::total_cmp);
    let usual = heights[heights.len() / 2];
    for row in rows {
        assert!(height(row) <= usual * most, "{row} is higher than {usual}");
        assert_eq!(row[2], 0, "{row} is wider than the table");
    }
}

#[test]
fn hostile_names_metadata_and_reasons_are_shown_as_text() {
    let test = "hostile_names_metadata_and_reasons_are_shown_as_text";
    let Some(page) = Page::start(test) else {
        return;
    };
    let store = TestStore::open();
    let texts = texts();
    let mut holders = BTreeMap::new();
    for (index, text) in texts.iter().enumerate().filter(|(index, _)| exists(*index)) {
        let more = json!({ "metadata": { text.clone(): text } });
        let (name, holder) = (election(index), holder(text));
        let lease_id = store.acquire(&name, holder, json!(600_000), &more);
        store.release(&name, &lease_id, text);
        store.acquire(&name, holder, json!(600_000), &more);
        holders.insert(name, holder);
    }
    page.open(&store.origin(), "/");
    wait_for_view(&page, "overview");
    wait_for_row(&page, &election(49), "[data-kind=led]");
    let shown = "return [...document.querySelectorAll('#rows tr')].map(row => [
        row.dataset.election, row.querySelector('.name').textContent.trim(),
        row.querySelector('.holder').textContent])";
    let shown = page.js(shown);
    let shown = shown.as_array().expect("rows");
    assert_eq!(shown.len(), holders.len());
    for row in shown {
        let name = row[0].as_str().expect("a name");
        assert_eq!(row[1], name);
        assert_eq!(row[2], holders[name]);
    }
    page.check("hostile-overview");
    page.show_as(Theme::Light, NARROW);
    assert_no_row_breaks(&page, 4.0);
    page.show_as(Theme::Light, WIDE);
    assert_no_row_breaks(&page, 2.0);
    page.show_as(Theme::Light, NARROW);

    for (index, text) in texts.iter().enumerate().filter(|(index, _)| exists(*index)) {
        let name = election(index);
        page.js(&format!("location.hash = '#/{name}'"));
        let is_shown = format!(
            "return document.getElementById('election').dataset.state === 'ready'
                && document.getElementById('election-title').textContent.includes({})
                && document.querySelector('#terms tbody tr:nth-child(2)') !== null",
            Value::from(name.clone())
        );
        page.wait(&format!("the page of {name}"), &is_shown);
        // Control characters are not kept in a reason.
        let history = store.get(&format!("{}/history", lease(&name)));
        let reason = history["terms"][1]["reason"].clone();
        let holder = holder(text);
        let shown = "const [text, reason, holder] = arguments;
            const leaves = [...document.querySelectorAll('#metadata *')]
                .filter(element => element.children.length === 0 && element.textContent === text);
            return [leaves.length,
                [...document.querySelectorAll('#terms tbody tr')].some(row =>
                    !reason || row.textContent.includes(reason)),
                document.getElementById('leader').textContent.includes(holder)]";
        // The page paints what it has read a moment later.
        wait_for(&format!("{name} with {text:?}"), || {
            let found = page.call(shown, json!([text, reason, holder]));
            (found == json!([2, true, true])).then_some(())
        });
        let width = page.js("return document.documentElement.scrollWidth");
        assert_eq!(width, NARROW, "{name} with {text:?}");
        if index % 40 == 0 {
            page.check(&format!("hostile-{index:02}"));
            page.show_as(Theme::Light, NARROW);
        }
    }
    // What a text would have run is in `tests.ran`.
    let ran = page.js("return window.tests.ran");
    assert_eq!(ran, json!([]));
    page.finish();
}

#[test]
fn a_hostile_address_runs_nothing() {
    let Some(page) = Page::start("a_hostile_address_runs_nothing") else {
        return;
    };
    let store = TestStore::open();
    page.expect_message("status of 400");
    page.expect_message("status of 404");
    for fragment in [
        "#/?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "#/?namespace=%3Cscript%3Ealert(1)%3C/script%3E",
        "#/<img src=x onerror=alert(1)>/x",
        "#/javascript:alert(1)",
        "#/..%2f..%2fv1/..",
        "#/%E0%A4%A",
        "#code=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "?x=<script>alert(1)</script>",
    ] {
        page.open(&store.origin(), &format!("/{fragment}"));
        let is_ready = "return document.body.dataset.view !== 'loading'";
        page.wait(&format!("the page at {fragment}"), is_ready);
        assert_eq!(page.js("return window.tests.ran"), json!([]), "{fragment}");
        wait_until_visible(&page, ".brand");
    }
    // A refusal stays, although the page says after three seconds that it waits for the store.
    page.open(&store.origin(), "/#/?namespace=%3Cscript%3E");
    page.wait("four seconds", "return performance.now() > 4000");
    let message = "return document.getElementById('overview-message').dataset.message";
    assert_eq!(page.js(message), "refused");
    page.check("hostile-address");
    page.finish();
}
