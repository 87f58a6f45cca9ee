//! What a client can ask for.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::line::Words;

/// The longest key, as it stands on the line.
pub const KEY_BYTES_MAX: usize = 250;

/// A key as the client wrote it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    pub(crate) word: &'a [u8],
    pub(crate) base64: bool,
}

impl<'a> Key<'a> {
    /// A key of printable bytes, or nothing when it is empty, too long, or has control bytes.
    pub fn plain(word: &'a [u8]) -> Option<Key<'a>> {
        let fits = (1..=KEY_BYTES_MAX).contains(&word.len());
        let printable = |byte: u8| byte > b' ' && byte != 0x7f;
        // All bytes are looked at, many at a time: nearly all keys are good.
        let all = |word: &[u8]| word.iter().fold(true, |all, byte| all & printable(*byte));
        (fits && all(word)).then_some(Key {
            word,
            base64: false,
        })
    }

    /// The key's spelling, for replies.
    pub fn word(&self) -> &'a [u8] {
        self.word
    }

    /// True when the spelling is base64.
    pub fn is_base64(&self) -> bool {
        self.base64
    }

    /// The key itself; `scratch` holds what had to be decoded.
    pub fn bytes<'s>(&self, scratch: &'s mut [u8; KEY_BYTES_MAX]) -> &'s [u8]
    where
        'a: 's,
    {
        if !self.base64 {
            return self.word;
        }
        let length = BASE64
            .decode_slice(self.word, scratch)
            .expect("a key is decoded when it is parsed");
        &scratch[..length]
    }
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreMode {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    /// Only if the item has this number.
    Cas(u64),
}

/// `get`, `gets`, `gat`, `gats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Get<'a> {
    pub(crate) keys: Words<'a>,
    /// The reply shows each item's number.
    pub with_cas: bool,
    /// The time of expiry to give to the items found, as the client wrote it.
    pub touch: Option<i64>,
}

impl<'a> Get<'a> {
    /// The keys as they stand on the line: the end of it.
    pub fn words(&self) -> Words<'a> {
        self.keys
    }

    /// At least one.
    pub fn keys(&self) -> impl Iterator<Item = Key<'a>> + use<'a> {
        self.keys.map(|word| Key {
            word,
            base64: false,
        })
    }
}

/// `set`, `add`, `replace`, `append`, `prepend`, `cas`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store<'a> {
    pub mode: StoreMode,
    pub key: Key<'a>,
    pub flags: u32,
    /// As the client wrote it: 0 never, negative at once, up to 30 days from now, else Unix time.
    pub expiry: i64,
    pub value: &'a [u8],
    pub quiet: bool,
}

/// `incr`, `decr`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count<'a> {
    pub key: Key<'a>,
    pub by: u64,
    pub down: bool,
    pub quiet: bool,
}

/// The flags of a meta command, with what they say. Which of them mean something depends on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta<'a> {
    pub key: Key<'a>,
    /// The flags as they stand on the line: a reply repeats some of them in their order.
    pub flags: Words<'a>,
    /// `q`: the reply that was expected is not sent.
    pub quiet: bool,
    /// `v`: the value is wanted.
    pub with_value: bool,
    /// `c`: the item's number is wanted.
    pub with_cas: bool,
    /// `h` or `l`: wants to know of earlier reads.
    pub with_history: bool,
    /// `T`: a new time of expiry.
    pub expiry: Option<i64>,
    /// `N`: makes the item when it is missing, with this time of expiry.
    pub vivify: Option<i64>,
    /// `R`: wins the right to make the item anew when less time is left than this.
    pub recache: Option<i64>,
    /// `C`: the number that the item must have.
    pub compare: Option<u64>,
    /// `E`: the number that the item is to get.
    pub cas: Option<u64>,
    /// `F`.
    pub client_flags: Option<u32>,
    /// `G`, Heddle's own: what a read must have, or, empty, that the reply is to tell what reads elsewhere
    /// need for having this write.
    pub token: Option<&'a [u8]>,
    /// `I`: marks the item as stale.
    pub invalidate: bool,
    /// `x`: takes the value away and leaves the item.
    pub without_value: bool,
    /// `M`: the byte behind it.
    pub mode: Option<u8>,
    /// `J`: what a new item counts from.
    pub initial: u64,
    /// `D`: what is added or taken away.
    pub delta: u64,
}

/// A complete request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request<'a> {
    Get(Get<'a>),
    Store(Store<'a>),
    Count(Count<'a>),
    Delete {
        key: Key<'a>,
        quiet: bool,
    },
    Touch {
        key: Key<'a>,
        expiry: i64,
        quiet: bool,
    },
    FlushAll {
        /// As an expiry is written.
        delay: i64,
        quiet: bool,
    },
    /// The words behind `stats`.
    Stats(Words<'a>),
    Version,
    Verbosity {
        quiet: bool,
    },
    Quit,
    MetaGet(Meta<'a>),
    /// The mode is never [`StoreMode::Cas`] for append and prepend: these look at [`Meta::compare`].
    MetaStore {
        meta: Meta<'a>,
        mode: StoreMode,
        value: &'a [u8],
    },
    MetaDelete(Meta<'a>),
    MetaCount {
        meta: Meta<'a>,
        down: bool,
    },
    MetaNoop,
    MetaDebug(Key<'a>),
}
