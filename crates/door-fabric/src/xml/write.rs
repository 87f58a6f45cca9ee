//! Answers, faults and calls as XML.

use crate::value::Value;

/// What every answer of Fabric begins with.
const HEAD: &str = "<?xml version='1.0'?>\n";

/// An answer with one value.
pub fn response(value: &Value) -> String {
    let mut out = String::from(HEAD);
    out.push_str("<methodResponse>\n<params>\n<param>\n");
    put(&mut out, value);
    out.push_str("\n</param>\n</params>\n</methodResponse>\n");
    out
}

/// A fault: the call was not carried out.
pub fn fault(code: i64, text: &str) -> String {
    let members = vec![
        ("faultCode".to_owned(), Value::Int(code)),
        ("faultString".to_owned(), Value::from(text)),
    ];
    let mut out = String::from(HEAD);
    out.push_str("<methodResponse>\n<fault>\n");
    put(&mut out, &Value::Struct(members));
    out.push_str("\n</fault>\n</methodResponse>\n");
    out
}

/// A call with these parameters.
pub fn call(method: &str, params: &[Value]) -> String {
    let mut out = String::from(HEAD);
    out.push_str("<methodCall>\n<methodName>");
    put_text(&mut out, method);
    out.push_str("</methodName>\n<params>\n");
    for value in params {
        out.push_str("<param>\n");
        put(&mut out, value);
        out.push_str("\n</param>\n");
    }
    out.push_str("</params>\n</methodCall>\n");
    out
}

/// One `<value>`. There are no blanks between its elements: clients of 1.4 count them as children.
fn put(out: &mut String, value: &Value) {
    out.push_str("<value>");
    match value {
        // i4 has 32 bits; what is longer Fabric's Python wrote as a string.
        Value::Int(number) if i32::try_from(*number).is_err() => {
            element(out, "string", &number.to_string());
        }
        Value::Int(number) => element(out, "int", &number.to_string()),
        Value::Bool(truth) => element(out, "boolean", if *truth { "1" } else { "0" }),
        Value::Text(text) => element(out, "string", text),
        Value::Double(number) => element(out, "double", &double(*number)),
        Value::Time(time) => element(out, "dateTime.iso8601", time),
        Value::Nil => out.push_str("<nil/>"),
        Value::Array(values) => {
            out.push_str("<array><data>");
            values.iter().for_each(|value| put(out, value));
            out.push_str("</data></array>");
        }
        Value::Struct(members) => {
            out.push_str("<struct>");
            for (name, value) in members {
                out.push_str("<member>");
                element(out, "name", name);
                put(out, value);
                out.push_str("</member>");
            }
            out.push_str("</struct>");
        }
    }
    out.push_str("</value>");
}

/// XML-RPC has no exponents, no infinity and no NaN.
fn double(number: f64) -> String {
    if !number.is_finite() {
        return "0.0".to_owned();
    }
    let text = number.to_string();
    match text.contains('.') {
        true => text,
        false => text + ".0",
    }
}

fn element(out: &mut String, name: &str, text: &str) {
    out.push('<');
    out.push_str(name);
    out.push('>');
    put_text(out, text);
    out.push_str("</");
    out.push_str(name);
    out.push('>');
}

/// Characters that XML 1.0 cannot hold become question marks.
fn put_text(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A reader would make a line feed of it.
            '\r' => out.push_str("&#13;"),
            '\t' | '\n' => out.push(character),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => out.push('?'),
            _ => out.push(character),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_without_blanks_between_them() {
        let row = vec!["a<b&c>\r\u{1}".into(), 7i64.into(), true.into(), 1.0.into()];
        let text = response(&Value::Array(vec![Value::Array(row), Value::Nil]));
        let expected = "<value><array><data><value><array><data>\
                        <value><string>a&lt;b&amp;c&gt;&#13;?</string></value><value><int>7</int></value>\
                        <value><boolean>1</boolean></value><value><double>1.0</double></value>\
                        </data></array></value><value><nil/></value></data></array></value>";
        assert!(text.contains(expected), "{text}");
        assert!(text.starts_with("<?xml version='1.0'?>\n<methodResponse>"));
    }

    #[test]
    fn numbers_have_the_forms_that_xml_rpc_has() {
        assert_eq!(double(1e21), "1000000000000000000000.0");
        assert_eq!(double(0.25), "0.25");
        assert_eq!(double(f64::NAN), "0.0");
        assert!(response(&(1i64 << 40).into()).contains("<string>1099511627776</string>"));
    }
}
