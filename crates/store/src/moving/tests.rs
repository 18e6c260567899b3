//! Files: what is written is read, and nothing else.

use std::{collections::BTreeMap, io::Cursor};

use steadfast_core::{OpId, Principal, Status, TaskId, Timestamp};

use super::*;

fn body(text: &str) -> Body {
    Body(text.as_bytes().to_vec())
}

fn task(key: i64, place: Place) -> Record {
    Record::Task(Box::new(Task {
        key,
        id: TaskId::new(format!("task-{key}")).unwrap(),
        tool: "to\0ol".into(),
        version: Some(2),
        owner: Principal::new("ann").ok(),
        status: Status::InputRequired,
        created: Timestamp(1),
        updated: Timestamp(2),
        ended: None,
        expires: Some(Timestamp(3)),
        place,
        parent: Some(Parent { key: 9, op: OpId(4), tells: true }),
        dedup: Some("once".into()),
        bound: true,
        epoch: 5,
        deaths: 1,
        tags: BTreeMap::from([("a".to_owned(), "b".to_owned())]),
        about: body("{\"input\": 1.50}"),
        view: body("not JSON"),
        end: Some(body("")),
    }))
}

/// One of each kind, and of each place that there is.
fn records() -> Vec<Record> {
    let event = |task, seq| Record::Event(Event { task, seq, body: body("{\"e\":1}") });
    let activity = |key, at| {
        let (name, token, body) = ("send".into(), format!("token-{key}"), body("[]"));
        let (op, epoch, attempt) = (OpId(2), 3, 1);
        Record::Activity(Activity { key, task: 1, op, name, token, at, epoch, attempt, body })
    };
    vec![
        task(1, Place::Ready { rank: 7 }),
        task(2, Place::Parked { wake: None }),
        task(5, Place::Halted { wake: Some(Timestamp(8)) }),
        event(1, 0),
        event(1, 1),
        event(5, 0),
        Record::Message(Message {
            task: 1,
            seq: 3,
            op: Some(OpId(1)),
            notice: true,
            body: body("m"),
        }),
        Record::Question(Question {
            task: 1,
            place: 0,
            op: OpId(1),
            key: "q".into(),
            body: body("?"),
        }),
        activity(1, At::Queue { rank: 8 }),
        activity(2, At::Due { due: Timestamp(4) }),
        activity(3, At::Outside { until: None }),
        Record::Watch(Watch { scope: "global".into(), key: "k".into(), task: 1 }),
        Record::State(State { scope: "global".into(), key: "k".into(), version: 2, value: None }),
        Record::Session(Session { id: "s".into(), expires: Timestamp(9), body: body("{}") }),
        Record::Kept(Kept {
            n: 1,
            id: TaskId::new("later").unwrap(),
            sender: None,
            until: Timestamp(9),
            body: body("early"),
        }),
        Record::Notice(Notice { n: 4, until: Timestamp(9), body: body("{}") }),
        Record::Counters(Counters { task: 6, notice: 4 }),
    ]
}

fn file(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), "test", 1).unwrap();
    for record in records {
        writer.put(record).unwrap();
    }
    writer.finish().unwrap().0
}

fn open(file: &[u8]) -> Result<Reader> {
    Reader::new(Box::new(Cursor::new(file.to_vec())))
}

fn read(file: &[u8]) -> Result<Vec<Record>> {
    let mut reader = open(file)?;
    let mut records = Vec::new();
    while let Some(record) = reader.next()? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn what_is_written_is_read() {
    assert_eq!(read(&file(&records())).unwrap(), records());
}

/// A file of format 1, which every later version must read.
#[test]
fn the_first_format_can_be_read() {
    let golden = include_bytes!("../../golden/export-1.jsonl");
    assert_eq!(read(golden).unwrap(), records());
    // And as long as it is the format of today it is written so.
    assert_eq!(FORMAT, 1);
    assert_eq!(
        String::from_utf8(file(&records())).unwrap(),
        String::from_utf8(golden.to_vec()).unwrap()
    );
}

#[test]
fn a_file_that_is_cut_off_anywhere_is_refused() {
    let whole = file(&records());
    for length in 0..whole.len() {
        let error = read(&whole[..length]).unwrap_err();
        let in_header = !whole[..length].contains(&b'\n');
        match in_header {
            true => {
                assert!(matches!(error, Error::Foreign | Error::CutOff { .. }), "{length}: {error}")
            }
            false => assert!(matches!(error, Error::CutOff { .. }), "{length}: {error}"),
        }
    }
}

#[test]
fn a_file_in_which_any_byte_differs_is_refused() {
    let whole = file(&records());
    for at in 0..whole.len() {
        let mut altered = whole.clone();
        // Another digit for a digit, and another letter for a letter.
        altered[at] ^= 1;
        assert!(read(&altered).is_err(), "byte {at}: {}", String::from_utf8_lossy(&altered));
    }
    let twice = [whole.clone(), b"\n".to_vec()].concat();
    assert!(matches!(read(&twice), Err(Error::Altered { .. })));
}

/// Somebody with an editor, and the digest of the file made anew.
#[test]
fn records_that_are_missing_twice_there_or_in_another_order_are_refused() {
    let mut lines: Vec<Record> = records();
    lines.swap(3, 4);
    let mut writer = Writer::new(Vec::new(), "test", 1).unwrap();
    let refused = lines.iter().find_map(|record| writer.put(record).err()).unwrap();
    assert!(refused.to_string().contains("event 1 of task 1 where event 0 should be"), "{refused}");
    for wrong in [
        vec![task(2, Place::Parked { wake: None }), task(1, Place::Parked { wake: None })],
        vec![records().pop().unwrap(), task(1, Place::Parked { wake: None })],
        records().into_iter().skip(12).take(1).chain(records()).collect(),
    ] {
        let mut writer = Writer::new(Vec::new(), "test", 1).unwrap();
        assert!(wrong.iter().any(|record| writer.put(record).is_err()), "{wrong:?}");
    }
    let mut writer = Writer::new(Vec::new(), "test", 1).unwrap();
    writer.put(&records()[0]).unwrap();
    assert!(writer.finish().is_err(), "without its counters");
}

#[test]
fn other_files_and_later_formats_are_told_apart() {
    for other in
        ["", "\n", "{}\n", "{\"task\":{}}\n", "SQLite format 3\0", "{\"header\":{\"format\":0}}\n"]
    {
        assert!(matches!(read(other.as_bytes()), Err(Error::Foreign)), "{other:?}");
    }
    let later = "{\"header\":{\"format\":2,\"new\":[]},\"more\":1}\n{\"what\":1}\n";
    let error = read(later.as_bytes()).unwrap_err();
    assert!(matches!(error, Error::Newer { found: 2 }), "{error}");
    assert!(error.to_string().contains("upgrade this program"), "{error}");
}

#[test]
fn a_line_of_nonsense_is_named_by_its_number() {
    let text = String::from_utf8(file(&records())).unwrap();
    let nonsense = text.replacen("\"epoch\":5", "\"epoch\":5,\"unknown\":1", 1);
    let error = read(nonsense.as_bytes()).unwrap_err().to_string();
    assert!(error.starts_with("line 2 of the file makes no sense: unknown field"), "{error}");
}

#[test]
fn what_comes_back_must_be_the_same() {
    let whole = file(&records());
    let compared = |back: &[Record], to_the_end: bool| {
        let mut reader = open(&whole).unwrap();
        while to_the_end && reader.next().unwrap().is_some() {}
        for record in back {
            reader.came_back(record).unwrap();
        }
        reader.compare().map(|tally| tally.digest())
    };
    let mut shuffled = records();
    shuffled.reverse();
    assert!(compared(&shuffled, true).is_ok());
    assert!(compared(&records(), false).is_err());
    let differs = |back: &[Record]| compared(back, true).unwrap_err().to_string();
    let one_less = differs(&records()[1..]);
    assert!(one_less.contains("task: 3 in the file, 2 in the store"), "{one_less}");
    let mut other = records();
    other[0] = task(1, Place::Ready { rank: 8 });
    assert!(differs(&other).contains("the digests are not"), "{}", differs(&other));
}
