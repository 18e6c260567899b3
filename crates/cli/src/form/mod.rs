//! Questions as forms: filled in at a terminal, or from the words of the command.

mod field;

use std::io::{self, BufRead, Write};

use serde_json::{Map, Value};
use steadfast_client::{Answer, Question, Wants};

use crate::{
    arguments::{Argument, Given},
    screen::printable,
};
use field::{Field, fields, shown};

const DECLINE: &str = "/decline";
const CANCEL: &str = "/cancel";

/// What a person said.
enum Said {
    Value(Option<Value>),
    Leave(Answer),
}

/// Asks a person, line by line. What was given with the command is not asked for.
pub(crate) fn ask(
    question: &Question,
    given: &[Argument],
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> io::Result<Answer> {
    writeln!(out, "\n? {}", printable(&question.message))?;
    let form = match &question.wants {
        Wants::Url(url) => return consent(url, input, out),
        Wants::Form(form) => form,
    };
    let fields = fields(form);
    if fields.is_empty() {
        return agree("Accept?", input, out);
    }
    writeln!(out, "  ({DECLINE} says no to it, {CANCEL} leaves it without an answer)")?;
    loop {
        let mut content = Map::new();
        for field in &fields {
            if let Some(Ok(value)) = given.iter().find_map(|one| of_command(one, field)) {
                content.insert(field.name.clone(), value);
                continue;
            }
            match one(field, input, out)? {
                Said::Value(Some(value)) => drop(content.insert(field.name.clone(), value)),
                Said::Value(None) => {}
                Said::Leave(answer) => return Ok(answer),
            }
        }
        // One field is read once more by whoever fills it in; several are not.
        if fields.len() == 1 {
            return Ok(Answer::Accept(Value::Object(content)));
        }
        for (name, value) in &content {
            writeln!(out, "    {name}: {}", printable(&shown(value)))?;
        }
        write!(out, "  Send this? [Y/n] ")?;
        out.flush()?;
        match line(input)?.as_deref() {
            None | Some(CANCEL) => return Ok(Answer::Cancel),
            Some(DECLINE) => return Ok(Answer::Decline),
            Some(word) if word.to_lowercase().starts_with('n') => {
                writeln!(out, "  Once more, then.")?;
            }
            Some(_) => return Ok(Answer::Accept(Value::Object(content))),
        }
    }
}

/// Asks for one field until what is said fits.
fn one(field: &Field, input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<Said> {
    let about = match field.about.is_empty() {
        true => String::new(),
        false => format!(": {}", printable(&field.about)),
    };
    writeln!(out, "  {}{about}", printable(&field.name))?;
    for choice in field.choices() {
        writeln!(out, "    {}", printable(&choice))?;
    }
    loop {
        write!(out, "  [{}] ", printable(&field.hint()))?;
        out.flush()?;
        let Some(said) = line(input)? else { return Ok(Said::Leave(Answer::Cancel)) };
        match said.as_str() {
            DECLINE => return Ok(Said::Leave(Answer::Decline)),
            CANCEL => return Ok(Said::Leave(Answer::Cancel)),
            "" if field.default.is_some() || !field.required => {
                return Ok(Said::Value(field.default.clone()));
            }
            said => match field.parse(said) {
                // An empty text may fit where something is required; a person has just pressed Enter.
                Ok(_) if said.is_empty() => writeln!(out, "  Something is needed here.")?,
                Ok(value) => return Ok(Said::Value(Some(value))),
                Err(_) if said.is_empty() => writeln!(out, "  Something is needed here.")?,
                Err(wrong) => writeln!(out, "  {}", printable(&wrong))?,
            },
        }
    }
}

fn consent(url: &str, input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<Answer> {
    writeln!(out, "  You are asked to visit this page:\n    {}", printable(url))?;
    agree("Will you?", input, out)
}

fn agree(text: &str, input: &mut dyn BufRead, out: &mut dyn Write) -> io::Result<Answer> {
    loop {
        write!(out, "  {text} [y/n] ")?;
        out.flush()?;
        match line(input)?.map(|line| line.to_lowercase()).as_deref() {
            None | Some(CANCEL) => return Ok(Answer::Cancel),
            Some("y" | "yes") => return Ok(Answer::Accept(Value::Null)),
            Some("n" | "no" | DECLINE) => return Ok(Answer::Decline),
            Some(_) => writeln!(out, "  y or n, please; {CANCEL} leaves it without an answer.")?,
        }
    }
}

fn line(input: &mut dyn BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    match input.read_line(&mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line.trim_end_matches(['\r', '\n']).to_owned())),
    }
}

/// What the command has for a field, if it has something.
fn of_command(given: &Argument, field: &Field) -> Option<Result<Value, String>> {
    (given.name == field.name).then(|| match &given.value {
        Given::Json(value) => Ok(value.clone()),
        Given::Text(text) => field.parse(text),
    })
}

/// Answers from the words of the command alone; why that can't be, if it can't.
pub(crate) fn from_command(form: &Value, given: &[Argument]) -> Result<Answer, String> {
    let (mut content, mut missing) = (Map::new(), Vec::new());
    for field in fields(form) {
        match given.iter().find_map(|one| of_command(one, &field)) {
            Some(Ok(value)) => drop(content.insert(field.name, value)),
            Some(Err(wrong)) => return Err(format!("--answer {}: {wrong}", field.name)),
            None => match field.default {
                Some(default) => drop(content.insert(field.name, default)),
                None if field.required => missing.push(field.name),
                None => {}
            },
        }
    }
    match missing.is_empty() {
        true => Ok(Answer::Accept(Value::Object(content))),
        false => Err(format!("there is no --answer for {}", missing.join(", "))),
    }
}

#[cfg(test)]
mod tests;
