//! Something between a process and its database, that goes wrong on purpose.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::server::database_port;

/// A port behind which the database is.
pub(crate) struct Between {
    pub(crate) port: u16,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    cut: AtomicBool,
    deaf: AtomicBool,
    /// What deaf ears were told.
    unheard: AtomicUsize,
    /// What the process has said and was not passed on yet, if that is held up.
    held: Mutex<Option<Vec<u8>>>,
    connections: Mutex<Vec<TcpStream>>,
}

impl Between {
    pub(crate) fn new() -> Between {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = shared.clone();
                thread::spawn(move || pass(client, &state));
            }
        });
        Between { port, state }
    }

    /// Drops all connections, and lets nobody in until this is taken back.
    pub(crate) fn cut(&self, cut: bool) {
        let mut connections = self.state.connections.lock().unwrap();
        self.state.cut.store(cut, Ordering::SeqCst);
        for connection in connections.drain(..) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// From now on nobody hears what others notify of.
    pub(crate) fn deafen(&self) {
        self.state.deaf.store(true, Ordering::SeqCst);
    }

    /// Holds up what the process says to its database, or passes it on.
    pub(crate) fn hold(&self, hold: bool) {
        *self.state.held.lock().unwrap() = hold.then(Vec::new);
    }

    /// Waits until something that is held up has this in it.
    pub(crate) fn until_held(&self, text: &str) {
        let begun = Instant::now();
        let is_in = |held: &Vec<u8>| held.windows(text.len()).any(|part| part == text.as_bytes());
        while !self.state.held.lock().unwrap().as_ref().is_some_and(is_in) {
            assert!(begun.elapsed() < Duration::from_secs(30), "nobody says {text}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// How much was not heard.
    pub(crate) fn unheard(&self) -> usize {
        self.state.unheard.load(Ordering::SeqCst)
    }
}

fn pass(client: TcpStream, state: &Arc<State>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", database_port())) else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (Ok(from_client), Ok(to_server)) = (client.try_clone(), server.try_clone()) else { return };
    {
        let mut connections = state.connections.lock().unwrap();
        if state.cut.load(Ordering::SeqCst) {
            return;
        }
        connections.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
    }
    let holds = state.clone();
    thread::spawn(move || {
        let _ = say(from_client, &to_server, &holds);
        let _ = to_server.shutdown(Shutdown::Both);
    });
    let _ = hear(server, &client, state);
    let _ = client.shutdown(Shutdown::Both);
}

/// Passes on what the process says, or waits with it.
fn say(mut from: TcpStream, mut to: &TcpStream, state: &State) -> std::io::Result<()> {
    let mut bytes = [0; 64 * 1024];
    loop {
        let read = from.read(&mut bytes)?;
        if read == 0 {
            return Ok(());
        }
        if let Some(held) = state.held.lock().unwrap().as_mut() {
            held.extend_from_slice(&bytes[..read]);
        }
        while state.held.lock().unwrap().is_some() {
            thread::sleep(Duration::from_millis(5));
        }
        to.write_all(&bytes[..read])?;
    }
}

/// Passes on what the database says, message by message: a letter, a length, and so much more.
fn hear(mut from: TcpStream, mut to: &TcpStream, state: &State) -> std::io::Result<()> {
    loop {
        let mut message = vec![0; 5];
        from.read_exact(&mut message)?;
        let length = u32::from_be_bytes([message[1], message[2], message[3], message[4]]);
        message.resize(1 + length as usize, 0);
        from.read_exact(&mut message[5..])?;
        // A notification.
        if message[0] == b'A' && state.deaf.load(Ordering::SeqCst) {
            state.unheard.fetch_add(1, Ordering::SeqCst);
            continue;
        }
        to.write_all(&message)?;
    }
}
