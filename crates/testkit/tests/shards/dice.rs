//! Choices that a seed determines.

/// The same seed gives the same choices, on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next 64 bits (splitmix64).
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to one below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() % end as u64).expect("it is below a usize")
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: i64, high: i64) -> i64 {
        let span = u64::try_from(high - low + 1).expect("low is not above high");
        low + i64::try_from(self.bits() % span).expect("it is within the span")
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    /// Puts the elements into another order.
    pub fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at + 1));
        }
    }

    /// The text, or NULL in this many of a hundred cases.
    pub fn or_null(&mut self, chance: usize, text: String) -> String {
        match self.percent(chance) {
            true => "NULL".to_owned(),
            false => text,
        }
    }

    /// A day of 2025 with these many years around it, as `'2025-03-04'`.
    pub fn day(&mut self, first_year: i64, last_year: i64) -> String {
        let (year, month, day) = (
            self.within(first_year, last_year),
            self.within(1, 12),
            self.within(1, 28),
        );
        format!("'{year}-{month:02}-{day:02}'")
    }

    /// `12.34`, up to this many hundredths.
    pub fn cents(&mut self, low: i64, high: i64) -> String {
        let cents = self.within(low, high);
        let sign = if cents < 0 { "-" } else { "" };
        format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
    }
}
