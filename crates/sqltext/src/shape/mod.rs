//! One form for all texts of one shape.
//!
//! The normal form of a text, hashed here for caches and written out by [`crate::normalise`]:
//! - comments are dropped, hints are kept (`/*heddle …*/` with its keys only);
//! - every literal is `?`, with its sign where that can be no operator;
//! - reserved words and the first word of a statement are in capitals. All other names keep their
//!   case, for tables and aliases may be case-sensitive;
//! - of the elements of `IN (…)` that are literals, and of the rows of VALUES, those equal to the
//!   element before are dropped;
//! - white space counts in two places only, since it does for the servers: between a name and its
//!   parenthesis, and around a dot.
//!
//! The hash is keyed: nobody finds a text that meets another one's plan. It holds within a process.

pub(crate) mod digest;
pub(crate) mod keyed;
pub(crate) mod normal;
pub(crate) mod slot;

use crate::lexer::keyword::{Kw, load_padded};
use crate::lexer::token::{Kind, Past, Token};
use crate::shape::keyed::Keyed;

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
    /// The element that was closed last stays.
    fn keep_element(&mut self, element: Self::Element);
    /// An element only repeats and is dropped: the number of its list in the text, and its own in the list.
    fn drop_element(&mut self, list: u32, element: u32);
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
                    frame.close_element(&mut self.sink);
                    self.frames.pop();
                }
                Step::Put => return self.sink.put(token, past, text),
                Step::CloseRow => {
                    self.sink.put(token, past, text);
                    frame.close_element(&mut self.sink);
                    frame.element = None;
                    frame.wants_row = false;
                    return;
                }
                Step::Comma => {
                    frame.close_element(&mut self.sink);
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
            frame.close_element(&mut self.sink);
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
    fn close_element(&mut self, sink: &mut S) {
        let Some(start) = self.element.take() else {
            return;
        };
        self.elements += 1;
        let (element, same) = sink.close_element(start, self.before);
        if same && (self.rows || self.plain) {
            sink.rewind(self.comma);
            sink.drop_element(self.list, self.elements);
        } else {
            sink.keep_element(element);
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

/// The hash as a sink. Every token begins with a word of its own kind, which says how many follow.
#[derive(Debug)]
pub(crate) struct Hash {
    state: Keyed,
    /// Tells which elements of which lists were dropped; 0 when none was.
    folds: u64,
}

impl Hash {
    pub fn new() -> Hash {
        Hash {
            state: Keyed::new(),
            folds: 0,
        }
    }

    #[inline]
    fn mix_name(&mut self, bytes: &[u8], tag: u64, joined: u64) {
        self.state.mix(tag | joined << 40 | bytes.len() as u64);
        for at in (0..bytes.len()).step_by(8) {
            self.state.mix(load_padded(bytes, at));
        }
    }

    /// Adds what is no token: a hint.
    pub fn mix_text(&mut self, text: &[u8]) {
        self.mix_name(text, TAG_HINT, 0);
    }
}

impl Folder<Hash> {
    /// The hash, what was dropped for it (0: nothing), and the room that was lent.
    pub fn finish(self) -> (u128, u64, Vec<Frame<Hash>>) {
        (self.sink.state.finish(), self.sink.folds, self.frames)
    }
}

const TAG_KEYWORD: u64 = 1 << 56;
const TAG_LITERAL: u64 = 2 << 56;
const TAG_MARK: u64 = 3 << 56;
const TAG_OPERATOR: u64 = 4 << 56;
const TAG_NAME: u64 = 5 << 56;
const TAG_QUOTED: u64 = 6 << 56;
const TAG_HINT: u64 = 7 << 56;
const TAG_ELEMENT: u64 = 8 << 56;

impl Sink for Hash {
    type Mark = Keyed;
    type Element = Keyed;

    #[inline(always)]
    fn put(&mut self, token: &Token, past: &Past, text: &[u8]) {
        let joined = u64::from(is_joined(past, token));
        match token.kind {
            Kind::Word if is_folded(past, token) => {
                self.state
                    .mix(TAG_KEYWORD | (token.kw as u64) << 1 | joined);
            }
            Kind::Literal | Kind::Placeholder => self.state.mix(TAG_LITERAL),
            Kind::Word => self.mix_name(token.bytes(text), TAG_NAME, joined),
            Kind::Quoted | Kind::UserVariable | Kind::SystemVariable => {
                self.mix_name(token.bytes(text), TAG_QUOTED, joined);
            }
            Kind::End => {}
            Kind::Operator => {
                // At most three bytes.
                let packed = load_padded(text, token.start as usize)
                    & ((1 << (8 * (token.end - token.start))) - 1);
                self.state.mix(TAG_OPERATOR | packed);
            }
            mark => self.state.mix(TAG_MARK | (mark as u64) << 1 | joined),
        }
    }

    #[inline]
    fn mark(&self) -> Keyed {
        self.state
    }

    #[inline]
    fn rewind(&mut self, mark: Keyed) {
        self.state = mark;
    }

    #[inline]
    fn open_element(&mut self) -> Keyed {
        std::mem::take(&mut self.state)
    }

    #[inline]
    fn close_element(&mut self, start: Keyed, before: Option<Keyed>) -> (Keyed, bool) {
        let element = std::mem::replace(&mut self.state, start);
        (element, before == Some(element))
    }

    #[inline]
    fn keep_element(&mut self, element: Keyed) {
        self.state.mix(TAG_ELEMENT);
        self.state.mix_hash(&element);
    }

    #[inline]
    fn drop_element(&mut self, list: u32, element: u32) {
        self.folds = Keyed::pair(self.folds, u64::from(list) << 32 | u64::from(element));
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
