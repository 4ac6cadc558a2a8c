//! XML in the style of the service.

use std::fmt::Write as _;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response, StatusCode};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

/// A document that is written to memory, so no write fails.
pub(super) struct Xml(Writer<Vec<u8>>);

impl Xml {
    pub(super) fn new() -> Self {
        let mut writer = Writer::new(Vec::with_capacity(1024));
        let declaration = BytesDecl::new("1.0", Some("utf-8"), None);
        let _ = writer.write_event(Event::Decl(declaration));
        Self(writer)
    }

    /// Writes an element that contains other elements.
    pub(super) fn element(&mut self, name: &str, content: impl FnOnce(&mut Self)) {
        self.element_with(name, &[], content);
    }

    pub(super) fn element_with(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        content: impl FnOnce(&mut Self),
    ) {
        self.begin(name, attributes);
        content(self);
        self.end(name);
    }

    /// Begins an element, for content that is not written at once.
    pub(super) fn begin(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let start = BytesStart::new(name).with_attributes(attributes.iter().copied());
        let _ = self.0.write_event(Event::Start(start));
    }

    /// Ends an element that was begun.
    pub(super) fn end(&mut self, name: &str) {
        let _ = self.0.write_event(Event::End(BytesEnd::new(name)));
    }

    /// Returns the size of what was written, in bytes.
    pub(super) fn len(&self) -> usize {
        self.0.get_ref().len()
    }

    /// Writes an element that contains text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.element(name, |xml| xml.write(text));
    }

    /// Writes an element that contains a name, which may have characters that XML does not allow.
    pub(super) fn name(&mut self, name: &str, text: &str) {
        let can_be = |c: char| !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}');
        if text.chars().all(can_be) {
            return self.text(name, text);
        }
        let mut encoded = String::new();
        for byte in text.bytes() {
            let _ = write!(encoded, "%{byte:02X}");
        }
        self.element_with(name, &[("Encoded", "true")], |xml| xml.write(&encoded));
    }

    fn write(&mut self, text: &str) {
        let _ = self.0.write_event(Event::Text(BytesText::new(text)));
    }

    pub(super) fn into_response(self, status: StatusCode) -> Response<Body> {
        let mut response = Response::new(self.0.into_inner().into());
        *response.status_mut() = status;
        let xml = HeaderValue::from_static("application/xml");
        response.headers_mut().insert(CONTENT_TYPE, xml);
        response
    }
}
