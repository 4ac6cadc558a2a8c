//! "List Containers" and "List Blobs".

use std::sync::Arc;

use axum::http::{StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use super::Shown;
use crate::server::access::BlobAccess;
use crate::server::blobs::{Blob, Body, Container, Version};
use crate::server::call::Call;
use crate::server::error::{
    AzureErrorCode, CONTAINER_NOT_FOUND, INVALID_QUERY_PARAMETER_VALUE,
    OUT_OF_RANGE_QUERY_PARAMETER_VALUE, Result,
};
use crate::server::headers::{Metadata, http_date};
use crate::server::names::{blob_key, container_key};
use crate::server::xml::Xml;
use tenure_server::{AccessEffect, LeaseSnapshot};

/// Most entries of one page.
const MAX_RESULTS: usize = 5000;

/// The values of `include`. Except for metadata, the store has nothing to include.
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
    /// The first name.
    from: String,
    most: usize,
    metadata: bool,
}

enum Entry {
    Blob(String, Arc<Blob>, LeaseSnapshot),
    /// Blobs whose names continue after the delimiter.
    Prefix(String),
}

impl<'a> Page<'a> {
    fn of(call: &'a Call) -> Result<Self> {
        let get = |name| call.query.get(name).unwrap_or_default();
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

    fn write(&self, xml: &mut Xml) {
        xml.name("Prefix", self.prefix);
        xml.name("Marker", self.marker);
        xml.text("MaxResults", &self.most.to_string());
        if !self.delimiter.is_empty() {
            xml.name("Delimiter", self.delimiter);
        }
    }
}

/// A larger number than the maximum means the maximum.
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
    let page = Page::of(&call)?;
    let (found, next) = {
        let catalog = call.service.blobs.catalog();
        let all = catalog.containers_from(&call.account, &page.from);
        let mut all = all.take_while(|(name, _)| name.starts_with(page.prefix));
        let found: Vec<(String, Container)> = all
            .by_ref()
            .take(page.most)
            .map(|(name, container)| (name.clone(), container.without_blobs()))
            .collect();
        (found, all.next().map(|(name, _)| name.clone()))
    };
    let mut shown = Vec::with_capacity(found.len());
    for (name, container) in found {
        let key = container_key(&call.account, &name)?;
        let snapshot = call.service.store.snapshot(&key).await?;
        shown.push((name, container, snapshot));
    }
    let mut xml = Xml::new();
    let endpoint = endpoint(&call);
    xml.element_with(
        "EnumerationResults",
        &[("ServiceEndpoint", &endpoint)],
        |xml| {
            page.write(xml);
            xml.element("Containers", |xml| {
                for (name, container, snapshot) in &shown {
                    xml.element("Container", |xml| {
                        xml.text("Name", name);
                        xml.element("Properties", |xml| {
                            write_version(xml, &container.version);
                            write_lease(xml, *snapshot);
                            xml.text("HasImmutabilityPolicy", "false");
                            xml.text("HasLegalHold", "false");
                        });
                        if page.metadata {
                            write_metadata(xml, &container.metadata);
                        }
                    });
                }
            });
            write_next(xml, next.as_deref());
        },
    );
    Ok(xml.into_response(StatusCode::OK))
}

/// "List Blobs".
pub(in crate::server) async fn blobs(call: Call) -> Result<Response> {
    let page = Page::of(&call)?;
    call.check_container_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    let (found, next) = found(&call, &page)?;
    let mut entries = Vec::with_capacity(found.len());
    for (name, blob) in found {
        entries.push(match blob {
            Some(blob) => {
                let key = blob_key(&call.account, call.container(), &name)?;
                let snapshot = call.service.store.snapshot(&key).await?;
                Entry::Blob(name, blob, snapshot)
            }
            None => Entry::Prefix(name),
        });
    }
    let mut xml = Xml::new();
    let endpoint = endpoint(&call);
    let attributes = [
        ("ServiceEndpoint", endpoint.as_str()),
        ("ContainerName", call.container()),
    ];
    xml.element_with("EnumerationResults", &attributes, |xml| {
        page.write(xml);
        xml.element("Blobs", |xml| {
            for entry in &entries {
                match entry {
                    Entry::Blob(name, blob, snapshot) => {
                        write_blob(xml, &page, name, blob, *snapshot)
                    }
                    Entry::Prefix(prefix) => {
                        xml.element("BlobPrefix", |xml| xml.name("Name", prefix));
                    }
                }
            }
        });
        write_next(xml, next.as_deref());
    });
    Ok(xml.into_response(StatusCode::OK))
}

/// A page's blobs and prefixes, and the name that the next page begins with.
#[allow(clippy::type_complexity)] // Pairs of a name and perhaps a blob.
fn found(
    call: &Call,
    page: &Page<'_>,
) -> Result<(Vec<(String, Option<Arc<Blob>>)>, Option<String>)> {
    let catalog = call.service.blobs.catalog();
    let container = catalog
        .container(&call.account, call.container())
        .ok_or(CONTAINER_NOT_FOUND)?;
    let mut found: Vec<(String, Option<Arc<Blob>>)> = Vec::new();
    for (name, blob) in container.blobs_from(&page.from) {
        let Some(rest) = name.strip_prefix(page.prefix) else {
            break;
        };
        let cut = match page.delimiter {
            "" => None,
            delimiter => rest.find(delimiter).map(|at| at + delimiter.len()),
        };
        let common = cut.map(|cut| &name[..page.prefix.len() + cut]);
        if let (Some(common), Some((last, None))) = (common, found.last())
            && common == last
        {
            continue;
        }
        if found.len() == page.most {
            return Ok((found, Some(name.clone())));
        }
        found.push(match common {
            Some(common) => (common.to_owned(), None),
            None => (name.clone(), Some(Arc::clone(blob))),
        });
    }
    Ok((found, None))
}

fn write_blob(xml: &mut Xml, page: &Page<'_>, name: &str, blob: &Blob, snapshot: LeaseSnapshot) {
    xml.element("Blob", |xml| {
        xml.name("Name", name);
        xml.element("Properties", |xml| {
            xml.text("Creation-Time", &http_date(blob.created.time()));
            write_version(xml, &blob.version);
            xml.text("Content-Length", &blob.body.len().to_string());
            for (header, element) in [
                ("content-type", "Content-Type"),
                ("content-encoding", "Content-Encoding"),
                ("content-language", "Content-Language"),
                ("content-md5", "Content-MD5"),
                ("content-disposition", "Content-Disposition"),
                ("cache-control", "Cache-Control"),
            ] {
                let value = blob.content.0.get(header);
                xml.text(element, value.map_or("", String::as_str));
            }
            if matches!(blob.body, Body::Page(_)) {
                xml.text("x-ms-blob-sequence-number", "0");
            }
            xml.text("BlobType", blob.body.kind());
            xml.text("ServerEncrypted", "false");
            write_lease(xml, snapshot);
        });
        if page.metadata {
            write_metadata(xml, &blob.metadata);
        }
    });
}

fn write_version(xml: &mut Xml, version: &Version) {
    xml.text("Last-Modified", &http_date(version.stamp.time()));
    xml.text("Etag", &version.stamp.etag());
}

fn write_lease(xml: &mut Xml, snapshot: LeaseSnapshot) {
    let shown = Shown::of(snapshot);
    xml.text("LeaseStatus", shown.status);
    xml.text("LeaseState", shown.state);
    if let Some(duration) = shown.duration {
        xml.text("LeaseDuration", duration);
    }
}

fn write_metadata(xml: &mut Xml, metadata: &Metadata) {
    xml.element("Metadata", |xml| {
        for (name, value) in metadata {
            xml.text(name, value);
        }
    });
}

fn write_next(xml: &mut Xml, next: Option<&str>) {
    let marker = next.map(|name| BASE64_URL_SAFE_NO_PAD.encode(name));
    xml.text("NextMarker", &marker.unwrap_or_default());
}

/// The URL of the account, as the client sees it.
fn endpoint(call: &Call) -> String {
    let host = call.headers.get(header::HOST);
    let host = host.and_then(|host| host.to_str().ok()).unwrap_or_default();
    let scheme = if call.service.guard.is_secure() {
        "https"
    } else {
        "http"
    };
    format!("{scheme}://{host}/{}/", call.account)
}
