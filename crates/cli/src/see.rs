//! Seeing a call through: until it is over, the time is up, or the person leaves.

use std::{io::Write, time::Duration};

use serde_json::Value;
use steadfast_client::{CallResult, Error};

use crate::{Failure, Result, screen::Screen};

/// Waits for a result and prints it. `way_back` says how to go on if it is left before its end.
pub(crate) async fn through(
    call: impl Future<Output = std::result::Result<CallResult, Error>>,
    timeout: Option<u64>,
    screen: &Screen,
    way_back: impl Fn() -> Option<String>,
) -> Result<u8> {
    let late = async {
        match timeout {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let left = |code: u8, why: &str| {
        screen.clear();
        let back = way_back();
        let how = back.unwrap_or_else(|| "there is no way to take it up again".into());
        Failure::with(code, format!("{why}; {how}"))
    };
    let ended = tokio::select! {
        ended = call => ended,
        () = late => return Err(left(2, "it is not over in time")),
        _ = tokio::signal::ctrl_c() => return Err(left(130, "left before its end")),
    };
    screen.clear();
    match ended {
        Ok(result) => show(&result),
        Err(error @ Error::Cancelled(_)) => Err(Failure::with(1, error.to_string())),
        Err(error) if error.is_connection() => Err(left(2, &error.to_string())),
        Err(error) => Err(error.into()),
    }
}

/// Texts as texts, all else as JSON.
fn show(result: &CallResult) -> Result<u8> {
    let mut out = std::io::stdout().lock();
    for block in &result.content {
        match block["text"].as_str() {
            Some(text) if block["type"] == "text" => writeln!(out, "{text}")?,
            _ => writeln!(out, "{}", pretty(block))?,
        }
    }
    if let (true, Some(structured)) = (result.content.is_empty(), &result.structured) {
        writeln!(out, "{}", pretty(structured))?;
    }
    Ok(u8::from(result.is_error))
}

pub(crate) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
