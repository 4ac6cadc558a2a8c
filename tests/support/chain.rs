//! The chain of entries in the log of a cluster, as the home itself remembers it, without any code of
//! the servers.
//!
//! The servers replace values, the slots, by compare-and-swap. etcd keeps every revision of a key until
//! it is compacted, so the whole chain can be read afterwards. In PostgreSQL a trigger writes down every
//! version of a row. In front of a bucket a recorder writes down every write that the bucket has
//! acknowledged.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::etcd::Etcd;

/// The number of slots.
const SLOTS: u64 = 256;

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// The revision of etcd that wrote it, or the number of the write in another home.
    pub at: u64,
    /// The slot.
    pub slot: u64,
    /// The content, by the names of the fields.
    pub entry: Value,
}

/// The result of an audit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Audited {
    /// The number of entries.
    pub entries: usize,
    /// The number of entries with changes.
    pub changes: usize,
    /// The number of times at which an owner gave the log up.
    pub vacated: usize,
    /// The first generation.
    pub first: u64,
    /// The last generation.
    pub last: u64,
}

/// The fields of a slot, in their order, in the form of postcard.
const FIELDS: [(&str, Form); 20] = [
    ("format", Form::Number),
    ("home", Form::Id),
    ("generation", Form::Number),
    ("sequence", Form::Number),
    ("undone", Form::Number),
    ("state", Form::State),
    ("owner", Form::Id),
    ("ownership_seconds", Form::Number),
    ("ownership_nanoseconds", Form::Number),
    ("previous", Form::Optional(&Form::Id)),
    ("base", Form::Base),
    ("store", Form::Text),
    ("place", Form::Text),
    ("server", Form::Text),
    ("address", Form::Text),
    ("since_ms", Form::Number),
    ("successor", Form::Optional(&Form::Text)),
    ("guarded", Form::Number),
    ("revision", Form::Number),
    ("content", Form::Bytes),
];

const STATES: [&str; 4] = ["owned", "vacant", "restoring", "retired"];

#[derive(Clone, Copy)]
enum Form {
    /// Groups of seven bits, the lowest one first.
    Number,
    /// The same with 128 bits.
    Id,
    /// The index of a state.
    State,
    /// The length, and the bytes.
    Text,
    Bytes,
    /// One, and the value; or zero.
    Optional(&'static Self),
    /// The newest file and the last entry of a base, or zero.
    Base,
}

/// The length and the checksum before the fields.
const FRAME: usize = 8;

impl Link {
    /// Reads the value of a slot.
    ///
    /// # Errors
    ///
    /// It is not an entry.
    pub fn read(at: u64, slot: u64, bytes: &[u8]) -> Result<Self, String> {
        let not_valid = || format!("slot {slot} at {at} is not an entry");
        let mut rest = bytes.get(FRAME..).ok_or_else(not_valid)?;
        let mut entry = json!({"checksum": hex(&digest(&SHA256, bytes).as_ref()[..16])});
        for (name, form) in FIELDS {
            entry[name] = form.take(&mut rest).ok_or_else(not_valid)?;
        }
        entry["covered"] = entry["base"]["covered"].clone();
        Ok(Self { at, slot, entry })
    }

    /// The number of the entry.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        number(&self.entry["sequence"])
    }

    /// The checksum of the entry.
    #[must_use]
    pub fn checksum(&self) -> String {
        self.text("checksum")
    }

    /// The checksum of the entry before.
    #[must_use]
    pub fn previous(&self) -> String {
        self.text("previous")
    }

    fn text(&self, name: &str) -> String {
        self.entry[name].as_str().unwrap_or_default().to_owned()
    }
}

impl Form {
    /// Takes the next field.
    fn take(self, rest: &mut &[u8]) -> Option<Value> {
        Some(match self {
            Self::Number => u64::try_from(take_number(rest)?).ok()?.into(),
            Self::Id => format!("{:032x}", take_number(rest)?).into(),
            Self::State => (*STATES.get(take_number(rest)? as usize)?).into(),
            Self::Text => String::from_utf8_lossy(take_bytes(rest)?).into(),
            Self::Bytes => hex(take_bytes(rest)?).into(),
            Self::Optional(form) => match take_number(rest)? {
                0 => Value::Null,
                _ => form.take(rest)?,
            },
            Self::Base => match take_number(rest)? {
                0 => Value::Null,
                _ => json!({
                    "newest": Self::Id.take(rest)?,
                    "covered": Self::Number.take(rest)?,
                }),
            },
        })
    }
}

fn take_number(rest: &mut &[u8]) -> Option<u128> {
    let mut number = 0;
    for shift in (0..128).step_by(7) {
        let (first, more) = rest.split_first()?;
        *rest = more;
        number |= u128::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (bytes, more) = rest.split_at_checked(length)?;
    *rest = more;
    Some(bytes)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads all values that the slots of this cluster have had since the last compaction of etcd. The first
/// member must run.
///
/// # Panics
///
/// If etcd does not answer.
#[must_use]
pub fn links(etcd: &Etcd, cluster: &str) -> Vec<Link> {
    let prefix = format!("tenure/register/{cluster}/slot-");
    let mut all = json!({"key": encode(&prefix), "range_end": encode(&format!("{prefix}:"))});
    let current = etcd.must("/v3/kv/range", &all);
    let slots = current["kvs"].as_array().into_iter().flatten();
    let last = slots.map(|kv| number(&kv["mod_revision"])).max();
    all["start_revision"] = 1.into();
    if let Some(compacted) = compacted(etcd, &all) {
        all["start_revision"] = compacted;
    }
    let mut links = Vec::new();
    watch(etcd, &all, last.unwrap_or(0), |at, kv| {
        let key = String::from_utf8(decode(&kv["key"])).expect("a key in ASCII");
        let slot = key[prefix.len()..].parse().expect("the number of a slot");
        let link = Link::read(at, slot, &decode(&kv["value"]));
        links.push(link.unwrap_or_else(|violation| panic!("violation of safety: {violation}")));
    });
    links
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

/// Checks that these entries, in the order in which they were written, are one chain.
///
/// # Errors
///
/// The violation, with both entries. A log without an entry is one, too: nothing was judged.
pub fn audit(links: &[Link]) -> Result<Audited, String> {
    if links.is_empty() {
        return Err("the home remembers no entry".into());
    }
    let field = |link: &Link, name: &str| number(&link.entry[name]);
    let mut audited = Audited {
        entries: links.len(),
        ..Audited::default()
    };
    let mut covered = 0;
    for (index, link) in links.iter().enumerate() {
        let sequence = field(link, "sequence");
        audited.vacated += usize::from(link.entry["state"] == "vacant");
        audited.last = field(link, "generation");
        let before = index.checked_sub(1).map(|before| &links[before]);
        let wrong = |why: &str| {
            let (old, new) = (before.map(|it| &it.entry), &link.entry);
            Err(format!(
                "{why}, at revision {} of the home:\n{old:?}\n{new}",
                link.at
            ))
        };
        if link.slot != sequence % SLOTS {
            return wrong("the entry is in another slot");
        }
        covered = covered.max(field(link, "covered"));
        if covered >= sequence {
            return wrong("the base has entries that were not committed");
        }
        if covered + SLOTS < sequence {
            return wrong("the entry overwrites one that no base has");
        }
        let Some(before) = before else {
            audited.first = audited.last;
            continue;
        };
        if sequence != field(before, "sequence") + 1 {
            return wrong("the sequence has a gap");
        }
        for same in ["store", "home", "place"] {
            if link.entry[same] != before.entry[same] {
                return wrong("the log changed its identity");
            }
        }
        let steps = audited.last.checked_sub(field(before, "generation"));
        match steps {
            Some(0) if link.entry["owner"] != before.entry["owner"] => {
                return wrong("two servers appended under one generation");
            }
            Some(0) if before.entry["state"] != "owned" => {
                return wrong("a server appended after it gave the log up");
            }
            Some(0 | 1) => {}
            Some(_) => return wrong("the generation has a gap"),
            None => return wrong("the generation went back"),
        }
        if link.entry["previous"] != before.entry["checksum"] {
            return wrong("the entry does not follow the one before");
        }
        for grows in ["revision", "covered"] {
            if field(link, grows) < field(before, grows) {
                return wrong(&format!("{grows} went back"));
            }
        }
        audited.changes += usize::from(field(link, "revision") > field(before, "revision"));
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
            slot: sequence % SLOTS,
            entry: json!({"store": "s", "home": "h", "place": "p", "generation": generation,
                "state": "owned", "sequence": sequence, "revision": revision, "owner": owner,
                "checksum": sequence, "previous": sequence - 1}),
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
        links[4].entry["state"] = json!("vacant");
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
            entries: 6,
            changes: 1,
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
            |it| it[3].entry["generation"] = json!(3),
            "the generation has a gap",
        );
        refused(
            |it| it[3].entry["generation"] = json!(1),
            "two servers appended under one generation",
        );
        // Two servers replace the same entry, or one that was deposed goes on.
        refused(
            |it| it.insert(4, link(4, 2, "c", 6)),
            "the sequence has a gap",
        );
        refused(|it| it[4] = link(5, 1, "a", 6), "the generation went back");
        refused(|it| it.swap(3, 4), "the sequence has a gap");
        refused(
            |it| it[4].entry["store"] = json!("t"),
            "the log changed its identity",
        );
        refused(
            |it| it[5].entry["revision"] = json!(5),
            "revision went back",
        );
        refused(Vec::clear, "the home remembers no entry");
        refused(
            |it| it[2].entry["previous"] = json!(1),
            "the entry does not follow",
        );
        refused(|it| it[2].slot = 4, "the entry is in another slot");
        refused(
            |it| it[3].entry["covered"] = json!(4),
            "the base has entries that were not committed",
        );
        refused(
            |it| {
                it[5].entry["generation"] = json!(2);
                it[5].entry["owner"] = json!("b");
            },
            "a server appended after it gave the log up",
        );
    }

    #[test]
    fn an_entry_overwrites_only_what_a_base_has() {
        let rounds = |covered: u64| {
            let mut links: Vec<_> = (1..300).map(|it| link(it, 1, "a", it)).collect();
            links[256].entry["covered"] = json!(covered);
            for link in &mut links[257..] {
                link.entry["covered"] = json!(200);
            }
            audit(&links)
        };
        assert_eq!(rounds(1).map(|it| it.changes), Ok(298));
        let violation = rounds(0).unwrap_err();
        assert!(violation.starts_with("the entry overwrites"), "{violation}");
    }

    #[test]
    fn a_slot_is_read_by_its_fields() {
        let mut bytes = vec![0; FRAME];
        bytes.extend([1, 5, 2, 0x83, 0x01, 0, 1, 7, 3, 0, 1, 9, 1, 11, 100]);
        bytes.extend(b"\x02st\x01p\x01s\x01a\x04\x00\x01\x06\x01e");
        let link = Link::read(7, 3, &bytes).unwrap();
        for (name, value) in [
            ("format", json!(1)),
            ("sequence", json!(131)),
            ("state", json!("vacant")),
            ("previous", json!(format!("{:032x}", 9))),
            ("covered", json!(100)),
            ("store", json!("st")),
            ("successor", Value::Null),
            ("revision", json!(6)),
        ] {
            assert_eq!(link.entry[name], value, "{name}");
        }
        assert!(Link::read(7, 3, &bytes[..20]).is_err());
    }
}
