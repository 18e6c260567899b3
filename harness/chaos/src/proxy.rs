//! The network: it refuses, delays, cuts and stalls connections at random.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use steadfast_crash::Rng;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

use crate::world::World;

/// What becomes of a connection.
#[derive(Clone, Copy, Default)]
struct Fate {
    refused: bool,
    delay: Duration,
    /// Cut after this many bytes, to the server and from it.
    cut: [Option<u64>; 2],
    /// Cut after this long.
    ends: Option<Duration>,
    /// Nothing passes for a while after this many bytes from the server.
    stall: Option<(u64, Duration)>,
    /// The server hears of a cut only later than the client does.
    lingers: Duration,
    /// By a reset, in place of an orderly end.
    reset: bool,
}

impl Fate {
    fn draw(dice: &mut Rng) -> Fate {
        let millis = |dice: &mut Rng, most| Duration::from_millis(dice.below(most));
        let mut fate = Fate { reset: dice.chance(50), ..Fate::default() };
        if dice.chance(30) {
            fate.lingers = millis(dice, 1_000);
        }
        match dice.below(100) {
            0..6 => fate.refused = true,
            6..14 => fate.delay = millis(dice, 500),
            14..20 => fate.cut[0] = Some(dice.below(700)),
            20..32 => fate.cut[1] = Some(dice.below(1_200)),
            32..46 => fate.ends = Some(millis(dice, 1_200)),
            46..52 => fate.stall = Some((dice.below(900), millis(dice, 1_500))),
            _ => {}
        }
        fate
    }

    fn is_a_fault(&self) -> bool {
        self.refused
            || !self.delay.is_zero()
            || self.cut.iter().any(Option::is_some)
            || self.ends.is_some()
            || self.stall.is_some()
    }
}

/// Passes connections on to the server, wherever that is now; of several, each to the next.
pub(crate) async fn run(world: Arc<World>, listener: TcpListener) {
    let mut number = 0;
    loop {
        let Ok((client, from)) = listener.accept().await else { continue };
        number += 1;
        let fate = match world.is_calm() {
            true => Fate::default(),
            false => Fate::draw(&mut Rng::of(world.seed, 1 << 32 | number)),
        };
        world.connections.fetch_add(1, Ordering::Relaxed);
        if fate.is_a_fault() {
            world.faults.fetch_add(1, Ordering::Relaxed);
        }
        let to = world.next_server();
        let world = world.clone();
        tokio::spawn(async move {
            if let Some(to) = to {
                let comes = || world.comes(from.port(), to.life);
                pass(client, to.address, fate, comes).await;
            }
            world.closed(from.port(), to.map(|to| to.life));
        });
    }
}

/// Says when something of the client's is about to be passed on whole.
async fn pass(client: TcpStream, to: SocketAddr, fate: Fate, comes: impl FnMut()) -> Option<()> {
    if fate.refused {
        return None;
    }
    sleep(fate.delay).await;
    let server = TcpStream::connect(to).await.ok()?;
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    if fate.reset {
        // What was not delivered yet is thrown away, and the other side gets an error.
        let _ = client.set_zero_linger();
    }
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let ends = async {
        match fate.ends {
            Some(after) => sleep(after).await,
            None => std::future::pending().await,
        }
    };
    let mut up = Box::pin(copy(from_client, to_server, fate.cut[0], None, comes));
    let mut down = Box::pin(copy(from_server, to_client, fate.cut[1], fate.stall, || {}));
    // However one direction ends, the connection does: no client here closes only one.
    tokio::select! {
        () = &mut up => {
            drop(down);
            drop(up);
        }
        () = &mut down => {
            drop(down);
            sleep(fate.lingers).await;
            drop(up);
        }
        () = ends => {
            drop(down);
            sleep(fate.lingers).await;
            drop(up);
        }
    }
    Some(())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    cut: Option<u64>,
    mut stall: Option<(u64, Duration)>,
    mut comes: impl FnMut(),
) {
    let mut passed = 0;
    let mut buffer = vec![0; 4_096];
    loop {
        let read = match from.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(read) => read as u64,
        };
        if let Some((_, long)) = stall.take_if(|(after, _)| passed + read > *after) {
            sleep(long).await;
        }
        let most = cut.map_or(read, |cut| read.min(cut.saturating_sub(passed)));
        if most == read {
            comes();
        }
        if to.write_all(&buffer[..most as usize]).await.is_err() {
            return;
        }
        passed += read;
        if cut.is_some_and(|cut| passed >= cut) {
            return;
        }
    }
}
