//! Exact decimals of any length, as the servers print them: sums, and averages by their rule.

use std::cmp::Ordering;

/// A number `digits * 10^-scale`, with a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal {
    negative: bool,
    /// The least significant first, without zeros at the end.
    digits: Vec<u8>,
    scale: usize,
}

impl Decimal {
    /// Nothing.
    pub const ZERO: Decimal = Decimal {
        negative: false,
        digits: Vec::new(),
        scale: 0,
    };

    /// Reads what a server printed; `None` for what is no plain decimal.
    pub fn parse(text: &[u8]) -> Option<Decimal> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        let point = text.iter().position(|byte| *byte == b'.');
        let scale = point.map_or(0, |at| text.len() - at - 1);
        let digits = text.iter().filter(|byte| **byte != b'.');
        let digits: Option<Vec<u8>> = digits
            .rev()
            .map(|byte| byte.is_ascii_digit().then(|| byte - b'0'))
            .collect();
        let digits = digits.filter(|digits| !digits.is_empty())?;
        Some(Decimal::of(negative, digits, scale))
    }

    fn of(negative: bool, mut digits: Vec<u8>, scale: usize) -> Decimal {
        while digits.last() == Some(&0) {
            digits.pop();
        }
        Decimal {
            negative: negative && !digits.is_empty(),
            digits,
            scale,
        }
    }

    /// The digits with so many places behind the point, which must not be fewer than there are.
    fn aligned(&self, scale: usize) -> Vec<u8> {
        let mut digits = vec![0; scale - self.scale];
        digits.extend(&self.digits);
        digits
    }

    /// The sum, with the places of the longer one.
    pub fn add(&self, other: &Decimal) -> Decimal {
        let scale = self.scale.max(other.scale);
        let (a, b) = (self.aligned(scale), other.aligned(scale));
        if self.negative == other.negative {
            return Decimal::of(self.negative, sum(&a, &b), scale);
        }
        match magnitude(&a, &b) {
            Ordering::Less => Decimal::of(other.negative, difference(&b, &a), scale),
            _ => Decimal::of(self.negative, difference(&a, &b), scale),
        }
    }

    /// By value.
    pub fn compare(&self, other: &Decimal) -> Ordering {
        let scale = self.scale.max(other.scale);
        let order = magnitude(&self.aligned(scale), &other.aligned(scale));
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (true, true) => order.reverse(),
            (false, false) => order,
        }
    }

    /// The quotient with so many more places, rounded half away from zero.
    ///
    /// # Panics
    /// When the divisor is zero.
    pub fn divide(&self, by: u64, more_places: usize) -> Decimal {
        assert_ne!(by, 0, "nothing is averaged over no rows");
        let mut digits = vec![0; more_places];
        digits.extend(&self.digits);
        let by = u128::from(by);
        let mut rest = 0u128;
        let mut quotient = vec![0u8; digits.len()];
        for (at, digit) in digits.iter().enumerate().rev() {
            rest = rest * 10 + u128::from(*digit);
            quotient[at] = (rest / by) as u8;
            rest %= by;
        }
        if rest * 2 >= by {
            quotient = sum(&quotient, &[1]);
        }
        Decimal::of(self.negative, quotient, self.scale + more_places)
    }

    /// The text that a server prints, with exactly so many places behind the point where that does
    /// not cut anything off.
    pub fn print(&self, places: usize) -> String {
        let places = places.max(self.scale);
        let digits = self.aligned(places);
        let mut text = String::new();
        if self.negative {
            text.push('-');
        }
        let digit = |at: usize| char::from(b'0' + digits.get(at).copied().unwrap_or(0));
        for at in (places..digits.len().max(places + 1)).rev() {
            text.push(digit(at));
        }
        if places > 0 {
            text.push('.');
            (0..places).rev().for_each(|at| text.push(digit(at)));
        }
        text
    }
}

fn magnitude(a: &[u8], b: &[u8]) -> Ordering {
    let digit = |of: &[u8], at: usize| of.get(at).copied().unwrap_or(0);
    (0..a.len().max(b.len()))
        .rev()
        .map(|at| digit(a, at).cmp(&digit(b, at)))
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(a.len().max(b.len()) + 1);
    let mut carry = 0;
    for at in 0..a.len().max(b.len()) {
        let digit = a.get(at).unwrap_or(&0) + b.get(at).unwrap_or(&0) + carry;
        digits.push(digit % 10);
        carry = digit / 10;
    }
    digits.push(carry);
    digits
}

/// `a - b` for a magnitude of `a` that is not less.
fn difference(a: &[u8], b: &[u8]) -> Vec<u8> {
    let mut digits = Vec::with_capacity(a.len());
    let mut borrow = 0;
    for (at, &digit) in a.iter().enumerate() {
        let taken = b.get(at).unwrap_or(&0) + borrow;
        borrow = u8::from(digit < taken);
        digits.push(digit + 10 * borrow - taken);
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).expect("a number")
    }

    #[test]
    fn sums() {
        for (a, b, expected) in [
            ("1", "2", "3"),
            ("9.99", "0.01", "10.00"),
            ("-5", "3", "-2"),
            ("5", "-5.0", "0.0"),
            ("-0.5", "-0.75", "-1.25"),
            (
                "99999999999999999999999999999999999999",
                "1",
                "100000000000000000000000000000000000000",
            ),
            ("0", "-0.10", "-0.10"),
        ] {
            let (a, b) = (number(a), number(b));
            assert_eq!(a.add(&b).print(0), expected);
            assert_eq!(b.add(&a).print(0), expected);
        }
    }

    #[test]
    fn averages_are_rounded_as_servers_do() {
        for (total, count, more, expected) in [
            ("5", 3, 4, "1.6667"),
            ("-5", 3, 4, "-1.6667"),
            ("10.00", 4, 4, "2.500000"),
            ("1", 8, 2, "0.13"),
            ("0", 7, 4, "0.0000"),
        ] {
            assert_eq!(
                number(total).divide(count, more).print(0),
                expected,
                "{total}/{count}"
            );
        }
    }

    #[test]
    fn what_is_no_decimal_is_told() {
        for odd in ["", "-", "1e5", "NaN", "1-2"] {
            assert_eq!(Decimal::parse(odd.as_bytes()), None, "{odd}");
        }
        assert_eq!(number("-0.00").print(0), "0.00");
        assert_eq!(number("7").print(2), "7.00");
    }
}
