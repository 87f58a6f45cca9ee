//! One column of a group, over the parts that the shards made of it.

use super::decimal::Decimal;
use super::{Comparison, Odd, compare_values};

/// How the parts of one column become one value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregate {
    /// The first one's: the group's own columns.
    First,
    /// SUM of exact numbers, and COUNT.
    Sum,
    /// SUM of floating-point numbers.
    SumDouble,
    Least(Comparison),
    Greatest(Comparison),
    /// This column has sums; `count` is the column that has the numbers of values. With `places` more
    /// digits behind the point (`div_precision_increment`); `None` for floating-point numbers.
    Average {
        count: usize,
        places: Option<usize>,
    },
    /// This column has the shards' own averages of exact numbers, which tell the digits behind the
    /// point; `sum` and `count` are the columns that have the sums and the numbers of values.
    Mean {
        sum: usize,
        count: usize,
    },
    /// The least or greatest one by the weights in another column, which is a [`Aggregate::Weight`].
    Best {
        weight: usize,
        how: Comparison,
        greatest: bool,
    },
    /// What a [`Aggregate::Best`] is chosen by.
    Weight,
    /// BIT_AND, BIT_OR, BIT_XOR.
    Bits(Bits),
    /// Of the plan's lists this one.
    List(usize),
}

/// How bits of whole numbers become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bits {
    And,
    Or,
    Xor,
}

impl Aggregate {
    /// A value of this weight replaces one of that weight. NULL replaces nothing.
    ///
    /// # Errors
    /// A weight is no number, but must be one.
    pub(super) fn is_better(&self, new: Option<&[u8]>, old: Option<&[u8]>) -> Result<bool, Odd> {
        match (self, new, old) {
            (Aggregate::Best { how, greatest, .. }, Some(new), Some(old)) => {
                let order = compare_values(*how, new, old)?;
                Ok(if *greatest {
                    order.is_gt()
                } else {
                    order.is_lt()
                })
            }
            (Aggregate::Best { .. }, Some(_), None) => Ok(true),
            _ => Ok(false),
        }
    }
}

/// The value so far.
#[derive(Clone, Debug)]
pub struct Total {
    aggregate: Aggregate,
    value: Value,
}

#[derive(Clone, Debug)]
enum Value {
    Null,
    Text(Vec<u8>),
    Exact(Decimal),
    Double(f64),
    Bits(u64),
    Parts(Vec<Vec<u8>>),
}

impl Total {
    /// With the first part.
    ///
    /// # Errors
    /// It is no number, but must be one.
    pub fn begin(aggregate: Aggregate, value: Option<&[u8]>) -> Result<Total, Odd> {
        let mut total = Total {
            aggregate,
            value: Value::Null,
        };
        total.add(value)?;
        Ok(total)
    }

    /// Adds a part; NULL adds nothing.
    ///
    /// # Errors
    /// It is no number, but must be one.
    pub fn add(&mut self, value: Option<&[u8]>) -> Result<(), Odd> {
        let Some(value) = value else { return Ok(()) };
        let now = std::mem::replace(&mut self.value, Value::Null);
        self.value = match (self.aggregate, now) {
            (Aggregate::First | Aggregate::Mean { .. }, Value::Null) => Value::Text(value.to_vec()),
            (Aggregate::First | Aggregate::Mean { .. }, now) => now,
            // Chosen by the merge, which sees the whole row.
            (Aggregate::Best { .. } | Aggregate::Weight, now) => now,
            (
                Aggregate::Sum
                | Aggregate::Average {
                    places: Some(_), ..
                },
                now,
            ) => {
                let value = decimal(value)?;
                Value::Exact(match now {
                    Value::Exact(sum) => sum.add(&value),
                    _ => value,
                })
            }
            (Aggregate::SumDouble | Aggregate::Average { places: None, .. }, now) => {
                let value = double(value)?;
                Value::Double(match now {
                    Value::Double(sum) => sum + value,
                    _ => value,
                })
            }
            (Aggregate::Least(how) | Aggregate::Greatest(how), Value::Text(now)) => {
                let order = compare_values(how, value, &now)?;
                let replaces = match self.aggregate {
                    Aggregate::Least(_) => order.is_lt(),
                    _ => order.is_gt(),
                };
                Value::Text(if replaces { value.to_vec() } else { now })
            }
            (Aggregate::Least(_) | Aggregate::Greatest(_), _) => Value::Text(value.to_vec()),
            (Aggregate::Bits(how), Value::Bits(now)) => Value::Bits(how.of(now, bits(value)?)),
            (Aggregate::Bits(_), _) => Value::Bits(bits(value)?),
            (Aggregate::List(_), now) => {
                let mut parts = match now {
                    Value::Parts(parts) => parts,
                    _ => Vec::new(),
                };
                parts.push(value.to_vec());
                Value::Parts(parts)
            }
        };
        Ok(())
    }

    /// As a server prints it.
    pub fn value(&self) -> Option<Vec<u8>> {
        match &self.value {
            Value::Null | Value::Parts(_) => None,
            Value::Bits(bits) => Some(bits.to_string().into_bytes()),
            Value::Text(text) => Some(text.clone()),
            Value::Exact(sum) => Some(sum.print(0).into_bytes()),
            Value::Double(sum) => Some(print(*sum)),
        }
    }
}

impl Total {
    /// The parts of a list so far.
    pub(super) fn parts(&self) -> &[Vec<u8>] {
        match &self.value {
            Value::Parts(parts) => parts,
            _ => &[],
        }
    }
}

impl Bits {
    fn of(self, one: u64, other: u64) -> u64 {
        match self {
            Bits::And => one & other,
            Bits::Or => one | other,
            Bits::Xor => one ^ other,
        }
    }
}

fn bits(text: &[u8]) -> Result<u64, Odd> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|it| it.parse().ok());
    number.ok_or_else(|| odd(text))
}

/// A sum over a count, NULL without a value.
pub(crate) fn average(
    sum: Option<&[u8]>,
    count: Option<&[u8]>,
    places: Option<usize>,
) -> Option<Vec<u8>> {
    let count: u64 = std::str::from_utf8(count?).ok()?.parse().ok()?;
    if count == 0 {
        return None;
    }
    let sum = sum?;
    match places {
        Some(places) => {
            let average = Decimal::parse(sum)?.divide(count, places);
            Some(average.print(0).into_bytes())
        }
        None => Some(print(double(sum).ok()? / count as f64)),
    }
}

/// The average of exact numbers, with as many digits behind the point as `shown`, one shard's, has.
pub(crate) fn mean(
    shown: Option<&[u8]>,
    sum: Option<&[u8]>,
    count: Option<&[u8]>,
) -> Option<Vec<u8>> {
    let digits = |text: &[u8]| {
        let point = text.iter().position(|byte| *byte == b'.');
        point.map_or(0, |at| text.len() - at - 1)
    };
    let more = digits(shown?).checked_sub(digits(sum?))?;
    average(sum, count, Some(more))
}

pub(crate) fn decimal(text: &[u8]) -> Result<Decimal, Odd> {
    Decimal::parse(text).ok_or_else(|| odd(text))
}

pub(crate) fn double(text: &[u8]) -> Result<f64, Odd> {
    let number = std::str::from_utf8(text)
        .ok()
        .and_then(|it| it.parse().ok());
    number.ok_or_else(|| odd(text))
}

fn odd(text: &[u8]) -> Odd {
    Odd(format!("{:?} is no number", String::from_utf8_lossy(text)))
}

/// A double as the servers print it: the shortest text that is read back the same, with an exponent
/// from 1e15 on and below 1e-15.
fn print(number: f64) -> Vec<u8> {
    let size = number.abs();
    let plain = size == 0.0 || (1e-15..1e15).contains(&size);
    match plain {
        true => format!("{number}"),
        false => format!("{number:e}"),
    }
    .into_bytes()
}
