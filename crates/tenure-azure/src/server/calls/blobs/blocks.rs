//! "Put Block", "Put Block List" and "Get Block List".

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::response::Response;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use quick_xml::NsReader;
use quick_xml::de::Deserializer;
use serde::Deserialize;

use super::write::{WRITTEN, commit};
use super::{check_md5, content_headers, too_large};
use crate::server::access::BlobAccess;
use crate::server::blobs::{Block, Body, Item, MAX_BLOCKS};
use crate::server::call::Call;
use crate::server::calls::{empty, set, set_version};
use crate::server::conditions::Conditions;
use crate::server::error::{
    BLOB_NOT_FOUND, BLOCK_LIST_TOO_LONG, INVALID_BLOB_TYPE, INVALID_BLOCK_LIST,
    INVALID_QUERY_PARAMETER_VALUE, INVALID_XML_DOCUMENT, MISSING_REQUIRED_QUERY_PARAMETER, Result,
    UNSUPPORTED_HEADER,
};
use crate::server::headers::{invalid, metadata, text};
use crate::server::xml::Xml;
use tenure_server::AccessEffect;

/// The greatest number of bytes in a block list, which is enough for the greatest number of ids
/// with the greatest length.
const MAX_LIST_BYTES: usize = MAX_BLOCKS * 128;

/// The greatest number of bytes in a block's id, before base64.
const MAX_ID: usize = 64;

/// The document of a block list: `<BlockList><Latest>ID</Latest>...</BlockList>`.
#[derive(Deserialize)]
enum Document {
    BlockList {
        #[serde(rename = "$value", default)]
        blocks: Vec<Listed>,
    },
}

/// The id of a block, and the place to search for the block.
#[derive(Debug, PartialEq, Eq, Deserialize)]
enum Listed {
    Committed(String),
    Uncommitted(String),
    /// Search the uncommitted blocks, then the committed blocks.
    Latest(String),
}

/// "Put Block". It does not change the blob.
pub(in crate::server) async fn put_block(call: Call) -> Result<Response> {
    let id = block_id(&call)?;
    if Conditions::of(&call.head.headers)? != Conditions::default() {
        return Err(UNSUPPORTED_HEADER.because("Put Block has no conditional headers"));
    }
    let sent = call.body(call.service.max_blob_bytes).await?;
    if sent.is_empty() {
        return Err(invalid("content-length", "a block has at least one byte"));
    }
    check_md5(text(&call.head.headers, "content-md5")?, &sent)?;
    // The lock ensures that a block of a former holder never replaces a block of the new holder.
    let blobs = &call.service.blobs;
    let _lock = blobs.write_lock().await;
    check_type(call.known()?.as_deref())?;
    call.check_access(BlobAccess::Write, AccessEffect::Keep)
        .await?;
    let mut staged = blobs.staged();
    staged.put(call.target.clone(), id, sent, Instant::now())?;
    let mut response = empty(StatusCode::CREATED);
    set(response.headers_mut(), WRITTEN, false);
    Ok(response)
}

/// "Put Block List": creates the blob from blocks.
pub(in crate::server) async fn put_block_list(call: Call) -> Result<Response> {
    let headers = &call.head.headers;
    let conditions = Conditions::of(headers)?;
    let blob = Item {
        metadata: metadata(headers)?,
        // The other content headers describe the body of the list.
        content: content_headers(headers)?,
        ..Item::default()
    };
    let sent = call.body(MAX_LIST_BYTES).await?;
    check_md5(text(headers, "content-md5")?, &sent)?;
    let list = parse(&sent)?;
    let most = call.service.max_blob_bytes;
    commit(&call, conditions, blob, |blob, known| {
        check_type(known)?;
        let committed = known.map(committed).unwrap_or_default();
        let mut staged = call.service.blobs.staged();
        let staged = staged.of(&call.target, Instant::now());
        (blob.body, blob.blocks) = assemble(&list, &committed, staged, most)?;
        Ok(())
    })
    .await
}

/// "Get Block List".
pub(in crate::server) async fn block_list(call: Call) -> Result<Response> {
    let asked = match call.query.text("blocklisttype") {
        "" | "committed" => [true, false],
        "uncommitted" => [false, true],
        "all" => [true, true],
        other => {
            let reason = "it must be committed, uncommitted or all";
            let code = INVALID_QUERY_PARAMETER_VALUE;
            return Err(code.of_parameter("blocklisttype", other, reason));
        }
    };
    let known = call.known()?;
    check_type(known.as_deref())?;
    call.check_access(BlobAccess::Read, AccessEffect::Keep)
        .await?;
    let staged: Option<Vec<Block>> = {
        let mut staged = call.service.blobs.staged();
        let staged = staged.of(&call.target, Instant::now());
        let block = |(id, bytes): (&String, &Bytes)| Block {
            id: id.clone(),
            len: bytes.len(),
        };
        staged.map(|blocks| blocks.iter().map(block).collect())
    };
    if known.is_none() && staged.is_none() {
        return Err(BLOB_NOT_FOUND.into());
    }
    let committed = known.as_ref().map_or(&[][..], |blob| &blob.blocks);
    let lists = [
        ("CommittedBlocks", committed),
        ("UncommittedBlocks", staged.as_deref().unwrap_or_default()),
    ];
    let mut xml = Xml::new();
    xml.element("BlockList", |xml| {
        for ((name, blocks), _) in lists.iter().zip(asked).filter(|(_, asked)| *asked) {
            xml.element(name, |xml| {
                for block in *blocks {
                    xml.element("Block", |xml| {
                        xml.text("Name", &block.id);
                        xml.text("Size", &block.len.to_string());
                    });
                }
            });
        }
    });
    let mut response = xml.into_response(StatusCode::OK);
    let headers = response.headers_mut();
    let len = known.as_ref().map_or(0, |blob| blob.body.len());
    set(headers, "x-ms-blob-content-length", len);
    if let Some(blob) = known {
        set_version(headers, &blob);
    }
    Ok(response)
}

/// Reads the id in the query, which is base64.
fn block_id(call: &Call) -> Result<String> {
    let name = "blockid";
    let missing = || MISSING_REQUIRED_QUERY_PARAMETER.of_parameter(name, "", "it is missing");
    let id = call.query.get(name).ok_or_else(missing)?;
    if is_id(id) {
        return Ok(id.to_owned());
    }
    let reason = format!("it must be base64 of 1 to {MAX_ID} bytes");
    Err(INVALID_QUERY_PARAMETER_VALUE.of_parameter(name, id, reason))
}

fn is_id(text: &str) -> bool {
    let id = BASE64_STANDARD.decode(text);
    id.is_ok_and(|id| (1..=MAX_ID).contains(&id.len()))
}

fn check_type(known: Option<&Item>) -> Result<()> {
    match known.map(|blob| &blob.body) {
        Some(Body::Page(_)) => Err(INVALID_BLOB_TYPE.into()),
        Some(Body::Block(_)) | None => Ok(()),
    }
}

/// Returns the blocks of which a blob was created, by their ids.
fn committed(blob: &Item) -> BTreeMap<&str, Bytes> {
    let Body::Block(bytes) = &blob.body else {
        return BTreeMap::new();
    };
    let mut first = 0;
    let mut found = BTreeMap::new();
    for block in blob.blocks.iter() {
        // Only a block list creates such a body, so the lengths match.
        let range = first..first + block.len;
        first = range.end;
        found.insert(block.id.as_str(), bytes.slice(range));
    }
    found
}

fn assemble(
    list: &[Listed],
    committed: &BTreeMap<&str, Bytes>,
    staged: Option<&BTreeMap<String, Bytes>>,
    most: usize,
) -> Result<(Body, Arc<[Block]>)> {
    let staged = |id| staged.and_then(|staged| staged.get(id));
    let committed = |id: &str| committed.get(id);
    let mut found = Vec::with_capacity(list.len());
    let mut len = 0;
    for listed in list {
        let (id, bytes) = match listed {
            Listed::Committed(id) => (id, committed(id)),
            Listed::Uncommitted(id) => (id, staged(id)),
            Listed::Latest(id) => (id, staged(id).or_else(|| committed(id))),
        };
        let bytes = bytes.ok_or_else(|| {
            INVALID_BLOCK_LIST.because(format!("there is no block {id:.100} to take"))
        })?;
        // This check is before the copy, because the list may contain a block more than once.
        len += bytes.len();
        if len > most {
            return Err(too_large(format!("more than {most}"), most));
        }
        found.push((id, bytes));
    }
    let mut body = Vec::with_capacity(len);
    for (_, bytes) in &found {
        body.extend_from_slice(bytes);
    }
    let blocks = found.iter().map(|(id, bytes)| Block {
        id: String::clone(id),
        len: bytes.len(),
    });
    Ok((Body::Block(body.into()), blocks.collect()))
}

fn parse(xml: &[u8]) -> Result<Vec<Listed>> {
    let wrong = |error: &dyn Display| INVALID_XML_DOCUMENT.because(error.to_string());
    let text = std::str::from_utf8(xml).map_err(|error| wrong(&error))?;
    let mut reader = NsReader::from_str(text.trim_start_matches('\u{feff}').trim_end());
    reader.config_mut().trim_text(true);
    let mut xml = Deserializer::borrowing(reader);
    let Document::BlockList { blocks } =
        Document::deserialize(&mut xml).map_err(|error| wrong(&error))?;
    if !xml.is_empty() {
        return Err(wrong(&"it must be one list of blocks"));
    }
    if blocks.len() > MAX_BLOCKS {
        return Err(BLOCK_LIST_TOO_LONG.into());
    }
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_list_is_read_as_clients_write_it() {
        let list = parse(
            b"\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<BlockList>\n  <Latest>AAAA</Latest>\
              <Committed> AAAB </Committed><Uncommitted>AA+/</Uncommitted></BlockList>\n",
        );
        let expected = [
            Listed::Latest("AAAA".into()),
            Listed::Committed("AAAB".into()),
            Listed::Uncommitted("AA+/".into()),
        ];
        assert_eq!(list.as_deref(), Ok(&expected[..]));
        for empty in ["<BlockList/>", "<BlockList></BlockList>"] {
            assert_eq!(parse(empty.as_bytes()), Ok(Vec::new()));
        }
        for bad in [
            &b""[..],
            b"x",
            b"\xff",
            b"<BlockList>",
            b"<Blocks/>",
            b"<BlockList><Other>AAAA</Other></BlockList>",
            b"<BlockList><Latest><Latest>AAAA</Latest></Latest></BlockList>",
            b"<BlockList><Latest>AAAA</BlockList>",
            b"<BlockList>AAAA</BlockList>",
            b"<BlockList/><BlockList/>",
            b"<!DOCTYPE x [<!ENTITY a \"b\">]><BlockList><Latest>&a;</Latest></BlockList>",
        ] {
            let code = parse(bad).map_err(|error| error.code);
            assert_eq!(code, Err(INVALID_XML_DOCUMENT), "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn a_block_list_selects_the_source_of_each_block_within_the_size_limit() {
        let committed = BTreeMap::from([("a", Bytes::from("old")), ("b", Bytes::from("b"))]);
        let staged = BTreeMap::from([("a".to_owned(), Bytes::from("new"))]);
        let of = |list: &[Listed], most| {
            assemble(list, &committed, Some(&staged), most)
                .map(|(body, blocks)| (body, blocks.len()))
                .map_err(|error| error.code)
        };
        use Listed::{Committed, Latest, Uncommitted};
        let all = [
            Committed("a".into()),
            Uncommitted("a".into()),
            Latest("a".into()),
            Latest("b".into()),
        ];
        let body = Body::Block(Bytes::from("oldnewnewb"));
        assert_eq!(of(&all, 10), Ok((body, 4)));
        assert!(of(&all, 9).is_err());
        assert_eq!(of(&[Uncommitted("b".into())], 10), Err(INVALID_BLOCK_LIST));
        assert_eq!(of(&[Committed("c".into())], 10), Err(INVALID_BLOCK_LIST));
    }
}
