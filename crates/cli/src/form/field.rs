//! A field of a form, by its schema.

use serde_json::{Value, json};

/// A field of a form.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) required: bool,
    pub(crate) default: Option<Value>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Text { least: u64, most: Option<u64>, format: Option<String> },
    Number { whole: bool, least: Option<f64>, most: Option<f64> },
    Boolean,
    One(Vec<Choice>),
    Many { choices: Vec<Choice>, least: u64, most: Option<u64> },
}

/// Something to choose.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Choice {
    value: String,
    title: String,
}

/// The fields of a form.
pub(crate) fn fields(form: &Value) -> Vec<Field> {
    let required = |name: &str| {
        form["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name))
    };
    let properties = form["properties"].as_object().into_iter().flatten();
    properties.map(|(name, schema)| Field::read(name, schema, required(name))).collect()
}

impl Field {
    fn read(name: &str, schema: &Value, required: bool) -> Field {
        let texts = [schema["title"].as_str(), schema["description"].as_str()];
        let texts: Vec<&str> = texts.into_iter().flatten().collect();
        let number = |name: &str| schema[name].as_f64();
        let count = |name: &str| schema[name].as_u64();
        let kind = match (schema["type"].as_str(), choices(schema)) {
            (Some("array"), _) => Kind::Many {
                choices: choices(&schema["items"]).unwrap_or_default(),
                least: count("minItems").unwrap_or(0),
                most: count("maxItems"),
            },
            (_, Some(choices)) => Kind::One(choices),
            (Some("boolean"), _) => Kind::Boolean,
            (Some(kind @ ("integer" | "number")), _) => Kind::Number {
                whole: kind == "integer",
                least: number("minimum"),
                most: number("maximum"),
            },
            _ => Kind::Text {
                least: count("minLength").unwrap_or(0),
                most: count("maxLength"),
                format: schema["format"].as_str().map(str::to_owned),
            },
        };
        let default = schema.get("default").filter(|value| !value.is_null()).cloned();
        Field { name: name.to_owned(), about: texts.join(": "), required, default, kind }
    }

    /// What can be said, in a few words.
    pub(crate) fn hint(&self) -> String {
        let what = match &self.kind {
            Kind::Boolean => "y/n".to_owned(),
            Kind::Text { format: Some(format), .. } => format.clone(),
            Kind::Text { .. } => "text".to_owned(),
            Kind::Number { whole: true, .. } => "whole number".to_owned(),
            Kind::Number { .. } => "number".to_owned(),
            Kind::One(_) => "one of these".to_owned(),
            Kind::Many { .. } => "any of these, with commas between".to_owned(),
        };
        match (&self.default, self.required) {
            (Some(default), _) => format!("{what}, Enter for {}", shown(default)),
            (None, true) => what,
            (None, false) => format!("{what}, Enter for none"),
        }
    }

    /// What there is to choose from, a line each.
    pub(crate) fn choices(&self) -> Vec<String> {
        let (Kind::One(choices) | Kind::Many { choices, .. }) = &self.kind else {
            return Vec::new();
        };
        let line = |(n, choice): (usize, &Choice)| match choice.title == choice.value {
            true => format!("{}) {}", n + 1, choice.value),
            false => format!("{}) {} ({})", n + 1, choice.title, choice.value),
        };
        choices.iter().enumerate().map(line).collect()
    }

    /// The value that a text stands for, or what is wrong with it.
    pub(crate) fn parse(&self, text: &str) -> Result<Value, String> {
        match &self.kind {
            Kind::Text { least, most, format } => {
                let length = text.chars().count() as u64;
                match () {
                    () if length < *least => Err(format!("at least {least} characters, please")),
                    () if most.is_some_and(|most| length > most) => {
                        Err(format!("at most {} characters, please", most.unwrap_or_default()))
                    }
                    () if format.as_deref() == Some("email") && !text.contains('@') => {
                        Err("that is no e-mail address".into())
                    }
                    () if format.as_deref() == Some("uri") && !text.contains(':') => {
                        Err("that is no URI".into())
                    }
                    () => Ok(json!(text)),
                }
            }
            Kind::Number { whole, least, most } => {
                let number = match whole {
                    true => text.trim().parse::<i64>().ok().map(|n| (n as f64, json!(n))),
                    false => text.trim().parse::<f64>().ok().map(|n| (n, json!(n))),
                };
                let (size, value) =
                    number.filter(|(size, _)| size.is_finite()).ok_or(match whole {
                        true => "a whole number, please",
                        false => "a number, please",
                    })?;
                match () {
                    () if least.is_some_and(|least| size < least) => {
                        Err(format!("at least {}, please", least.unwrap_or_default()))
                    }
                    () if most.is_some_and(|most| size > most) => {
                        Err(format!("at most {}, please", most.unwrap_or_default()))
                    }
                    () => Ok(value),
                }
            }
            Kind::Boolean => match text.trim().to_lowercase().as_str() {
                "y" | "yes" | "true" | "1" => Ok(json!(true)),
                "n" | "no" | "false" | "0" => Ok(json!(false)),
                _ => Err("y or n, please".into()),
            },
            Kind::One(choices) => choose(choices, text).map(Value::from),
            Kind::Many { choices, least, most } => {
                let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
                let chosen = words.map(|word| choose(choices, word));
                let chosen = chosen.collect::<Result<Vec<String>, String>>()?;
                let count = chosen.len() as u64;
                match () {
                    () if count < *least => Err(format!("at least {least}, please")),
                    () if most.is_some_and(|most| count > most) => {
                        Err(format!("at most {}, please", most.unwrap_or_default()))
                    }
                    () => Ok(json!(chosen)),
                }
            }
        }
    }
}

/// What a schema lets choose from: plain names, names with titles, or with titles in a list beside.
fn choices(schema: &Value) -> Option<Vec<Choice>> {
    let titled = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    if let Some(titled) = titled {
        let each = titled.iter().filter_map(|one| {
            let value = one["const"].as_str()?;
            let title = one["title"].as_str().unwrap_or(value);
            Some(Choice { value: value.to_owned(), title: title.to_owned() })
        });
        return Some(each.collect());
    }
    let names = schema["enum"].as_array()?.iter().filter_map(Value::as_str);
    let each = names.enumerate().map(|(n, value)| {
        let title = schema["enumNames"][n].as_str().unwrap_or(value);
        Choice { value: value.to_owned(), title: title.to_owned() }
    });
    Some(each.collect())
}

/// By its value, its title, or its number. The value goes first: it may be a number itself.
fn choose(choices: &[Choice], word: &str) -> Result<String, String> {
    let word = word.trim();
    let named = choices.iter().find(|choice| choice.value == word);
    let titled = || choices.iter().find(|choice| choice.title.eq_ignore_ascii_case(word));
    let numbered = || choices.get(word.parse::<usize>().ok()?.checked_sub(1)?);
    let found = named.or_else(titled).or_else(numbered);
    found.map(|choice| choice.value.clone()).ok_or_else(|| format!("{word:?} is none of these"))
}

/// As a person reads it.
pub(crate) fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
