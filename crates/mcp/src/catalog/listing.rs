//! Things in the order they were added, found by name, shown page by page.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as BASE64};

use super::Unfit;
use crate::wire::RpcError;

/// Things with a name each, in the order they were added.
pub(crate) struct Listed<T> {
    items: Vec<Arc<T>>,
    places: HashMap<String, usize>,
}

impl<T> Default for Listed<T> {
    fn default() -> Listed<T> {
        Listed { items: Vec::new(), places: HashMap::new() }
    }
}

impl<T> Clone for Listed<T> {
    fn clone(&self) -> Listed<T> {
        Listed { items: self.items.clone(), places: self.places.clone() }
    }
}

impl<T> Listed<T> {
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<T>> {
        self.places.get(name).and_then(|place| self.items.get(*place))
    }

    pub(crate) fn items(&self) -> &[Arc<T>] {
        &self.items
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn add(&mut self, kind: &'static str, name: &str, item: T) -> Result<(), Unfit> {
        if self.places.contains_key(name) {
            return Err(Unfit::Twice { kind, name: name.into() });
        }
        self.places.insert(name.into(), self.items.len());
        self.items.push(Arc::new(item));
        Ok(())
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, name: &str) -> bool {
        let Some(gone) = self.places.remove(name) else { return false };
        self.items.remove(gone);
        for place in self.places.values_mut().filter(|place| **place > gone) {
            *place -= 1;
        }
        true
    }

    fn name_at(&self, place: usize) -> Option<&str> {
        self.places.iter().find(|(_, at)| **at == place).map(|(name, _)| name.as_str())
    }
}

/// A page of a listing, and the cursor of the next. The cursor names the last thing shown, so that it
/// holds while others come and go.
pub(crate) fn page<'a, T>(
    listed: &'a Listed<T>,
    cursor: Option<&str>,
    size: usize,
) -> Result<(&'a [Arc<T>], Option<String>), RpcError> {
    let bad = || RpcError::invalid_params("this is no cursor of this listing; start without one");
    let from = match cursor {
        None => 0,
        Some(cursor) => {
            let name = BASE64.decode(cursor).ok().and_then(|name| String::from_utf8(name).ok());
            let place = name.and_then(|name| listed.places.get(&name).copied());
            place.ok_or_else(bad)? + 1
        }
    };
    let to = from.saturating_add(size.max(1)).min(listed.items.len());
    let last = (to < listed.items.len()).then(|| listed.name_at(to - 1)).flatten();
    Ok((listed.items.get(from..to).unwrap_or_default(), last.map(|name| BASE64.encode(name))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_while_things_come_and_go() {
        let mut listed = Listed::default();
        for name in ["a", "b", "c", "d", "e"] {
            listed.add("thing", name, name).unwrap();
        }
        let (first, next) = page(&listed, None, 2).unwrap();
        assert_eq!(first.iter().map(|item| **item).collect::<Vec<_>>(), ["a", "b"]);
        assert!(listed.remove("a"));
        assert!(!listed.remove("a"));
        let (second, next) = page(&listed, next.as_deref(), 2).unwrap();
        assert_eq!(second.iter().map(|item| **item).collect::<Vec<_>>(), ["c", "d"]);
        let (third, end) = page(&listed, next.as_deref(), 2).unwrap();
        assert_eq!((third.len(), end), (1, None));
        assert_eq!(**listed.get("e").unwrap(), "e");
        assert!(listed.remove("d"));
        for bad in [next.unwrap().as_str(), "", "?", "zz"] {
            assert!(page(&listed, Some(bad), 2).is_err(), "{bad}");
        }
    }
}
