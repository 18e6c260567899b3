//! Something between a store and its server that goes wrong on purpose.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, AtomicU32, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedReadHalf},
    sync::watch,
};

/// What it happens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Commit,
    /// A statement by which a process takes a desk.
    Seat,
}

/// What happens to the next commit that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The server gets it, and its answer is lost with the connection.
    AnswerLost,
    /// It is lost with the connection.
    Lost,
    /// The connection is lost, and the server gets it only later.
    Late,
}

#[derive(Default)]
struct Plan {
    next: Mutex<Option<(What, Fate)>>,
    /// How many commits to let pass before.
    skip: AtomicU32,
    met: AtomicBool,
    /// From then on nobody is let in.
    then_refuse: AtomicBool,
    refuse: AtomicBool,
    frozen: watch::Sender<bool>,
}

pub(crate) struct Proxy {
    pub(crate) port: u16,
    plan: Arc<Plan>,
}

impl Proxy {
    pub(crate) async fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let plan = Arc::new(Plan::default());
        let shared = plan.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if shared.refuse.load(Ordering::SeqCst) {
                    continue;
                }
                let plan = shared.clone();
                tokio::spawn(async move {
                    let Ok(server) = TcpStream::connect(("127.0.0.1", server)).await else {
                        return;
                    };
                    carry(client, server, plan).await;
                });
            }
        });
        Proxy { port, plan }
    }

    /// From now on, after `skip` commits, this happens to one.
    pub(crate) fn next_commit(&self, fate: Fate, skip: u32) {
        self.plan.skip.store(skip, Ordering::SeqCst);
        *self.plan.next.lock().unwrap() = Some((What::Commit, fate));
    }

    /// The answer to the next who takes a desk is lost with the connection.
    pub(crate) fn next_seat_is_lost(&self) {
        *self.plan.next.lock().unwrap() = Some((What::Seat, Fate::AnswerLost));
    }

    /// Whoever is not connected when that happens stays out.
    pub(crate) fn then_refuse(&self) {
        self.plan.then_refuse.store(true, Ordering::SeqCst);
    }

    /// Whether it has happened.
    pub(crate) fn met(&self) -> bool {
        self.plan.met.swap(false, Ordering::SeqCst)
    }

    /// Nothing passes, in either direction, until it is thawed.
    pub(crate) fn freeze(&self, frozen: bool) {
        self.plan.frozen.send_replace(frozen);
    }

    /// Everybody is let in again.
    pub(crate) fn let_in(&self) {
        self.plan.refuse.store(false, Ordering::SeqCst);
    }
}

async fn carry(client: TcpStream, server: TcpStream, plan: Arc<Plan>) {
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let muted = Arc::new(AtomicBool::new(false));
    let plan_down = plan.clone();
    let muted_down = muted.clone();
    let down = async move {
        let mut buffer = vec![0; 65_536];
        while let Ok(n @ 1..) = from_server.read(&mut buffer).await {
            thaw(&plan_down).await;
            if muted_down.load(Ordering::SeqCst) {
                // Until the answer, which comes in one piece: then it is done.
                let done = |part: &[u8]| part == b"COMMIT\0" || part == b"INSERT ";
                match buffer[..n].windows(7).any(done) {
                    true => return,
                    false => continue,
                }
            }
            if to_client.write_all(&buffer[..n]).await.is_err() {
                return;
            }
        }
    };
    let plan_up = plan.clone();
    let up = async move {
        let mut reader = Reader::default();
        let mut buffer = vec![0; 65_536];
        while let Some(chunk) = read(&mut from_client, &mut buffer).await {
            thaw(&plan_up).await;
            let fate = reader.finds(chunk).and_then(|what| fate(&plan_up, what));
            match fate {
                None => {}
                Some(Fate::AnswerLost) => muted.store(true, Ordering::SeqCst),
                Some(Fate::Lost) => return,
                Some(Fate::Late) => {
                    let chunk = chunk.to_vec();
                    tokio::spawn(async move {
                        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                        let _ = to_server.write_all(&chunk).await;
                        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
                    });
                    return;
                }
            }
            if to_server.write_all(chunk).await.is_err() {
                return;
            }
        }
    };
    // The server's side must stay open for what comes late; what it says is thrown away.
    let down = tokio::spawn(down);
    tokio::pin!(down);
    tokio::select! {
        () = up => {}
        _ = &mut down => {}
    }
}

async fn thaw(plan: &Plan) {
    let mut frozen = plan.frozen.subscribe();
    let _ = frozen.wait_for(|frozen| !*frozen).await;
}

fn fate(plan: &Plan, what: What) -> Option<Fate> {
    let mut next = plan.next.lock().unwrap();
    (*next).filter(|(next, _)| *next == what)?;
    if plan.skip.load(Ordering::SeqCst) > 0 {
        plan.skip.fetch_sub(1, Ordering::SeqCst);
        return None;
    }
    if plan.then_refuse.load(Ordering::SeqCst) {
        plan.refuse.store(true, Ordering::SeqCst);
    }
    plan.met.store(true, Ordering::SeqCst);
    next.take().map(|(_, fate)| fate)
}

async fn read<'b>(from: &mut OwnedReadHalf, buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    let n = from.read(buffer).await.ok().filter(|n| *n > 0)?;
    Some(&buffer[..n])
}

/// Finds among a client's messages what something may happen to.
#[derive(Default)]
struct Reader {
    begun: bool,
    rest: Vec<u8>,
    /// The names of the prepared statements that do it.
    names: Vec<(Vec<u8>, What)>,
}

impl Reader {
    /// What there is in this part of the stream.
    fn finds(&mut self, chunk: &[u8]) -> Option<What> {
        self.rest.extend_from_slice(chunk);
        let mut found = None;
        loop {
            // The first message has no letter in front.
            let head = if self.begun { 1 } else { 0 };
            let Some(length) = self.rest.get(head..head + 4) else { return found };
            let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
            if self.rest.len() < head + length {
                return found;
            }
            let message: Vec<u8> = self.rest.drain(..head + length).collect();
            if std::mem::replace(&mut self.begun, true) {
                found = found.or(self.message(message[0], &message[5..]));
            }
        }
    }

    fn message(&mut self, letter: u8, body: &[u8]) -> Option<What> {
        let mut words = body.split(|byte| *byte == 0);
        let (first, second) = (words.next().unwrap_or(b""), words.next().unwrap_or(b""));
        match letter {
            b'P' => {
                self.names.extend(what(second).map(|what| (first.to_vec(), what)));
                None
            }
            b'B' => self.names.iter().find(|(name, _)| name == second).map(|(_, what)| *what),
            b'Q' => what(first),
            _ => None,
        }
    }
}

fn what(sql: &[u8]) -> Option<What> {
    match sql {
        b"COMMIT" => Some(What::Commit),
        _ if sql.windows(16).any(|part| part == b"INSERT INTO desk") => Some(What::Seat),
        _ => None,
    }
}
