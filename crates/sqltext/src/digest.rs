//! One number for all texts of one shape.
//!
//! The normal form of a text, hashed here and written out by [`crate::normalise`]:
//! - comments are dropped, hints are kept (`/*heddle …*/` with its keys only);
//! - every literal is `?`, with its sign where that can be no operator;
//! - reserved words and the first word of a statement are in capitals. All other names keep their
//!   case, for tables and aliases may be case-sensitive;
//! - of the elements of `IN (…)` that are literals, and of the rows of VALUES, those equal to the
//!   element before are dropped;
//! - white space counts in two places only, since it does for the servers: between a name and its
//!   parenthesis, and around a dot.
//!
//! The digest is stable over processes and machines of one version. It is no defence against people
//! who search for collisions: what is filed under it must be harmless to mix up, or be compared.

use crate::keyword::{Ends, Kw, load8};
use crate::token::{Kind, Token};

/// Where the normal form goes. An element is a part that may turn out to be a repetition.
pub(crate) trait Sink {
    type Mark: Copy;
    type Element: Copy;

    /// `first`: of its statement.
    fn put(&mut self, token: &Token, text: &[u8], first: bool);
    fn mark(&self) -> Self::Mark;
    fn rewind(&mut self, mark: Self::Mark);
    fn open_element(&mut self) -> Self::Mark;
    /// Ends the element that was opened at `start`. True: it equals `before`.
    fn close_element(
        &mut self,
        start: Self::Mark,
        before: Option<Self::Element>,
    ) -> (Self::Element, bool);
}

/// A list that is being folded.
struct Frame<S: Sink> {
    /// Rows of VALUES, else the elements of an IN list.
    rows: bool,
    /// The depth of parentheses on which the commas between the elements stand.
    depth: u32,
    /// Before the comma that leads to the element at hand.
    comma: S::Mark,
    /// The start of the element at hand; None between rows.
    element: Option<S::Mark>,
    /// The element at hand holds nothing but literals, commas and parentheses.
    plain: bool,
    before: Option<S::Element>,
    /// Behind a row only a comma goes on with the list.
    wants_row: bool,
}

impl<S: Sink> Clone for Frame<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Sink> Copy for Frame<S> {}

/// Feeds a sink with tokens and folds lists.
pub(crate) struct Folder<S: Sink> {
    pub sink: S,
    frames: [Option<Frame<S>>; FRAMES_MAX],
    count: usize,
    depth: u32,
    last: Kw,
    before_last: Kw,
    statement_start: bool,
}

/// Lists within lists beyond this are hashed as they are.
const FRAMES_MAX: usize = 6;

impl<S: Sink> Folder<S> {
    pub fn new(sink: S) -> Folder<S> {
        Folder {
            sink,
            frames: [const { None }; FRAMES_MAX],
            count: 0,
            depth: 0,
            last: Kw::NONE,
            before_last: Kw::NONE,
            statement_start: true,
        }
    }

    #[inline]
    pub fn see(&mut self, token: &Token, text: &[u8]) {
        if self.count > 0 {
            self.see_in_list(token, text);
        } else {
            self.see_plain(token, text);
        }
        self.before_last = self.last;
        self.last = token.kw;
    }

    #[inline]
    fn see_plain(&mut self, token: &Token, text: &[u8]) {
        let first = self.statement_start;
        match token.kind {
            Kind::Open => {
                self.open(token, text);
                return;
            }
            Kind::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.sink.put(token, text, first);
        self.statement_start = token.kind == Kind::Semicolon;
    }

    #[inline]
    fn open(&mut self, token: &Token, text: &[u8]) {
        let list = self.last == Kw::IN;
        let row = |kw| matches!(kw, Kw::VALUES | Kw::VALUE);
        let rows = row(self.last) || self.last == Kw::ROW && row(self.before_last);
        if (list || rows) && self.count < FRAMES_MAX {
            self.open_list(token, text, rows);
        } else {
            self.sink.put(token, text, false);
        }
        self.depth += 1;
        self.statement_start = false;
    }

    fn open_list(&mut self, token: &Token, text: &[u8], rows: bool) {
        let comma = self.sink.mark();
        if !rows {
            self.sink.put(token, text, false);
        }
        let element = Some(self.sink.open_element());
        if rows {
            self.sink.put(token, text, false);
        }
        self.frames[self.count] = Some(Frame {
            rows,
            depth: if rows { self.depth } else { self.depth + 1 },
            comma,
            element,
            plain: true,
            before: None,
            wants_row: false,
        });
        self.count += 1;
    }

    #[cold]
    fn see_in_list(&mut self, token: &Token, text: &[u8]) {
        if matches!(token.kind, Kind::Semicolon | Kind::End) {
            self.close_all();
            self.see_plain(token, text);
            return;
        }
        let Some(mut frame) = self.frames[self.count - 1] else {
            return;
        };
        let here = self.depth == frame.depth;
        let goes_on = if frame.rows {
            self.row_token(&mut frame, token, text, here)
        } else {
            self.element_token(&mut frame, token, text, here)
        };
        match goes_on {
            Step::Handled => self.frames[self.count - 1] = Some(frame),
            Step::Pass => {
                let own = self.count - 1;
                self.frames[own] = Some(frame);
                self.see_plain(token, text);
            }
            Step::Leave => {
                self.count -= 1;
                // Now the token belongs to the list around, if any.
                if self.count > 0 {
                    self.see_in_list(token, text);
                } else {
                    self.see_plain(token, text);
                }
            }
        }
    }

    fn row_token(&mut self, frame: &mut Frame<S>, token: &Token, text: &[u8], here: bool) -> Step {
        match (frame.element, token.kind) {
            // The end of a row.
            (Some(start), Kind::Close) if self.depth == frame.depth + 1 => {
                self.depth -= 1;
                self.sink.put(token, text, false);
                self.close_element(frame, start, true);
                frame.element = None;
                frame.wants_row = false;
                Step::Handled
            }
            (Some(_), _) => Step::Pass,
            (None, Kind::Comma) if here && !frame.wants_row => {
                frame.comma = self.sink.mark();
                frame.wants_row = true;
                self.sink.put(token, text, false);
                Step::Handled
            }
            (None, Kind::Word) if frame.wants_row && token.kw == Kw::ROW => {
                self.sink.put(token, text, false);
                Step::Handled
            }
            (None, Kind::Open) if frame.wants_row => {
                frame.element = Some(self.sink.open_element());
                self.sink.put(token, text, false);
                self.depth += 1;
                Step::Handled
            }
            (None, _) => Step::Leave,
        }
    }

    fn element_token(
        &mut self,
        frame: &mut Frame<S>,
        token: &Token,
        text: &[u8],
        here: bool,
    ) -> Step {
        let Some(start) = frame.element else {
            return Step::Leave;
        };
        match token.kind {
            Kind::Comma if here => {
                self.close_element(frame, start, frame.plain);
                frame.comma = self.sink.mark();
                self.sink.put(token, text, false);
                frame.element = Some(self.sink.open_element());
                frame.plain = true;
                Step::Handled
            }
            Kind::Close if here => {
                self.close_element(frame, start, frame.plain);
                frame.element = None;
                Step::Leave
            }
            Kind::Literal | Kind::Placeholder | Kind::Comma | Kind::Open | Kind::Close => {
                Step::Pass
            }
            _ => {
                frame.plain = false;
                Step::Pass
            }
        }
    }

    fn close_element(&mut self, frame: &mut Frame<S>, start: S::Mark, may_drop: bool) {
        let (element, same) = self.sink.close_element(start, frame.before);
        if same && may_drop {
            self.sink.rewind(frame.comma);
        } else {
            frame.before = Some(element);
        }
    }

    /// The statement ends within lists.
    fn close_all(&mut self) {
        while self.count > 0 {
            self.count -= 1;
            if let Some(Frame {
                element: Some(start),
                ..
            }) = self.frames[self.count]
            {
                self.sink.close_element(start, None);
            }
        }
        self.depth = 0;
    }
}

enum Step {
    /// Nothing more to do with the token.
    Handled,
    /// An ordinary token of the list.
    Pass,
    /// The list ended before the token.
    Leave,
}

/// The digest as a sink.
pub(crate) struct Hash {
    state: u64,
    last: (Kind, Kw),
}

/// Odd, with bits spread evenly; the fractional digits of pi.
const SPREAD: u64 = 0x243F_6A88_85A3_08D3 | 1;
const START: u64 = 0xA409_3822_299F_31D0;

impl Hash {
    pub fn new() -> Hash {
        Hash {
            state: START,
            last: (Kind::End, Kw::NONE),
        }
    }

    /// One round: reversible for a given value, so that no difference is lost.
    #[inline]
    fn mix(&mut self, value: u64) {
        let product = (self.state ^ value).wrapping_mul(SPREAD);
        self.state = product ^ product >> 32;
    }

    #[inline]
    fn mix_bytes(&mut self, bytes: &[u8], tag: u64) {
        let ends = Ends::of(bytes);
        if bytes.len() > 16 {
            let mut at = 8;
            while at + 8 < bytes.len() {
                self.mix(load8(bytes, at));
                at += 8;
            }
        }
        self.mix(ends.first);
        self.mix(ends.last.rotate_left(32) ^ (u64::from(ends.len) << 8 | tag));
    }

    /// Adds what is no token: a hint.
    pub fn mix_text(&mut self, text: &[u8]) {
        self.mix_bytes(text, TAG_HINT);
    }

    pub fn finish(mut self) -> u64 {
        self.mix(TAG_END);
        self.mix(0);
        self.state
    }
}

const TAG_KEYWORD: u64 = 1 << 40;
const TAG_LITERAL: u64 = 2 << 40;
const TAG_MARK: u64 = 3 << 40;
const TAG_NAME: u64 = 4;
const TAG_QUOTED: u64 = 5;
const TAG_HINT: u64 = 6;
const TAG_END: u64 = 7 << 40;
const TAG_ELEMENT: u64 = 8 << 40;

impl Sink for Hash {
    type Mark = (u64, (Kind, Kw));
    type Element = u64;

    #[inline]
    fn put(&mut self, token: &Token, text: &[u8], first: bool) {
        let joined = u64::from(is_joined(self.last, token));
        match token.kind {
            Kind::Word if token.kw.is_reserved() || first && token.kw != Kw::NONE => {
                self.mix(TAG_KEYWORD | (token.kw as u64) << 1 | joined);
            }
            Kind::Literal | Kind::Placeholder => self.mix(TAG_LITERAL),
            Kind::Word => self.mix_bytes(token.bytes(text), TAG_NAME << 1 | joined),
            Kind::Quoted | Kind::UserVariable | Kind::SystemVariable => {
                self.mix_bytes(token.bytes(text), TAG_QUOTED << 1 | joined);
            }
            Kind::End => {}
            _ => {
                // At most three bytes, no two alike among the marks.
                let bytes = token.bytes(text);
                let packed = bytes
                    .iter()
                    .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
                self.mix(TAG_MARK | packed << 1 | joined);
            }
        }
        self.last = (token.kind, token.kw);
    }

    fn mark(&self) -> Self::Mark {
        (self.state, self.last)
    }

    fn rewind(&mut self, mark: Self::Mark) {
        (self.state, self.last) = mark;
    }

    fn open_element(&mut self) -> Self::Mark {
        let outer = self.mark();
        self.state = START;
        outer
    }

    fn close_element(&mut self, start: Self::Mark, before: Option<u64>) -> (u64, bool) {
        let element = self.state;
        self.state = start.0;
        self.mix(TAG_ELEMENT ^ element);
        (element, before == Some(element))
    }
}

/// No white space is written between the token before and this one, because it could mean something
/// else with it.
#[inline]
pub(crate) fn is_joined(last: (Kind, Kw), token: &Token) -> bool {
    if !token.glued {
        return false;
    }
    match (last.0, token.kind) {
        (Kind::Dot, _) | (_, Kind::Dot) => true,
        (Kind::Word, Kind::Open) => !last.1.is_reserved(),
        _ => false,
    }
}
