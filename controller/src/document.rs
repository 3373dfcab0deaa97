//! The frame of every JSON document that a verb prints: `"schema": "testbed/v1"` and `"kind"`, then the verb's own
//! keys. Pure text; where it goes is the verb's business. The committed schemas in `controller/schema` describe these
//! documents and are generated from the same types by `tests/schemas.rs`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Version of the documents: keys are added within a version, never renamed or removed.
pub const VERSION: &str = "testbed/v1";

/// The document of a kind (`ps`, `report`, ...), indented, with a newline at its end.
///
/// # Panics
/// If `value` is no JSON object: a document has keys, so that some can be added. A list goes under a key of its own.
#[must_use]
pub fn document(kind: &str, value: &impl Serialize) -> String {
    let Ok(Value::Object(keys)) = serde_json::to_value(value) else {
        panic!("the value of a `{kind}` document is a JSON object");
    };
    let mut framed = Map::new();
    framed.insert("schema".to_owned(), json!(VERSION));
    framed.insert("kind".to_owned(), json!(kind));
    framed.extend(keys);
    let mut text = serde_json::to_string_pretty(&framed).expect("a JSON value can be written");
    text.push('\n');
    text
}

/// JSON Schema (draft-07, which editors support best) of a document of this kind.
///
/// # Panics
/// If the schema of `T` is not that of an object, see [`document`].
#[must_use]
pub fn document_schema<T: JsonSchema>(kind: &str) -> Value {
    let mut schema = plain_schema::<T>();
    let keys = schema.as_object_mut().expect("a schema is an object");
    let properties = keys
        .get_mut("properties")
        .and_then(Value::as_object_mut)
        .expect("a document is an object with properties");
    properties.insert("schema".to_owned(), json!({ "const": VERSION }));
    properties.insert("kind".to_owned(), json!({ "const": kind }));
    let required = keys.entry("required").or_insert_with(|| json!([]));
    let required = required.as_array_mut().expect("`required` is a list");
    required.extend([json!("schema"), json!("kind")]);
    schema
}

/// JSON Schema (draft-07) of a type as it is, e.g. of one line of a history.
#[must_use]
pub fn plain_schema<T: JsonSchema>() -> Value {
    schemars::generate::SchemaSettings::draft07()
        .into_generator()
        .into_root_schema_for::<T>()
        .to_value()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, JsonSchema)]
    struct Nodes {
        nodes: Vec<String>,
    }

    #[test]
    fn a_document_says_what_it_is() {
        let text = document(
            "ps",
            &Nodes {
                nodes: vec!["a".into()],
            },
        );
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, json!({ "schema": "testbed/v1", "kind": "ps", "nodes": ["a"] }));
        assert!(text.ends_with("}\n"));
    }

    #[test]
    fn its_schema_insists_on_the_frame() {
        let schema = document_schema::<Nodes>("ps");
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_eq!(schema["required"], json!(["nodes", "schema", "kind"]));
        let validator = jsonschema::validator_for(&schema).unwrap();
        let text = document("ps", &Nodes { nodes: Vec::new() });
        assert!(validator.is_valid(&serde_json::from_str(&text).unwrap()));
        assert!(!validator.is_valid(&json!({ "schema": "testbed/v1", "kind": "link", "nodes": [] })));
        assert!(!validator.is_valid(&json!({ "nodes": [] })));
    }
}
