//! A session's own stream, for what belongs to no request.

use std::collections::{BTreeMap, BTreeSet};

use super::{Session, State};
use crate::{catalog::Change, outlet::Outlet, repeat::digest};

/// How far a session's own stream has come: what comes after it is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StreamPoint {
    /// The last notice that is behind it.
    pub(crate) heard: u64,
    /// Which offer the client knew there, unless it is from before that was said.
    offer: Option<Marks>,
    /// Questions that were asked on it and may be open, each by a digest, by the digest of their task.
    asked: BTreeMap<u64, BTreeSet<u64>>,
}

/// The parts of an offer, in the order of what tells them from others.
const KINDS: [Change; 3] = [Change::Tools, Change::Prompts, Change::Resources];

/// What tells the parts of an offer from others, in short; 0 of what the client has still to be told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Marks([u16; 3]);

impl Marks {
    fn of(offer: [u64; 3]) -> Marks {
        let mark = |print: u64| u16::try_from(print % 0xffff + 1).unwrap_or(1);
        Marks(offer.map(|print| if print == 0 { 0 } else { mark(print) }))
    }

    fn read(text: &str) -> Option<Marks> {
        let marks = u64::from_str_radix(text, 16).ok().filter(|_| text.len() == 12)?;
        let mark = |n: usize| u16::try_from(marks >> (32 - 16 * n) & 0xffff).unwrap_or(0);
        Some(Marks([mark(0), mark(1), mark(2)]))
    }
}

/// What the ids of its events begin with, unlike those of a call.
const BEGIN: &str = "s-";

impl StreamPoint {
    /// As the id of an event, which is of no use to another session.
    pub(crate) fn name(&self, session: &str) -> String {
        let mut name = format!("{BEGIN}{:x}", digest(session));
        if let Some(Marks([tools, prompts, resources])) = self.offer {
            name += &format!("-{tools:04x}{prompts:04x}{resources:04x}");
        }
        name += &format!("-{}", self.heard);
        for (task, keys) in &self.asked {
            name += &format!(".{task:x}");
            keys.iter().for_each(|key| name += &format!("-{key:x}"));
        }
        name
    }

    /// Reads such an id, if it is this session's.
    pub(crate) fn read(name: &str, session: &str) -> Option<StreamPoint> {
        let mut parts = name.strip_prefix(BEGIN)?.split('.');
        let (of, rest) = parts.next()?.split_once('-')?;
        if of != format!("{:x}", digest(session)) {
            return None;
        }
        let (offer, heard) = match rest.split_once('-') {
            Some((marks, heard)) => (Some(Marks::read(marks)?), heard),
            None => (None, rest),
        };
        let number = |text: &str| u64::from_str_radix(text, 16).ok();
        let mut asked = BTreeMap::new();
        for part in parts {
            let mut numbers = part.split('-').map(number);
            let task = numbers.next()??;
            asked.insert(task, numbers.collect::<Option<BTreeSet<u64>>>()?);
        }
        Some(StreamPoint { heard: heard.parse().ok()?, offer, asked })
    }

    /// Whether a question was asked before it.
    pub(super) fn has_asked(&self, task: &str, key: &str) -> bool {
        let keys = self.asked.get(&digest(task));
        keys.is_some_and(|keys| keys.contains(&digest(key)))
    }
}

impl State {
    /// This is what we offer: the session has to be told of what it does not know.
    pub(super) fn compare(&mut self, offer: [u64; 3]) {
        for (n, kind) in KINDS.into_iter().enumerate() {
            if self.offer[n] != offer[n] {
                self.changed.insert(kind);
            }
        }
        self.offer = offer;
    }

    /// What tells the offer that the client was told of from others: of what it has still to be told it
    /// knows nothing.
    pub(super) fn known_offer(&self) -> [u64; 3] {
        std::array::from_fn(|n| if self.changed.contains(&KINDS[n]) { 0 } else { self.offer[n] })
    }

    /// The client knows of the offer what it did at a point that it goes on from.
    fn go_on_knowing(&mut self, known: Marks) {
        let marks = Marks::of(self.offer);
        for (n, kind) in KINDS.into_iter().enumerate() {
            match known.0[n] == marks.0[n] {
                true => self.changed.remove(&kind),
                false => self.changed.insert(kind),
            };
        }
    }

    /// The point where its stream is now, as the id of an event.
    fn point(&mut self, session: &str) -> String {
        self.point.offer = Some(Marks::of(self.known_offer()));
        self.point.name(session)
    }
}

impl Session {
    /// Opens the stream for what belongs to no request, in place of the one before. From where the
    /// client has it, if it says so.
    pub(crate) fn open_stream(&self, outlet: Outlet, from: Option<StreamPoint>) -> String {
        let mut state = self.state();
        if let Some(before) = state.stream.replace(outlet.clone()) {
            before.replace();
        }
        match from {
            Some(point) => {
                // What was asked on the stream that broke, and did not arrive, is asked again.
                for ((task, key), asked) in &mut state.asked {
                    if !asked.of_call {
                        asked.on = point.has_asked(task, key).then(|| outlet.clone());
                    }
                }
                if let Some(known) = point.offer {
                    state.go_on_knowing(known);
                }
                state.point = point;
            }
            None => state.point.asked.clear(),
        }
        state.point(&self.id)
    }

    /// The stream for what belongs to no request, if it is open.
    pub(crate) fn stream(&self) -> Option<Outlet> {
        self.state().stream.clone().filter(|stream| !stream.is_closed())
    }

    /// Whether this is that stream, and no other was opened since.
    pub(crate) fn is_stream(&self, outlet: &Outlet) -> bool {
        self.state().stream.as_ref().is_some_and(|stream| stream.is(outlet))
    }

    /// The last notice that the client has heard.
    pub(crate) fn heard(&self) -> u64 {
        self.state().point.heard
    }

    /// From here on it has heard all up to this notice.
    pub(crate) fn hear_from(&self, number: u64, offer: [u64; 3]) {
        let mut state = self.state();
        (state.point.heard, state.offer) = (number, offer);
    }

    /// The point behind a notice, unless it is none of the session's business.
    pub(crate) fn point_behind(&self, number: u64, change: &Change) -> Option<String> {
        let state = self.state();
        let concerns = match change {
            Change::Resource(uri) => {
                state.subscriptions.get(uri).is_some_and(|from| number > *from)
            }
            _ => true,
        };
        let offer = Some(Marks::of(state.known_offer()));
        let heard = state.point.heard.max(number);
        let point = || StreamPoint { heard, offer, ..state.point.clone() };
        concerns.then(|| point().name(&self.id))
    }

    /// A notice went out on a stream: what comes in its place goes on behind that.
    pub(crate) fn hear(&self, number: u64, on: &Outlet) {
        let mut state = self.state();
        if state.stream.as_ref().is_some_and(|stream| stream.is(on)) {
            state.point.heard = state.point.heard.max(number);
        }
    }

    /// What it has to be told of the offer before all else, and the point behind that.
    pub(crate) fn next_change(&self) -> Option<(Change, String)> {
        let state = self.state();
        let change = state.changed.first().cloned()?;
        let known = state.known_offer();
        let told = |n: usize| if KINDS[n] == change { state.offer[n] } else { known[n] };
        let offer = Some(Marks::of(std::array::from_fn(told)));
        let point = StreamPoint { offer, ..state.point.clone() };
        Some((change, point.name(&self.id)))
    }

    /// It was told of that.
    pub(crate) fn is_told(&self, change: &Change) {
        self.state().changed.remove(change);
    }

    /// A question of a task that has these open goes out on its stream: the point behind it.
    pub(crate) fn ask_on_stream(&self, task: &str, key: &str, open: &[&str]) -> String {
        let mut state = self.state();
        let open: BTreeSet<u64> = open.iter().map(|key| digest(key)).collect();
        let keys = state.point.asked.entry(digest(task)).or_default();
        keys.retain(|key| open.contains(key));
        keys.insert(digest(key));
        state.point(&self.id)
    }

    /// These are its tasks that wait for answers: of others nothing need be remembered.
    pub(crate) fn keep_asking<'a>(&self, tasks: impl Iterator<Item = &'a str>) {
        let waiting: BTreeSet<u64> = tasks.map(digest).collect();
        self.state().point.asked.retain(|task, _| waiting.contains(task));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_is_read_as_it_was_written_by_its_session_alone() {
        let mut point = StreamPoint { heard: 12, ..StreamPoint::default() };
        assert_eq!(StreamPoint::read(&point.name("a"), "a"), Some(point.clone()));
        point.offer = Some(Marks::of([u64::MAX, 0, 1]));
        assert_eq!(StreamPoint::read(&point.name("a"), "a"), Some(point.clone()));
        point.asked.insert(7, BTreeSet::from([1, u64::MAX]));
        point.asked.insert(0, BTreeSet::new());
        let name = point.name("a");
        assert_eq!(StreamPoint::read(&name, "a"), Some(point));
        assert_eq!(StreamPoint::read(&name, "b"), None);
        let of = name.split_inclusive('-').take(2).collect::<String>();
        let bad = ["x", "1.x", "1.", "-1", "123-1", "00010001000x-1", "000100010001-"];
        let bad = bad.map(|bad| format!("{of}{bad}"));
        for bad in ["", "s-", "x", &of].into_iter().chain(bad.iter().map(String::as_str)) {
            assert_eq!(StreamPoint::read(bad, "a"), None, "{bad}");
        }
    }
}
