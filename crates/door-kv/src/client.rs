//! One client's connection: bytes in, requests to the exchange, replies out in their order.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use channel::Channel;
use farm::TlsFacts;
use kv::{Kv, Outcome};
use memcache_wire::{DENIED, Login, login, reply};
use memory::{Purpose, Reservation};
use proxy_wire::Found;
use reactor::{Sock, Stream};
use session::{Admitted, ClientTls, Core, Denied, Places, PlainLogin, Standing, Stay};

use crate::House;
use crate::answer::Next;
use crate::counts::{add, count, uncount};
use crate::intake::{Cursor, Exchange, OUT_BYTES, Taken};
use crate::pending::Reply;
use crate::rights::Rights;

/// Receive room of an idle client.
const IDLE_BYTES: usize = 2048;
/// Receive room of a client that has sent more than fits that.
const BUSY_BYTES: usize = 64 << 10;
/// So many logins of one connection may fail.
const LOGINS_MAX: u32 = 5;
/// Too many passwords wait to be verified.
const BUSY: &str = "SERVER_ERROR too many logins at once, try again";
/// The account is gone or locked, or has another password.
const GONE: &str = "CLIENT_ERROR the account was changed; connect again";
/// The first byte of a TLS handshake. No request of the protocol begins so.
const TLS_HANDSHAKE: u8 = 0x16;

/// Why a connection ends.
enum End {
    /// The client closed it, or asked for it.
    Quit,
    /// It broke, or the client was silent for too long.
    Gone(io::Error),
    /// There is no memory for what the client sends.
    NoMemory,
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
    /// For `inbox`.
    reservation: Reservation,
    cursor: Cursor,
}

/// Serves one client to its end.
pub(crate) async fn serve(
    core: Rc<Core>,
    house: Arc<House>,
    stream: Stream,
    mut peer: SocketAddr,
    mut places: Places,
) {
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
        reservation: Reservation::new(house.shared.live.memory(), Purpose::Values),
        cursor: Cursor::default(),
        core: core.clone(),
    };
    let counts = &house.counts[core.index];
    count(&counts.curr_connections);
    count(&counts.total_connections);
    let end = match client.begin(&house, &stay, &mut peer, &mut places).await {
        Ok(mut admitted) => {
            if let Some(admitted) = &admitted {
                client.reservation.move_to(admitted.memory());
            }
            let rights = match &admitted {
                Some(admitted) => Box::pin(rights_of(&core, &kv, admitted)).await,
                None => None,
            };
            let of_kv = kv.clone();
            let mut exchange =
                Exchange::new(house.clone(), kv, core.index, rights, &client.reservation);
            let end = client
                .run(&mut exchange, &stay, &of_kv, &mut admitted)
                .await;
            // Its places are kept until then, and a drain waits for them.
            Box::pin(exchange.early.commit()).await;
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
        End::NoMemory => {
            tracing::info!(session = stay.id(), peer = %peer, "no memory for a key-value client");
        }
    }
}

/// What a client may do; `None` where that is everything.
async fn rights_of(core: &Rc<Core>, kv: &Kv, admitted: &Admitted) -> Option<Rights> {
    match admitted.admin {
        true => None,
        false => Some(Rights::of(core, kv, admitted).await),
    }
}

impl Client {
    /// A load balancer's word, TLS and the login, where they are wanted.
    async fn begin(
        &mut self,
        house: &House,
        stay: &Stay,
        peer: &mut SocketAddr,
        places: &mut Places,
    ) -> Result<Option<Admitted>, End> {
        let limit = Duration::from_secs(self.core.settings().handshake_timeout_s);
        let terms = house.shared.transport.tls;
        // A client that need not log in may be silent until it needs something.
        let first = self.receive(1, self.idle_limit());
        match house.settings.auth {
            true => within(limit, first).await?,
            false => first.await?,
        }
        if within(limit, self.heed_balancer(house, peer)).await? {
            stay.is_at(*peer);
            // The next byte is the client's own first.
            let first = async {
                match self.inbox.is_empty() {
                    true => self.receive(1, self.idle_limit()).await,
                    false => Ok(()),
                }
            };
            match house.settings.auth {
                true => within(limit, first).await?,
                false => first.await?,
            }
        }
        if self.inbox.first() == Some(&TLS_HANDSHAKE) && terms != ClientTls::Off {
            within(limit, self.secure(house)).await?;
        } else if terms == ClientTls::Required && !self.channel.is_local() {
            self.say("CLIENT_ERROR this server speaks TLS only").await?;
            return Err(End::Quit);
        }
        if !house.settings.auth {
            return Ok(None);
        }
        let admitted = within(limit, self.log_in(house, stay, *peer)).await?;
        // Who hears that it is in does not keep others out any more.
        places.logged_in();
        self.say(reply::STORED).await?;
        Ok(Some(admitted))
    }

    /// Takes a PROXY header off the first bytes, if they are one; then `peer` becomes the address that
    /// counts. The header may have come in part.
    async fn heed_balancer(&mut self, house: &House, peer: &mut SocketAddr) -> Result<bool, End> {
        let entrance = &house.shared.entrance;
        let trusted = house.shared.transport.is_balancer(peer.ip());
        loop {
            match proxy_wire::take(&self.inbox, trusted) {
                Ok(Found::Nothing) => return Ok(false),
                Ok(Found::Part { needed, .. }) => {
                    let limit = self.idle_limit();
                    self.receive(needed, limit).await?;
                }
                Ok(Found::Header { origin, bytes }) => {
                    self.inbox.drain(..bytes);
                    *peer = entrance.heard(*peer, origin);
                    return Ok(true);
                }
                Err(unfit) => {
                    let refusal = entrance.misheard(*peer, unfit);
                    self.say(&format!("CLIENT_ERROR {}", refusal.text()))
                        .await?;
                    return Err(End::Quit);
                }
            }
        }
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
            let entrance = &house.shared.entrance;
            if entrance
                .look_at(peer.ip(), &self.core.settings().logins)
                .is_err()
            {
                return Err(End::Quit);
            }
            let facts = self.tls_facts();
            let login = PlainLogin {
                user: &user,
                password,
                peer: peer.ip(),
                tls: facts.as_ref(),
                closer: self.channel.closer(),
            };
            let admitted = session::admit(&self.core, &login).await;
            // The password goes with it.
            self.inbox.drain(..used);
            count(&counts.auth_cmds);
            match admitted {
                Ok(admitted) => {
                    stay.is_user(user.as_bytes());
                    return Ok(admitted);
                }
                Err(denied) => {
                    count(&counts.auth_errors);
                    self.deny(denied).await?;
                }
            }
        }
        Err(End::Quit)
    }

    async fn deny(&mut self, denied: Denied) -> Result<(), End> {
        match denied {
            Denied::Unproved(why) | Denied::Refused(why) => {
                tracing::info!(%why, "a key-value client was not let in");
                self.say(DENIED).await
            }
            Denied::Busy => self.say(BUSY).await,
            Denied::Gone => Err(End::Quit),
        }
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
    async fn run(
        &mut self,
        exchange: &mut Exchange,
        stay: &Stay,
        kv: &Kv,
        admitted: &mut Option<Admitted>,
    ) -> End {
        // What came before there was an exchange.
        exchange.note_received(self.inbox.len());
        loop {
            if let Some(admitted) = admitted
                && let Err(end) = self.look_again(exchange, kv, admitted).await
            {
                return end;
            }
            let taken = exchange.take(&self.inbox, &mut self.cursor);
            stay.busy(true);
            let answered = self.answer(exchange, taken).await;
            stay.busy(false);
            match answered {
                Ok(Taken::Last) => return End::Quit,
                Ok(_) if stay.must_go() => return End::Quit,
                Ok(_) => {}
                Err(end) => return end,
            }
            if let Err(end) = self.read_more(exchange).await {
                return end;
            }
        }
    }

    /// What was taken from the account since the last request is not given for this one.
    async fn look_again(
        &mut self,
        exchange: &mut Exchange,
        kv: &Kv,
        admitted: &mut Admitted,
    ) -> Result<(), End> {
        match admitted.look_again(&self.core) {
            Standing::Same => Ok(()),
            Standing::Other => {
                let core = self.core.clone();
                exchange.rights = Box::pin(rights_of(&core, kv, admitted)).await;
                Ok(())
            }
            Standing::Gone => {
                self.say(GONE).await?;
                Err(End::Quit)
            }
        }
    }

    /// Writes the replies in the order of the requests, and takes more requests while there are some.
    async fn answer(&mut self, exchange: &mut Exchange, mut taken: Taken) -> Result<Taken, End> {
        loop {
            if taken == Taken::Enough && exchange.is_half_empty() {
                taken = exchange.take(&self.inbox, &mut self.cursor);
            }
            let Some(reply) = exchange.pending.pop() else {
                if taken == Taken::Enough {
                    // There was no room for what a request needs; now there is all.
                    exchange.item_bytes = 0;
                    if exchange.out.len() >= OUT_BYTES {
                        self.flush(exchange).await?;
                    }
                    taken = exchange.take(&self.inbox, &mut self.cursor);
                    continue;
                }
                self.flush(exchange).await?;
                return Ok(taken);
            };
            self.settle(exchange, reply).await?;
            if exchange.out.len() >= OUT_BYTES {
                self.flush(exchange).await?;
            }
        }
    }

    /// Waits for a reply's outcome, with everything before it sent, and writes it.
    async fn settle(&mut self, exchange: &mut Exchange, mut reply: Reply) -> Result<(), End> {
        loop {
            let Some(ticket) = reply.ticket() else {
                exchange.write(reply);
                return Ok(());
            };
            let outcome: Outcome = match ticket.ready() {
                Some(outcome) => outcome,
                None => {
                    self.flush(exchange).await?;
                    ticket.await
                }
            };
            match exchange.answer(reply, outcome) {
                Next::Written => return Ok(()),
                Next::Again(again) => reply = again,
            }
        }
    }

    async fn flush(&mut self, exchange: &mut Exchange) -> Result<(), End> {
        if exchange.out.is_empty() {
            return Ok(());
        }
        exchange.sent_bytes = exchange.out.len();
        add(&exchange.counts().bytes_written, exchange.sent_bytes as u64);
        self.send(&mut exchange.out).await
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
    async fn read_more(&mut self, exchange: &mut Exchange) -> Result<(), End> {
        let used = std::mem::take(&mut self.cursor.at);
        self.inbox.drain(..used);
        let limit = match self.inbox.is_empty() && self.cursor.swallow == 0 {
            true => self.idle_limit(),
            false => Duration::from_secs(self.core.settings().client_read_timeout_s),
        };
        loop {
            let before = self.inbox.len();
            match self.receive(self.cursor.needed, limit).await {
                Err(End::NoMemory) => return self.refuse(exchange).await,
                received => received?,
            }
            exchange.note_received(self.inbox.len() - before);
            if self.inbox.len() >= self.cursor.needed {
                return Ok(());
            }
        }
    }

    /// Refuses the request that has come in part; where its end cannot be told, that is the client's last.
    async fn refuse(&mut self, exchange: &mut Exchange) -> Result<(), End> {
        if exchange.refuse_incomplete(&self.inbox, &mut self.cursor) {
            return Ok(());
        }
        self.answer(exchange, Taken::Last).await?;
        Err(End::NoMemory)
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
            self.reservation.shrink(IDLE_BYTES);
        }
        let missing = needed.saturating_sub(length).max(IDLE_BYTES);
        let full = length == buffer.capacity() || needed > buffer.capacity();
        if full && !self.grow(&mut buffer, missing) {
            self.inbox = buffer;
            return Err(End::NoMemory);
        }
        let received = reactor::timeout(limit, self.channel.recv(buffer)).await;
        let (received, buffer) = received.ok_or(End::Gone(io::ErrorKind::TimedOut.into()))?;
        let full = buffer.len() == buffer.capacity();
        self.inbox = buffer;
        if received? == 0 {
            return Err(End::Quit);
        }
        // A client that sends more than fits gets more room for the next time.
        let more = self.inbox.len() + BUSY_BYTES;
        if full && self.reservation.cover_if_free(more) {
            self.inbox.reserve_exact(BUSY_BYTES);
        }
        Ok(())
    }

    /// Makes room for so many bytes, or some of them; false when there is no memory.
    fn grow(&mut self, buffer: &mut Vec<u8>, missing: usize) -> bool {
        let length = buffer.len();
        let room = missing.min(length.max(BUSY_BYTES));
        if self.reservation.cover_if_free(length + room) {
            buffer.reserve_exact(room);
            return true;
        }
        let room = missing.min(length.max(IDLE_BYTES));
        let granted = self.reservation.cover(length + room).is_ok();
        if granted {
            buffer.reserve_exact(room);
        }
        granted
    }
}

/// Somebody who takes longer is sent away.
async fn within<T>(limit: Duration, work: impl Future<Output = Result<T, End>>) -> Result<T, End> {
    let done = reactor::timeout(limit, work).await;
    done.unwrap_or_else(|| Err(End::Gone(io::ErrorKind::TimedOut.into())))
}
