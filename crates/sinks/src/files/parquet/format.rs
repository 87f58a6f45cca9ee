//! A file of Parquet: columns in row groups, one page each, and a footer that says where they are.
//!
//! What is written is the part of the format that any reader has to know: PLAIN values, levels in runs, pages that are
//! plain or packed by zstd. Source: «Apache Parquet», its format and thrift definition, 2.10.
//!
//! Invariants: nobody sees the file under its own name before it is whole and on disk; rows that wait for their row group
//! are the only memory that grows with the file.
//!
//! Must not know: what the rows are about.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::thrift::{Thrift, unsigned};
use crate::spec::Compression;

const MAGIC: &[u8] = b"PAR1";

/// A row group is full with so many bytes of values, or so many rows.
const GROUP_BYTES: usize = 16 << 20;
const GROUP_ROWS: usize = 1 << 16;

/// Encodings, kinds of pages and ways of packing, as the format numbers them.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const DATA_PAGE: i32 = 0;
const UNCOMPRESSED: i32 = 0;
const ZSTD: i32 = 6;

/// How values are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Physical {
    I32,
    I64,
    F32,
    F64,
    Bytes,
    /// So many bytes each.
    Fixed(u8),
}

/// What values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Logical {
    /// What they are stored as.
    None,
    Text,
    Json,
    /// Bits, and whether there is a sign.
    Integer(u8, bool),
    /// Digits in all, and behind the point.
    Decimal(u8, u8),
    Date,
    Milliseconds,
    /// Since 1970, in UTC or in nobody's time zone.
    Microseconds {
        is_utc: bool,
    },
}

/// A column, and the values that are not written yet.
#[derive(Clone, Debug)]
pub(super) struct Column {
    pub(super) name: String,
    physical: Physical,
    logical: Logical,
    is_optional: bool,
    /// The level of a value that is there: so many optional things are around it, itself among them.
    depth: u8,
    /// Of each row of the group.
    levels: Vec<u8>,
    values: Vec<u8>,
}

/// A column, or several under one name, which may be missing together.
#[derive(Clone, Debug)]
pub(super) enum Node {
    One(Column),
    Several(String, Vec<Column>),
}

impl Column {
    pub(super) fn new(name: &str, physical: Physical, logical: Logical) -> Column {
        Column {
            name: name.to_owned(),
            physical,
            logical,
            is_optional: false,
            depth: 0,
            levels: Vec::new(),
            values: Vec::new(),
        }
    }

    /// It may have no value.
    pub(super) fn optional(mut self) -> Column {
        self.is_optional = true;
        self
    }

    /// No value: at level 0 what is around it is not there either.
    pub(super) fn put_none(&mut self, level: u8) {
        self.levels.push(level);
    }

    /// A value as bytes: of its own length, or of the length that all have.
    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.levels.push(self.depth);
        if self.physical == Physical::Bytes {
            let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
            self.values.extend_from_slice(&length.to_le_bytes());
        }
        self.values.extend_from_slice(bytes);
    }

    /// The page of the rows that wait: levels, then values.
    fn take_page(&mut self) -> Vec<u8> {
        let values = std::mem::take(&mut self.values);
        let levels = std::mem::take(&mut self.levels);
        if self.depth == 0 {
            return values;
        }
        let mut runs = Vec::new();
        for run in levels.chunk_by(|one, other| one == other) {
            unsigned((run.len() as u64) << 1, &mut runs);
            runs.push(run[0]);
        }
        let length = u32::try_from(runs.len()).unwrap_or(u32::MAX);
        [&length.to_le_bytes()[..], &runs, &values].concat()
    }

    fn describe(&self, it: &mut Thrift) {
        it.i32(1, self.physical.number());
        if let Physical::Fixed(bytes) = self.physical {
            it.i32(2, bytes.into());
        }
        it.i32(3, i32::from(self.is_optional));
        it.text(4, &self.name);
        if let Some(number) = self.logical.converted() {
            it.i32(6, number);
        }
        if let Logical::Decimal(precision, scale) = self.logical {
            it.i32(7, scale.into());
            it.i32(8, precision.into());
        }
        if self.logical != Logical::None {
            it.structure(10, |it| self.logical.describe(it));
        }
    }
}

impl Physical {
    fn number(self) -> i32 {
        match self {
            Physical::I32 => 1,
            Physical::I64 => 2,
            Physical::F32 => 4,
            Physical::F64 => 5,
            Physical::Bytes => 6,
            Physical::Fixed(_) => 7,
        }
    }
}

impl Logical {
    /// The same in the words of old readers.
    fn converted(self) -> Option<i32> {
        Some(match self {
            Logical::Text => 0,
            Logical::Decimal(..) => 5,
            Logical::Date => 6,
            Logical::Milliseconds => 9,
            Logical::Microseconds { is_utc: true } => 10,
            Logical::Integer(bits, is_signed) => {
                let first = if is_signed { 15 } else { 11 };
                first + i32::try_from(bits.max(8).ilog2()).unwrap_or(3) - 3
            }
            Logical::Json => 19,
            Logical::None | Logical::Microseconds { is_utc: false } => return None,
        })
    }

    fn describe(self, it: &mut Thrift) {
        let moment = |it: &mut Thrift, is_utc, unit| {
            it.structure(8, |it| {
                it.bool(1, is_utc);
                it.structure(2, |it| it.structure(unit, |_| {}));
            });
        };
        match self {
            Logical::None => {}
            Logical::Text => it.structure(1, |_| {}),
            Logical::Decimal(precision, scale) => it.structure(5, |it| {
                it.i32(1, scale.into());
                it.i32(2, precision.into());
            }),
            Logical::Date => it.structure(6, |_| {}),
            Logical::Milliseconds => moment(it, true, 1),
            Logical::Microseconds { is_utc } => moment(it, is_utc, 2),
            Logical::Integer(bits, is_signed) => it.structure(10, |it| {
                it.byte(1, bits);
                it.bool(2, is_signed);
            }),
            Logical::Json => it.structure(12, |_| {}),
        }
    }
}

/// Where a column's page is.
struct Chunk {
    physical: Physical,
    path: Vec<String>,
    at: i64,
    rows: i64,
    /// With the page's head: as it is, and packed.
    bytes: (i64, i64),
}

/// A row group that was written.
struct Group {
    chunks: Vec<Chunk>,
    rows: i64,
}

/// Writes one file.
pub(super) struct Writer {
    path: PathBuf,
    /// Its name until it is whole.
    open: PathBuf,
    compress: Compression,
    nodes: Vec<Node>,
    groups: Vec<Group>,
    /// Rows that wait.
    rows: usize,
    /// Of the file so far.
    bytes: u64,
}

impl Writer {
    /// For a file of this name; what is there under it is replaced in the end.
    pub(super) fn new(path: PathBuf, mut nodes: Vec<Node>, compress: Compression) -> Writer {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let open = path.with_file_name(format!(".{name}.open"));
        for node in &mut nodes {
            match node {
                Node::One(column) => column.depth = column.is_optional.into(),
                Node::Several(_, columns) => {
                    let of = |column: &Column| 1 + u8::from(column.is_optional);
                    columns.iter_mut().for_each(|it| it.depth = of(it));
                }
            }
        }
        Writer {
            path,
            open,
            compress,
            nodes,
            groups: Vec::new(),
            rows: 0,
            bytes: 0,
        }
    }

    /// Where the values of the next row go.
    pub(super) fn nodes(&mut self) -> &mut [Node] {
        &mut self.nodes
    }

    /// Each column has got its value of one more row. True when it is time for [`Writer::write_group`].
    pub(super) fn end_row(&mut self) -> bool {
        self.rows += 1;
        self.rows >= GROUP_ROWS || self.bytes_waiting() >= GROUP_BYTES
    }

    /// Of the rows that wait.
    pub(super) fn bytes_waiting(&self) -> usize {
        let columns = self.nodes.iter().flat_map(Node::columns);
        columns.map(|it| it.values.len() + it.levels.len()).sum()
    }

    /// Writes the rows that wait.
    pub(super) fn write_group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut file = self.file()?;
        let count = i32::try_from(self.rows).unwrap_or(i32::MAX);
        let mut chunks = Vec::new();
        let mut at = self.bytes;
        for node in &mut self.nodes {
            let parent = match node {
                Node::One(_) => None,
                Node::Several(name, _) => Some(name.clone()),
            };
            for column in node.columns_mut() {
                let page = column.take_page();
                let body = match self.compress {
                    Compression::None | Compression::Gzip => page.clone(),
                    Compression::Zstd => zstd::bulk::compress(&page, 0)?,
                };
                let head = page_head(length(&page)?, length(&body)?, count);
                file.write_all(&head)?;
                file.write_all(&body)?;
                let path = parent.iter().cloned().chain([column.name.clone()]);
                chunks.push(Chunk {
                    physical: column.physical,
                    path: path.collect(),
                    at: signed(at),
                    rows: count.into(),
                    bytes: (
                        signed((head.len() + page.len()) as u64),
                        signed((head.len() + body.len()) as u64),
                    ),
                });
                at += (head.len() + body.len()) as u64;
            }
        }
        self.bytes = at;
        self.rows = 0;
        let rows = count.into();
        self.groups.push(Group { chunks, rows });
        Ok(())
    }

    /// Makes the file whole, with what it says of itself, and gives it its name: how many rows and bytes it has.
    pub(super) fn finish(mut self, said: &[(&str, String)]) -> io::Result<(u64, u64)> {
        self.write_group()?;
        let footer = self.footer(said);
        let length = u32::try_from(footer.len()).map_err(io::Error::other)?;
        let mut file = self.file()?;
        file.write_all(&footer)?;
        file.write_all(&length.to_le_bytes())?;
        file.write_all(MAGIC)?;
        file.sync_all()?;
        std::fs::rename(&self.open, &self.path)?;
        let dir = self.path.parent().unwrap_or(Path::new("."));
        File::open(dir)?.sync_all()?;
        let rows: i64 = self.groups.iter().map(|it| it.rows).sum();
        let bytes = self.bytes + footer.len() as u64 + 8;
        Ok((u64::try_from(rows).unwrap_or(0), bytes))
    }

    /// The file, at its end. It is not kept open: a sink may have thousands of tables.
    fn file(&mut self) -> io::Result<File> {
        if self.bytes > 0 {
            return OpenOptions::new().append(true).open(&self.open);
        }
        let mut file = File::create(&self.open)?;
        file.write_all(MAGIC)?;
        self.bytes = MAGIC.len() as u64;
        Ok(file)
    }

    fn footer(&self, said: &[(&str, String)]) -> Vec<u8> {
        let codec = match self.compress {
            Compression::None | Compression::Gzip => UNCOMPRESSED,
            Compression::Zstd => ZSTD,
        };
        Thrift::of(|it| {
            it.i32(1, 1);
            it.structures(2, &self.elements(), |element, it| element.describe(it));
            it.i64(3, self.groups.iter().map(|it| it.rows).sum());
            it.structures(4, &self.groups, |group, it| {
                it.structures(1, &group.chunks, |chunk, it| {
                    it.i64(2, chunk.at);
                    it.structure(3, |it| chunk.describe(codec, it));
                });
                it.i64(2, group.chunks.iter().map(|it| it.bytes.0).sum());
                it.i64(3, group.rows);
            });
            it.structures(5, said, |(name, value), it| {
                it.text(1, name);
                it.text(2, value);
            });
            it.text(6, concat!("heddle version ", env!("CARGO_PKG_VERSION")));
        })
    }

    /// The tree of columns, each in front of what is in it.
    fn elements(&self) -> Vec<Element<'_>> {
        let mut all = vec![Element::Root(self.nodes.len())];
        for node in &self.nodes {
            if let Node::Several(name, columns) = node {
                all.push(Element::Several(name, columns.len()));
            }
            all.extend(node.columns().iter().map(Element::One));
        }
        all
    }
}

impl Node {
    pub(super) fn columns(&self) -> &[Column] {
        match self {
            Node::One(column) => std::slice::from_ref(column),
            Node::Several(_, columns) => columns,
        }
    }

    pub(super) fn columns_mut(&mut self) -> &mut [Column] {
        match self {
            Node::One(column) => std::slice::from_mut(column),
            Node::Several(_, columns) => columns,
        }
    }
}

/// A node of the tree that the footer has.
enum Element<'a> {
    Root(usize),
    Several(&'a str, usize),
    One(&'a Column),
}

impl Element<'_> {
    fn describe(&self, it: &mut Thrift) {
        let count = |number: &usize| i32::try_from(*number).unwrap_or(i32::MAX);
        match self {
            Element::Root(children) => {
                it.text(4, "schema");
                it.i32(5, count(children));
            }
            Element::Several(name, children) => {
                // Optional.
                it.i32(3, 1);
                it.text(4, name);
                it.i32(5, count(children));
            }
            Element::One(column) => column.describe(it),
        }
    }
}

impl Chunk {
    fn describe(&self, codec: i32, it: &mut Thrift) {
        it.i32(1, self.physical.number());
        it.numbers(2, &[PLAIN, RLE]);
        it.texts(3, &self.path);
        it.i32(4, codec);
        it.i64(5, self.rows);
        it.i64(6, self.bytes.0);
        it.i64(7, self.bytes.1);
        it.i64(9, self.at);
    }
}

fn page_head(bytes: i32, packed: i32, rows: i32) -> Vec<u8> {
    Thrift::of(|it| {
        it.i32(1, DATA_PAGE);
        it.i32(2, bytes);
        it.i32(3, packed);
        it.structure(5, |it| {
            it.i32(1, rows);
            it.i32(2, PLAIN);
            it.i32(3, RLE);
            it.i32(4, RLE);
        });
    })
}

/// A page may have so many bytes.
fn length(page: &[u8]) -> io::Result<i32> {
    i32::try_from(page.len()).map_err(|_| io::Error::other("a page with more than 2 GiB"))
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_runs_in_front_of_the_values() {
        let number = Column::new("n", Physical::I32, Logical::None).optional();
        let name = Column::new("t", Physical::Bytes, Logical::Text);
        let nodes = vec![Node::One(number), Node::Several("s".to_owned(), vec![name])];
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("f.parquet");
        let mut writer = Writer::new(path.clone(), nodes, Compression::None);
        for row in 0..3_i32 {
            for node in writer.nodes() {
                let is_number = matches!(node, Node::One(_));
                let column = &mut node.columns_mut()[0];
                match (is_number, row) {
                    (true, 1) => column.put_none(0),
                    (true, _) => column.put(&row.to_le_bytes()),
                    (false, 0) => column.put_none(0),
                    (false, _) => column.put(b"ab"),
                }
            }
            assert!(!writer.end_row());
        }
        let pages: Vec<Vec<u8>> = writer
            .nodes()
            .iter_mut()
            .map(|it| it.columns_mut()[0].clone().take_page())
            .collect();
        assert_eq!(
            pages[0],
            [6, 0, 0, 0, 2, 1, 2, 0, 2, 1, 0, 0, 0, 0, 2, 0, 0, 0]
        );
        let texts = [2, 0, 0, 0, b'a', b'b'];
        assert_eq!(
            pages[1],
            [&[4, 0, 0, 0, 2, 0, 4, 1][..], &texts, &texts].concat()
        );
        let (rows, bytes) = writer.finish(&[]).expect("it is written");
        let file = std::fs::read(&path).expect("it is there");
        assert_eq!((rows, bytes), (3, file.len() as u64));
        assert!(file.starts_with(MAGIC) && file.ends_with(MAGIC));
        let names: Vec<_> = std::fs::read_dir(dir.path()).expect("entries").collect();
        assert_eq!(names.len(), 1, "nothing is left open");
    }

    #[test]
    fn integers_have_their_old_names() {
        let converted = |bits, is_signed| Logical::Integer(bits, is_signed).converted();
        assert_eq!(converted(8, true), Some(15));
        assert_eq!(converted(64, true), Some(18));
        assert_eq!(
            (converted(8, false), converted(64, false)),
            (Some(11), Some(14))
        );
    }
}
