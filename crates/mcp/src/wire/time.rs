//! Points in time as the wire has them.

use steadfast_core::Timestamp;

const DAY: i64 = 86_400_000;

/// ISO 8601 in UTC with milliseconds, such as `2026-07-28T09:30:00.000Z`.
pub(crate) fn iso8601(at: Timestamp) -> String {
    let (days, millis) = (at.0.div_euclid(DAY), at.0.rem_euclid(DAY));
    let (year, month, day) = civil(days);
    let (seconds, millis) = (millis / 1000, millis % 1000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if !(0..=9999).contains(&year) {
        return format!(
            "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
        );
    }
    // Digit by digit: `format!` takes ten times as long, and every poll has two of these.
    let mut text = String::with_capacity(24);
    for (number, digits, behind) in [
        (year, 4, '-'),
        (month, 2, '-'),
        (day, 2, 'T'),
        (hour, 2, ':'),
        (minute, 2, ':'),
        (second, 2, '.'),
        (millis, 3, 'Z'),
    ] {
        for place in (0..digits).rev() {
            let digit = number / 10_i64.pow(place) % 10;
            text.push(char::from(b"0123456789"[usize::try_from(digit).unwrap_or(0)]));
        }
        text.push(behind);
    }
    text
}

/// Year, month and day of the day with this number since 1970-01-01. Counts in eras of 400 years
/// that begin on March 1st, so that the leap day is the last of a year.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + carry, month, of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_days() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_785_231_000_123, "2026-07-28T09:30:00.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
            (253_402_300_800_000, "10000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso8601(Timestamp(millis)), text);
        }
    }
}
