//! The values of XML-RPC.

/// One value, as a parameter or in an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `int`, `i4`; what a client sends as `i8` too.
    Int(i64),
    Bool(bool),
    Text(String),
    Double(f64),
    /// `dateTime.iso8601`, as it was written.
    Time(String),
    Nil,
    Array(Vec<Value>),
    /// In the order of its members.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// The kind of value, as its element is called.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Int(_) => "int",
            Value::Bool(_) => "boolean",
            Value::Text(_) => "string",
            Value::Double(_) => "double",
            Value::Time(_) => "dateTime.iso8601",
            Value::Nil => "nil",
            Value::Array(_) => "array",
            Value::Struct(_) => "struct",
        }
    }

    /// A single value as the word that the command line would have; `None` for arrays and structs. Nothing
    /// at all is an empty word.
    pub fn word(&self) -> Option<String> {
        match self {
            Value::Int(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Text(text) | Value::Time(text) => Some(text.clone()),
            Value::Double(number) => Some(number.to_string()),
            Value::Nil => Some(String::new()),
            Value::Array(_) | Value::Struct(_) => None,
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Value {
        Value::Int(number.into())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Bool(truth)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Value {
        Value::Double(number)
    }
}
