//! A small client: calls a tool as a task, follows it, asks you its questions. Kill it, or the server,
//! whenever you like, and go on with `samples-client resume TASK`.

use std::{
    io::{BufRead, Write},
    time::Duration,
};

use serde_json::{Map, Value, json};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const HELP: &str = "usage: samples-client [OPTIONS] call TOOL [ARGUMENTS AS JSON]
       samples-client [OPTIONS] resume TASK
       samples-client [OPTIONS] cancel TASK
Options: --url URL (http://127.0.0.1:8787/mcp unless it is given), --token BEARER-TOKEN";

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let mut client = Client { url: "http://127.0.0.1:8787/mcp".into(), token: None };
    while words.first().is_some_and(|word| word.starts_with("--")) && words.len() > 1 {
        let value = words.remove(1);
        match words.remove(0).as_str() {
            "--url" => client.url = value,
            "--token" => client.token = Some(value),
            _ => return Err(HELP.into()),
        }
    }
    match &words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["call", tool] => client.call(tool, json!({})),
        ["call", tool, arguments] => client.call(tool, serde_json::from_str(arguments)?),
        ["resume", task] => client.follow(task),
        ["cancel", task] => {
            client.request("tasks/cancel", task, json!({ "taskId": task })).map(drop)
        }
        _ => Err(HELP.into()),
    }
}

struct Client {
    url: String,
    token: Option<String>,
}

impl Client {
    /// Sends a request. The name is that of the tool or the task it is about.
    fn request(&self, method: &str, name: &str, mut params: Value) -> Result<Value> {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "samples-client", "version": "0.1.0" },
            "io.modelcontextprotocol/clientCapabilities": {
                "elicitation": { "form": {} },
                "extensions": { "io.modelcontextprotocol/tasks": {} },
            },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent.post(&self.url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        let mut response = request
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", "2026-07-28")
            .header("Mcp-Method", method)
            .header("Mcp-Name", name)
            .send_json(&body)?;
        let reply: Value = response.body_mut().read_json()?;
        match reply.get("error") {
            Some(error) => Err(format!("{} ({})", error["message"], error["code"]).into()),
            None => Ok(reply["result"].clone()),
        }
    }

    fn call(&self, tool: &str, arguments: Value) -> Result<()> {
        let params = json!({ "name": tool, "arguments": arguments });
        let result = self.request("tools/call", tool, params)?;
        if result["resultType"] != "task" {
            return show(&result);
        }
        let task = result["taskId"].as_str().unwrap_or_default();
        println!("task {task} (go on with: samples-client resume {task})");
        self.follow(task)
    }

    /// Polls a task to its end, also through a restart of the server.
    fn follow(&self, task: &str) -> Result<()> {
        let (mut shown, mut away) = (String::new(), 0);
        loop {
            let seen = match self.request("tasks/get", task, json!({ "taskId": task })) {
                Ok(seen) => seen,
                Err(error) if error.is::<ureq::Error>() && away < 120 => {
                    if away == 0 {
                        println!("the server is away; waiting for it ...");
                    }
                    away += 1;
                    std::thread::sleep(Duration::from_millis(500));
                    continue;
                }
                Err(error) => return Err(error),
            };
            away = 0;
            let message = seen["statusMessage"].as_str().unwrap_or_default();
            let now = format!("{} {message}", seen["status"].as_str().unwrap_or_default());
            if now != shown {
                println!("{now}");
                shown = now;
            }
            match seen["status"].as_str() {
                Some("completed") => return show(&seen["result"]),
                Some("failed") => return Err(seen["error"]["message"].to_string().into()),
                Some("cancelled") => return Ok(()),
                Some("input_required") => self.answer(task, &seen["inputRequests"])?,
                _ => {}
            }
            let pause = seen["pollIntervalMs"].as_u64().unwrap_or(1_000).min(2_000);
            std::thread::sleep(Duration::from_millis(pause));
        }
    }

    fn answer(&self, task: &str, requests: &Value) -> Result<()> {
        let mut responses = Map::new();
        for (key, request) in requests.as_object().into_iter().flatten() {
            println!("{}", request["params"]["message"].as_str().unwrap_or_default());
            responses.insert(key.clone(), fill_in(&request["params"]["requestedSchema"])?);
        }
        let params = json!({ "taskId": task, "inputResponses": responses });
        self.request("tasks/update", task, params).map(drop)
    }
}

/// Asks for each field of a form.
fn fill_in(form: &Value) -> Result<Value> {
    let mut content = Map::new();
    for (name, field) in form["properties"].as_object().into_iter().flatten() {
        let about = field["description"].as_str().unwrap_or(name);
        let hint = match (field["type"].as_str(), field.get("oneOf").or_else(|| field.get("enum")))
        {
            (Some("boolean"), _) => "y/n".to_owned(),
            (_, Some(choices)) => choices.to_string(),
            (kind, None) => kind.unwrap_or("text").to_owned(),
        };
        print!("  {about} [{hint}]: ");
        std::io::stdout().flush()?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(json!({ "action": "cancel" }));
        }
        let line = line.trim();
        match field["type"].as_str() {
            _ if line.is_empty() => {}
            Some("boolean") => {
                content.insert(name.clone(), json!(line.to_lowercase().starts_with('y')));
            }
            Some("integer" | "number") => {
                content.insert(name.clone(), serde_json::from_str(line).unwrap_or(json!(line)));
            }
            _ => {
                content.insert(name.clone(), json!(line));
            }
        }
    }
    Ok(json!({ "action": "accept", "content": content }))
}

fn show(result: &Value) -> Result<()> {
    for content in result["content"].as_array().into_iter().flatten() {
        println!("{}", content["text"].as_str().unwrap_or_default());
    }
    match result["isError"] == true {
        true => Err("the tool failed".into()),
        false => Ok(()),
    }
}
