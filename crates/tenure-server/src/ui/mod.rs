//! The files of the page that shows elections, and their answers.
//!
//! The page is static: it reads all data from the API, with the credential of its user. The files
//! are part of the program, and none is built or loaded from elsewhere.

use std::sync::LazyLock;

use aws_lc_rs::digest::{SHA256, digest};
use axum::body::Body;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;

/// Allows scripts, styles, images and requests of the store itself, and nothing else. Trusted Types
/// without a policy make the browser refuse each text that would become markup.
const SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// A file of the page.
#[derive(Debug)]
pub(crate) struct File {
    name: &'static str,
    content_type: &'static str,
    content: &'static [u8],
}

macro_rules! files {
    ($($name:literal is $content_type:ident),* $(,)?) => {
        [$(File {
            name: $name,
            content_type: $content_type,
            content: include_bytes!($name),
        }),*]
    };
}

/// All files. The first one is the page itself, which has the path `/`.
static FILES: [File; 11] = files![
    "index.html" is HTML,
    "style.css" is CSS,
    "icon.svg" is SVG,
    "api.js" is SCRIPT,
    "live.js" is SCRIPT,
    "dom.js" is SCRIPT,
    "overview.js" is SCRIPT,
    "election.js" is SCRIPT,
    "timeline.js" is SCRIPT,
    "actions.js" is SCRIPT,
    "app.js" is SCRIPT,
];

/// The entity tags of the files: browsers keep the files and ask whether they are still current.
static TAGS: LazyLock<[HeaderValue; FILES.len()]> = LazyLock::new(|| {
    FILES.each_ref().map(|file| {
        let hash = digest(&SHA256, file.content);
        let hex = hash.as_ref()[..8].iter().map(|byte| format!("{byte:02x}"));
        let tag = format!("\"{}\"", hex.collect::<String>());
        HeaderValue::try_from(tag).expect("hexadecimal digits")
    })
});

/// Returns the names of the files in `/ui`.
pub(crate) fn file_names() -> impl Iterator<Item = &'static str> {
    FILES.iter().skip(1).map(|file| file.name)
}

/// Answers a request for the page.
pub(crate) fn page(request: &HeaderMap) -> Response {
    answer(0, request)
}

/// Answers a request for a file of the page, or returns `None` if there is no such file.
pub(crate) fn file(name: &str, request: &HeaderMap) -> Option<Response> {
    let index = FILES.iter().skip(1).position(|file| file.name == name)?;
    Some(answer(index + 1, request))
}

fn answer(index: usize, request: &HeaderMap) -> Response {
    const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
    let (file, tag) = (&FILES[index], &TAGS[index]);
    let is_known = request
        .get_all(IF_NONE_MATCH)
        .iter()
        .any(|tags| has_tag(tags, tag));
    let mut response = Response::new(match is_known {
        true => Body::empty(),
        false => Body::from(file.content),
    });
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    let headers = response.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, file.content_type),
        (CONTENT_SECURITY_POLICY, SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (OPENER_POLICY, "same-origin"),
        // All files must be of the same version of the store, so browsers ask each time.
        (CACHE_CONTROL, "no-cache"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(ETAG, tag.clone());
    response
}

/// Returns whether a value of `If-None-Match` names this tag. Proxies that compress an answer make
/// its tag weak; `If-None-Match` takes both (RFC 9110, section 13.1.2).
fn has_tag(tags: &HeaderValue, tag: &HeaderValue) -> bool {
    let each = tags.as_bytes().split(|byte| *byte == b',');
    each.map(<[u8]>::trim_ascii)
        .any(|one| one == b"*" || one.strip_prefix(b"W/").unwrap_or(one) == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1024;

    fn asked(tags: &str) -> HeaderMap {
        HeaderMap::from_iter([(IF_NONE_MATCH, HeaderValue::from_str(tags).unwrap())])
    }

    fn size(suffix: &str) -> usize {
        let files = FILES.iter().filter(|file| file.name.ends_with(suffix));
        files.map(|file| file.content.len()).sum()
    }

    #[test]
    fn the_files_are_as_small_as_promised() {
        assert!(size(".js") <= 42 * KIB, "scripts: {} bytes", size(".js"));
        assert!(size(".css") <= 8 * KIB, "style: {} bytes", size(".css"));
        assert!(size(".html") <= 15 * KIB, "page: {} bytes", size(".html"));
        assert!(size("") <= 64 * KIB, "all files: {} bytes", size(""));
    }

    #[test]
    fn every_file_of_the_folder_is_served_and_nothing_else() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/ui")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut found: Vec<_> = names
            .filter(|name| !name.ends_with(".rs") && !name.ends_with(".d.ts"))
            .collect();
        let mut served: Vec<_> = FILES.iter().map(|file| file.name.to_owned()).collect();
        found.sort();
        served.sort();
        assert_eq!(found, served);
        for other in [
            "",
            "index.html",
            "mod.rs",
            "../Cargo.toml",
            "APP.JS",
            "app.js/",
        ] {
            assert!(file(other, &HeaderMap::new()).is_none(), "{other}");
        }
    }

    #[test]
    fn the_page_names_only_files_that_exist_and_by_relative_addresses() {
        let text = |file: &File| String::from_utf8(file.content.to_vec()).unwrap();
        let page = text(&FILES[0]);
        let quoted = page.split('"').filter(|part| part.starts_with("ui/"));
        let named: Vec<_> = quoted.map(|path| path.trim_start_matches("ui/")).collect();
        assert!(named.len() >= 4, "{named:?}");
        for name in named {
            assert!(file(name, &HeaderMap::new()).is_some(), "{name}");
        }
        for file in &FILES {
            let text = text(file).replace("http://www.w3.org/", "");
            for address in ["http://", "https://", "=\"/", "'/ui", "'/v1"] {
                assert!(!text.contains(address), "{} contains {address}", file.name);
            }
        }
    }

    #[test]
    fn text_becomes_markup_nowhere_in_the_page() {
        for file in &FILES {
            let text = String::from_utf8(file.content.to_vec()).unwrap();
            for sink in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "setHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "createContextualFragment",
                "srcdoc",
                "style=\"",
                "onclick=",
                "<script>",
            ] {
                assert!(!text.contains(sink), "{} contains {sink}", file.name);
            }
        }
    }

    #[test]
    fn a_browser_that_has_the_file_gets_no_content() {
        for (index, file) in FILES.iter().enumerate() {
            let first = answer(index, &HeaderMap::new());
            assert_eq!(first.status(), 200, "{}", file.name);
            let tag = first.headers()[ETAG].to_str().unwrap().to_owned();
            for tags in [
                tag.clone(),
                format!("W/{tag}"),
                format!("\"other\", {tag}"),
                "*".into(),
            ] {
                let again = answer(index, &asked(&tags));
                assert_eq!(again.status(), 304, "{}: {tags}", file.name);
                assert_eq!(again.headers()[ETAG], tag);
            }
            let other = answer(index, &asked("\"other\""));
            assert_eq!(other.status(), 200, "{}", file.name);
        }
        let tags: std::collections::BTreeSet<_> =
            TAGS.iter().map(|tag| tag.to_str().unwrap()).collect();
        assert_eq!(tags.len(), FILES.len());
    }
}
