//! Receives that have waited for long give up their buffers: what an idle socket costs is its entry here. The socket
//! is waited for without a buffer then, and gets one when there is something to receive.
//!
//! The recall is a cancellation whose end the receiver waits for, so no byte is lost: the kernel has either received
//! into the buffer or not touched it.

use std::os::fd::AsRawFd;
use std::rc::Rc;

use io_uring::opcode;
use io_uring::types::Fd;

use super::{Kind, OpId, Phase, Ring};
use crate::descriptor::Descriptor;
use crate::driver::IDLE_LOOKS;

/// Receives that are recalled by one look: a crowd of them does not hold up the core.
const RECALLS_MAX: usize = 1024;

impl Ring {
    /// Looks at all receives, and recalls those that have waited at several looks with nothing in their buffers: they
    /// end with `ECANCELED`, unless there was something after all.
    pub(crate) fn recall_idle(&mut self) {
        let mut recalled = 0;
        for slot in 0..self.ops.len() as u32 {
            let op = &mut self.ops[slot as usize];
            let waits = matches!(op.phase, Phase::Flies) && op.kind == Kind::Receive;
            if !waits || !op.buffer.is_empty() {
                continue;
            }
            op.looks = op.looks.saturating_add(1);
            if op.looks >= IDLE_LOOKS && recalled < RECALLS_MAX {
                op.looks = 0;
                recalled += 1;
                self.cancel(slot);
            }
        }
    }

    /// Waits until there is something to receive, or the end of the stream.
    pub(crate) fn readable(&mut self, descriptor: &Rc<Descriptor>) -> OpId {
        let slot = self.slot(Vec::new(), Some(descriptor.clone()));
        let fd = Fd(descriptor.as_raw_fd());
        let events = (libc::POLLIN | libc::POLLRDHUP) as u32;
        let entry = opcode::PollAdd::new(fd, events);
        self.push(&entry.build().user_data(self.user_data(slot)));
        OpId(slot)
    }

    /// Receives in flight, each of which holds room.
    #[cfg(test)]
    pub(crate) fn receives_with_room(&self) -> usize {
        let receives = self.ops.iter().filter(|op| op.kind == Kind::Receive);
        receives.count()
    }
}
