//! COM_STMT_EXECUTE. A client names the types of the parameters when it binds them, and may leave
//! them out in later executions: who passes statements to another connection has to remember them.

use crate::Malformed;
use crate::result::ColumnKind;
use crate::scalar::{Reader, put_lenenc_bytes, put_lenenc_int, put_u32};
use crate::value::{Value, ValueKind, is_null, null_bitmap_bytes, put_null_bitmap};

/// Flag: open a cursor; rows come by COM_STMT_FETCH.
pub const CURSOR_READ_ONLY: u8 = 1;
/// Flag: the number of parameters is in the packet even if the statement has none (MySQL, under
/// QUERY_ATTRIBUTES).
pub const PARAMETERS_COUNTED: u8 = 8;

/// The bit of the second type byte that takes the sign away.
const UNSIGNED: u8 = 0x80;

/// An execution. The values stay undecoded, so that it can be passed on; see [`Execute::values`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Execute<'a> {
    pub statement_id: u32,
    /// [`CURSOR_READ_ONLY`], [`PARAMETERS_COUNTED`].
    pub flags: u8,
    /// Always 1.
    pub iterations: u32,
    /// How many parameters follow, query attributes included.
    pub params: u16,
    /// Whether the connection has QUERY_ATTRIBUTES: the packet counts its parameters, and types
    /// have names.
    pub query_attributes: bool,
    /// A flag for each parameter that is NULL.
    pub null_bitmap: &'a [u8],
    /// Whether `types` are here; otherwise those of the last execution hold.
    pub new_params_bound: bool,
    /// Two bytes for each parameter, and its name under QUERY_ATTRIBUTES; see [`ParamKind`].
    pub types: &'a [u8],
    /// The values of those parameters that are not NULL and were not sent as long data.
    pub values: &'a [u8],
}

/// The type of a parameter, and its name, which only query attributes have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParamKind<'a> {
    pub kind: ValueKind,
    pub name: &'a [u8],
}

impl<'a> Execute<'a> {
    /// Reads what follows the command byte. `params` is what [`PrepareOk`](super::PrepareOk) said,
    /// and `query_attributes` whether the connection has that capability.
    pub fn decode(
        bytes: &'a [u8],
        params: u16,
        query_attributes: bool,
    ) -> Result<Execute<'a>, Malformed> {
        let mut reader = Reader::new(bytes);
        let mut execute = Execute {
            statement_id: reader.u32()?,
            flags: reader.u8()?,
            iterations: reader.u32()?,
            params,
            query_attributes,
            null_bitmap: &[],
            new_params_bound: false,
            types: &[],
            values: &[],
        };
        if execute.has_count() {
            let count = reader.lenenc_int()?;
            // Attributes come on top of the statement's own parameters.
            execute.params = match u16::try_from(count) {
                Ok(count) if count >= params => count,
                _ => {
                    return Err(Malformed::new(
                        "an execution with a wrong number of parameters",
                    ));
                }
            };
        }
        if execute.params > 0 {
            execute.null_bitmap = reader.bytes(null_bitmap_bytes(execute.params.into(), 0))?;
            execute.new_params_bound = reader.u8()? != 0;
            if execute.new_params_bound {
                execute.types = execute.take_types(&mut reader)?;
            }
        }
        execute.values = reader.rest();
        Ok(execute)
    }

    /// Appends what follows the command byte. To run a statement where its types are not known,
    /// set `new_params_bound` and `types` to the remembered ones first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_u32(out, self.statement_id);
        out.push(self.flags);
        put_u32(out, self.iterations);
        if self.has_count() {
            put_lenenc_int(out, self.params.into());
        }
        if self.params > 0 {
            out.extend_from_slice(self.null_bitmap);
            out.push(u8::from(self.new_params_bound));
            if self.new_params_bound {
                out.extend_from_slice(self.types);
            }
        }
        out.extend_from_slice(self.values);
    }

    /// Appends the execution as a connection without QUERY_ATTRIBUTES takes it: the statement's own
    /// `params` parameters and no more. `types` are those of an earlier execution, for one that left
    /// them out. With `long_data`, values of attributes may stay behind the others, where servers do
    /// not look.
    pub fn encode_plain(
        &self,
        params: u16,
        types: &[u8],
        long_data: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        let bound = Execute {
            types: if self.new_params_bound {
                self.types
            } else {
                types
            },
            ..self.clone()
        };
        let kinds = bound.param_kinds()?;
        let Some(own) = kinds.get(..usize::from(params)) else {
            return Err(Malformed::new(
                "an execution without the types of its parameters",
            ));
        };
        let mut plain = Vec::with_capacity(own.len() * 2);
        let mut reader = Reader::new(self.values);
        for (at, kind) in own.iter().enumerate() {
            put_param_kind(&mut plain, kind, false);
            if !long_data && !is_null(self.null_bitmap, at, 0) {
                Value::read(&mut reader, kind.kind)?;
            }
        }
        let nulls = null_bitmap_bytes(own.len(), 0);
        let mut null_bitmap = self.null_bitmap.get(..nulls).unwrap_or_default().to_vec();
        if let (Some(last), spare @ 1..) = (null_bitmap.last_mut(), nulls * 8 - own.len()) {
            *last &= 0xFF >> spare;
        }
        let values = match long_data {
            true => self.values,
            false => &self.values[..self.values.len() - reader.remaining()],
        };
        Execute {
            flags: self.flags & !PARAMETERS_COUNTED,
            params,
            query_attributes: false,
            null_bitmap: &null_bitmap,
            new_params_bound: params > 0,
            types: &plain,
            values,
            ..self.clone()
        }
        .encode(out);
        Ok(())
    }

    /// The types, when they are here.
    pub fn param_kinds(&self) -> Result<Vec<ParamKind<'a>>, Malformed> {
        let mut reader = Reader::new(self.types);
        let mut kinds = Vec::new();
        while !reader.is_empty() {
            kinds.push(take_kind(&mut reader, self.query_attributes)?);
        }
        Ok(kinds)
    }

    /// Decodes the values by their types, which come from this execution or an earlier one.
    /// `is_long_data` says of which parameters data was sent before; they have no value here and
    /// come out as NULL.
    pub fn decode_params(
        &self,
        kinds: &[ValueKind],
        is_long_data: impl Fn(usize) -> bool,
    ) -> Result<Vec<Value<'a>>, Malformed> {
        if kinds.len() != usize::from(self.params) {
            return Err(Malformed::new(
                "an execution without the types of its parameters",
            ));
        }
        let mut reader = Reader::new(self.values);
        let mut values = Vec::with_capacity(kinds.len());
        for (at, kind) in kinds.iter().enumerate() {
            values.push(match is_null(self.null_bitmap, at, 0) || is_long_data(at) {
                true => Value::Null,
                false => Value::read(&mut reader, *kind)?,
            });
        }
        if !reader.is_empty() {
            return Err(Malformed::new(
                "an execution with more values than parameters",
            ));
        }
        Ok(values)
    }

    /// Whether the packet counts its parameters itself. Decided by what the statement has
    /// (`params` from its preparation) or by the flag.
    fn has_count(&self) -> bool {
        self.query_attributes && (self.params > 0 || self.flags & PARAMETERS_COUNTED != 0)
    }

    /// Takes the types off: two bytes each, and a name under QUERY_ATTRIBUTES.
    fn take_types(&self, reader: &mut Reader<'a>) -> Result<&'a [u8], Malformed> {
        let mut ahead = reader.clone();
        for _ in 0..self.params {
            ahead.u16()?;
            if self.query_attributes {
                ahead.lenenc_bytes()?;
            }
        }
        reader.bytes(reader.remaining() - ahead.remaining())
    }
}

fn take_kind<'a>(reader: &mut Reader<'a>, is_named: bool) -> Result<ParamKind<'a>, Malformed> {
    let column = ColumnKind::try_from(reader.u8()?)?;
    let unsigned = reader.u8()? & UNSIGNED != 0;
    let name = if is_named {
        reader.lenenc_bytes()?
    } else {
        &[]
    };
    Ok(ParamKind {
        kind: ValueKind { column, unsigned },
        name,
    })
}

/// Appends an execution with types and values of one's own, for a connection without
/// QUERY_ATTRIBUTES. Refuses values that do not fit their kind; `out` is then as before.
pub fn encode_execute(
    out: &mut Vec<u8>,
    statement_id: u32,
    flags: u8,
    params: &[(ValueKind, Value<'_>)],
) -> Result<(), Malformed> {
    let start = out.len();
    put_u32(out, statement_id);
    out.push(flags);
    put_u32(out, 1);
    if params.is_empty() {
        return Ok(());
    }
    let values: Vec<_> = params.iter().map(|(_, value)| *value).collect();
    put_null_bitmap(out, &values, 0);
    out.push(1);
    for (kind, _) in params {
        put_param_kind(
            out,
            &ParamKind {
                kind: *kind,
                name: b"",
            },
            false,
        );
    }
    let written = params
        .iter()
        .try_for_each(|(kind, value)| value.write(out, *kind));
    if written.is_err() {
        out.truncate(start);
    }
    written
}

/// Appends a parameter's type as it lies in [`Execute::types`], with its name if there are query
/// attributes.
pub fn put_param_kind(types: &mut Vec<u8>, param: &ParamKind<'_>, query_attributes: bool) {
    let sign = if param.kind.unsigned { UNSIGNED } else { 0 };
    types.extend_from_slice(&[param.kind.column as u8, sign]);
    if query_attributes {
        put_lenenc_bytes(types, param.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: ValueKind = ValueKind {
        column: ColumnKind::Long,
        unsigned: true,
    };
    const TEXT: ValueKind = ValueKind {
        column: ColumnKind::VarString,
        unsigned: false,
    };

    fn sample() -> Vec<u8> {
        let params = [
            (LONG, Value::UInt(7)),
            (TEXT, Value::Null),
            (TEXT, Value::Bytes(b"x")),
        ];
        let mut out = Vec::new();
        encode_execute(&mut out, 5, 0, &params).expect("the values fit");
        out
    }

    #[test]
    fn an_execution_reads_back_with_its_values() {
        let bytes = sample();
        let execute = Execute::decode(&bytes, 3, false).expect("an execution");
        assert_eq!((execute.statement_id, execute.iterations), (5, 1));
        assert_eq!(
            (execute.null_bitmap, execute.new_params_bound),
            (&[0b10][..], true)
        );
        let kinds: Vec<_> = execute
            .param_kinds()
            .expect("types")
            .iter()
            .map(|p| p.kind)
            .collect();
        assert_eq!(kinds, [LONG, TEXT, TEXT]);
        let values = execute.decode_params(&kinds, |_| false);
        assert_eq!(
            values,
            Ok(vec![Value::UInt(7), Value::Null, Value::Bytes(b"x")])
        );
        let mut out = Vec::new();
        execute.encode(&mut out);
        assert_eq!(out, bytes);
    }

    #[test]
    fn types_of_an_earlier_execution_are_put_back_in() {
        let bytes = sample();
        let first = Execute::decode(&bytes, 3, false).expect("an execution");
        let mut second = first.clone();
        (second.new_params_bound, second.types) = (false, &[]);
        let mut short = Vec::new();
        second.encode(&mut short);
        let mut later = Execute::decode(&short, 3, false).expect("a later execution");
        assert_eq!(later, second);
        (later.new_params_bound, later.types) = (true, first.types);
        let mut whole = Vec::new();
        later.encode(&mut whole);
        assert_eq!(whole, bytes);
    }

    #[test]
    fn long_data_has_no_value_in_the_execution() {
        let mut bytes = Vec::new();
        encode_execute(&mut bytes, 5, 0, &[(TEXT, Value::Bytes(b"x"))]).expect("the value fits");
        bytes.truncate(bytes.len() - 2);
        let execute = Execute::decode(&bytes, 1, false).expect("an execution");
        assert_eq!(
            execute.decode_params(&[TEXT], |at| at == 0),
            Ok(vec![Value::Null])
        );
        assert!(execute.decode_params(&[TEXT], |_| false).is_err());
        assert!(execute.decode_params(&[], |_| false).is_err());
    }

    #[test]
    fn query_attributes_are_counted_and_named() {
        let mut types = Vec::new();
        put_param_kind(
            &mut types,
            &ParamKind {
                kind: LONG,
                name: b"",
            },
            true,
        );
        put_param_kind(
            &mut types,
            &ParamKind {
                kind: TEXT,
                name: b"trace",
            },
            true,
        );
        let execute = Execute {
            statement_id: 1,
            flags: PARAMETERS_COUNTED,
            iterations: 1,
            params: 2,
            query_attributes: true,
            null_bitmap: &[0],
            new_params_bound: true,
            types: &types,
            values: b"\x01\0\0\0\x02id",
        };
        let mut out = Vec::new();
        execute.encode(&mut out);
        assert_eq!(Execute::decode(&out, 1, true), Ok(execute.clone()));
        let names: Vec<_> = execute
            .param_kinds()
            .expect("types")
            .iter()
            .map(|p| p.name)
            .collect();
        assert_eq!(names, [&b""[..], b"trace"]);
    }

    #[test]
    fn attributes_are_left_out_for_servers_that_do_not_take_them() {
        let (mut named, mut plain) = (Vec::new(), Vec::new());
        for (kind, name) in [(LONG, &b""[..]), (TEXT, b""), (TEXT, b"trace")] {
            put_param_kind(&mut named, &ParamKind { kind, name }, true);
        }
        for kind in [LONG, TEXT] {
            put_param_kind(&mut plain, &ParamKind { kind, name: b"" }, false);
        }
        let whole = Execute {
            statement_id: 9,
            flags: PARAMETERS_COUNTED | CURSOR_READ_ONLY,
            iterations: 1,
            params: 3,
            query_attributes: true,
            null_bitmap: &[0b110],
            new_params_bound: true,
            types: &named,
            values: b"\x07\0\0\0",
        };
        let want = Execute {
            flags: CURSOR_READ_ONLY,
            params: 2,
            query_attributes: false,
            null_bitmap: &[0b010],
            types: &plain,
            ..whole.clone()
        };
        let mut out = Vec::new();
        whole.encode_plain(2, b"", false, &mut out).expect("types");
        assert_eq!(Execute::decode(&out, 2, false), Ok(want.clone()));
        let valued = Execute {
            null_bitmap: &[0],
            values: b"\x07\0\0\0\x01x\x02id",
            ..whole.clone()
        };
        out.clear();
        valued.encode_plain(2, b"", false, &mut out).expect("types");
        let read = Execute::decode(&out, 2, false).expect("plain");
        assert_eq!(
            (read.values, read.null_bitmap),
            (&valued.values[..6], &[0][..])
        );
        let unbound = Execute {
            new_params_bound: false,
            types: b"",
            ..whole.clone()
        };
        out.clear();
        unbound
            .encode_plain(2, &named, false, &mut out)
            .expect("types");
        assert_eq!(Execute::decode(&out, 2, false), Ok(want));
        assert!(unbound.encode_plain(2, b"", false, &mut out).is_err());
        out.clear();
        whole
            .encode_plain(0, b"", false, &mut out)
            .expect("nothing");
        assert_eq!(out, [9, 0, 0, 0, 1, 1, 0, 0, 0]);
    }

    #[test]
    fn an_execution_without_parameters_has_nine_bytes() {
        let mut out = Vec::new();
        encode_execute(&mut out, 5, CURSOR_READ_ONLY, &[]).expect("nothing to fit");
        assert_eq!(out, [5, 0, 0, 0, 1, 1, 0, 0, 0]);
        assert!(Execute::decode(&out, 0, false).is_ok());
        assert!(Execute::decode(&out, 1, false).is_err());
        assert!(Execute::decode(&out[..8], 0, false).is_err());
    }

    #[test]
    fn values_that_do_not_fit_leave_the_buffer_alone() {
        let mut out = b"before".to_vec();
        assert!(encode_execute(&mut out, 1, 0, &[(LONG, Value::Bytes(b""))]).is_err());
        assert_eq!(out, b"before");
    }
}
