//! LOAD DATA LOCAL: the file goes from the client to the server as it comes.
//!
//! Nothing of it is kept: one buffer passes it on, and the next receive waits for the server to take
//! the last one. The router never opens a file of its own machine.

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
    loop {
        let Ok(piece) = walk.advance(&mut buffer) else {
            client.sequence = walk.next_sequence();
            return Err(client.refuse(&error::PACKETS_OUT_OF_ORDER, &[]).await);
        };
        if taken && piece.forward > 0 {
            let (sent, back) = connection.send(buffer, 0..piece.forward).await;
            (taken, buffer) = (sent.is_ok(), back);
        }
        buffer.drain(..piece.forward);
        if piece.done {
            break;
        }
        pieces += 1;
        make_room(&mut buffer, 0, pieces > SMALL_BUFFERS_MAX);
        handle.idle.active_s.set(core.now_s.get());
        handle.idle.waits_for_client.set(true);
        let (received, filled) = client.receive(buffer).await;
        handle.idle.waits_for_client.set(false);
        buffer = filled;
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
