//! Values of the change stream as literals that store just these, in a session whose time zone is UTC and whose
//! `sql_mode` is empty.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use changes::apply::Shape;
use enginesql::quoted;
use serde_json::Value;

/// Digits of a type stand in a text where they are many.
const NUMBERS: [&str; 8] = [
    "tinyint",
    "smallint",
    "mediumint",
    "int",
    "bigint",
    "bit",
    "decimal",
    "year",
];

/// The literal of a value of this column.
///
/// # Errors
/// The stream does not tell such a value of such a column.
pub(super) fn literal(value: &Value, column: &Shape) -> Result<String, String> {
    let wrong = || {
        format!(
            "{value} is no value of {} ({})",
            column.name, column.data_type
        )
    };
    if value.is_null() {
        return Ok("NULL".to_owned());
    }
    if column.data_type == "json" {
        return Ok(quoted(&value.to_string()));
    }
    Ok(match value {
        Value::Number(number) => number.to_string(),
        Value::String(text) if NUMBERS.contains(&&*column.data_type) => {
            let is_digit = |byte: u8| byte.is_ascii_digit() || b"-.".contains(&byte);
            match !text.is_empty() && text.bytes().all(is_digit) {
                true => text.clone(),
                false => return Err(wrong()),
            }
        }
        Value::String(text) => format!("_utf8mb4{}", quoted(text)),
        Value::Array(labels) => {
            let labels: Option<Vec<&str>> = labels.iter().map(Value::as_str).collect();
            let labels = labels.ok_or_else(wrong)?;
            format!("_utf8mb4{}", quoted(&labels.join(",")))
        }
        Value::Object(parts) => {
            let bytes = parts.get("base64").and_then(Value::as_str);
            let bytes = bytes.and_then(|text| BASE64.decode(text).ok());
            let bytes = bytes.ok_or_else(wrong)?;
            format!("X'{}'", hex::encode_upper(bytes))
        }
        Value::Bool(_) | Value::Null => return Err(wrong()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(data_type: &str, value: Value) -> String {
        let column = Shape {
            name: "v".to_owned(),
            data_type: data_type.to_owned(),
            charset: None,
        };
        literal(&value, &column).unwrap_or_else(|why| why)
    }

    #[test]
    fn values_become_literals() {
        assert_eq!(of("int", json!(-7)), "-7");
        assert_eq!(
            of("bigint", json!("18446744073709551615")),
            "18446744073709551615"
        );
        assert_eq!(of("decimal", json!("-12.50")), "-12.50");
        assert_eq!(of("varchar", json!("it's \\")), "_utf8mb4'it\\'s \\\\'");
        assert_eq!(of("blob", json!({"base64": "AP8="})), "X'00FF'");
        assert_eq!(of("set", json!(["a", "b"])), "_utf8mb4'a,b'");
        assert_eq!(
            of("json", json!({"base64": "AP8="})),
            "'{\"base64\":\"AP8=\"}'"
        );
        assert_eq!(of("json", json!("x")), "'\"x\"'");
        assert_eq!(of("int", Value::Null), "NULL");
        for (data_type, value) in [
            ("int", json!("1); DROP TABLE t")),
            ("blob", json!({"base64": "?"})),
            ("int", json!(true)),
        ] {
            assert!(of(data_type, value).contains("is no value of v"));
        }
    }
}
