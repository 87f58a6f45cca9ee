//! One client's connection: bytes in, requests to the desk, replies out in their order.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use channel::Channel;
use farm::TlsFacts;
use kv::{Kv, Outcome};
use memcache_wire::{DENIED, Login, login, reply};
use reactor::Sock;
use session::{Admitted, ClientTls, Core, Stay};

use crate::House;
use crate::answer::Next;
use crate::counts::{add, count, uncount};
use crate::intake::{Cursor, Desk, OUT_BYTES, Taken};
use crate::pending::Reply;
use crate::rights::Rights;

/// Receive room of an idle client.
const IDLE_BYTES: usize = 2048;
/// Receive room of a client that has sent more than fits that.
const BUSY_BYTES: usize = 64 << 10;
/// So many logins of one connection may fail.
const LOGINS_MAX: u32 = 5;
/// The first byte of a TLS handshake. No request of the protocol begins so.
const TLS_HANDSHAKE: u8 = 0x16;

/// Why a connection ends.
enum End {
    /// The client closed it, or asked for it.
    Quit,
    /// It broke, or the client was silent for too long.
    Gone(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> End {
        End::Gone(error)
    }
}

/// A connection and what came of it that is not used yet.
struct Client {
    channel: Channel,
    core: Rc<Core>,
    inbox: Vec<u8>,
    cursor: Cursor,
}

/// Serves one client to its end.
pub(crate) async fn serve(core: Rc<Core>, house: Arc<House>, stream: TcpStream, peer: SocketAddr) {
    let Ok(sock) = Sock::adopt(stream) else {
        return;
    };
    core.heed_settings();
    let Some(kv) = Kv::on(&core, &house.settings.own) else {
        return tracing::error!("this core has no room for containers");
    };
    let channel = Channel::new(sock);
    let stay = Stay::new(&core, peer, channel.closer());
    let mut client = Client {
        channel,
        inbox: Vec::with_capacity(IDLE_BYTES),
        cursor: Cursor::default(),
        core: core.clone(),
    };
    let counts = &house.counts[core.index];
    count(&counts.curr_connections);
    count(&counts.total_connections);
    let end = match client.begin(&house, &stay, peer).await {
        Ok(admitted) => {
            let rights = match &admitted {
                Some(admitted) if !admitted.admin => {
                    Some(Box::pin(Rights::of(&core, &kv, admitted)).await)
                }
                _ => None,
            };
            let mut desk = Desk::new(house.clone(), kv, core.index, rights);
            let end = client.run(&mut desk, &stay).await;
            drop(admitted);
            end
        }
        Err(end) => end,
    };
    uncount(&counts.curr_connections);
    match end {
        End::Quit => tracing::debug!(session = stay.id(), peer = %peer, "key-value client left"),
        End::Gone(error) => {
            tracing::debug!(session = stay.id(), peer = %peer, %error, "key-value client is gone");
        }
    }
}

impl Client {
    /// TLS and the login, where they are wanted.
    async fn begin(
        &mut self,
        house: &House,
        stay: &Stay,
        peer: SocketAddr,
    ) -> Result<Option<Admitted>, End> {
        let limit = Duration::from_secs(self.core.settings().handshake_timeout_s);
        let terms = house.shared.transport.tls;
        if terms == ClientTls::Off && !house.settings.auth {
            return Ok(None);
        }
        // A client that need not log in may be silent until it needs something.
        let first = self.receive(1, self.idle_limit());
        match house.settings.auth {
            true => within(limit, first).await?,
            false => first.await?,
        }
        if self.inbox.first() == Some(&TLS_HANDSHAKE) && terms != ClientTls::Off {
            within(limit, self.secure(house)).await?;
        } else if terms == ClientTls::Required {
            self.say("CLIENT_ERROR this server speaks TLS only").await?;
            return Err(End::Quit);
        }
        if !house.settings.auth {
            return Ok(None);
        }
        within(limit, self.log_in(house, stay, peer))
            .await
            .map(Some)
    }

    async fn secure(&mut self, house: &House) -> Result<(), End> {
        let Some(presented) = house.shared.transport.offer() else {
            return Err(End::Quit);
        };
        let early = std::mem::replace(&mut self.inbox, Vec::with_capacity(IDLE_BYTES));
        // Boxed: the handshake needs room that the client does not need afterwards.
        let handshake = self.channel.accept_tls(presented.config.clone(), &early);
        Ok(Box::pin(handshake).await?)
    }

    /// memcached's own login. Everything else is refused before.
    async fn log_in(
        &mut self,
        house: &House,
        stay: &Stay,
        peer: SocketAddr,
    ) -> Result<Admitted, End> {
        let counts = &house.counts[self.core.index];
        for _ in 0..LOGINS_MAX {
            let (user, password, used) = loop {
                match login(&self.inbox) {
                    Login::Incomplete { needed } => {
                        let limit = self.idle_limit();
                        self.receive(needed, limit).await?;
                    }
                    Login::Token {
                        user,
                        password,
                        used,
                    } => break (user, password, used),
                    Login::Bad { reply, used } => {
                        self.inbox.drain(..used);
                        self.say(reply).await?;
                    }
                    Login::Hangup => return Err(End::Quit),
                }
            };
            let user = String::from_utf8_lossy(user).into_owned();
            let facts = self.tls_facts();
            let admitted = self.core.admit(&user, password, peer.ip(), facts.as_ref());
            let admitted = admitted.await;
            // The password goes with it.
            self.inbox.drain(..used);
            count(&counts.auth_cmds);
            match admitted {
                Ok(admitted) => {
                    stay.is_user(user.as_bytes());
                    self.say(reply::STORED).await?;
                    return Ok(admitted);
                }
                Err(denied) => {
                    count(&counts.auth_errors);
                    tracing::info!(why = %denied.0, "a key-value client was not let in");
                    self.say(DENIED).await?;
                }
            }
        }
        Err(End::Quit)
    }

    fn tls_facts(&self) -> Option<TlsFacts> {
        self.channel.is_secure().then(|| {
            let certificate = self.channel.peer_certificate();
            TlsFacts {
                cipher: self.channel.cipher(),
                certificate: certificate.map(|names| (names.issuer, names.subject)),
            }
        })
    }

    async fn say(&mut self, text: &str) -> Result<(), End> {
        let mut out = Vec::new();
        reply::line(&mut out, text);
        self.send(&mut out).await
    }

    /// Requests and replies until the client goes.
    async fn run(&mut self, desk: &mut Desk, stay: &Stay) -> End {
        // What came before there was a desk.
        desk.note_received(self.inbox.len());
        loop {
            let taken = desk.take(&self.inbox, &mut self.cursor);
            stay.busy(true);
            let answered = self.answer(desk, taken).await;
            stay.busy(false);
            match answered {
                Ok(Taken::Last) => return End::Quit,
                Ok(_) if stay.must_go() => return End::Quit,
                Ok(_) => {}
                Err(end) => return end,
            }
            if let Err(end) = self.read_more(desk).await {
                return end;
            }
        }
    }

    /// Writes the replies in the order of the requests, and takes more requests while there are some.
    async fn answer(&mut self, desk: &mut Desk, mut taken: Taken) -> Result<Taken, End> {
        loop {
            if taken == Taken::Enough && desk.is_half_empty() {
                taken = desk.take(&self.inbox, &mut self.cursor);
            }
            let Some(reply) = desk.pending.pop() else {
                if taken == Taken::Enough {
                    // There was no room for what a request needs; now there is all.
                    desk.item_bytes = 0;
                    if desk.out.len() >= OUT_BYTES {
                        self.flush(desk).await?;
                    }
                    taken = desk.take(&self.inbox, &mut self.cursor);
                    continue;
                }
                self.flush(desk).await?;
                return Ok(taken);
            };
            self.settle(desk, reply).await?;
            if desk.out.len() >= OUT_BYTES {
                self.flush(desk).await?;
            }
        }
    }

    /// Waits for a reply's outcome, with everything before it sent, and writes it.
    async fn settle(&mut self, desk: &mut Desk, mut reply: Reply) -> Result<(), End> {
        loop {
            let Some(ticket) = reply.ticket() else {
                desk.write(reply);
                return Ok(());
            };
            let outcome: Outcome = match ticket.ready() {
                Some(outcome) => outcome,
                None => {
                    self.flush(desk).await?;
                    ticket.await
                }
            };
            match desk.answer(reply, outcome) {
                Next::Written => return Ok(()),
                Next::Again(again) => reply = again,
            }
        }
    }

    async fn flush(&mut self, desk: &mut Desk) -> Result<(), End> {
        if desk.out.is_empty() {
            return Ok(());
        }
        desk.sent_bytes = desk.out.len();
        add(&desk.counts().bytes_written, desk.sent_bytes as u64);
        self.send(&mut desk.out).await
    }

    /// Sends all of `out` and empties it; a small buffer is kept.
    async fn send(&mut self, out: &mut Vec<u8>) -> Result<(), End> {
        let buffer = std::mem::take(out);
        let length = buffer.len();
        let limit = Duration::from_secs(self.core.settings().client_write_timeout_s);
        let sent = reactor::timeout(limit, self.channel.send(buffer, 0..length)).await;
        let (sent, mut buffer) = sent.ok_or(End::Gone(io::ErrorKind::TimedOut.into()))?;
        sent?;
        buffer.clear();
        if buffer.capacity() <= IDLE_BYTES {
            *out = buffer;
        }
        Ok(())
    }

    /// Receives what the next look needs.
    async fn read_more(&mut self, desk: &mut Desk) -> Result<(), End> {
        let used = std::mem::take(&mut self.cursor.at);
        self.inbox.drain(..used);
        let limit = match self.inbox.is_empty() && self.cursor.swallow == 0 {
            true => self.idle_limit(),
            false => Duration::from_secs(self.core.settings().client_read_timeout_s),
        };
        loop {
            let before = self.inbox.len();
            self.receive(self.cursor.needed, limit).await?;
            desk.note_received(self.inbox.len() - before);
            if self.inbox.len() >= self.cursor.needed {
                return Ok(());
            }
        }
    }

    fn idle_limit(&self) -> Duration {
        Duration::from_secs(self.core.settings().idle_timeout_s)
    }

    /// Receives something. The buffer grows with what has come, never with what was only announced.
    async fn receive(&mut self, needed: usize, limit: Duration) -> Result<(), End> {
        let mut buffer = std::mem::take(&mut self.inbox);
        let length = buffer.len();
        if length == 0 && buffer.capacity() > 2 * BUSY_BYTES {
            buffer = Vec::with_capacity(IDLE_BYTES);
        }
        if length == buffer.capacity() || needed > buffer.capacity() {
            let missing = needed.saturating_sub(length).max(1);
            buffer.reserve(missing.min(length.max(BUSY_BYTES)));
        }
        let received = reactor::timeout(limit, self.channel.recv(buffer)).await;
        let (received, buffer) = received.ok_or(End::Gone(io::ErrorKind::TimedOut.into()))?;
        let full = buffer.len() == buffer.capacity();
        self.inbox = buffer;
        if received? == 0 {
            return Err(End::Quit);
        }
        if full {
            // A client that sends more than fits gets more room for the next time.
            self.inbox.reserve(BUSY_BYTES);
        }
        Ok(())
    }
}

/// Somebody who takes longer is sent away.
async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, End>>) -> Result<T, End> {
    let done = reactor::timeout(limit, work).await;
    done.unwrap_or_else(|| Err(End::Gone(io::ErrorKind::TimedOut.into())))
}
