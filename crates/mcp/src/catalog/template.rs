//! URI templates: which URIs fit, and what stands in their places.

use std::collections::BTreeMap;

use super::Unfit;

/// A template of RFC 6570 as far as it can be matched: `{name}` is anything without a slash, `{+name}`
/// anything at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UriTemplate {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name { name: String, slashes: bool },
}

impl UriTemplate {
    pub(crate) fn parse(text: &str) -> Result<UriTemplate, Unfit> {
        let wrong = |rule| Unfit::Template(text.into(), rule);
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, behind)) = rest.split_once('{') {
            if !before.is_empty() {
                parts.push(Part::Text(before.into()));
            } else if matches!(parts.last(), Some(Part::Name { .. })) {
                return Err(wrong("there must be something between two names"));
            }
            let (name, after) =
                behind.split_once('}').ok_or_else(|| wrong("a brace is not closed"))?;
            let (slashes, name) = match name.strip_prefix('+') {
                Some(name) => (true, name),
                None => (false, name),
            };
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
            if name.is_empty() || !name.bytes().all(fits) {
                return Err(wrong("only {name} and {+name} can be matched"));
            }
            parts.push(Part::Name { name: name.into(), slashes });
            rest = after;
        }
        if rest.contains('}') {
            return Err(wrong("a brace is closed and was not opened"));
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.into()));
        }
        Ok(UriTemplate { parts })
    }

    /// What stands in the places of the names, if the URI fits.
    pub(crate) fn matches(&self, uri: &str) -> Option<BTreeMap<String, String>> {
        let mut values = BTreeMap::new();
        fit(&self.parts, uri, &mut values).then_some(values)
    }
}

/// A name takes as little as it can; the last takes the rest.
fn fit(parts: &[Part], text: &str, values: &mut BTreeMap<String, String>) -> bool {
    let Some((part, rest)) = parts.split_first() else { return text.is_empty() };
    match part {
        Part::Text(fixed) => {
            text.strip_prefix(fixed.as_str()).is_some_and(|left| fit(rest, left, values))
        }
        Part::Name { name, slashes } => {
            let ends = text.char_indices().map(|(at, _)| at).skip(1).chain([text.len()]);
            for end in ends {
                let (value, left) = text.split_at(end);
                if value.is_empty() || !slashes && value.contains('/') {
                    return false;
                }
                if fit(rest, left, values) {
                    values.insert(name.clone(), decode(value));
                    return true;
                }
            }
            false
        }
    }
}

/// Percent signs with two digits are the byte of that number.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut out, mut at) = (Vec::with_capacity(bytes.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let digits = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match (byte, digits) {
            (b'%', Some(decoded)) => {
                out.push(decoded);
                at += 3;
            }
            _ => {
                out.push(*byte);
                at += 1;
            }
        }
    }
    String::from_utf8(out).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(template: &str, uri: &str) -> Option<Vec<(String, String)>> {
        let found = UriTemplate::parse(template).unwrap().matches(uri)?;
        Some(found.into_iter().collect())
    }

    #[test]
    fn a_uri_fits_or_it_does_not() {
        let one = |name: &str, value: &str| Some(vec![(name.to_owned(), value.to_owned())]);
        assert_eq!(values("test://t/{id}/data", "test://t/12/data"), one("id", "12"));
        assert_eq!(values("test://t/{id}/data", "test://t/a%20b/data"), one("id", "a b"));
        for uri in ["test://t//data", "test://t/1/2/data", "test://t/1/dat", "test://t/1/data/"] {
            assert_eq!(values("test://t/{id}/data", uri), None, "{uri}");
        }
        assert_eq!(values("file:///{+path}", "file:///a/b.txt"), one("path", "a/b.txt"));
        assert_eq!(values("x:{a}-{b}", "x:1-2-3").unwrap().len(), 2);
        assert_eq!(values("x:{a}", "x:ü%zz"), one("a", "ü%zz"));
        for bad in ["x:{a", "x:a}", "x:{}", "x:{a}{b}", "x:{?q}", "x:{a,b}"] {
            assert!(UriTemplate::parse(bad).is_err(), "{bad}");
        }
    }
}
