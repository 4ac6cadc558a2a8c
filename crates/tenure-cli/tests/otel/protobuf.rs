//! The parts of an `ExportTraceServiceRequest` that the tests read.

use std::collections::BTreeMap;

/// A span that a process has exported. Ids are hexadecimal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, String>,
    /// The attributes of its events.
    pub(crate) events: Vec<BTreeMap<String, String>>,
    /// The traces and the ids of the spans that it is linked to.
    pub(crate) links: Vec<(String, String)>,
    /// The duration in milliseconds.
    pub(crate) took_ms: u64,
}

/// Returns the spans in the body of a request.
pub(crate) fn spans(body: &[u8]) -> Vec<Span> {
    let mut spans = Vec::new();
    for resource_spans in all(body, 1) {
        let resource = all(resource_spans, 1).concat();
        let service = attributes(&resource, 1).remove("service.name");
        for scope_spans in all(resource_spans, 2) {
            for span in all(scope_spans, 2) {
                spans.push(Span {
                    service: service.clone().unwrap_or_default(),
                    ..read(span)
                });
            }
        }
    }
    spans
}

fn read(span: &[u8]) -> Span {
    let hex = |message: &[u8], field| {
        let bytes = all(message, field).concat();
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let time = |field| number(span, field).unwrap_or_default();
    Span {
        service: String::new(),
        trace: hex(span, 1),
        id: hex(span, 2),
        parent: hex(span, 4),
        name: text(span, 5),
        attributes: attributes(span, 9),
        events: all(span, 11)
            .into_iter()
            .map(|event| attributes(event, 3))
            .collect(),
        links: all(span, 13)
            .into_iter()
            .map(|link| (hex(link, 1), hex(link, 2)))
            .collect(),
        took_ms: (time(8) - time(7)) / 1_000_000,
    }
}

/// The attributes in this field, as text.
fn attributes(message: &[u8], field: u64) -> BTreeMap<String, String> {
    let of = |attribute: &[u8]| {
        let value = all(attribute, 2).concat();
        let scalar = number(&value, 2).or_else(|| number(&value, 3));
        let value = scalar.map_or_else(|| text(&value, 1), |number| number.to_string());
        (text(attribute, 1), value)
    };
    all(message, field).into_iter().map(of).collect()
}

fn text(message: &[u8], field: u64) -> String {
    String::from_utf8(all(message, field).concat()).expect("text")
}

/// The values of a field whose values are bytes.
fn all(message: &[u8], field: u64) -> Vec<&[u8]> {
    let values = fields(message).into_iter();
    let of_field = values.filter_map(|it| match it {
        (number, Value::Bytes(bytes)) if number == field => Some(bytes),
        _ => None,
    });
    of_field.collect()
}

fn number(message: &[u8], field: u64) -> Option<u64> {
    fields(message).into_iter().find_map(|it| match it {
        (number, Value::Number(value)) if number == field => Some(value),
        _ => None,
    })
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The fields of a message with their numbers.
fn fields(mut message: &[u8]) -> Vec<(u64, Value<'_>)> {
    let mut fields = Vec::new();
    while !message.is_empty() {
        let key = varint(&mut message);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut message)),
            1 => Value::Number(u64::from_le_bytes(
                take(&mut message, 8).try_into().expect("8 bytes"),
            )),
            2 => {
                let length = varint(&mut message);
                Value::Bytes(take(&mut message, length.try_into().expect("a length")))
            }
            5 => {
                let bytes = take(&mut message, 4).try_into().expect("4 bytes");
                Value::Number(u32::from_le_bytes(bytes).into())
            }
            kind => panic!("a field of the kind {kind}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn take<'a>(message: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = message.split_at(count);
    *message = rest;
    taken
}

fn varint(message: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = take(message, 1)[0];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}
