//! Random bytes that proofs are made for.

use std::cell::RefCell;

use mysql_wire::auth::SALT_BYTES;
use rsa::rand_core::{OsRng, RngCore};

/// How many greetings share one draw of random bytes, which is a system call.
const DRAWN: usize = 16;

/// Random bytes that no greeting has shown yet.
struct Drawn {
    bytes: [u8; DRAWN * SALT_BYTES],
    used: usize,
}

thread_local! {
    static LEFT: RefCell<Drawn> = const {
        RefCell::new(Drawn {
            bytes: [0; DRAWN * SALT_BYTES],
            used: DRAWN,
        })
    };
}

/// 20 random bytes that are neither NUL nor `$`, in ASCII, as the servers make them.
pub fn fresh() -> [u8; SALT_BYTES] {
    let mut salt = LEFT.with_borrow_mut(|left| {
        if left.used == DRAWN {
            OsRng.fill_bytes(&mut left.bytes);
            left.used = 0;
        }
        left.used += 1;
        let (salts, _) = left.bytes.as_chunks_mut::<SALT_BYTES>();
        // Nothing of it stays here for a second one.
        std::mem::take(&mut salts[left.used - 1])
    });
    for byte in &mut salt {
        *byte &= 0x7F;
        if *byte == 0 || *byte == b'$' {
            *byte += 1;
        }
    }
    salt
}

/// As a salt that comes with a switch.
pub fn random<const N: usize>() -> Vec<u8> {
    let mut bytes = vec![0; N];
    OsRng.fill_bytes(&mut bytes);
    bytes
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_salt_comes_twice_and_all_are_text() {
        let salts: Vec<_> = (0..10 * DRAWN).map(|_| fresh()).collect();
        let different: HashSet<_> = salts.iter().collect();
        assert_eq!(different.len(), salts.len());
        let fits = |byte: &u8| (1..0x80).contains(byte) && *byte != b'$';
        assert!(salts.iter().flatten().all(fits));
    }
}
