use serde_json::json;

use super::*;

fn form() -> Value {
    json!({ "type": "object", "required": ["a name", "colour", "n"], "properties": {
        "a name": { "type": "string", "minLength": 2, "maxLength": 5, "title": "Name" },
        "colour": { "type": "string", "oneOf": [
            { "const": "r", "title": "Red" }, { "const": "g", "title": "Green" } ] },
        "many": { "type": "array", "minItems": 1, "maxItems": 2,
                  "items": { "type": "string", "enum": ["x", "y", "z"] } },
        "mood": { "type": "string", "enum": ["1", "2"], "enumNames": ["good", "bad"], "default": "2" },
        "n": { "type": "integer", "minimum": 1, "maximum": 9 },
        "note": { "type": "string" },
        "sure": { "type": "boolean", "default": true },
    } })
}

fn question(wants: Wants) -> Question {
    Question { key: None, message: "Well?\x1b[2J".into(), wants, params: Value::Null }
}

fn answered(wants: Wants, given: &[&str], lines: &str) -> (Answer, String) {
    let given: Vec<Argument> = given.iter().map(|one| one.parse().unwrap()).collect();
    let mut out = Vec::new();
    let answer = ask(&question(wants), &given, &mut lines.as_bytes(), &mut out).unwrap();
    (answer, String::from_utf8(out).unwrap())
}

#[test]
fn each_kind_of_field_is_asked_for_until_it_fits() {
    let lines = "\nA\ntoo long\nAda\nblue\nred\n\nx,y,z\n3, x\n\n0\n7.5\n7\n\nno\n\n";
    let (answer, out) = answered(Wants::Form(form()), &[], lines);
    // Enter leaves out what is not required: the second question about `many` was never asked.
    let (expected, rest) = ("at least 2 characters, please", "at most 5 characters, please");
    assert!(out.contains(expected) && out.contains(rest), "{out}");
    assert!(out.contains("\"blue\" is none of these") && out.contains("1) Red (r)"), "{out}");
    assert!(!out.contains('\x1b'), "{out:?}");
    // After `many` was left out, the lines meant for it went to those that follow.
    let Answer::Accept(content) = answer else { panic!("{answer:?}\n{out}") };
    assert_eq!((&content["a name"], &content["colour"]), (&json!("Ada"), &json!("r")));
    assert_eq!(content.get("many"), None);
}

#[test]
fn a_filled_in_form_has_each_value_in_its_type_and_defaults_where_enter_was_pressed() {
    let (answer, out) = answered(Wants::Form(form()), &[], "Ada\n2\nz, 1\n\n4\n\nn\ny\n");
    let expected = json!({ "a name": "Ada", "colour": "g", "many": ["z", "x"], "mood": "2", "n": 4,
                           "sure": false });
    assert_eq!(answer, Answer::Accept(expected), "{out}");
    assert!(out.contains("whole number") && out.contains("Enter for yes"), "{out}");
}

#[test]
fn it_can_be_done_again_declined_or_left() {
    let one = json!({ "properties": { "ok": { "type": "boolean" } }, "required": ["ok"] });
    for (lines, expected) in [
        ("y\n", Answer::Accept(json!({ "ok": true }))),
        ("maybe\n\nn\n", Answer::Accept(json!({ "ok": false }))),
        ("/decline\n", Answer::Decline),
        ("/cancel\n", Answer::Cancel),
        ("", Answer::Cancel),
    ] {
        assert_eq!(answered(Wants::Form(one.clone()), &[], lines).0, expected, "{lines:?}");
    }
    let two = json!({ "properties": { "a": { "type": "string" }, "b": { "type": "string" } } });
    let (answer, _) = answered(Wants::Form(two), &[], "1\n2\nn\n3\n\n\n");
    assert_eq!(answer, Answer::Accept(json!({ "a": "3" })));
}

#[test]
fn a_page_needs_consent_and_so_does_a_form_without_fields() {
    let page = || Wants::Url("https://example.com".into());
    let (answer, out) = answered(page(), &[], "what\ny\n");
    assert_eq!(answer, Answer::Accept(Value::Null));
    assert!(out.contains("https://example.com"), "{out}");
    assert_eq!(answered(page(), &[], "n\n").0, Answer::Decline);
    assert_eq!(answered(page(), &[], "").0, Answer::Cancel);
    assert_eq!(answered(Wants::Form(json!({})), &[], "yes\n").0, Answer::Accept(Value::Null));
}

#[test]
fn what_the_command_has_is_not_asked_for() {
    let given = ["a name=Ada", "colour=Green", "n=4", "many=x", "mood=1", "note=", "sure=no"];
    let (answer, _) = answered(Wants::Form(form()), &given, "\n");
    let expected = json!({ "a name": "Ada", "colour": "g", "many": ["x"], "mood": "1", "n": 4,
                           "note": "", "sure": false });
    assert_eq!(answer, Answer::Accept(expected));
}

#[test]
fn the_command_alone_is_enough_or_says_what_is_missing() {
    let parse = |words: &[&str]| -> Vec<Argument> {
        words.iter().map(|one| one.parse().unwrap()).collect()
    };
    let whole = from_command(&form(), &parse(&["a name=Ada", "colour=r", "n=4"])).unwrap();
    let expected = json!({ "a name": "Ada", "colour": "r", "mood": "2", "n": 4, "sure": true });
    assert_eq!(whole, Answer::Accept(expected));
    let error = from_command(&form(), &parse(&["n=4"])).unwrap_err();
    assert_eq!(error, "there is no --answer for a name, colour");
    let error = from_command(&form(), &parse(&["n=ten"])).unwrap_err();
    assert_eq!(error, "--answer n: a whole number, please");
}
