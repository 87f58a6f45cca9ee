//! The whole numbers of columns, taken up while rows pass: what other tables are reduced by. So nobody has to ask the
//! scratch server for what has just gone there.

/// One column's.
pub struct Seen {
    /// Its place among the table's.
    pub column: usize,
    values: Vec<i128>,
    /// Some value is no whole number, or there are too many to keep.
    lacks: bool,
}

impl Seen {
    pub fn of(column: usize) -> Seen {
        Seen {
            column,
            values: Vec::new(),
            lacks: false,
        }
    }

    /// Takes up a value as it came, unless there are so many already.
    pub fn add(&mut self, value: &[u8], most: usize) {
        let whole = std::str::from_utf8(value).ok().and_then(|it| it.parse().ok());
        match whole.filter(|_| self.values.len() < most) {
            Some(whole) => self.values.push(whole),
            None => self.lacks = true,
        }
    }

    /// All values, each once, the least first; `None` where some are not here.
    pub fn values(mut self) -> Option<Vec<i128>> {
        self.values.sort_unstable();
        self.values.dedup();
        (!self.lacks).then_some(self.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_once() {
        let seen = |values: &[&str], most| {
            let mut seen = Seen::of(0);
            values.iter().for_each(|it| seen.add(it.as_bytes(), most));
            seen.values()
        };
        let large = "18446744073709551615";
        assert_eq!(seen(&["7", "-3", large, "7"], 4), Some(vec![-3, 7, i128::from(u64::MAX)]));
        assert_eq!(seen(&[], 4), Some(Vec::new()));
        assert_eq!(seen(&["7", "7", "7"], 2), None);
        assert_eq!(seen(&["7", "1.5"], 9), None);
    }
}
