//! What a client can be asked, and how it can answer, over a kill: what the author sees of it.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    client::{Client, Response},
    server::Server,
};

/// A request whose client was asked something, and whose server was killed then.
struct Asked {
    server: Server,
    client: Client,
    /// The event before the question.
    begun: String,
    question: Value,
}

pub(crate) fn connect(server: &Server) -> Client {
    let info = json!({ "name": "survive", "version": "1" });
    let can = json!({ "elicitation": {}, "sampling": {}, "roots": { "listChanged": true } });
    Client::introduced(server.address(), "2025-11-25", None, &info, &can)
}

/// The request that comes next, and the event that it has.
fn next_question(stream: &mut Response) -> (String, Value) {
    let (event, message) = stream.message().expect("a question");
    assert!(message["method"].is_string() && message["id"].is_string(), "{message}");
    (event.unwrap(), message)
}

fn asked(method: &str, params: Value) -> Asked {
    let mut server = Server::start();
    let client = connect(&server);
    let mut stream = client.request(server.address(), json!(1), method, params);
    let begun = stream.next().unwrap().id.unwrap();
    let (_, question) = next_question(&mut stream);
    server.kill_and_restart();
    Asked { server, client, begun, question }
}

fn called(tool: &str) -> Asked {
    asked("tools/call", json!({ "name": tool, "arguments": {} }))
}

impl Asked {
    /// Takes the stream up before the question, which so comes once more.
    fn taken_up(&self) -> (Response, String, Value) {
        let mut stream = self.client.resume(self.server.address(), &self.begun);
        let (event, question) = next_question(&mut stream);
        assert_eq!(question["params"], self.question["params"]);
        (stream, event, question)
    }

    fn answer(&self, question: &Value, outcome: &Value) {
        let mut message = json!({ "jsonrpc": "2.0", "id": question["id"] });
        for (name, value) in outcome.as_object().unwrap() {
            message[name] = value.clone();
        }
        self.client.say(self.server.address(), &message);
    }

    /// Answers, and gives the response, which is all that comes then.
    fn end(&self, outcome: &Value) -> Value {
        let (stream, _, question) = self.taken_up();
        self.answer(&question, outcome);
        let mut rest = stream.rest();
        assert_eq!(rest.len(), 1, "{rest:?}");
        rest.remove(0)
    }
}

fn accepted(content: Value) -> Value {
    json!({ "result": { "action": "accept", "content": content } })
}

fn text(response: &Value) -> &str {
    response["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

#[test]
fn a_sample_is_asked_for_once_and_answered_once() {
    let asked = called("sample");
    assert_eq!(asked.question["method"], "sampling/createMessage");
    let content = json!({ "type": "text", "text": "four" });
    let said = json!({ "result": { "role": "assistant", "content": content, "model": "m" } });
    let response = asked.end(&said);
    assert_eq!(text(&response), "four", "{response}");
    // Once more, to the question of the server that was killed.
    asked.answer(&asked.question, &said);
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

/// To another process than the one that asked; and not when it has answered.
#[test]
fn how_far_a_client_is_is_heard_after_a_kill() {
    let asked = called("sample");
    let token = &asked.question["params"]["_meta"]["progressToken"];
    assert!(token.is_string(), "{}", asked.question);
    let say = |progress: f64| {
        let params = json!({ "progressToken": token, "progress": progress, "total": 4 });
        let said =
            json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        asked.client.say(asked.server.address(), &said);
    };
    say(1.0);
    asked.end(&json!({ "error": { "code": -1, "message": "no" } }));
    say(2.0);
    let heard = ["sample: 1 of Some(4.0)", "sample: 2 of Some(4.0)"];
    assert_eq!(heard.map(|heard| asked.server.count(heard)), [1, 0]);
}

#[test]
fn a_clients_error_is_an_error_that_the_author_can_tell() {
    for tool in ["sample", "remark"] {
        let asked = called(tool);
        let error = json!({ "error": { "code": -1, "message": "the user is away" } });
        let response = asked.end(&error);
        let seen = "client_error: the client failed to answer: the user is away";
        assert_eq!(text(&response), seen, "{tool}: {response}");
        assert_eq!(asked.server.count("after"), 1, "{tool}");
    }
}

#[test]
fn an_accept_with_nothing_in_it_is_accepted_where_nothing_is_required() {
    for nothing in [accepted(json!({})), json!({ "result": { "action": "accept" } })] {
        let asked = called("remark");
        let response = asked.end(&nothing);
        assert_eq!(text(&response), "accepted: nothing", "{response}");
        assert_eq!(asked.server.count("after"), 1);
    }
}

/// It does not fit, so it is asked again, with the reason; that question is open over a kill as well.
#[test]
fn an_accept_with_nothing_in_it_is_asked_again_where_something_is_required() {
    let mut asked = called("approve");
    let (mut stream, _, question) = asked.taken_up();
    asked.answer(&question, &accepted(json!({})));
    let (event, again) = next_question(&mut stream);
    let message = again["params"]["message"].as_str().unwrap();
    assert!(message.starts_with("May it be done?\n\nThe last answer did not fit"), "{message}");
    assert_ne!(again["id"], question["id"]);
    asked.server.kill_and_restart();
    let stream = asked.client.resume(asked.server.address(), &event);
    // The old question is over: an answer to it changes nothing.
    asked.answer(&question, &accepted(json!({ "approve": false })));
    asked.answer(&again, &accepted(json!({ "approve": true })));
    let rest = stream.rest();
    assert_eq!((rest.len(), text(&rest[0])), (1, "done"), "{rest:?}");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

/// Also one of the same words, and one of the same words with another form; killed at each.
#[test]
fn every_question_of_a_call_gets_its_own_answer() {
    let mut asked = called("invite");
    let answers = [json!({ "name": "Ada" }), json!({ "name": "Bob" }), json!({ "count": 3 })];
    let (mut stream, mut event, mut question) = asked.taken_up();
    for (n, answer) in answers.iter().enumerate() {
        assert_eq!(question["params"]["message"], "Who comes?");
        let fields = question["params"]["requestedSchema"]["properties"].as_object().unwrap();
        assert!(answer.as_object().unwrap().keys().eq(fields.keys()), "{question}");
        asked.answer(&question, &accepted(answer.clone()));
        if n + 1 < answers.len() {
            let before = event;
            (_, question) = next_question(&mut stream);
            asked.server.kill_and_restart();
            stream = asked.client.resume(asked.server.address(), &before);
            let again;
            (event, again) = next_question(&mut stream);
            assert_eq!(again["params"], question["params"]);
            question = again;
        }
    }
    let rest = stream.rest();
    assert_eq!(rest.len(), 1, "{rest:?}");
    assert_eq!(text(&rest[0]), r#"Some("Ada") Some("Bob") Some(3)"#, "{rest:?}");
    assert_eq!(asked.server.count("after"), 1);
}

/// Nobody takes the call up. It counts from when it was asked, also while there is no server.
#[test]
fn a_question_that_nobody_comes_back_for_obeys_its_deadline() {
    for down in [Duration::ZERO, Duration::from_millis(2_500)] {
        let mut server = Server::start();
        let client = connect(&server);
        let begin = Instant::now();
        let arguments = json!({ "seconds": 2 });
        let mut stream = client.call(server.address(), json!(1), "hurry", arguments);
        let begun = stream.next().unwrap().id.unwrap();
        let (_, question) = next_question(&mut stream);
        server.kill();
        drop(stream);
        // Longer than the deadline, or not at all.
        std::thread::sleep(down);
        assert_eq!(server.count("after"), 0);
        server.up();
        server.until("after", 1);
        assert!(begin.elapsed() >= Duration::from_secs(2), "not before");
        // An answer that comes now is too late, and the call is over.
        let answer = json!({ "jsonrpc": "2.0", "id": question["id"],
                             "result": { "action": "accept", "content": { "approve": true } } });
        client.say(server.address(), &answer);
        let rest = client.resume(server.address(), &begun).rest();
        assert_eq!((rest.len(), text(&rest[0])), (1, "too late"), "{rest:?}");
        assert_eq!(server.count("after"), 1);
    }
}

#[test]
fn a_prompt_asks_and_goes_on_with_the_answer() {
    let asked = asked("prompts/get", json!({ "name": "draft" }));
    let response = asked.end(&accepted(json!({ "name": "Ada" })));
    let text = &response["result"]["messages"][0]["content"]["text"];
    assert_eq!(text, "Write about Ada.", "{response}");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

#[test]
fn a_resource_asks_and_goes_on_with_the_answer() {
    let asked = asked("resources/read", json!({ "uri": "test://files/plan" }));
    let response = asked.end(&accepted(json!({ "approve": true })));
    let text = &response["result"]["contents"][0]["text"];
    assert_eq!(text, "the content of plan", "{response}");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

/// What was done before it waits is recorded when it says that it does.
fn until_it_waits(stream: &mut Response) -> String {
    let (event, said) = stream.message().expect("a line of the log");
    assert_eq!(said["params"]["data"], "waiting", "{said}");
    event.unwrap()
}

/// Killed while it waits for that, and again when it was said.
#[test]
fn that_roots_changed_is_heard_over_a_kill() {
    let mut asked = called("roots");
    let answer = |asked: &Asked, question: &Value, roots: Value| {
        assert_eq!(question["method"], "roots/list", "{question}");
        asked.answer(question, &json!({ "result": { "roots": roots } }));
    };
    let (mut stream, _, question) = asked.taken_up();
    answer(&asked, &question, json!([{ "uri": "file:///a" }]));
    let event = until_it_waits(&mut stream);
    asked.server.kill_and_restart();
    let changed = json!({ "jsonrpc": "2.0", "method": "notifications/roots/list_changed" });
    asked.client.say(asked.server.address(), &changed);
    asked.server.kill_and_restart();
    let mut stream = asked.client.resume(asked.server.address(), &event);
    let (_, question) = next_question(&mut stream);
    answer(&asked, &question, json!([]));
    let rest = stream.rest();
    assert_eq!((rest.len(), text(&rest[0])), (1, "1, then 0"), "{rest:?}");
    assert_eq!([asked.server.count("before"), asked.server.count("after")], [1, 1]);
}

/// What did not meet the condition before the kill does not after it; what met it is not looked at again.
#[test]
fn a_wait_for_durable_state_goes_on_over_a_kill() {
    let mut server = Server::start();
    let client = connect(&server);
    let push = |server: &Server, id: u64, width: u32| {
        let arguments = json!({ "width": width });
        client.call(server.address(), json!(id), "push", arguments).last();
    };
    push(&server, 1, 1);
    let mut stream = client.call(server.address(), json!(2), "enter", json!({ "width": 2 }));
    let begun = stream.next().unwrap().id.unwrap();
    until_it_waits(&mut stream);
    server.kill_and_restart();
    push(&server, 3, 1);
    assert_eq!(server.count("second"), 0);
    push(&server, 4, 5);
    // Before this begins, what it waited for is recorded.
    server.until("second", 1);
    push(&server, 5, 0);
    server.kill_and_restart();
    server.open("second");
    let rest = client.resume(server.address(), &begun).rest();
    let said: Vec<&Value> = rest.iter().map(|message| &message["params"]["data"]).collect();
    assert_eq!(said, [&json!("waiting"), &Value::Null], "{rest:?}");
    assert_eq!(text(&rest[1]), "through 5", "{rest:?}");
    assert_eq!([server.count("before"), server.count("after")], [1, 1]);
}
