//! The values in the URI of a resource.

use syn::{Error, LitStr, Result};

/// The names in braces, if the URI is one that a server can match.
pub(crate) fn values(uri: &LitStr) -> Result<Vec<String>> {
    find(&uri.value()).map_err(|message| Error::new(uri.span(), message))
}

fn find(uri: &str) -> std::result::Result<Vec<String>, String> {
    let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
    let fits = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.is_some_and(|scheme| {
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(fits)
    }) {
        return Err("a URI begins with its scheme, such as `orders://terms`".into());
    }
    let (mut names, mut rest) = (Vec::new(), uri);
    while let Some((before, behind)) = rest.split_once('{') {
        if before.is_empty() {
            return Err("there must be something between two values: `{a}/{b}`".into());
        }
        let (name, after) = behind.split_once('}').ok_or("a brace is not closed")?;
        let name = name.strip_prefix('+').unwrap_or(name);
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return Err(format!(
                "`{{{name}}}` can't be matched: write `{{name}}`, or `{{+name}}` for a value \
                 with slashes"
            ));
        }
        if names.iter().any(|other| other == name) {
            return Err(format!("the value `{{{name}}}` is there twice"));
        }
        names.push(name.to_owned());
        rest = after;
    }
    if rest.contains('}') {
        return Err("a brace is closed and was not opened".into());
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        assert_eq!(find("a:b"), Ok(vec![]));
        assert_eq!(find("orders://{id}/{+path}"), Ok(vec!["id".into(), "path".into()]));
        for bad in
            ["terms", "1a:b", "x:{a", "x:a}", "x:{}", "x:{a}{b}", "x:{?q}", "x:{a}/{a}", "{a}:b"]
        {
            assert!(find(bad).is_err(), "{bad}");
        }
    }
}
