//! The kernel asked by io_uring: operations are queued, handed over together by the call that also
//! waits, and own what the kernel works on until it is done with them.
//!
//! The rule that makes this safe: from the push of an entry to its completion, the operation's slot
//! holds the buffer and the descriptor, and nobody reads, writes, grows or frees the buffer. A future
//! that is dropped meanwhile only gives its claim on the slot up and asks the kernel to cancel.

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use io_uring::squeue::Entry;
use io_uring::types::{Fd, SubmitArgs, Timespec};
use io_uring::{IoUring, Probe, opcode};

use crate::descriptor::Descriptor;
use crate::remote::Remote;
use crate::ring::readiness::{Sharing, Signal};
use crate::tasks::Waiter;

/// Entries between two calls. Above what a busy core starts in one turn; when it is full, what it
/// holds is handed over at once.
const ENTRIES: u32 = 1024;

/// Completions that the kernel can leave without a detour: sockets of one core that become ready at
/// the same time.
const COMPLETIONS: u32 = 8192;

/// The user data of a cancellation. It is no operation's: slots are fewer than 2^32 - 1.
const CANCELLATION: u64 = u64::MAX;

/// IORING_RECVSEND_POLL_FIRST: waits for bytes before it first looks for them.
const POLL_FIRST: u16 = 1;

/// Buffers kept for the next sends; more are freed.
const SPARES_MAX: usize = 64;

/// What the end of a core waits for at a time, and how often, until it lets the rest leak.
const END_WAIT: Duration = Duration::from_secs(1);
const END_WAITS_MAX: usize = 10;

/// An operation that was started and not taken back yet.
#[derive(Clone, Copy)]
pub(crate) struct OpId(u32);

#[derive(Clone, Copy)]
enum Phase {
    Free,
    /// The kernel has it, or will with the next call.
    Flies,
    /// The kernel has it, and nobody wants it any more.
    Abandoned,
    Done(i32),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The result counts bytes behind what the buffer holds.
    Receive,
    /// A send that nobody waits for, of the buffer from here on.
    SendSoon(usize),
    Other,
}

pub(crate) struct Op {
    generation: u32,
    phase: Phase,
    kind: Kind,
    /// For how many looks at idle receives it has waited.
    looks: u8,
    buffer: Vec<u8>,
    /// Keeps the descriptor from being closed, and its number from being given to another socket.
    descriptor: Option<Rc<Descriptor>>,
    waiter: Option<Waiter>,
}

/// A ring with its operations.
pub(crate) struct Ring {
    ring: IoUring,
    ops: Vec<Op>,
    free: Vec<u32>,
    /// Operations that the kernel is not done with.
    flying: usize,
    remote: Arc<Remote>,
    /// The read of the core's bell.
    bell: u32,
    /// To be woken at the end of the next turn.
    woken: Vec<Waiter>,
    ending: bool,
    /// Sends that nobody waits for, whose completions come with the next call and have not been taken. Never more
    /// than there are: a wait for one too many would last too long.
    soon: usize,
    /// Empty buffers for such sends.
    spares: Vec<Vec<u8>>,
    sharing: Sharing,
    signal: Signal,
    /// Calls to the kernel that handed over or waited.
    #[cfg(test)]
    pub(crate) enters: usize,
    /// Sends that had a call of their own.
    #[cfg(test)]
    pub(crate) direct: usize,
}

impl Ring {
    /// A ring for this thread, which must be the one that uses it. Fails where the kernel does not
    /// offer all that is used here (Linux 6.1 does), or does not let us.
    pub(crate) fn new(remote: &Arc<Remote>) -> io::Result<Ring> {
        let ring = IoUring::builder()
            .dontfork()
            .setup_cqsize(COMPLETIONS)
            .setup_submit_all()
            // Completions are handled when this thread asks, not by interrupting it.
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_defer_taskrun()
            .build(ENTRIES)?;
        check(&ring)?;
        let signal = Signal::of(&ring)?;
        let mut ring = Ring {
            ring,
            ops: Vec::new(),
            free: Vec::new(),
            flying: 0,
            remote: remote.clone(),
            bell: 0,
            woken: Vec::new(),
            ending: false,
            soon: 0,
            spares: Vec::new(),
            sharing: Sharing::default(),
            signal,
            #[cfg(test)]
            enters: 0,
            #[cfg(test)]
            direct: 0,
        };
        ring.listen();
        // A refusal of the call itself shows here, and not in a session.
        ring.ring.submit().inspect_err(|_| {
            // Nothing was handed over.
            ring.flying = 0;
        })?;
        Ok(ring)
    }

    /// Receives into the room behind what the buffer holds.
    pub(crate) fn receive(&mut self, descriptor: &Rc<Descriptor>, buffer: Vec<u8>) -> OpId {
        let slot = self.slot(buffer, Some(descriptor.clone()));
        let op = &mut self.ops[slot as usize];
        op.kind = Kind::Receive;
        let room = op.buffer.spare_capacity_mut();
        let bytes = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let fd = Fd(descriptor.as_raw_fd());
        // Nearly always the peer has yet to answer, and the attempt would be in vain.
        let poll_first = if descriptor.more.get() { 0 } else { POLL_FIRST };
        let entry = opcode::Recv::new(fd, room.as_mut_ptr().cast(), bytes).ioprio(poll_first);
        self.push(&entry.build().user_data(self.user_data(slot)));
        OpId(slot)
    }

    /// Sends these bytes of the buffer, all of them unless the connection breaks.
    pub(crate) fn send(
        &mut self,
        descriptor: &Rc<Descriptor>,
        buffer: Vec<u8>,
        range: Range<usize>,
    ) -> OpId {
        let slot = self.slot(buffer, Some(descriptor.clone()));
        let bytes = &self.ops[slot as usize].buffer[range];
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let fd = Fd(descriptor.as_raw_fd());
        let entry = opcode::Send::new(fd, bytes.as_ptr(), length)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL);
        self.push(&entry.build().user_data(self.user_data(slot)));
        OpId(slot)
    }

    /// Sends a copy of these bytes with the next turn, and lets nobody wait for it: until it is done
    /// the descriptor names the operation in `sending`, then its failure in `send_error`.
    pub(crate) fn send_soon(&mut self, descriptor: &Rc<Descriptor>, bytes: &[u8]) {
        let mut buffer = self.spares.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        let slot = self.slot(buffer, Some(descriptor.clone()));
        descriptor.sending.set(Some(OpId(slot)));
        self.push_soon(slot, descriptor, 0, true);
    }

    /// Sends the buffer from here on. `at_once`: only what the kernel has room for, so that the completion comes
    /// with the call that hands the entry over, in every case.
    fn push_soon(&mut self, slot: u32, descriptor: &Descriptor, from: usize, at_once: bool) {
        let op = &mut self.ops[slot as usize];
        op.kind = Kind::SendSoon(from);
        let bytes = &op.buffer[from..];
        let fd = Fd(descriptor.as_raw_fd());
        let patience = match at_once {
            true => libc::MSG_DONTWAIT,
            false => libc::MSG_WAITALL,
        };
        let entry = opcode::Send::new(fd, bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | patience);
        self.push(&entry.build().user_data(self.user_data(slot)));
        self.soon += usize::from(at_once);
    }

    /// A send that nobody waits for has ended, or has not sent all.
    fn sent_soon(&mut self, slot: u32, from: usize, result: i32) {
        let op = &mut self.ops[slot as usize];
        let Some(descriptor) = op.descriptor.clone() else {
            return;
        };
        let at = from + usize::try_from(result).unwrap_or(0);
        let retry = matches!(-result, libc::EINTR | libc::EAGAIN);
        if (result > 0 || retry) && at < op.buffer.len() && !self.ending {
            self.flying += 1;
            // There is no room for the rest now: it waits for some.
            return self.push_soon(slot, &descriptor, at, false);
        }
        descriptor.sending.set(None);
        if at < op.buffer.len() {
            descriptor.break_send(-result);
        }
        let mut op = self.release(slot);
        self.woken.extend(op.waiter.take());
        if self.spares.len() < SPARES_MAX {
            op.buffer.clear();
            self.spares.push(op.buffer);
        }
    }

    /// Lets a send get only as far as it does at once: the kernel takes entries in order, so the
    /// cancellation finds it only where it has to wait.
    pub(crate) fn give_up(&mut self, id: OpId) {
        self.cancel(id.0);
    }

    /// Hands over what is queued, and takes what comes of it at once.
    pub(crate) fn flush(&mut self) {
        let _ = self.enter();
        self.reap();
    }

    /// Waits until the socket can be written: a connection under way is made or has failed.
    pub(crate) fn writable(&mut self, descriptor: &Rc<Descriptor>) -> OpId {
        let slot = self.slot(Vec::new(), Some(descriptor.clone()));
        let fd = Fd(descriptor.as_raw_fd());
        let entry = opcode::PollAdd::new(fd, libc::POLLOUT as u32);
        self.push(&entry.build().user_data(self.user_data(slot)));
        OpId(slot)
    }

    /// Waits until this listening socket has a client. Of several that wait, one is woken.
    pub(crate) fn client(&mut self, listener: RawFd) -> OpId {
        const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
        let slot = self.slot(Vec::new(), None);
        let entry = opcode::PollAdd::new(Fd(listener), libc::POLLIN as u32 | EXCLUSIVE);
        self.push(&entry.build().user_data(self.user_data(slot)));
        OpId(slot)
    }

    /// The operation's result (bytes, or a negative error number) and its buffer, and the end of its
    /// id; `None` while it is not done.
    #[expect(unsafe_code)]
    pub(crate) fn take(&mut self, id: &OpId) -> Option<(i32, Vec<u8>)> {
        let op = &self.ops[id.0 as usize];
        let Phase::Done(result) = op.phase else {
            return None;
        };
        let receives = op.kind == Kind::Receive;
        let mut buffer = self.release(id.0).buffer;
        if receives && result > 0 {
            // SAFETY: the kernel has written this many bytes into the room behind `len`, of whose
            // size it had been told.
            unsafe { buffer.set_len(buffer.len() + result as usize) };
        }
        Some((result, buffer))
    }

    /// Wakes `waiter` when the operation is done. Returns who waited before.
    pub(crate) fn wait(&mut self, id: &OpId, waiter: Waiter) -> Option<Waiter> {
        let op = &mut self.ops[id.0 as usize];
        if let Kind::SendSoon(_) = op.kind {
            // Somebody waits for it after all.
            self.soon = self.soon.saturating_sub(1);
        }
        op.waiter.replace(waiter)
    }

    /// Gives up an operation. Returns what is to be dropped where nothing is borrowed.
    pub(crate) fn abandon(&mut self, id: OpId) -> Option<Op> {
        let op = &mut self.ops[id.0 as usize];
        if let Phase::Done(_) = op.phase {
            return Some(self.release(id.0));
        }
        op.phase = Phase::Abandoned;
        let waiter = op.waiter.take();
        self.cancel(id.0);
        Some(Op {
            waiter,
            ..Op::empty()
        })
    }

    fn cancel(&mut self, slot: u32) {
        let entry = opcode::AsyncCancel::new(self.user_data(slot));
        self.push(&entry.build().user_data(CANCELLATION));
    }

    /// Hands over what is queued and takes what is done; waits for something to be done for at most
    /// `wait`, for ever without.
    pub(crate) fn turn(&mut self, wait: Option<Duration>, woken: &mut Vec<Waiter>) {
        let somebody = !self.woken.is_empty();
        let wait = if somebody { Some(Duration::ZERO) } else { wait };
        if !somebody || !self.ring.submission().is_empty() {
            // Sends that nobody waits for are done with the call itself, and must not end the wait.
            if let Err(error) = self.hand_over(wait, self.soon + 1) {
                panic!("io_uring_enter on a healthy ring: {error}");
            }
            self.reap();
        }
        self.soon = 0;
        woken.append(&mut self.woken);
    }

    /// Hands over what is queued, and waits until so many things are done.
    fn hand_over(&mut self, wait: Option<Duration>, done: usize) -> io::Result<()> {
        #[cfg(test)]
        {
            self.enters += usize::from(wait != Some(Duration::ZERO));
        }
        let entered = match wait {
            None => self.ring.submit_and_wait(done),
            Some(Duration::ZERO) => self.enter(),
            Some(wait) => {
                let limit = Timespec::from(wait);
                let arguments = SubmitArgs::new().timespec(&limit);
                self.ring.submitter().submit_with_args(done, &arguments)
            }
        };
        match entered {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Hands over what is queued, and has the kernel finish what it can, without waiting.
    #[expect(unsafe_code)]
    fn enter(&mut self) -> io::Result<usize> {
        /// IORING_ENTER_GETEVENTS: without it, deferred work is not done.
        const GET_EVENTS: u32 = 1;
        #[cfg(test)]
        {
            self.enters += 1;
        }
        let queued = self.ring.submission().len() as u32;
        let submitter = self.ring.submitter();
        // SAFETY: no argument is passed, the flags are plain, and what is queued obeys the rule at
        // the top.
        unsafe { submitter.enter::<libc::sigset_t>(queued, 0, GET_EVENTS, None) }
    }

    /// Takes the completions. No user code runs here: wakers are only collected, and what an
    /// abandoned operation owned is bytes and, at most, a descriptor to close.
    fn reap(&mut self) {
        self.soon = 0;
        loop {
            let Some(completion) = self.ring.completion().next() else {
                return;
            };
            let data = completion.user_data();
            if data == CANCELLATION {
                continue;
            }
            let slot = data as u32;
            let op = &mut self.ops[slot as usize];
            assert!(
                u64::from(op.generation) == data >> 32,
                "a completion is of the operation that its slot holds"
            );
            self.flying -= 1;
            match op.phase {
                Phase::Flies => {
                    if let Kind::SendSoon(from) = op.kind {
                        self.sent_soon(slot, from, completion.result());
                        continue;
                    }
                    op.phase = Phase::Done(completion.result());
                    if let (Kind::Receive, Some(descriptor)) = (op.kind, &op.descriptor) {
                        let more = io_uring::cqueue::sock_nonempty(completion.flags());
                        descriptor.more.set(more);
                        self.sharing.came(1);
                    }
                    self.woken.extend(op.waiter.take());
                    if slot == self.bell && !self.ending {
                        drop(self.release(slot));
                        self.listen();
                    }
                }
                Phase::Abandoned => drop(self.release(slot)),
                Phase::Free | Phase::Done(_) => {
                    unreachable!("the kernel completes an operation once")
                }
            }
        }
    }

    /// Reads the bell, so that its ring is a completion.
    fn listen(&mut self) {
        let slot = self.slot(Vec::with_capacity(8), None);
        let room = self.ops[slot as usize].buffer.spare_capacity_mut();
        let fd = Fd(self.remote.bell().as_raw_fd());
        let entry = opcode::Read::new(fd, room.as_mut_ptr().cast(), 8);
        self.bell = slot;
        self.push(&entry.build().user_data(self.user_data(slot)));
    }

    fn slot(&mut self, buffer: Vec<u8>, descriptor: Option<Rc<Descriptor>>) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ops.push(Op::empty());
            self.ops.len() as u32 - 1
        });
        let op = &mut self.ops[slot as usize];
        op.phase = Phase::Flies;
        op.buffer = buffer;
        op.descriptor = descriptor;
        self.flying += 1;
        slot
    }

    /// Frees the slot of an operation that the kernel is done with.
    fn release(&mut self, slot: u32) -> Op {
        let op = &mut self.ops[slot as usize];
        let generation = op.generation.wrapping_add(1);
        let released = std::mem::replace(
            op,
            Op {
                generation,
                ..Op::empty()
            },
        );
        self.free.push(slot);
        released
    }

    fn user_data(&self, slot: u32) -> u64 {
        u64::from(self.ops[slot as usize].generation) << 32 | u64::from(slot)
    }

    #[expect(unsafe_code)]
    fn push(&mut self, entry: &Entry) {
        loop {
            // SAFETY: an entry points into the buffer of a slot that is in flight from now on, or
            // nowhere; the rule at the top keeps that buffer untouched until the completion, and
            // `Drop` leaks the slots when the kernel might still be at work.
            if unsafe { self.ring.submission().push(entry) }.is_ok() {
                return;
            }
            match self.ring.submit() {
                Ok(_) => {}
                Err(error) if is_passing(&error) => {
                    // Too much is done and not taken yet, or memory is short for the moment.
                    let _ = self.enter();
                    self.reap();
                }
                // What is not handed over at the end stays in flight, and is leaked.
                Err(_) if self.ending => return,
                Err(error) => panic!("io_uring_enter on a healthy ring: {error}"),
            }
        }
    }

    /// Cancels what is in flight and waits for the kernel to be done with it.
    pub(crate) fn end(&mut self) {
        self.ending = true;
        for slot in 0..self.ops.len() as u32 {
            if matches!(self.ops[slot as usize].phase, Phase::Flies) {
                self.cancel(slot);
            }
        }
        let mut waits = 0;
        while self.flying > 0 && waits < END_WAITS_MAX {
            let before = self.flying;
            if self.hand_over(Some(END_WAIT), 1).is_err() {
                break;
            }
            self.reap();
            waits += usize::from(self.flying == before);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.flying > 0 {
            self.end();
        }
        if self.flying > 0 {
            tracing::error!(
                operations = self.flying,
                "left to the kernel at a core's end"
            );
            std::mem::forget(std::mem::take(&mut self.ops));
        }
    }
}

impl Op {
    fn empty() -> Op {
        Op {
            generation: 0,
            phase: Phase::Free,
            kind: Kind::Other,
            looks: 0,
            buffer: Vec::new(),
            descriptor: None,
            waiter: None,
        }
    }
}

/// The kernel offers what is used here.
fn check(ring: &IoUring) -> io::Result<()> {
    let parameters = ring.params();
    let features = parameters.is_feature_nodrop()
        && parameters.is_feature_fast_poll()
        && parameters.is_feature_ext_arg();
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    let codes = [
        opcode::Recv::CODE,
        opcode::Send::CODE,
        opcode::PollAdd::CODE,
        opcode::Read::CODE,
        opcode::AsyncCancel::CODE,
    ];
    if features && codes.iter().all(|&code| probe.is_supported(code)) {
        return Ok(());
    }
    Err(io::ErrorKind::Unsupported.into())
}

/// Errors that say nothing against the ring: a signal, the end of the wait, more done than there is
/// room for, no memory for the moment.
fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::ETIME | libc::EBUSY | libc::EAGAIN | libc::ENOMEM)
    )
}

mod idle;
mod readiness;
#[cfg(test)]
mod tests;
