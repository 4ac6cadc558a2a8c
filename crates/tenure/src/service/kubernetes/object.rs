//! A `Lease` object, as the API server stores it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tenure_core::Epoch;
use tenure_core::lease::election_record::{ElectionRecord, Holding, TermMark};

/// The API group of leases.
pub(super) const API_GROUP: &str = "coordination.k8s.io";

/// The API group and version of leases.
pub(super) const API_VERSION: &str = "coordination.k8s.io/v1";

/// The kind of the object.
const KIND: &str = "Lease";

/// The annotation with the greatest epoch.
const EPOCH: &str = "tenure/epoch";

/// The annotation with the mark of the last term of a candidate of this project: whether it runs, its
/// epoch, the number and the time of its last write, its duration, the number of transitions, its
/// lease id and its holder, separated by `/`. The lease id is no secret here, because the API server does not know it:
/// the rights to the object decide which programs may write it.
const TERM: &str = "tenure/term";

/// The annotation with the leader's metadata: a JSON object of strings.
const METADATA: &str = "tenure/metadata";

/// The last moment that a time of four digits for the year can show: the end of the year 9999.
const LAST: Duration = Duration::from_micros(253_402_300_799_999_999);

/// A `Lease` object. Everything in it that this project does not know stays when it is written.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct LeaseObject(Map<String, Value>);

impl LeaseObject {
    /// Creates an object that does not exist yet.
    pub(super) fn new(namespace: &str, name: &str) -> Self {
        let object = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": { "name": name, "namespace": namespace },
        });
        let Value::Object(object) = object else {
            unreachable!("it is an object")
        };
        Self(object)
    }

    /// Reads an answer. Returns `None` if it is not the lease with this name, in a version that a
    /// write can name.
    pub(super) fn parse(body: &[u8], name: &str) -> Option<Self> {
        let object: Map<String, Value> = serde_json::from_slice(body).ok()?;
        let is_lease = object.get("kind")? == KIND;
        let metadata = object.get("metadata")?;
        let has_version = metadata.get("resourceVersion")?.as_str().is_some();
        (is_lease && metadata.get("name")? == name && has_version).then_some(Self(object))
    }

    /// Returns whether the object exists, so that a write can name its version.
    pub(super) fn has_version(&self) -> bool {
        let metadata = self.0.get("metadata");
        metadata.is_some_and(|metadata| metadata.get("resourceVersion").is_some())
    }

    pub(super) const fn body(&self) -> &Map<String, Value> {
        &self.0
    }

    /// Returns the record in this object.
    ///
    /// # Errors
    ///
    /// If the epoch is not a number. Without it, a new epoch might be smaller than an earlier one.
    pub(super) fn record(&self) -> Result<ElectionRecord, String> {
        let spec = |name: &str| self.0.get("spec").and_then(|spec| spec.get(name));
        let text = |name: &str| spec(name).and_then(Value::as_str).map(str::to_owned);
        let seconds = spec("leaseDurationSeconds").and_then(Value::as_u64);
        let transitions = spec("leaseTransitions").and_then(Value::as_u64);
        let epoch = self.annotation(EPOCH).map(|text| {
            let epoch = text.parse().ok().and_then(Epoch::new);
            epoch.ok_or_else(|| {
                format!(
                    "the annotation {EPOCH} is {text:?}, which is not an epoch: set it to the last epoch that \
                     led, or to a greater number"
                )
            })
        });
        Ok(ElectionRecord {
            holding: Holding {
                holder: text("holderIdentity").filter(|holder| !holder.is_empty()),
                duration: seconds.map(Duration::from_secs),
                acquired: text("acquireTime"),
                renewed: text("renewTime"),
                transitions: transitions
                    .and_then(|it| it.try_into().ok())
                    .unwrap_or_default(),
            },
            mark: self.annotation(TERM).and_then(mark_of),
            epoch: epoch.transpose()?,
        })
    }

    /// Returns the object with this record instead of its own.
    pub(super) fn with_record(&self, record: &ElectionRecord) -> Self {
        let holding = &record.holding;
        let mut object = self.clone();
        let mut spec = match object.0.remove("spec") {
            Some(Value::Object(spec)) => spec,
            _ => Map::new(),
        };
        // client-go also writes an empty holder when it releases a lease.
        let holder = holding.holder.as_deref().unwrap_or_default();
        spec.insert("holderIdentity".into(), holder.into());
        let seconds = holding.duration.map(|duration| duration.as_secs());
        spec.insert("leaseDurationSeconds".into(), seconds.into());
        spec.insert("acquireTime".into(), holding.acquired.clone().into());
        spec.insert("renewTime".into(), holding.renewed.clone().into());
        spec.insert("leaseTransitions".into(), holding.transitions.into());
        object.0.insert("spec".into(), spec.into());
        // A mark is never removed: a record without one is that of another program.
        if let Some(mark) = &record.mark {
            object.annotate(TERM, Some(text_of(mark)));
        }
        object.annotate(EPOCH, record.epoch.map(|epoch| epoch.to_string()));
        object
    }

    /// Returns the leader's metadata.
    pub(super) fn metadata(&self) -> BTreeMap<String, String> {
        let json = self.annotation(METADATA);
        let metadata = json.and_then(|text| serde_json::from_str(text).ok());
        metadata.unwrap_or_default()
    }

    /// Returns the object with these metadata of the leader.
    pub(super) fn with_metadata(&self, metadata: &BTreeMap<String, String>) -> Self {
        let mut object = self.clone();
        let text = (!metadata.is_empty()).then(|| json!(metadata).to_string());
        object.annotate(METADATA, text);
        object
    }

    fn annotation(&self, name: &str) -> Option<&str> {
        let metadata = self.0.get("metadata")?;
        metadata.get("annotations")?.get(name)?.as_str()
    }

    fn annotate(&mut self, name: &str, value: Option<String>) {
        let Some(Value::Object(metadata)) = self.0.get_mut("metadata") else {
            unreachable!("every object has metadata")
        };
        let annotations = metadata.entry("annotations").or_insert(Value::Null);
        if annotations.is_null() {
            *annotations = json!({});
        }
        if let Value::Object(annotations) = annotations {
            match value {
                Some(value) => annotations.insert(name.into(), value.into()),
                None => annotations.remove(name),
            };
        }
    }
}

const RUNNING: &str = "running";
const ENDED: &str = "ended";

fn text_of(mark: &TermMark) -> String {
    let state = if mark.has_ended { ENDED } else { RUNNING };
    let (epoch, number, transitions) = (mark.epoch, mark.number, mark.transitions);
    let (seconds, lease_id) = (mark.duration.as_secs(), mark.lease_id.to_wire());
    let (written, holder) = (&mark.written, &mark.holder);
    format!("{state}/{epoch}/{number}/{written}/{seconds}/{transitions}/{lease_id}/{holder}")
}

/// Reads a mark. Returns `None` for text that no candidate writes, which counts as a missing mark.
fn mark_of(text: &str) -> Option<TermMark> {
    let mut parts = text.splitn(8, '/');
    let state = parts.next()?;
    let epoch = Epoch::new(parts.next()?.parse().ok()?)?;
    let number = parts.next()?.parse().ok()?;
    let written = parts.next()?.to_owned();
    let duration = Duration::from_secs(parts.next()?.parse().ok()?);
    Some(TermMark {
        epoch,
        number,
        written,
        duration,
        transitions: parts.next()?.parse().ok()?,
        lease_id: parts.next()?.parse().ok()?,
        holder: parts.next()?.parse().ok()?,
        has_ended: match state {
            RUNNING => false,
            ENDED => true,
            _ => return None,
        },
    })
}

/// The times that this process writes. Each is later than all before, so each renewal changes the
/// record, even if the clock stands still or goes back.
#[derive(Debug, Default)]
pub(super) struct MicroTimes(Mutex<Duration>);

impl MicroTimes {
    /// Returns the wall-clock time as a `MicroTime`, which has exactly six digits after the second.
    pub(super) fn next(&self, now: SystemTime) -> String {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let later = *last + Duration::from_micros(1);
        let micros = u64::try_from(now.max(later).as_micros()).unwrap_or(u64::MAX);
        *last = Duration::from_micros(micros).min(LAST);
        humantime::format_rfc3339_micros(UNIX_EPOCH + *last).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tenure_core::CandidateId;
    use tenure_core::lease::LeaseId;

    fn object(annotations: &Value, spec: &Value) -> LeaseObject {
        let body = json!({
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {
                "name": "billing.nightly",
                "namespace": "jobs",
                "resourceVersion": "7",
                "annotations": annotations,
                "labels": { "team": "billing" },
            },
            "spec": spec,
        });
        LeaseObject::parse(body.to_string().as_bytes(), "billing.nightly").unwrap()
    }

    #[test]
    fn a_record_survives_writing_and_reading_and_what_others_wrote_stays() {
        let before = object(&json!({ "note": "kept" }), &json!({ "strategy": "Kept" }));
        let (holder, id): (CandidateId, _) =
            ("pod/1".parse().unwrap(), LeaseId::from_random_bits(1, 2));
        let times = MicroTimes::default();
        let time = times.next(UNIX_EPOCH + Duration::from_millis(1_795_262_400_000));
        assert_eq!(time, "2026-11-21T12:00:00.000000Z");
        let duration = Duration::from_secs(15);
        let epoch = Epoch::new(1_795_262_400_000).unwrap();
        let previous = before.record().unwrap();
        let by = (&holder, id);
        let granted = ElectionRecord::granted(Some(&previous), by, epoch, duration, &time);
        let after = before.with_record(&granted);
        assert_eq!(after.record().unwrap(), granted);
        assert_eq!(
            after.0["spec"],
            json!({
                "strategy": "Kept", "holderIdentity": "pod/1", "leaseDurationSeconds": 15,
                "acquireTime": time, "renewTime": time, "leaseTransitions": 1,
            })
        );
        assert_eq!(after.annotation("note"), Some("kept"));
        assert_eq!(after.0["metadata"]["labels"], json!({ "team": "billing" }));
        assert_eq!(after.0["metadata"]["resourceVersion"], "7");

        let released = granted
            .released(granted.mark.as_ref().unwrap(), "t")
            .unwrap();
        let object = after.with_record(&released);
        assert_eq!(object.record().unwrap(), released);
        let released = object;
        assert_eq!(released.0["spec"]["holderIdentity"], "");
        assert_eq!(released.0["spec"]["leaseDurationSeconds"], 1);
        assert_eq!(released.annotation(EPOCH), Some("1795262400000"));
    }

    #[test]
    fn an_object_without_annotations_or_spec_is_free() {
        for empty in [
            object(&Value::Null, &Value::Null),
            object(&json!({}), &json!({ "holderIdentity": "" })),
        ] {
            assert_eq!(empty.record().unwrap(), ElectionRecord::default());
        }
    }

    #[test]
    fn a_malformed_epoch_is_an_error_and_not_a_missing_epoch() {
        for bad in ["", "-1", "seven", "9007199254740992"] {
            let error = object(&json!({ EPOCH: bad }), &json!({}))
                .record()
                .unwrap_err();
            assert!(error.contains("tenure/epoch is"), "{error}");
        }
    }

    #[test]
    fn only_the_lease_with_this_name_and_a_version_is_an_answer() {
        let body = |text: &str| LeaseObject::parse(text.as_bytes(), "a");
        assert!(
            body(r#"{"kind":"Lease","metadata":{"name":"a","resourceVersion":"1"}}"#).is_some()
        );
        for other in [
            "<html>",
            "{}",
            r#"{"kind":"Lease","metadata":{"name":"b","resourceVersion":"1"}}"#,
            r#"{"kind":"Lease","metadata":{"name":"a"}}"#,
            r#"{"kind":"ConfigMap","metadata":{"name":"a","resourceVersion":"1"}}"#,
        ] {
            assert!(body(other).is_none(), "{other}");
        }
    }

    #[test]
    fn every_renewal_has_another_time_even_if_the_clock_stands_still() {
        let times = MicroTimes::default();
        let mut last = String::new();
        for seconds in [1_795_262_400, 1_795_262_400, 1_795_262_399, 1_795_262_401] {
            let time = times.next(UNIX_EPOCH + Duration::from_secs(seconds));
            assert!(last < time && time.len() == 27, "{last} {time}");
            last = time;
        }
        let late = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(times.next(late), "9999-12-31T23:59:59.999999Z");
    }
}
