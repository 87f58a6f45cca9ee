//! The values of steps: what they are in a record, and what they are to readers.

/// A value of a step, for whoever shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u64),
    Word(&'static str),
    /// The first half of a digest; 0 where a statement has none.
    Digest(u64),
    /// By the numbers of the snapshot.
    Server(u32),
    Group(u32),
    Flag(bool),
}

/// What a slot of a record can hold.
pub(crate) trait Field: Copy {
    fn bits(self) -> u64;
    fn of(bits: u64) -> Self;
    fn value(self) -> Value;
}

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident ($number:ty) $of:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub $number);

        impl Field for $name {
            fn bits(self) -> u64 {
                u64::from(self.0)
            }

            fn of(bits: u64) -> $name {
                // A slot never holds more than its field has.
                $name(bits as $number)
            }

            fn value(self) -> Value {
                Value::$of(self.0)
            }
        }
    )*};
}

numbers! {
    /// A server by its number in the snapshot.
    Server(u32) Server;
    /// A group by its number.
    Group(u32) Group;
    /// The first half of a digest.
    Digest(u64) Digest;
}

macro_rules! plain {
    ($($number:ty),*) => {$(
        impl Field for $number {
            fn bits(self) -> u64 {
                u64::from(self)
            }

            fn of(bits: u64) -> $number {
                bits as $number
            }

            fn value(self) -> Value {
                Value::Number(u64::from(self))
            }
        }
    )*};
}

plain!(u8, u16, u32, u64);

impl Field for bool {
    fn bits(self) -> u64 {
        u64::from(self)
    }

    fn of(bits: u64) -> bool {
        bits != 0
    }

    fn value(self) -> Value {
        Value::Flag(self)
    }
}
