//! Holds documents against the schemas that `vtare schema all` prints, and to their keys alone.

use std::process::Command;
use std::sync::LazyLock;

use serde_json::Value;

static SCHEMAS: LazyLock<Value> = LazyLock::new(|| {
    let printed = Command::new(super::VTARE).args(["schema", "all"]).output().expect("the binary starts");
    serde_json::from_slice(&printed.stdout).expect("the schemas are JSON")
});

/// Panics where the document is not as the schema that it names states; others than this binary's are not looked at.
#[track_caller]
pub(crate) fn hold(document: &Value) {
    let schema = document["schema"].as_str().map_or(&Value::Null, |name| &SCHEMAS[name]);
    if let Some(fault) = schema.is_object().then(|| fault(schema, schema, document, "")).flatten() {
        panic!("{}{fault}: {document:#}", document["schema"]);
    }
}

/// The first place where the value is not as the schema states: how `vtare` uses JSON Schema, with no more keys.
fn fault(root: &Value, schema: &Value, value: &Value, path: &str) -> Option<String> {
    let wrong = |why: &str| Some(format!("{path}: {why}"));
    if let Some(name) = schema["$ref"].as_str().and_then(|place| place.strip_prefix('#')) {
        return fault(root, root.pointer(name).expect("it refers to a definition"), value, path);
    }
    for choice in ["anyOf", "oneOf"].iter().filter_map(|key| schema[*key].as_array()) {
        let faults: Option<Vec<_>> = choice.iter().map(|one| fault(root, one, value, path)).collect();
        if let Some(faults) = faults {
            return faults.into_iter().max_by_key(String::len);
        }
    }
    let types = schema["type"].as_array().map_or(std::slice::from_ref(&schema["type"]), Vec::as_slice);
    let is_of = |name: &Value| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("number") => value.is_number(),
        Some("null") => value.is_null(),
        _ => name.is_null(),
    };
    if !types.iter().any(is_of) {
        return wrong(&format!("its type is none of {}", schema["type"]));
    }
    if schema.get("const").is_some_and(|only| only != value)
        || schema["enum"].as_array().is_some_and(|all| !all.contains(value))
    {
        return wrong("none of the values that it may have");
    }
    let items = value.as_array().into_iter().flatten().enumerate();
    let in_items = items.filter(|_| schema["items"].is_object());
    let in_items =
        in_items.filter_map(|(index, item)| fault(root, &schema["items"], item, &format!("{path}[{index}]")));
    let Some(properties) = schema["properties"].as_object() else { return in_items.into_iter().next() };
    let members = value.as_object()?;
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|key| !members.contains_key(*key)) {
        return wrong(&format!("{missing} is missing"));
    }
    members.iter().find_map(|(key, inner)| match properties.get(key) {
        Some(stated) => fault(root, stated, inner, &format!("{path}.{key}")),
        None => wrong(&format!("{key} is not declared")),
    })
}
