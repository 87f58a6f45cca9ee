//! One core's digests: the names of the shapes that it has seen, and what was counted of each.
//!
//! Writing a normal form takes longer than reading a text, so it is done once for a shape.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashMap;
use sqltext::{Digest, Mode, normalise};

use crate::counts::Call;
use crate::history::Past;
use crate::measured::{Door, Kind, Measured};
use crate::row::Row;
use crate::settings::Settings;
use crate::table::{Name, TEXT_BYTES_MAX, Table};
use crate::trace::{Sampler, TraceContext};

/// Beyond this many shapes they are learnt anew.
const SHAPES_MAX: usize = 10_000;

/// The shapes' texts take this part of what the core may have, at most.
const OF_SHAPES: usize = 4;

/// What an entry of a shape costs beside its text.
const SHAPE_BYTES: usize = 144;

/// What is known of a shape.
struct Known {
    digest: Digest,
    /// The normal form, cut; `None` where nobody counts by digest.
    text: Option<Arc<str>>,
}

#[derive(Default)]
struct Shapes {
    known: FxHashMap<u128, Known>,
    bytes: usize,
}

/// Used by one core's thread only.
pub struct Digests {
    settings: Cell<Settings>,
    /// The core's part of the bytes.
    bytes_max: Cell<usize>,
    shapes: RefCell<Shapes>,
    table: RefCell<Table>,
    measured: Arc<Measured>,
    core: usize,
    /// A moment by both clocks, the latter in milliseconds since 1970.
    born: (Instant, u64),
    slow_seen: Cell<u64>,
    sampler: Sampler,
}

impl Digests {
    /// Those of one of `cores` cores. `born`: now, and the same in milliseconds since 1970.
    pub fn new(
        measured: Arc<Measured>,
        core: usize,
        cores: usize,
        settings: Settings,
        born: (Instant, u64),
    ) -> Digests {
        let digests = Digests {
            settings: Cell::default(),
            bytes_max: Cell::new(0),
            shapes: RefCell::default(),
            table: RefCell::new(Table::new(0)),
            measured,
            core,
            born,
            slow_seen: Cell::new(0),
            sampler: Sampler::default(),
        };
        digests.obey(settings, cores);
        digests
    }

    /// Takes over what an operator has changed.
    pub fn obey(&self, settings: Settings, cores: usize) {
        let before = self.settings.replace(settings);
        self.bytes_max.set(settings.bytes_max / cores.max(1));
        let of_table = self.bytes_max.get() / OF_SHAPES * (OF_SHAPES - 1);
        self.table.borrow_mut().set_bytes_max(of_table);
        if before.examples && !settings.examples {
            self.table.borrow_mut().forget_examples();
        }
        if settings.on && !before.on {
            // Their texts were not kept.
            self.shapes.take();
        }
    }

    /// Statements are counted and timed.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.settings.get().on
    }

    /// Texts may be shown with their literals.
    pub fn shows_examples(&self) -> bool {
        self.settings.get().examples
    }

    /// The digest of a text whose shape has this hash.
    #[inline]
    pub fn of(&self, hash: u128, text: &[u8], mode: &Mode) -> Digest {
        let known = self
            .shapes
            .borrow()
            .known
            .get(&hash)
            .map(|known| known.digest);
        known.unwrap_or_else(|| self.learn(hash, text, mode))
    }

    #[cold]
    fn learn(&self, hash: u128, text: &[u8], mode: &Mode) -> Digest {
        let mut normal = String::new();
        normalise(text, mode, &mut normal);
        let digest = Digest::of_normal(&normal);
        let text = self.is_on().then(|| Arc::from(cut(&normal)));
        let mut shapes = self.shapes.borrow_mut();
        shapes.bytes += SHAPE_BYTES + text.as_ref().map_or(0, |text: &Arc<str>| text.len());
        let full = self.is_on() && shapes.bytes > self.bytes_max.get() / OF_SHAPES;
        if full || shapes.known.len() >= SHAPES_MAX {
            *shapes = Shapes::default();
        }
        shapes.known.insert(hash, Known { digest, text });
        digest
    }

    /// The normal form of a shape; empty where it is not known any more.
    pub fn text(&self, hash: u128) -> Arc<str> {
        let shapes = self.shapes.borrow();
        let known = shapes.known.get(&hash).and_then(|known| known.text.clone());
        known.unwrap_or_else(|| Arc::from(""))
    }

    /// Counts a statement. `example` gives its text with literals, where that may be shown.
    #[inline]
    pub fn note(
        &self,
        name: &Name<'_>,
        hash: u128,
        (kind, door): (Kind, Door),
        call: &Call,
        example: impl FnOnce() -> Option<Arc<str>>,
    ) {
        self.count(kind, door, name.group, call);
        let texts = || (self.text(hash), example());
        self.table.borrow_mut().note(name, call, texts);
    }

    /// Counts a statement that has no digest, by the group where it ran.
    #[inline]
    pub fn count(&self, kind: Kind, door: Door, group: &str, call: &Call) {
        if let Some(of_core) = self.measured.of_core(self.core) {
            of_core.add(kind, door, group, call);
        }
    }

    /// Whether a statement that took so long is to be written down.
    #[inline]
    pub fn is_slow(&self, us: u64) -> bool {
        let Settings {
            slow_us,
            slow_one_in,
            ..
        } = self.settings.get();
        if slow_us == 0 || us < slow_us || self.measured.slow.is_none() {
            return false;
        }
        let seen = self.slow_seen.get();
        self.slow_seen.set(seen.wrapping_add(1));
        seen.is_multiple_of(slow_one_in.max(1))
    }

    /// The span of a statement that begins; `None` where it is not traced. `parent`: the `traceparent` of its client,
    /// or nothing.
    #[inline]
    pub fn trace(&self, parent: &str) -> Option<Box<TraceContext>> {
        self.measured.traces.as_ref()?;
        let one_in = self.settings.get().trace_one_in;
        if one_in == 0 && parent.is_empty() {
            return None;
        }
        self.sampler.begin(parent, one_in).map(Box::new)
    }

    /// What all cores share.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// A moment in milliseconds since 1970.
    #[inline]
    pub fn at_ms(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.born.0);
        self.born.1 + u64::try_from(since.as_millis()).unwrap_or(0)
    }

    /// The rows in so many places from this one on, and the next place while there are more. A row that moves between
    /// two calls may be missed, or come twice.
    pub fn rows(&self, from: usize, places: usize) -> (Vec<Row>, Option<usize>) {
        self.table.borrow().rows(from, places)
    }

    /// Takes what was counted since it was taken last, in so many places from this one on, and gives the next place
    /// while there are more.
    pub fn take_minute(&self, from: usize, places: usize) -> (Vec<Past>, Option<usize>) {
        self.table.borrow_mut().take_minute(from, places)
    }

    /// How many rows there are, what they take in bytes, and how many have gone for others.
    pub fn sizes(&self) -> (usize, usize, u64) {
        self.table.borrow().sizes()
    }

    /// Begins anew, and returns what there was: to take it apart is not the core's work.
    pub fn reset(&self) -> Table {
        self.table.borrow_mut().exchange()
    }
}

/// The beginning of a text, as long as texts are shown.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow::queue;
    use sqltext::{Dialect, Scan};

    const MODE: Mode = Mode::new(Dialect::MariaDb, 101_100);

    fn digests(settings: Settings) -> Digests {
        let (queue, _) = queue();
        let measured = Arc::new(Measured::new(1, Some(queue)));
        Digests::new(measured, 0, 1, settings, (Instant::now(), 1_000))
    }

    fn note(digests: &Digests, text: &str) {
        let mut scan = Scan::new();
        scan.read(text.as_bytes(), &MODE);
        let digest = digests.of(scan.shape, text.as_bytes(), &MODE);
        let name = Name {
            digest,
            user: b"u",
            database: b"",
            group: "g1",
            tag: "",
        };
        let of = (Kind::Read, Door::Sql);
        digests.note(&name, scan.shape, of, &Call::default(), || None);
    }

    #[test]
    fn texts_of_one_shape_have_one_row() {
        let digests = digests(Settings::default());
        for text in ["SELECT 1", "select  2", "SELECT a FROM t"] {
            note(&digests, text);
        }
        let (mut rows, next) = digests.rows(0, 10);
        rows.sort_by(|a, b| a.text.cmp(&b.text));
        let told: Vec<_> = rows
            .iter()
            .map(|row| (&*row.text, row.counts.calls))
            .collect();
        assert_eq!(told, [("SELECT ?", 2), ("SELECT a FROM t", 1)]);
        assert_eq!(next, None);
        assert_eq!(digests.reset().sizes().0, 2);
        assert_eq!(digests.sizes().0, 0);
    }

    #[test]
    fn a_million_shapes_would_fit_as_well() {
        let bytes_max = 1 << 18;
        let digests = digests(Settings {
            bytes_max,
            ..Settings::default()
        });
        for number in 0..20_000 {
            note(&digests, &format!("SELECT c{number} FROM t"));
        }
        let (_, bytes, evicted) = digests.sizes();
        assert!(bytes + digests.shapes.borrow().bytes <= bytes_max);
        assert!(evicted > 10_000);
    }

    #[test]
    fn texts_come_with_the_switch() {
        let digests = digests(Settings {
            on: false,
            ..Settings::default()
        });
        digests.of(7, b"SELECT 1", &MODE);
        assert_eq!(&*digests.text(7), "");
        digests.obey(Settings::default(), 1);
        digests.of(7, b"SELECT 1", &MODE);
        assert_eq!(&*digests.text(7), "SELECT ?");
    }

    #[test]
    fn one_of_so_many_slow_statements_is_written() {
        let digests = digests(Settings {
            slow_us: 100,
            slow_one_in: 3,
            ..Settings::default()
        });
        let slow: Vec<bool> = [99, 100, 100, 500, 100]
            .map(|us| digests.is_slow(us))
            .to_vec();
        assert_eq!(slow, [false, true, false, false, true]);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let text = "ä".repeat(1000);
        assert_eq!(cut(&text).len(), TEXT_BYTES_MAX);
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&format!("x{text}")).len(), TEXT_BYTES_MAX - 1);
    }
}
