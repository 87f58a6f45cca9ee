//! Random bytes that proofs are made for.

use mysql_wire::auth::SALT_BYTES;
use rsa::rand_core::{OsRng, RngCore};

/// 20 random bytes that are neither NUL nor `$`, in ASCII, as the servers make them.
pub fn fresh() -> [u8; SALT_BYTES] {
    let mut salt = [0; SALT_BYTES];
    OsRng.fill_bytes(&mut salt);
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
