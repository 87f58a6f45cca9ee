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

use crate::keyword::{Ends, Kw, load_padded};
use crate::token::{Kind, Past, Token};

/// Where the normal form goes. An element is a part that may turn out to be a repetition.
pub(crate) trait Sink {
    type Mark: Copy;
    type Element: Copy;

    fn put(&mut self, token: &Token, past: &Past, text: &[u8]);
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
pub(crate) struct Frame<S: Sink> {
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
    /// Between rows: a comma went before, so that a row must follow.
    wants_row: bool,
    /// The list's number in the text.
    list: u32,
    /// Elements that have ended.
    elements: u32,
}

impl<S: Sink> std::fmt::Debug for Frame<S> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Frame")
            .field("rows", &self.rows)
            .finish_non_exhaustive()
    }
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
    frames: Vec<Frame<S>>,
    depth: u32,
    /// The innermost list is within a row, of whose content only parentheses matter to it.
    in_row: bool,
    /// Lists that were opened.
    lists: u32,
    /// Tells which elements of which lists were dropped; 0 when none was.
    folds: u64,
}

/// Lists within lists beyond this are hashed as they are.
const FRAMES_MAX: usize = 6;

impl<S: Sink> Folder<S> {
    /// `frames` is room to use; what is in it is forgotten.
    pub fn new(sink: S, mut frames: Vec<Frame<S>>) -> Folder<S> {
        frames.clear();
        Folder {
            sink,
            frames,
            depth: 0,
            in_row: false,
            lists: 0,
            folds: 0,
        }
    }

    #[inline(always)]
    pub fn see(&mut self, token: &Token, past: &Past, text: &[u8]) {
        let inside = self.in_row
            && !matches!(
                token.kind,
                Kind::Open | Kind::Close | Kind::Semicolon | Kind::End
            );
        if inside || self.frames.is_empty() {
            self.pass(token, past, text);
        } else {
            self.see_in_list(*token, past, text);
            let row = |frame: &Frame<S>| frame.rows && frame.element.is_some();
            self.in_row = self.frames.last().is_some_and(row);
        }
    }

    /// A token that no list wants for itself.
    #[inline(always)]
    fn pass(&mut self, token: &Token, past: &Past, text: &[u8]) {
        match token.kind {
            Kind::Open => {
                let row = |kw| matches!(kw, Kw::VALUES | Kw::VALUE);
                let rows = row(past.kw) || past.kw == Kw::ROW && row(past.before);
                if (rows || past.kw == Kw::IN) && self.frames.len() < FRAMES_MAX {
                    self.open_list(*token, past, text, rows);
                    return;
                }
                self.depth += 1;
            }
            Kind::Close => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        self.sink.put(token, past, text);
    }

    #[inline(never)]
    fn open_list(&mut self, token: Token, past: &Past, text: &[u8], rows: bool) {
        let token = &token;
        let comma = self.sink.mark();
        self.sink.put(token, past, text);
        let element = Some(self.sink.open_element());
        let depth = if rows { self.depth } else { self.depth + 1 };
        self.frames.push(Frame {
            rows,
            depth,
            comma,
            element,
            plain: true,
            before: None,
            wants_row: false,
            list: self.lists,
            elements: 0,
        });
        self.lists += 1;
        self.in_row = rows;
        self.depth += 1;
    }

    #[inline(never)]
    fn see_in_list(&mut self, token: Token, past: &Past, text: &[u8]) {
        let token = &token;
        if matches!(token.kind, Kind::Semicolon | Kind::End) {
            self.close_all();
        }
        while let Some(frame) = self.frames.last_mut() {
            let step = if frame.rows {
                frame.row_step(token, &mut self.depth)
            } else {
                frame.list_step(token, self.depth)
            };
            match step {
                Step::Pass => break,
                Step::Leave => {
                    frame.close_element(&mut self.sink, &mut self.folds);
                    self.frames.pop();
                }
                Step::Put => return self.sink.put(token, past, text),
                Step::CloseRow => {
                    self.sink.put(token, past, text);
                    frame.close_element(&mut self.sink, &mut self.folds);
                    frame.element = None;
                    frame.wants_row = false;
                    return;
                }
                Step::Comma => {
                    frame.close_element(&mut self.sink, &mut self.folds);
                    frame.comma = self.sink.mark();
                    self.sink.put(token, past, text);
                    if !frame.rows {
                        frame.element = Some(self.sink.open_element());
                        frame.plain = true;
                    }
                    return;
                }
                Step::OpenRow => {
                    self.sink.put(token, past, text);
                    frame.element = Some(self.sink.open_element());
                    return;
                }
            }
        }
        self.pass(token, past, text);
    }

    /// The statement ends within lists.
    fn close_all(&mut self) {
        while let Some(mut frame) = self.frames.pop() {
            frame.before = None;
            frame.close_element(&mut self.sink, &mut self.folds);
        }
        self.depth = 0;
    }
}

impl<S: Sink> Frame<S> {
    fn row_step(&mut self, token: &Token, depth: &mut u32) -> Step {
        match (self.element.is_some(), token.kind) {
            (true, Kind::Close) if *depth == self.depth + 1 => {
                *depth -= 1;
                Step::CloseRow
            }
            (true, _) => Step::Pass,
            (false, Kind::Comma) if !self.wants_row => {
                self.wants_row = true;
                Step::Comma
            }
            (false, Kind::Word) if self.wants_row && token.kw == Kw::ROW => Step::Put,
            (false, Kind::Open) if self.wants_row => {
                *depth += 1;
                Step::OpenRow
            }
            (false, _) => Step::Leave,
        }
    }

    fn list_step(&mut self, token: &Token, depth: u32) -> Step {
        let here = depth == self.depth;
        match token.kind {
            Kind::Comma if here => Step::Comma,
            Kind::Close if here => Step::Leave,
            Kind::Literal | Kind::Placeholder | Kind::Comma | Kind::Open | Kind::Close => {
                Step::Pass
            }
            _ => {
                self.plain = false;
                Step::Pass
            }
        }
    }

    /// Ends the element at hand, if there is one, and drops it with its comma if it only repeats.
    fn close_element(&mut self, sink: &mut S, folds: &mut u64) {
        let Some(start) = self.element.take() else {
            return;
        };
        self.elements += 1;
        let (element, same) = sink.close_element(start, self.before);
        if same && (self.rows || self.plain) {
            sink.rewind(self.comma);
            let dropped = u64::from(self.list) << 32 | u64::from(self.elements);
            let product = (*folds ^ dropped ^ START).wrapping_mul(SPREAD);
            *folds = product ^ product >> 32;
        } else {
            self.before = Some(element);
        }
    }
}

/// What a list makes of a token.
enum Step {
    /// An ordinary token inside of an element.
    Pass,
    /// The list has ended before the token.
    Leave,
    /// The token stands between rows.
    Put,
    OpenRow,
    CloseRow,
    Comma,
}

/// The digest as a sink.
#[derive(Debug)]
pub(crate) struct Hash {
    state: u64,
}

/// Odd, with bits spread evenly; the fractional digits of pi.
const SPREAD: u64 = 0x243F_6A88_85A3_08D3 | 1;
const START: u64 = 0xA409_3822_299F_31D0;

impl Hash {
    pub fn new() -> Hash {
        Hash { state: START }
    }

    /// One round: reversible for a given value, so that no difference is lost.
    #[inline]
    fn mix(&mut self, value: u64) {
        let product = (self.state ^ value).wrapping_mul(SPREAD);
        self.state = product ^ product >> 32;
    }

    /// Mixes a name in. Its own number is made aside first, so that the chain of rounds, which
    /// nothing can shorten, grows by one round only.
    #[inline]
    fn mix_name(&mut self, ends: Ends, bytes: &[u8], tag: u64) {
        let left = ends.first ^ 0x1319_8A2E_0370_7344;
        let right = ends.last ^ 0xA409_3822_299F_31D0 ^ (bytes.len() as u64) << 8;
        let product = u128::from(left) * u128::from(right);
        if bytes.len() > 16 {
            self.mix_middle(bytes);
        }
        self.mix((product as u64 ^ (product >> 64) as u64) ^ tag);
    }

    #[cold]
    fn mix_middle(&mut self, bytes: &[u8]) {
        for at in (8..bytes.len() - 8).step_by(8) {
            self.mix(load_padded(bytes, at));
        }
    }

    /// Adds what is no token: a hint.
    pub fn mix_text(&mut self, text: &[u8]) {
        self.mix_name(Ends::of(text), text, TAG_HINT);
    }

    fn finish(&mut self) -> u64 {
        self.mix(TAG_END);
        self.mix(0);
        self.state
    }
}

impl Folder<Hash> {
    /// The digest, what was dropped for it, and the room that was lent.
    pub fn finish(mut self) -> (u64, u64, Vec<Frame<Hash>>) {
        (self.sink.finish(), self.folds, self.frames)
    }
}

const TAG_KEYWORD: u64 = 1 << 40;
const TAG_LITERAL: u64 = 2 << 40;
const TAG_MARK: u64 = 3 << 40;
const TAG_OPERATOR: u64 = 4 << 40;
const TAG_NAME: u64 = 4;
const TAG_QUOTED: u64 = 5;
const TAG_HINT: u64 = 6;
const TAG_END: u64 = 7 << 40;
const TAG_ELEMENT: u64 = 8 << 40;

impl Sink for Hash {
    type Mark = u64;
    type Element = u64;

    #[inline(always)]
    fn put(&mut self, token: &Token, past: &Past, text: &[u8]) {
        let joined = u64::from(is_joined(past, token));
        match token.kind {
            Kind::Word if is_folded(past, token) => {
                self.mix(TAG_KEYWORD | (token.kw as u64) << 1 | joined);
            }
            Kind::Literal | Kind::Placeholder => self.mix(TAG_LITERAL),
            Kind::Word => {
                self.mix_name(token.ends, token.bytes(text), TAG_NAME << 1 | joined);
            }
            Kind::Quoted | Kind::UserVariable | Kind::SystemVariable => {
                let bytes = token.bytes(text);
                self.mix_name(Ends::of(bytes), bytes, TAG_QUOTED << 1 | joined);
            }
            Kind::End => {}
            Kind::Operator => {
                // At most three bytes.
                let packed = load_padded(text, token.start as usize)
                    & ((1 << (8 * (token.end - token.start))) - 1);
                self.mix(TAG_OPERATOR | packed);
            }
            mark => self.mix(TAG_MARK | (mark as u64) << 1 | joined),
        }
    }

    #[inline]
    fn mark(&self) -> u64 {
        self.state
    }

    #[inline]
    fn rewind(&mut self, mark: u64) {
        self.state = mark;
    }

    #[inline]
    fn open_element(&mut self) -> u64 {
        std::mem::replace(&mut self.state, START)
    }

    #[inline]
    fn close_element(&mut self, start: u64, before: Option<u64>) -> (u64, bool) {
        let element = std::mem::replace(&mut self.state, start);
        self.mix(TAG_ELEMENT ^ element);
        (element, before == Some(element))
    }
}

/// The word's case does not count: a reserved word, or the known first word of a statement.
#[inline(always)]
pub(crate) fn is_folded(past: &Past, token: &Token) -> bool {
    token.kw.is_reserved() || token.kw != Kw::NONE && past.starts_statement()
}

/// No white space is written between the token before and this one, because it could mean something
/// else with it.
#[inline(always)]
pub(crate) fn is_joined(past: &Past, token: &Token) -> bool {
    let may = match token.kind {
        Kind::Dot => true,
        Kind::Open => past.kind == Kind::Word && !past.kw.is_reserved() || past.kind == Kind::Dot,
        _ => past.kind == Kind::Dot,
    };
    may && past.touches(token)
}
