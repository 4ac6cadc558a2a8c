//! The objects of the fake, with their versions and the errors of Kubernetes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::managers::{Managers, merge};

/// A change of an object.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) revision: u64,
    /// `ADDED`, `MODIFIED` or `DELETED`.
    pub(crate) kind: &'static str,
    pub(crate) object: Value,
}

/// A refusal: the status, the reason, the message, and the name that it is about.
pub(crate) type Refusal = (u16, &'static str, String, String);

/// The form of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Patch {
    /// Server-side apply of these fields.
    Apply { manager: String, force: bool },
    /// A merge patch; a strategic one does the same to a Lease, which has no lists to merge.
    Merge,
}

/// The leases of a cluster.
#[derive(Default)]
pub(crate) struct Objects {
    revision: u64,
    leases: BTreeMap<(String, String), (Value, Managers)>,
    events: Vec<Event>,
}

impl Objects {
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    pub(crate) fn events(&self) -> &[Event] {
        &self.events
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Value> {
        self.find(namespace, name).map(|(lease, _)| lease)
    }

    pub(crate) fn list(&self, namespace: &str) -> Vec<Value> {
        let leases = self.leases.iter();
        let of = leases.filter(|((its, _), _)| its == namespace);
        of.map(|(_, (lease, _))| lease.clone()).collect()
    }

    pub(crate) fn create(&mut self, namespace: &str, object: &Value) -> Result<Value, Refusal> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if !object["metadata"]["resourceVersion"].is_null() {
            let text = "resourceVersion should not be set on objects to be created";
            return Err((500, "", text.into(), name.into()));
        }
        let place = &object["metadata"]["namespace"];
        if place.as_str().is_some_and(|place| place != namespace) {
            let text = "the namespace of the object does not match the namespace of the request";
            return Err((400, "BadRequest", text.into(), name.into()));
        }
        if self.get(namespace, name).is_some() {
            let text = format!("leases.coordination.k8s.io {name:?} already exists");
            return Err((409, "AlreadyExists", text, name.into()));
        }
        let mut object = checked(name, object)?;
        self.name(namespace, &mut object);
        Ok(self.update("ADDED", namespace, name, object))
    }

    pub(crate) fn replace(
        &mut self,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, Refusal> {
        let conflict = |text: &str| Err(conflict(name, text));
        if object["metadata"]["name"] != name {
            let text = "the name of the object does not match the name on the URL";
            return Err((400, "BadRequest", text.into(), name.into()));
        }
        let uid = &object["metadata"]["uid"];
        let Some(known) = self.get(namespace, name) else {
            // A lease may be created by PUT, but not with the uid of one that was deleted.
            if uid.is_null() {
                let mut new = object.clone();
                new["metadata"]["resourceVersion"] = Value::Null;
                return self.create(namespace, &new);
            }
            return conflict("StorageError: invalid object, Code: 4, Precondition failed: UID");
        };
        let version = &object["metadata"]["resourceVersion"];
        if version.is_null() {
            let text =
                "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
            return Err((422, "Invalid", text.into(), name.into()));
        }
        check_versions(name, object, &known)?;
        let mut object = checked(name, object)?;
        for kept in ["namespace", "uid", "creationTimestamp"] {
            object["metadata"][kept] = known["metadata"][kept].clone();
        }
        // A write without a change makes no version.
        object["metadata"]["resourceVersion"] = known["metadata"]["resourceVersion"].clone();
        match object == known {
            true => Ok(known),
            false => Ok(self.update("MODIFIED", namespace, name, object)),
        }
    }

    /// Patches an object. The version is checked if the patch has one, and only then. A patch that is
    /// applied creates the object if it does not exist.
    pub(crate) fn patch(
        &mut self,
        namespace: &str,
        name: &str,
        object: &Value,
        patch: &Patch,
    ) -> Result<(u16, Value), Refusal> {
        let known = self.find(namespace, name);
        let Patch::Apply { manager, force } = patch else {
            let Some((known, _)) = known else {
                return Err(not_found(name));
            };
            let mut merged = known;
            merge(&mut merged, object);
            return Ok((200, self.replace(namespace, name, &merged)?));
        };
        if manager.is_empty() || object["kind"] != "Lease" || object["apiVersion"].is_null() {
            let text = "an applied patch needs fieldManager, apiVersion and kind";
            return Err((400, "BadRequest", text.into(), name.into()));
        }
        let is_new = known.is_none();
        let (known, mut managers) = known.unwrap_or_default();
        if is_new {
            for sent in ["uid", "resourceVersion"] {
                if !object["metadata"][sent].is_null() {
                    return Err(conflict(name, &format!("{sent} of an object that is gone")));
                }
            }
        } else {
            check_versions(name, object, &known)?;
        }
        let applied = managers.apply(manager, *force, &known, &checked(name, object)?);
        let applied = applied.map_err(|text| conflict(name, &format!("Apply failed: {text}")))?;
        let mut object = checked(name, &applied)?;
        object["metadata"]["name"] = name.into();
        if is_new {
            self.name(namespace, &mut object);
            return Ok((201, self.store("ADDED", namespace, name, object, managers)));
        }
        let stored = self.store("MODIFIED", namespace, name, object, managers);
        Ok((200, stored))
    }

    /// Changes an object without a version. Returns whether it exists.
    pub(crate) fn edit(
        &mut self,
        namespace: &str,
        name: &str,
        edit: impl FnOnce(&mut Value),
    ) -> bool {
        let Some(mut object) = self.get(namespace, name) else {
            return false;
        };
        edit(&mut object);
        self.update("MODIFIED", namespace, name, object);
        true
    }

    pub(crate) fn delete(&mut self, namespace: &str, name: &str) {
        if let Some((object, _)) = self.leases.remove(&(namespace.into(), name.into())) {
            self.revision += 1;
            let revision = self.revision;
            self.events.push(Event {
                revision,
                kind: "DELETED",
                object,
            });
        }
    }

    fn find(&self, namespace: &str, name: &str) -> Option<(Value, Managers)> {
        self.leases.get(&(namespace.into(), name.into())).cloned()
    }

    /// Gives a new object what the server sets.
    fn name(&self, namespace: &str, object: &mut Value) {
        object["metadata"]["namespace"] = namespace.into();
        object["metadata"]["uid"] = format!("uid-{}", self.revision + 1).into();
        object["metadata"]["creationTimestamp"] = "2026-11-21T12:00:00Z".into();
    }

    /// Stores what was written without being applied.
    fn update(&mut self, kind: &'static str, namespace: &str, name: &str, object: Value) -> Value {
        let (known, mut managers) = self.find(namespace, name).unwrap_or_default();
        managers.update(&known, &object);
        self.store(kind, namespace, name, object, managers)
    }

    fn store(
        &mut self,
        kind: &'static str,
        namespace: &str,
        name: &str,
        mut object: Value,
        managers: Managers,
    ) -> Value {
        self.revision += 1;
        object["metadata"]["resourceVersion"] = self.revision.to_string().into();
        self.events.push(Event {
            revision: self.revision,
            kind,
            object: object.clone(),
        });
        let place = (namespace.to_owned(), name.to_owned());
        self.leases.insert(place, (object.clone(), managers));
        object
    }
}

/// The fields of a Lease that are stored while the gate `CoordinatedLeaderElection` is off.
const FIELDS: [&str; 5] = [
    "holderIdentity",
    "leaseDurationSeconds",
    "acquireTime",
    "renewTime",
    "leaseTransitions",
];

fn conflict(name: &str, text: &str) -> Refusal {
    let text =
        format!("Operation cannot be fulfilled on leases.coordination.k8s.io {name:?}: {text}");
    (409, "Conflict", text, name.into())
}

/// The refusal of a request for an object that does not exist.
pub(super) fn not_found(name: &str) -> Refusal {
    let text = format!("leases.coordination.k8s.io {name:?} not found");
    (404, "NotFound", text, name.to_owned())
}

/// Refuses a write that names another object or another version than the known one.
fn check_versions(name: &str, object: &Value, known: &Value) -> Result<(), Refusal> {
    let differs = |key: &str| {
        let sent = &object["metadata"][key];
        !sent.is_null() && *sent != known["metadata"][key]
    };
    if differs("uid") {
        let text = "Precondition failed: UID in precondition, UID in object meta: other";
        return Err(conflict(name, text));
    }
    let version = object["metadata"]["resourceVersion"].as_str();
    if version.is_some_and(|version| version.parse::<u64>().is_err()) {
        let text = format!("resource version: invalid version {version:?}");
        return Err((500, "", text, name.into()));
    }
    if differs("resourceVersion") {
        let text = "the object has been modified; please apply your changes to the latest version \
                    and try again";
        return Err(conflict(name, text));
    }
    Ok(())
}

/// Checks an object as Kubernetes does, and returns it in the form in which it is stored.
fn checked(name: &str, object: &Value) -> Result<Value, Refusal> {
    let refuse = |status, reason, text: String| Err((status, reason, text, name.to_owned()));
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    let is_part = |part: &str| {
        part.starts_with(is_plain)
            && part.ends_with(is_plain)
            && part.chars().all(|c| is_plain(c) || c == '-')
    };
    if name.len() > 253 || !name.split('.').all(is_part) {
        let text = format!("Lease.coordination.k8s.io {name:?} is invalid: metadata.name");
        return refuse(422, "Invalid", text);
    }
    let mut object = object.clone();
    object["apiVersion"] = "coordination.k8s.io/v1".into();
    object["kind"] = "Lease".into();
    let annotations = &object["metadata"]["annotations"];
    let is_text = |it: &serde_json::Map<String, Value>| it.values().all(Value::is_string);
    if !annotations.is_null() && !annotations.as_object().is_some_and(is_text) {
        let text = "json: cannot unmarshal into Go struct field ObjectMeta.metadata.annotations";
        return refuse(400, "BadRequest", text.into());
    }
    if annotations.to_string().len() > 256 << 10 {
        let text = "metadata.annotations: Too long: may not be more than 262144 bytes";
        return refuse(422, "Invalid", text.into());
    }
    let Some(spec) = object.get_mut("spec").filter(|spec| !spec.is_null()) else {
        object["spec"] = json!({});
        return Ok(object);
    };
    for (key, least) in [("leaseDurationSeconds", 1), ("leaseTransitions", 0)] {
        let value = &spec[key];
        let number = value.as_i64().and_then(|it| i32::try_from(it).ok());
        match number {
            None if value.is_null() => {}
            None => {
                return refuse(
                    400,
                    "BadRequest",
                    format!("json: cannot unmarshal spec.{key}"),
                );
            }
            Some(number) if number < least => {
                let text = format!("spec.{key}: Invalid value: {number}");
                return refuse(422, "Invalid", text);
            }
            Some(_) => {}
        }
    }
    for key in ["acquireTime", "renewTime"] {
        if let Some(text) = spec[key].as_str() {
            let Some(time) = micro_time(text) else {
                let text = format!("parsing time {text:?} as \"2006-01-02T15:04:05.000000Z07:00\"");
                return refuse(400, "BadRequest", text);
            };
            spec[key] = time.into();
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.retain(|key, value| FIELDS.contains(&key.as_str()) && !value.is_null());
    }
    Ok(object)
}

/// Reads a `MicroTime`, which needs exactly six digits after the second, and returns it in UTC.
fn micro_time(text: &str) -> Option<String> {
    let date = text
        .strip_suffix('Z')
        .or_else(|| text.strip_suffix("+00:00"))?;
    let form = "dddd-dd-ddTdd:dd:dd.dddddd";
    let fits = |(is, wanted): (char, char)| is == wanted || wanted == 'd' && is.is_ascii_digit();
    let is_time = date.len() == form.len() && date.chars().zip(form.chars()).all(fits);
    is_time.then(|| format!("{date}Z"))
}
