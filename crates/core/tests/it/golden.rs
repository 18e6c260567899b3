//! Histories that were once written stay readable, and mean the same.

use std::{collections::BTreeSet, rc::Rc};

use serde_json::Value;
use steadfast_core::{
    Call, Event, FailureKind, Json, Limits, Mode, Note, Outcome, Record, Undo, decode, encode,
};

use crate::{
    code::Shared,
    rig::{Rig, json},
};

pub(crate) const FILES: [&str; 3] = [
    include_str!("../../golden/order.jsonl"),
    include_str!("../../golden/waits.jsonl"),
    include_str!("../../golden/anew.jsonl"),
];

pub(crate) fn records(file: &str) -> Vec<Record> {
    let read = |(seq, line): (usize, &str)| decode(seq as u64, line.as_bytes()).unwrap();
    file.lines().enumerate().map(read).collect()
}

/// An absent optional field and `null` mean the same, except in a payload.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(_, v)| !v.is_null());
            Value::Object(kept.map(|(k, v)| (k, without_nulls(v))).collect())
        }
        other => other,
    }
}

/// How each event is tagged. A new one needs its arm here, and a line in `golden/`.
fn tag(event: &Event) -> &'static str {
    match event {
        Event::Started { .. } => "started",
        Event::StepStarted { .. } => "step_started",
        Event::StepCompleted { .. } => "step_completed",
        Event::StepFailed { .. } => "step_failed",
        Event::StepRetrying { .. } => "step_retrying",
        Event::UndoRecorded { .. } => "undo_recorded",
        Event::ActivityScheduled { .. } => "activity_scheduled",
        Event::ActivityCompleted { .. } => "activity_completed",
        Event::ActivityFailed { .. } => "activity_failed",
        Event::TimerSet { .. } => "timer_set",
        Event::TimerFired { .. } => "timer_fired",
        Event::SignalReceived { .. } => "signal_received",
        Event::SignalSent { .. } => "signal_sent",
        Event::QuestionAsked { .. } => "question_asked",
        Event::QuestionAnswered { .. } => "question_answered",
        Event::QuestionExpired { .. } => "question_expired",
        Event::QuestionRefused { .. } => "question_refused",
        Event::ChildStarted { .. } => "child_started",
        Event::ChildCompleted { .. } => "child_completed",
        Event::ChildFailed { .. } => "child_failed",
        Event::StateRead { .. } => "state_read",
        Event::StateWritten { .. } => "state_written",
        Event::StateFailed { .. } => "state_failed",
        Event::ConditionWatched { .. } => "condition_watched",
        Event::ConditionMet { .. } => "condition_met",
        Event::Dropped { .. } => "dropped",
        Event::VersionMarked { .. } => "version_marked",
        Event::Noted { .. } => "noted",
        Event::Stuck { .. } => "stuck",
        Event::Completed { .. } => "completed",
        Event::Failed { .. } => "failed",
        Event::Cancelled { .. } => "cancelled",
        Event::Undone { .. } => "undone",
    }
}

#[test]
fn every_line_is_written_again_as_it_was_read() {
    for file in FILES {
        for (seq, line) in file.lines().enumerate() {
            let record = decode(seq as u64, line.as_bytes()).unwrap();
            let again = encode(&record);
            let value = |bytes: &[u8]| without_nulls(serde_json::from_slice(bytes).unwrap());
            assert_eq!(value(&again), value(line.as_bytes()), "line {seq}");
            assert_eq!(decode(0, &again).unwrap(), record);
        }
    }
}

#[test]
fn every_event_has_a_line() {
    let seen: BTreeSet<String> = FILES
        .into_iter()
        .flat_map(records)
        .map(|record| {
            let text = String::from_utf8(encode(&record)).unwrap();
            let tag = tag(&record.event);
            assert!(text.contains(&format!("\"event\":{{\"{tag}\":")), "{tag}: {text}");
            tag.to_owned()
        })
        .collect();
    // The reader itself says which events there are.
    let unknown = decode(0, br#"{"at":0,"event":{"none such":{}}}"#).unwrap_err();
    let message = unknown.source.to_string();
    let known: BTreeSet<String> =
        message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
    assert!(known.contains("started") && known.contains("undone"), "{message}");
    assert_eq!(seen, known);
}

#[test]
fn payloads_keep_every_digit() {
    let text = FILES.concat();
    for digits in ["1200.50", "12345678901234567890"] {
        assert!(text.contains(digits));
        let kept = FILES
            .into_iter()
            .flat_map(records)
            .any(|record| String::from_utf8(encode(&record)).unwrap().contains(digits));
        assert!(kept, "{digits}");
    }
}

#[test]
fn a_null_that_was_recorded_is_not_absent() {
    let order = records(FILES[0]);
    let data = order.iter().find_map(|record| match &record.event {
        Event::StepRetrying { failure, .. } => Some(failure.data.clone()),
        _ => None,
    });
    assert_eq!(data, Some(Some(Json::null())));
}

async fn order(s: Rc<Shared>) -> Outcome {
    s.machine.borrow_mut().note(Note::Status("checking the order".into()));
    let version = s.machine.borrow_mut().version("ask before charging", 9);
    s.say(format!("version {version}"));
    s.step("validate").await?;
    s.ask("approve", None).await?;
    let undo = Some(Undo { function: "refund".into(), input: json(1) });
    let mode = Mode::AtMostOnce { reset_on: vec!["declined".into()] };
    let name = "charge the card".into();
    let receipt = s.call(Call::Step { name, mode, retry: None, undo }).await?;
    assert_eq!(receipt.text(), "\"receipt-1\"");
    let label = s.step("print the label").await;
    assert_eq!(label.unwrap_err().kind, FailureKind::Panicked);
    s.machine.borrow_mut().note(Note::Log { level: "warning".into(), text: "no label".into() });
    Ok(json("Order completed."))
}

#[test]
fn the_code_that_wrote_a_history_replays_it() {
    let mut history = records(FILES[0]);
    let ended = history.pop().unwrap();
    for length in 1..=history.len() {
        let rig = Rig::load(history[..length].to_vec(), Limits::default(), order);
        assert_eq!(rig.halted(), None, "after {length} events");
    }
    let mut rig = Rig::load(history, Limits::default(), order);
    rig.commit();
    assert_eq!(rig.history.last().unwrap().event, ended.event);
    assert!(rig.bench.started.borrow().is_empty());
    assert!(rig.shared.trace.borrow().iter().any(|line| line == "version 2"));
}
