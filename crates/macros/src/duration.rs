//! Durations as people write them: `500ms`, `30s`, `10m`, `2h`, `7d`, `forever`.

use syn::{Error, LitStr, Result};

/// How long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Millis(u64),
    Forever,
}

pub(crate) fn read(text: &LitStr) -> Result<Length> {
    parse(&text.value()).ok_or_else(|| {
        let rule = "a duration is a number with its unit, such as \"500ms\", \"30s\", \"10m\", \"2h\" \
                    or \"7d\"; or \"forever\"";
        Error::new(text.span(), rule)
    })
}

fn parse(text: &str) -> Option<Length> {
    if text == "forever" {
        return Some(Length::Forever);
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let millis = match unit.trim_start() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(millis).map(Length::Millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_with_its_unit() {
        for (text, millis) in [
            ("500ms", 500),
            ("30s", 30_000),
            ("10 m", 600_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
        ] {
            assert_eq!(parse(text), Some(Length::Millis(millis)), "{text}");
        }
        assert_eq!(parse("forever"), Some(Length::Forever));
        for bad in [
            "",
            "5",
            "s",
            "5 weeks",
            "-1s",
            "1.5h",
            "99999999999999999999d",
            "18446744073709551615d",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
