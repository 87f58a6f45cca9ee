//! LOAD DATA LOCAL: the file goes from the client to the server as it comes.
//!
//! Nothing of it is kept: while the server takes one buffer, the client fills another. The router never opens a
//! file of its own machine.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use backend::Connection;
use farm::error;
use mysql_wire::relay::Relay;

use crate::client::Client;
use crate::client::end::End;
use crate::connections::pin::Pins;
use crate::execution::pipe::make_room;
use crate::per_core::Core;
use crate::per_core::handle::{Handle, Hold};

/// Once a file has filled this many buffers it is a long one, and goes on in larger pieces.
const SMALL_BUFFERS_MAX: usize = 2;

/// Passes the client's file on, up to its end. False when the server has gone meanwhile; the
/// client cannot be told before it has sent everything, so the rest of its file is dropped.
/// Fails when the client goes away; then the server must see its connection close, or it would
/// keep half a file.
pub(crate) async fn pass_file(
    core: &Core,
    handle: &Handle,
    client: &mut Client,
    connection: &mut Connection,
    relay: &mut Relay,
) -> Result<bool, End> {
    let mut walk = relay.file();
    if client.is_compressed() {
        walk = walk.in_any_order();
    }
    let mut buffer = core.take_buffer();
    client.request.take_rest(&mut buffer);
    // The end of the router waits for a statement under way.
    handle.kept.holds.set(Some(Hold {
        server: connection.server,
        thread_id: connection.thread_id,
        pins: Pins::empty(),
        transaction: false,
    }));
    let mut taken = true;
    let mut pieces = 0;
    let mut spare = core.take_buffer();
    loop {
        let Ok(piece) = walk.advance(&mut buffer) else {
            client.sequence = walk.next_sequence();
            return Err(client.refuse(&error::PACKETS_OUT_OF_ORDER, &[]).await);
        };
        // What is left is the beginning of a header, or the client's next command.
        spare.clear();
        spare.extend_from_slice(&buffer[piece.forward..]);
        let forward = if taken { piece.forward } else { 0 };
        let sending = send(connection, buffer, forward);
        if piece.done {
            let (sent, back) = sending.await;
            (taken, buffer) = (taken && sent, spare);
            core.give_buffer(back);
            break;
        }
        pieces += 1;
        make_room(&mut spare, 0, pieces > SMALL_BUFFERS_MAX);
        let receiving = async {
            handle.idle.active_s.set(core.now_s.get());
            handle.idle.waits_for_client.set(true);
            let received = client.receive(spare).await;
            handle.idle.waits_for_client.set(false);
            received
        };
        let ((sent, back), (received, filled)) = both(sending, receiving).await;
        (taken, buffer, spare) = (taken && sent, filled, back);
        if !matches!(received, Ok(1..)) {
            return Err(End::Gone);
        }
    }
    client.request.give_rest(&buffer);
    buffer.clear();
    core.give_buffer(buffer);
    relay.file_sent(&walk);
    Ok(taken)
}

/// Sends so many bytes of the buffer, and gives it back. False when the server has gone.
async fn send(connection: &mut Connection, buffer: Vec<u8>, bytes: usize) -> (bool, Vec<u8>) {
    if bytes == 0 {
        return (true, buffer);
    }
    let (sent, buffer) = connection.send(buffer, 0..bytes).await;
    (sent.is_ok(), buffer)
}

/// Awaits both at the same time.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut a, mut b) = (None, None);
    poll_fn(move |context| {
        if a.is_none()
            && let Poll::Ready(is) = one.as_mut().poll(context)
        {
            a = Some(is);
        }
        if b.is_none()
            && let Poll::Ready(is) = other.as_mut().poll(context)
        {
            b = Some(is);
        }
        match (a.take(), b.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (one, other) => {
                (a, b) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
