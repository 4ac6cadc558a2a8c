//! "List Containers" and "List Blobs".

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::Shown;
use crate::server::access::BlobAccess;
use crate::server::blobs::{Body as Content, Item};
use crate::server::call::Call;
use crate::server::error::{
    AzureErrorCode, INVALID_QUERY_PARAMETER_VALUE, OUT_OF_RANGE_QUERY_PARAMETER_VALUE, Result,
};
use crate::server::headers::http_date;
use crate::server::names::lease_key;
use crate::server::target::{Level, Target};
use crate::server::xml::Xml;
use tenure_server::{AccessEffect, LeaseSnapshot};

/// The greatest number of entries on a page.
const MAX_RESULTS: usize = 5000;

/// The greatest size of a page, in bytes, apart from its last entry. Clients request the rest with
/// the marker, as from the service, which may return fewer entries than requested, too.
const PAGE_BYTES: usize = 1 << 20;

/// The number of entries that are found or written before other requests have a turn.
const TURN: usize = 50;

/// The values of `include`. The store has only metadata to include.
const INCLUDES: &[&str] = &[
    "metadata",
    "snapshots",
    "uncommittedblobs",
    "copy",
    "deleted",
    "tags",
    "versions",
    "deletedwithversions",
    "immutabilitypolicy",
    "legalhold",
    "permissions",
    "system",
];

/// The parameters of a list.
struct Page<'a> {
    prefix: &'a str,
    delimiter: &'a str,
    marker: &'a str,
    /// The name with which the page begins.
    from: String,
    most: usize,
    metadata: bool,
}

/// An entry of a page: a container, a blob, or a common prefix of blobs whose names continue after
/// the delimiter.
type Entry<T> = (String, Option<T>);

impl<'a> Page<'a> {
    fn of(call: &'a Call) -> Result<Self> {
        let get = |name| call.query.text(name);
        let (prefix, marker) = (get("prefix"), get("marker"));
        let mut from = prefix.to_owned();
        if !marker.is_empty() {
            let name = BASE64_URL_SAFE_NO_PAD.decode(marker).ok();
            let name = name.and_then(|name| String::from_utf8(name).ok());
            let name = name.ok_or_else(|| {
                let reason = "it must be the NextMarker of an answer";
                INVALID_QUERY_PARAMETER_VALUE.of_parameter("marker", marker, reason)
            })?;
            from = from.max(name);
        }
        let most = match get("maxresults") {
            "" => MAX_RESULTS,
            text => most_results(text)?,
        };
        let mut metadata = false;
        for include in get("include").split(',').filter(|text| !text.is_empty()) {
            if !INCLUDES.contains(&include) {
                let reason = format!("{include:.40} is not known");
                return Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter("include", include, reason));
            }
            metadata |= include == "metadata";
        }
        Ok(Self {
            prefix,
            delimiter: get("delimiter"),
            marker,
            from,
            most,
            metadata,
        })
    }

    /// Returns the entries of the page, and the first name of the next page. `first_from` returns the
    /// first item from a name on. Other requests have a turn while the page is filled.
    async fn fill<T>(
        &self,
        first_from: impl Fn(&str) -> Option<(String, T)>,
    ) -> (Vec<Entry<T>>, Option<String>) {
        let mut found = Vec::new();
        let mut from = Some(self.from.clone());
        while let Some((name, item)) = from.as_deref().and_then(&first_from) {
            let Some(rest) = name.strip_prefix(self.prefix) else {
                break;
            };
            if found.len() == self.most {
                return (found, Some(name));
            }
            let cut = match self.delimiter {
                "" => None,
                delimiter => rest.find(delimiter).map(|at| at + delimiter.len()),
            };
            found.push(match cut {
                Some(cut) => {
                    let common = name[..self.prefix.len() + cut].to_owned();
                    // None of the blobs with this prefix is looked at, however many there are.
                    from = behind_all(&common);
                    (common, None)
                }
                None => {
                    from = Some(format!("{name}\0"));
                    (name, Some(item))
                }
            });
            if found.len().is_multiple_of(TURN) {
                tokio::task::yield_now().await;
            }
        }
        (found, None)
    }
}

/// Returns the first name after all names that begin with this prefix; `None` if no name is.
fn behind_all(prefix: &str) -> Option<String> {
    let mut rest = prefix.chars();
    while let Some(last) = rest.next_back() {
        if let Some(next) = (last..=char::MAX).nth(1) {
            return Some(format!("{}{next}", rest.as_str()));
        }
    }
    None
}

/// Parses the number of results. A number above the maximum means the maximum.
fn most_results(text: &str) -> Result<usize> {
    let wrong = |code: AzureErrorCode, reason| Err(code.of_parameter("maxresults", text, reason));
    match text.parse::<i64>() {
        Ok(most @ 1..) => {
            Ok(usize::try_from(most).map_or(MAX_RESULTS, |most| most.min(MAX_RESULTS)))
        }
        Ok(_) => wrong(OUT_OF_RANGE_QUERY_PARAMETER_VALUE, "it must be at least 1"),
        Err(_) => wrong(INVALID_QUERY_PARAMETER_VALUE, "it must be a whole number"),
    }
}

/// "List Containers".
pub(in crate::server) async fn containers(call: Call) -> Result<Response> {
    let page = Page {
        delimiter: "",
        ..Page::of(&call)?
    };
    let first_from = |name: &str| {
        let catalog = call.service.blobs.catalog();
        let first = catalog.containers_from(&call.target.account, name).next();
        first.map(|(name, item)| (name.to_owned(), Arc::clone(item)))
    };
    let found = page.fill(first_from).await;
    respond(&call, &page, found).await
}

/// "List Blobs".
pub(in crate::server) async fn blobs(call: Call) -> Result<Response> {
    let page = Page::of(&call)?;
    call.check_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    call.existing()?;
    let first_from = |name: &str| {
        let catalog = call.service.blobs.catalog();
        let first = catalog.blobs_from(&call.target, name).next();
        first.map(|(name, item)| (name.to_owned(), Arc::clone(item)))
    };
    let found = page.fill(first_from).await;
    respond(&call, &page, found).await
}

/// Writes the page as XML, up to the size of a page.
async fn respond(
    call: &Call,
    page: &Page<'_>,
    (found, mut next): (Vec<Entry<Arc<Item>>>, Option<String>),
) -> Result<Response> {
    let (account, container) = (&*call.target.account, &*call.target.container);
    let has_blobs = call.target.level() == Level::Container;
    let endpoint = endpoint(call);
    let mut attributes = vec![("ServiceEndpoint", endpoint.as_str())];
    if has_blobs {
        attributes.push(("ContainerName", container));
    }
    let (list, element) = match has_blobs {
        true => ("Blobs", "Blob"),
        false => ("Containers", "Container"),
    };
    let mut xml = Xml::new();
    xml.begin("EnumerationResults", &attributes);
    xml.name("Prefix", page.prefix);
    xml.name("Marker", page.marker);
    xml.text("MaxResults", &page.most.to_string());
    if !page.delimiter.is_empty() {
        xml.name("Delimiter", page.delimiter);
    }
    xml.begin(list, &[]);
    for (index, (name, item)) in found.into_iter().enumerate() {
        if index > 0 && xml.len() > PAGE_BYTES {
            next = Some(name);
            break;
        }
        if index % TURN == TURN - 1 {
            tokio::task::yield_now().await;
        }
        let Some(item) = item else {
            xml.element("BlobPrefix", |xml| xml.name("Name", &name));
            continue;
        };
        let target = match has_blobs {
            true => Target::new(account, container, &name),
            false => Target::new(account, &name, ""),
        };
        let snapshot = call.service.store.snapshot(&lease_key(&target)?).await?;
        xml.element(element, |xml| {
            xml.name("Name", &name);
            xml.element("Properties", |xml| {
                write_properties(xml, &item, snapshot, has_blobs);
            });
            if page.metadata {
                xml.element("Metadata", |xml| {
                    for (name, value) in &item.metadata {
                        xml.text(name, value);
                    }
                });
            }
        });
    }
    xml.end(list);
    let marker = next.map(|name| BASE64_URL_SAFE_NO_PAD.encode(name));
    xml.text("NextMarker", &marker.unwrap_or_default());
    xml.end("EnumerationResults");
    Ok(xml.into_response(StatusCode::OK))
}

fn write_properties(xml: &mut Xml, item: &Item, snapshot: LeaseSnapshot, is_blob: bool) {
    if is_blob {
        xml.text("Creation-Time", &http_date(item.created()));
    }
    xml.text("Last-Modified", &http_date(item.modified()));
    xml.text("Etag", &item.etag());
    if is_blob {
        xml.text("Content-Length", &item.body.len().to_string());
        for (header, element) in [
            ("content-type", "Content-Type"),
            ("content-encoding", "Content-Encoding"),
            ("content-language", "Content-Language"),
            ("content-md5", "Content-MD5"),
            ("content-disposition", "Content-Disposition"),
            ("cache-control", "Cache-Control"),
        ] {
            let value = item.content.get(header);
            xml.text(element, value.map_or("", String::as_str));
        }
        if matches!(item.body, Content::Page(_)) {
            xml.text("x-ms-blob-sequence-number", "0");
        }
        xml.text("BlobType", item.body.kind());
        xml.text("ServerEncrypted", "false");
    }
    let lease = Shown::of(snapshot);
    xml.text("LeaseStatus", lease.status);
    xml.text("LeaseState", lease.state);
    if let Some(duration) = lease.duration {
        xml.text("LeaseDuration", duration);
    }
    if !is_blob {
        xml.text("HasImmutabilityPolicy", "false");
        xml.text("HasLegalHold", "false");
    }
}

/// Returns the URL of the account, as the client sees it.
fn endpoint(call: &Call) -> String {
    let host = call.head.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if call.service.guard.is_secure() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{host}/{}/", call.target.account)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::collections::BTreeSet;

    /// Lists these names in pages, and returns the entries and the number of names looked at.
    async fn list(names: &BTreeSet<String>, delimiter: &str, most: usize) -> (Vec<String>, usize) {
        let looks = Cell::new(0);
        let first_from = |from: &str| {
            looks.set(looks.get() + 1);
            let first = names.range(from.to_owned()..).next()?;
            Some((first.clone(), ()))
        };
        let (mut entries, mut next) = (Vec::new(), Some("p".to_owned()));
        while let Some(from) = next {
            let page = Page {
                prefix: "p",
                delimiter,
                marker: "",
                from,
                most,
                metadata: false,
            };
            let (found, rest) = page.fill(first_from).await;
            assert!(found.len() <= most);
            entries.extend(found.into_iter().map(|(name, _)| name));
            next = rest;
        }
        (entries, looks.get())
    }

    fn many(folder: &str) -> impl Iterator<Item = String> {
        (0..10_000).map(move |number| format!("{folder}{number}"))
    }

    #[tokio::test]
    async fn a_common_prefix_takes_one_look_however_many_blobs_it_has() {
        let last = format!("p{}", char::MAX);
        let names = many("p1/").chain(many("p2/")).chain(many(&last));
        let others = ["o", "p1", "p10", "p2", "p20/x", "q/x"].map(String::from);
        let names: BTreeSet<String> = names.chain(others).collect();
        for most in [1, 2, 1_000] {
            let (entries, looks) = list(&names, "/", most).await;
            assert_eq!(entries[..6], ["p1", "p1/", "p10", "p2", "p2/", "p20/"]);
            assert_eq!(entries.len(), 10_006);
            assert!(looks < 2 * entries.len() + 2, "{looks}");
        }
        let (entries, looks) = list(&names, &char::MAX.to_string(), 10).await;
        assert_eq!(entries.last(), Some(&last));
        assert_eq!(entries.len(), 20_005);
        assert!(looks < 2 * entries.len());
    }

    #[tokio::test]
    async fn other_requests_have_a_turn_while_a_page_is_filled() {
        let names = (0..5_000).map(|number| format!("p{number}")).collect();
        let others = tokio::spawn(async {});
        list(&names, "", 5_000).await;
        assert!(others.is_finished());
    }
}
