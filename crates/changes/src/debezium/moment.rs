//! Dates and times as numbers since 1970, of the texts in which servers write them.

use time::{Date, Month};

/// Of 1970-01-01, in days of the Julian calendar's count.
const EPOCH_DAY: i32 = 2_440_588;

const SECOND_US: i64 = 1_000_000;

/// Days since 1970; `None` for a date that is none, such as zero.
pub fn days(date: &str) -> Option<i32> {
    let mut parts = date.splitn(3, '-');
    let year: i32 = parts.next()?.parse().ok()?;
    let month: u8 = parts.next()?.parse().ok()?;
    let day: u8 = parts.next()?.parse().ok()?;
    if year == 0 {
        return None;
    }
    let date = Date::from_calendar_date(year, Month::try_from(month).ok()?, day).ok()?;
    Some(date.to_julian_day() - EPOCH_DAY)
}

/// Microseconds of a time, which may be negative and longer than a day.
pub fn micros_of_time(time: &str) -> Option<i64> {
    let (sign, time) = match time.strip_prefix('-') {
        Some(time) => (-1, time),
        None => (1, time),
    };
    let mut parts = time.splitn(3, ':');
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (hours, minutes) = (number()?, number()?);
    let (seconds, fraction) = match parts.next()? {
        text if text.contains('.') => text.split_once('.')?,
        text => (text, ""),
    };
    let seconds: i64 = seconds.parse().ok()?;
    let whole = (hours * 60 + minutes) * 60 + seconds;
    Some(sign * (whole * SECOND_US + micros(fraction)?))
}

/// Microseconds since 1970 of a date and time; `None` for one that is none, such as zero.
pub fn micros_of(moment: &str) -> Option<i64> {
    let (date, time) = moment.split_once(' ')?;
    let day_us = 86_400 * SECOND_US;
    Some(i64::from(days(date)?) * day_us + micros_of_time(time)?)
}

/// Of the digits behind a point.
fn micros(fraction: &str) -> Option<i64> {
    match fraction {
        "" => Some(0),
        digits => format!("{digits:0<6}").get(..6)?.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_numbers() {
        // Debezium's documentation: DATETIME 2018-06-20 06:37:03 becomes 1529476623000.
        assert_eq!(
            micros_of("2018-06-20 06:37:03"),
            Some(1_529_476_623_000_000)
        );
        assert_eq!(micros_of("1969-12-31 23:59:59.5"), Some(-500_000));
        assert_eq!(
            (days("1970-01-02"), days("1969-12-31")),
            (Some(1), Some(-1))
        );
        assert_eq!(days("9999-12-31"), Some(2_932_896));
        for zero in ["0000-00-00", "2024-00-10", "2023-02-29"] {
            assert_eq!(days(zero), None, "{zero}");
        }
        assert_eq!(micros_of_time("-00:00:01.25"), Some(-1_250_000));
        assert_eq!(micros_of_time("838:59:59"), Some(3_020_399_000_000));
    }
}
