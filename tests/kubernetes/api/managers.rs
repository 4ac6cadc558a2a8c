//! The managers of fields, and server-side apply.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// The keys from the root of an object to a field.
type Path = Vec<String>;

/// The manager of all writes that are not applied.
const UPDATE: &str = "update";

/// The fields of an object that each manager owns.
#[derive(Clone, Debug, Default)]
pub(super) struct Managers(BTreeMap<String, BTreeSet<Path>>);

impl Managers {
    /// Follows a write that was not applied: it owns the fields that it has changed.
    pub(super) fn update(&mut self, before: &Value, after: &Value) {
        let (before, after) = (fields(before), fields(after));
        for path in before.keys().chain(after.keys()) {
            if before.get(path) != after.get(path) {
                self.0.values_mut().for_each(|owned| {
                    owned.remove(path);
                });
                if after.contains_key(path) {
                    self.0
                        .entry(UPDATE.into())
                        .or_default()
                        .insert(path.clone());
                }
            }
        }
    }

    /// Applies these fields, and returns the object. Without force, a field that another manager has
    /// set to something else is a conflict.
    pub(super) fn apply(
        &mut self,
        manager: &str,
        force: bool,
        known: &Value,
        applied: &Value,
    ) -> Result<Value, String> {
        let manager = format!("apply {manager}");
        let (is, wanted) = (fields(known), fields(applied));
        for (path, value) in &wanted {
            if is.get(path) == Some(value) {
                continue;
            }
            for (other, owned) in self.0.iter_mut().filter(|(other, _)| **other != manager) {
                if owned.contains(path) && !force {
                    return Err(format!(
                        "conflict with {other:?} using coordination.k8s.io/v1: .{}",
                        path.join(".")
                    ));
                }
                owned.remove(path);
            }
        }
        let before = self.0.remove(&manager).unwrap_or_default();
        let mut object = known.clone();
        for path in before.iter().filter(|path| !wanted.contains_key(*path)) {
            if !self.0.values().any(|owned| owned.contains(path)) {
                remove(&mut object, path);
            }
        }
        for (path, value) in &wanted {
            set(&mut object, path, value.clone());
        }
        self.0.insert(manager, wanted.into_keys().collect());
        Ok(object)
    }
}

/// All fields that have managers, with their values. A list is one field.
fn fields(object: &Value) -> BTreeMap<Path, Value> {
    let mut fields = BTreeMap::new();
    collect(object, &mut Vec::new(), &mut fields);
    fields.retain(|path, _| match path[0].as_str() {
        "spec" => true,
        "metadata" => path[1] == "annotations" || path[1] == "labels",
        _ => false,
    });
    fields
}

fn collect(value: &Value, path: &mut Path, fields: &mut BTreeMap<Path, Value>) {
    let Value::Object(object) = value else {
        if !path.is_empty() && !value.is_null() {
            fields.insert(path.clone(), value.clone());
        }
        return;
    };
    for (key, value) in object {
        path.push(key.clone());
        collect(value, path, fields);
        path.pop();
    }
}

fn set(object: &mut Value, path: &[String], value: Value) {
    let place = path.iter().fold(object, |place, key| {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        &mut place[key]
    });
    *place = value;
}

fn remove(object: &mut Value, path: &[String]) {
    let Some((last, parents)) = path.split_last() else {
        return;
    };
    let place = parents
        .iter()
        .try_fold(object, |place, key| place.get_mut(key));
    if let Some(Value::Object(place)) = place {
        place.remove(last);
    }
}

/// Merges a patch into a value (RFC 7386).
pub(super) fn merge(value: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *value = patch.clone();
        return;
    };
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    for (key, patch) in patch {
        if patch.is_null() {
            if let Some(object) = value.as_object_mut() {
                object.remove(key);
            }
        } else {
            merge(&mut value[key], patch);
        }
    }
}
