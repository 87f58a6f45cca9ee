//! The texts that a session has prepared in SQL, for statements that several groups may have to run.

use std::collections::BTreeMap;

use crate::prepared::prepared_bytes::Portion;

/// The texts that a session has prepared in SQL, by their names in lower case.
pub type Texts = BTreeMap<Box<[u8]>, Kept>;

/// One of them, with what it takes of the session's bytes.
pub struct Kept {
    pub text: Box<[u8]>,
    pub _portion: Portion,
}
