//! The chain of heads in the log of a cluster, as the engine itself remembers it, without any code
//! of the servers.
//!
//! The servers replace one key, `head`, by compare-and-swap. etcd keeps every revision of a key until
//! it is compacted, so the whole chain can be read afterwards. In PostgreSQL a trigger writes down
//! every revision of the row.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::etcd::Etcd;

/// One revision of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The revision of etcd that wrote it, or the transaction of PostgreSQL.
    pub at: u64,
    /// The content.
    pub head: Value,
    /// The sequence numbers of the batches that the same revision wrote.
    pub batches: Vec<u64>,
}

/// The result of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// The number of heads.
    pub heads: usize,
    /// The number of batches.
    pub batches: usize,
    /// The number of times at which an owner gave the log up.
    pub vacated: usize,
    /// The first generation.
    pub first: u64,
    /// The last generation.
    pub last: u64,
}

/// Reads all revisions of the head below this prefix, which ends with a slash, since the last
/// compaction of etcd. The first member must run.
///
/// # Panics
///
/// If etcd does not answer.
#[must_use]
pub fn links(etcd: &Etcd, prefix: &str) -> Vec<Link> {
    let head = format!("{prefix}head");
    let log = format!("{prefix}log/");
    let current = etcd.must("/v3/kv/range", &json!({"key": encode(&head)}));
    let last = number(&current["kvs"][0]["mod_revision"]);
    // Between the two are the places of leases.
    let mut all = json!({"key": encode(&head), "range_end": encode(&format!("{prefix}log0")),
        "start_revision": 1});
    if let Some(compacted) = compacted(etcd, &all) {
        all["start_revision"] = compacted;
    }
    let mut heads = Vec::new();
    let mut batches: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    watch(etcd, &all, last, |at, kv| {
        let key = String::from_utf8(decode(&kv["key"])).expect("a key in ASCII");
        if key == head {
            let content = serde_json::from_slice(&decode(&kv["value"])).expect("a JSON object");
            heads.push((at, content));
        } else if let Some(sequence) = key.strip_prefix(&log) {
            let sequence = sequence.parse().expect("the number of a batch");
            batches.entry(at).or_default().push(sequence);
        }
    });
    join(heads, batches).unwrap_or_else(|violation| panic!("violation of safety: {violation}"))
}

/// Puts the batches of a revision, or of a transaction, beside the head that it wrote.
///
/// # Errors
///
/// A revision wrote a batch, and no head.
pub fn join(
    heads: Vec<(u64, Value)>,
    mut batches: BTreeMap<u64, Vec<u64>>,
) -> Result<Vec<Link>, String> {
    let links = heads.into_iter().map(|(at, head)| Link {
        at,
        head,
        batches: batches.remove(&at).unwrap_or_default(),
    });
    let links = links.collect();
    match batches.is_empty() {
        true => Ok(links),
        false => Err(format!("batches without a head: {batches:?}")),
    }
}

/// The revision of the last compaction, if there was one.
fn compacted(etcd: &Etcd, keys: &Value) -> Option<Value> {
    let answers = &mut answers(etcd, keys);
    // The first answer says that the watch exists, and a second one follows at once: the first
    // events, or the compaction.
    let compacted = answers.take(2).last().expect("an answer")["compact_revision"].clone();
    (number(&compacted) > 0).then_some(compacted)
}

/// Calls `each` for every put of these keys up to this revision of etcd, which is one of them.
fn watch(etcd: &Etcd, keys: &Value, last: u64, mut each: impl FnMut(u64, &Value)) {
    let mut seen = 0;
    let mut answers = answers(etcd, keys);
    while seen < last {
        let answer = answers.next().expect("all revisions");
        for event in answer["events"].as_array().into_iter().flatten() {
            let at = number(&event["kv"]["mod_revision"]);
            seen = seen.max(at);
            if event["type"].is_null() && at <= last {
                each(at, &event["kv"]);
            }
        }
    }
}

/// The answers to a watch of these keys.
fn answers(etcd: &Etcd, keys: &Value) -> impl Iterator<Item = Value> {
    let mut stream = TcpStream::connect(etcd.address(0)).expect("etcd");
    let patience = Some(crate::PATIENCE);
    stream.set_read_timeout(patience).expect("a socket");
    let body = json!({"create_request": keys}).to_string();
    // With HTTP/1.0 the answer has no chunks.
    let length = body.len();
    let request = format!("POST /v3/watch HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
    stream.write_all(request.as_bytes()).expect("etcd");
    let lines = BufReader::new(stream).lines().map_while(Result::ok);
    lines.filter_map(|line| {
        // The other lines are the header.
        let answer: Value = serde_json::from_str(&line).ok()?;
        assert!(answer["error"].is_null(), "{answer}");
        Some(answer["result"].clone())
    })
}

/// Checks that these revisions of the head are one chain.
///
/// # Errors
///
/// The violation, with both heads. A log without a head is one, too: nothing was judged.
pub fn audit(links: &[Link]) -> Result<Audited, String> {
    if links.is_empty() {
        return Err("the engine remembers no head".into());
    }
    let field = |link: &Link, name: &str| number(&link.head[name]);
    let mut audited = Audited {
        heads: links.len(),
        ..Audited::default()
    };
    for (index, link) in links.iter().enumerate() {
        audited.batches += link.batches.len();
        audited.vacated += usize::from(link.head["state"] == "vacant");
        audited.last = field(link, "generation");
        if index == 0 {
            audited.first = audited.last;
            continue;
        }
        let before = &links[index - 1];
        let wrong = |why: &str| {
            let (old, new) = (&before.head, &link.head);
            Err(format!(
                "{why}, at revision {} of the engine:\n{old}\n{new}",
                link.at
            ))
        };
        if field(link, "sequence") != field(before, "sequence") + 1 {
            return wrong("the sequence has a gap");
        }
        for same in ["store", "engine"] {
            if link.head[same] != before.head[same] {
                return wrong("the log changed its identity");
            }
        }
        let steps = field(link, "generation").checked_sub(field(before, "generation"));
        match steps {
            Some(0) if link.head["owner"]["id"] != before.head["owner"]["id"] => {
                return wrong("two servers appended under one generation");
            }
            Some(0) if before.head["state"] != "owned" => {
                return wrong("a server appended after it gave the log up");
            }
            Some(0 | 1) => {}
            Some(_) => return wrong("the generation has a gap"),
            None => return wrong("the generation went back"),
        }
        for grows in ["revision", "floor", "placed", "placed_revision", "kept"] {
            if field(link, grows) < field(before, grows) {
                return wrong(&format!("{grows} went back"));
            }
        }
        // A batch is written by the append that counts it, so the log has no gap and no batch twice.
        let changed = field(link, "revision") > field(before, "revision");
        let expected = changed.then(|| field(link, "sequence"));
        if link.batches != Vec::from_iter(expected) {
            return wrong(&format!("the append wrote the batches {:?}", link.batches));
        }
    }
    Ok(audited)
}

/// A number, which etcd writes as a text; zero if there is none.
fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .or_else(|| value.as_str()?.parse().ok())
        .unwrap_or_default()
}

fn encode(key: &str) -> String {
    STANDARD.encode(key)
}

fn decode(value: &Value) -> Vec<u8> {
    STANDARD
        .decode(value.as_str().unwrap_or_default())
        .expect("base64 of etcd")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(sequence: u64, generation: u64, owner: &str, revision: u64) -> Link {
        Link {
            at: 10 + sequence,
            head: json!({"store": "s", "engine": "e", "generation": generation, "state": "owned",
                "sequence": sequence, "revision": revision, "owner": {"id": owner}}),
            batches: Vec::new(),
        }
    }

    fn chain() -> Vec<Link> {
        let mut links = vec![
            link(1, 1, "a", 5),
            link(2, 1, "a", 5),
            link(3, 1, "a", 6),
            link(4, 2, "b", 6),
            link(5, 2, "b", 6),
            link(6, 3, "a", 6),
        ];
        links[2].batches = vec![3];
        links[4].head["state"] = json!("vacant");
        links
    }

    fn refused(change: impl FnOnce(&mut Vec<Link>), why: &str) {
        let mut links = chain();
        change(&mut links);
        let violation = audit(&links).unwrap_err();
        assert!(violation.starts_with(why), "{violation}");
    }

    #[test]
    fn one_chain_passes() {
        let audited = Audited {
            heads: 6,
            batches: 1,
            vacated: 1,
            first: 1,
            last: 3,
        };
        assert_eq!(audit(&chain()), Ok(audited));
    }

    #[test]
    fn each_break_of_the_chain_is_found() {
        refused(|it| drop(it.remove(1)), "the sequence has a gap");
        refused(
            |it| it[3].head["generation"] = json!(3),
            "the generation has a gap",
        );
        refused(
            |it| it[3].head["generation"] = json!(1),
            "two servers appended under one generation",
        );
        // Two servers replace the same head, or one that was deposed goes on.
        refused(
            |it| it.insert(4, link(4, 2, "c", 6)),
            "the sequence has a gap",
        );
        refused(
            |it| it.insert(4, link(4, 1, "a", 6)),
            "the sequence has a gap",
        );
        refused(|it| it[4] = link(5, 1, "a", 6), "the generation went back");
        refused(|it| it.swap(3, 4), "the sequence has a gap");
        refused(
            |it| it[4].head["store"] = json!("t"),
            "the log changed its identity",
        );
        refused(|it| it[5].head["revision"] = json!(5), "revision went back");
        refused(Vec::clear, "the engine remembers no head");
        refused(
            |it| it[2].batches.clear(),
            "the append wrote the batches []",
        );
        refused(
            |it| it[2].batches.push(3),
            "the append wrote the batches [3, 3]",
        );
        refused(
            |it| it[1].batches.push(2),
            "the append wrote the batches [2]",
        );
        refused(
            |it| {
                it[5].head["generation"] = json!(2);
                it[5].head["owner"] = json!({"id": "b"});
            },
            "a server appended after it gave the log up",
        );
    }

    #[test]
    fn a_batch_belongs_to_the_head_of_its_revision() {
        let links = chain();
        let heads = || Vec::from_iter(links.iter().map(|it| (it.at, it.head.clone())));
        let of = |at| BTreeMap::from([(at, vec![3])]);
        assert_eq!(join(heads(), of(13)), Ok(links.clone()));
        let violation = join(heads(), of(17)).unwrap_err();
        assert!(
            violation.starts_with("batches without a head"),
            "{violation}"
        );
    }
}
