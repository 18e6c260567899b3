//! One client over a pair of byte streams, a message a line: standard input and output.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    sync::mpsc,
};

use crate::{
    Identity,
    connection::Connection,
    front::Front,
    outlet::{Outlet, Said},
    wire::{RpcError, code, error_response},
};

/// Serves one client until its input ends or the server shuts down. Responses that are still owed
/// then are not waited for.
pub(crate) async fn serve(
    front: Arc<Front>,
    caller: Identity,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
) -> io::Result<()> {
    caller.check(!front.keys.is_empty()).map_err(io::Error::other)?;
    let (outlet, messages) = Outlet::new();
    let writer = tokio::spawn(write(messages, output));
    let connection = Connection::new(front, caller.principal.clone(), outlet);
    let read = read(&connection, &caller, input).await;
    connection.abandon().await;
    drop(connection);
    writer.abort();
    read
}

async fn write(mut messages: mpsc::Receiver<Said>, mut output: impl AsyncWrite + Unpin) {
    while let Some(said) = messages.recv().await {
        // There is one stream, and no other to take it up again.
        let Some(message) = said.message else { continue };
        let line = [message.as_bytes(), b"\n"].concat();
        if output.write_all(&line).await.is_err() || output.flush().await.is_err() {
            return;
        }
    }
}

async fn read(
    connection: &Arc<Connection>,
    caller: &Identity,
    input: impl AsyncRead + Unpin,
) -> io::Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    loop {
        line.clear();
        let limit = connection.front.settings.max_body;
        let read = tokio::select! {
            read = read_line(&mut input, &mut line, limit) => read?,
            () = connection.front.draining.cancelled() => return Ok(()),
        };
        match read {
            Line::End => return Ok(()),
            Line::TooLong => {
                let message = format!("a message is larger than {limit} bytes");
                let error = RpcError::new(code::INVALID_REQUEST, message);
                connection.outlet.send(error_response(None, &error)).await;
            }
            Line::Whole if line.iter().all(u8::is_ascii_whitespace) => {}
            Line::Whole => connection.take(caller, &line).await,
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line without its end, of which no more than `limit` bytes are kept.
async fn read_line(
    input: &mut (impl AsyncBufReadExt + Unpin),
    line: &mut Vec<u8>,
    limit: usize,
) -> io::Result<Line> {
    let mut long = false;
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok(if line.is_empty() && !long { Line::End } else { Line::Whole });
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let taken = end.unwrap_or(chunk.len());
        if line.len() + taken > limit {
            (long, *line) = (true, Vec::new());
        } else if !long {
            line.extend_from_slice(&chunk[..taken]);
        }
        input.consume(end.map_or(taken, |end| end + 1));
        if end.is_some() {
            return Ok(if long { Line::TooLong } else { Line::Whole });
        }
    }
}
