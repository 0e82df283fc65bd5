//! Validates JSON against a schema.

#![allow(clippy::unwrap_used, missing_docs, dead_code, unreachable_pub)]

use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::Value;

/// A schema, with what it refers to.
pub struct JsonSchema {
    schemas: Schemas,
    root: SchemaIndex,
}

impl JsonSchema {
    /// Panics where it does not follow the definition of JSON Schema.
    pub fn new(schema: &Value) -> Self {
        const PLACE: &str = "https://example.org/schema.json";
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.enable_format_assertions();
        // References within a schema are relative to its own address.
        let place = schema["$id"].as_str().unwrap_or(PLACE);
        compiler.add_resource(place, schema.clone()).unwrap();
        let root = compiler.compile(place, &mut schemas).unwrap();
        Self { schemas, root }
    }

    pub fn is_valid(&self, json: &Value) -> bool {
        self.schemas.validate(json, self.root).is_ok()
    }

    /// The errors of JSON, in a text of several lines.
    pub fn error(&self, json: &Value) -> Option<String> {
        self.schemas.validate(json, self.root).err().map(|error| error.to_string())
    }
}
