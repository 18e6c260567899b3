//! Tools whose schema is what is looked at.

use serde_json::{Value, json};
use steadfast_mcp::Tool;

pub(crate) fn tools() -> Vec<Tool> {
    vec![
        Tool::plain("json_schema_2020_12_tool", |input: Value| async move {
            Ok(format!("Called with {input}"))
        })
        .description("Has a schema with much of what JSON Schema 2020-12 has.")
        .input_schema(contact()),
        Tool::plain("test_custom_header", |input: Value| async move {
            Ok(format!("Called with {input}"))
        })
        .description("Has parameters that come as headers as well.")
        .input_schema(json!({
            "type": "object",
            "properties": {
                "region": { "type": "string", "x-mcp-header": "Region" },
                "retries": { "type": "integer", "x-mcp-header": "Retries" },
                "dry": { "type": "boolean", "x-mcp-header": "Dry" },
            },
        })),
    ]
}

fn contact() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": {
            "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"],
        },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
