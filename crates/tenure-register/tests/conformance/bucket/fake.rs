//! A small server with the API of S3, with faults of single requests and with standing flaws. It also
//! has the generations of Google.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::{Router, serve};
use md5::{Digest, Md5};
use tokio::net::TcpListener;
use tokio::sync::Barrier;

/// A rule that the server does not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Flaw {
    None,
    RefusesCreates,
    IgnoresConditions,
    /// A create replaces an object.
    IgnoresIfNoneMatch,
    RefusesReplaces,
    KeepsETag,
    GivesNoETag,
    /// A replace does not compare the ETag.
    IgnoresIfMatch,
    /// A read shows the ETag of the last write with the value before.
    ReadsLate,
    /// A replace creates an object.
    CreatesMissing,
    /// The condition is checked first, and the object is written later.
    ChecksAndWrites,
    KeepsDeleted,
}

/// The fault of one write.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// It is not applied, and has this answer.
    Refused(u16, &'static str),
    /// It is applied, and has this answer.
    Applied(u16),
    /// Another writer replaces the object, and it has this answer.
    Overtaken(u16),
    /// It is not applied, and the connection ends.
    RequestLost,
    /// It is applied, and the connection ends.
    AnswerLost,
    /// It is not applied, and there is no answer.
    Hangs,
}

#[derive(Debug)]
pub(super) struct Fake {
    flaw: Flaw,
    state: Mutex<Objects>,
    racers: Barrier,
    address: SocketAddr,
}

#[derive(Debug, Default)]
struct Objects {
    objects: BTreeMap<String, Object>,
    faults: VecDeque<Fault>,
    /// The number of the next reads that show the ETag of an object with the value before.
    torn: u64,
    writes: u64,
}

#[derive(Clone, Debug)]
struct Object {
    e_tag: String,
    generation: u64,
    value: Bytes,
    before: Bytes,
}

impl Fake {
    pub(super) async fn start(flaw: Flaw) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Arc::new(Self {
            flaw,
            state: Mutex::default(),
            racers: Barrier::new(4),
            address: listener.local_addr().unwrap(),
        });
        let routes = Router::new().fallback(answer).with_state(Arc::clone(&fake));
        tokio::spawn(async move { serve(listener, routes).await.unwrap() });
        fake
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Adds a fault for the first write that has none yet.
    pub(super) fn fail_next(&self, fault: Fault) {
        self.lock().faults.push_back(fault);
    }

    /// Shows the ETag of an object with the value before, in this number of reads.
    pub(super) fn tear_reads(&self, count: u64) {
        self.lock().torn = count;
    }

    /// The number of writes that have arrived.
    pub(super) fn writes(&self) -> u64 {
        self.lock().writes
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.lock().objects.keys().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.state.lock().unwrap()
    }

    async fn write(&self, name: &str, headers: &HeaderMap, value: Bytes) -> Response {
        let fault = {
            let mut objects = self.lock();
            objects.writes += 1;
            objects.faults.pop_front()
        };
        let (answers, applies) = match fault {
            Some(Fault::Refused(status, code)) => return error(status, code),
            Some(Fault::RequestLost) => resume_unwind(Box::new(())),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(Fault::Overtaken(status)) => {
                self.lock().put(name, "overtaken".into(), self.flaw);
                (Some(status), false)
            }
            Some(Fault::Applied(status)) => (Some(status), true),
            Some(Fault::AnswerLost) => (Some(0), true),
            None => (None, true),
        };
        let holds = self.lock().holds(name, headers, self.flaw);
        if holds && self.flaw == Flaw::ChecksAndWrites && name.ends_with("/raced") {
            self.racers.wait().await;
        }
        let written = match holds && applies {
            true => {
                let mut objects = self.lock();
                // Without that flaw nobody writes in between.
                if self.flaw == Flaw::ChecksAndWrites || objects.holds(name, headers, self.flaw) {
                    Some(objects.put(name, value, self.flaw))
                } else {
                    None
                }
            }
            false => None,
        };
        match (answers, written) {
            (Some(0), _) => resume_unwind(Box::new(())),
            (Some(status), _) => error(status, "Code"),
            (None, None) => error(412, "PreconditionFailed"),
            (None, Some(_)) if self.flaw == Flaw::GivesNoETag => StatusCode::OK.into_response(),
            (None, Some(object)) => object.headers().into_response(),
        }
    }

    fn read(&self, name: &str, known: Option<&str>) -> Response {
        let Some(object) = self.lock().objects.get(name).cloned() else {
            return error(404, "NoSuchKey");
        };
        match self.flaw {
            Flaw::ReadsLate => (object.headers(), object.before).into_response(),
            _ if self.lock().is_torn() => (object.headers(), object.before).into_response(),
            _ if known == Some(&object.e_tag) => {
                (StatusCode::NOT_MODIFIED, object.headers()).into_response()
            }
            _ => (object.headers(), object.value).into_response(),
        }
    }

    /// Lists three objects at a time.
    fn list(&self, query: &str) -> String {
        let value = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut values = pairs.filter(|(key, _)| *key == name);
            values.next().map(|(_, value)| decoded(value))
        };
        let prefix = value("prefix").unwrap_or_default();
        let after = value("continuation-token").unwrap_or_default();
        let objects = self.lock();
        let mut left = objects
            .objects
            .iter()
            .filter(|(name, _)| name.starts_with(&prefix) && **name > after);
        let page: Vec<_> = left.by_ref().take(3).collect();
        let mut text = "<ListBucketResult>".to_owned();
        for (name, object) in &page {
            let _ = write!(
                text,
                "<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>\
                 <ETag>{}</ETag><Size>{}</Size></Contents>",
                object.e_tag,
                object.value.len()
            );
        }
        if left.next().is_some() {
            let token = page.last().unwrap().0;
            let _ = write!(
                text,
                "<NextContinuationToken>{token}</NextContinuationToken>"
            );
        }
        text + "</ListBucketResult>"
    }
}

impl Objects {
    fn is_torn(&mut self) -> bool {
        let is_torn = self.torn > 0;
        self.torn -= u64::from(is_torn);
        is_torn
    }

    fn holds(&self, name: &str, headers: &HeaderMap, flaw: Flaw) -> bool {
        if flaw == Flaw::IgnoresConditions {
            return true;
        }
        let present = self.objects.get(name);
        let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
        if let Some(generation) = header("x-goog-if-generation-match") {
            return present.map_or(0, |it| it.generation).to_string() == generation;
        }
        if header("if-none-match").is_some() {
            return match flaw {
                Flaw::RefusesCreates => false,
                Flaw::IgnoresIfNoneMatch => true,
                _ => present.is_none(),
            };
        }
        match (header("if-match"), present) {
            (None, _) => true,
            (Some(_), _) if flaw == Flaw::RefusesReplaces => false,
            (Some(_), Some(_)) if flaw == Flaw::IgnoresIfMatch => true,
            (Some(_), None) => flaw == Flaw::CreatesMissing,
            (Some(e_tag), Some(object)) => object.e_tag == e_tag,
        }
    }

    fn put(&mut self, name: &str, value: Bytes, flaw: Flaw) -> Object {
        let e_tag = match flaw {
            Flaw::KeepsETag => "\"always\"".to_owned(),
            _ => hash(&value),
        };
        let old = self.objects.get(name).map(|object| object.value.clone());
        let object = Object {
            e_tag,
            generation: self.writes,
            before: old.unwrap_or_default(),
            value,
        };
        self.objects.insert(name.to_owned(), object.clone());
        object
    }
}

impl Object {
    fn headers(&self) -> [(&'static str, String); 3] {
        [
            ("etag", self.e_tag.clone()),
            ("x-goog-generation", self.generation.to_string()),
            ("last-modified", "Thu, 01 Jan 2026 00:00:00 GMT".to_owned()),
        ]
    }
}

async fn answer(
    State(fake): State<Arc<Fake>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let name = decoded(uri.path());
    let name = name.strip_prefix("/bucket").unwrap_or_default();
    let name = name.trim_start_matches('/');
    match method {
        Method::GET if name.is_empty() => {
            fake.list(uri.query().unwrap_or_default()).into_response()
        }
        Method::GET => {
            let known = headers.get("if-none-match");
            fake.read(name, known.map(|known| known.to_str().unwrap()))
        }
        Method::PUT => fake.write(name, &headers, body).await,
        Method::DELETE if fake.flaw == Flaw::KeepsDeleted => error(403, "AccessDenied"),
        Method::DELETE => match fake.lock().objects.remove(name) {
            Some(_) => StatusCode::NO_CONTENT.into_response(),
            // S3 answers 204 here, and others do not.
            None => error(404, "NoSuchKey"),
        },
        _ => error(400, "BadRequest"),
    }
}

/// The ETag is a hash, as in S3.
fn hash(value: &Bytes) -> String {
    let digits = Md5::digest(value)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>();
    format!("\"{digits}\"")
}

fn error(status: u16, code: &str) -> Response {
    let body = format!("<Error>\n  <Code>{code}</Code>\n  <Message>the text</Message>\n</Error>");
    (StatusCode::from_u16(status).unwrap(), body).into_response()
}

fn decoded(text: &str) -> String {
    text.replace("%21", "!").replace("%2F", "/")
}
