//! What MySQL stores of a `caching_sha2_password`: `$A$005$`, 20 bytes of salt, and 43 characters
//! of SHA-crypt, the SHA-256 of password and salt many times over. Of a `sha256_password` it is `$5$`,
//! the salt, `$`, and the same characters of 5000 rounds.

use sha2::{Digest, Sha256};

use super::equal;

/// Bytes of the salt; the published SHA-crypt has at most 16.
const SALT_BYTES: usize = 20;
/// Characters of the hash: 32 bytes at 6 bits each.
const HASH_CHARACTERS: usize = 43;
/// The number before the salt counts thousands of rounds, in hexadecimal.
const ROUNDS_UNIT: u32 = 1000;
/// Rounds of `sha256_password`: SHA-crypt's default, which is never written out.
const SHA256_ROUNDS: u32 = 5000;
/// SHA-crypt's own digits.
const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The longest password that MySQL hashes. A longer one is nobody's, and hashing it would take as long as
/// its sender likes.
const PASSWORD_BYTES_MAX: usize = 256;

/// Checks a password in clear against `authentication_string` of `mysql.user`. Takes milliseconds
/// on purpose: keep [`sha2_stage2`](super::sha2_stage2) of a password that was right, so that the
/// next login needs only a scramble.
pub fn sha2_stored_verify(password: &[u8], stored: &[u8]) -> bool {
    let Some((rounds, salt, hash)) = parse(stored) else {
        return false;
    };
    is_of(password, hash, salt, rounds)
}

/// The same for an account of `sha256_password`.
pub fn sha256_stored_verify(password: &[u8], stored: &[u8]) -> bool {
    let parts = stored
        .strip_prefix(b"$5$")
        .and_then(|rest| rest.split_at_checked(SALT_BYTES))
        .and_then(|(salt, rest)| Some((salt, rest.strip_prefix(b"$")?)));
    let Some((salt, hash)) = parts else {
        return false;
    };
    is_of(password, hash, salt, SHA256_ROUNDS)
}

fn is_of(password: &[u8], hash: &[u8], salt: &[u8], rounds: u32) -> bool {
    password.len() <= PASSWORD_BYTES_MAX && equal(&crypt(password, salt, rounds), hash)
}

/// Splits what is stored into rounds, salt and hash.
fn parse(stored: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let (rounds, rest) = stored.strip_prefix(b"$A$")?.split_first_chunk::<3>()?;
    let digits = rounds.iter().map(|digit| char::from(*digit).to_digit(16));
    let rounds = digits.reduce(|high, low| Some(high? << 4 | low?))??;
    let (salt, hash) = rest.strip_prefix(b"$")?.split_at_checked(SALT_BYTES)?;
    (hash.len() == HASH_CHARACTERS).then_some((rounds * ROUNDS_UNIT, salt, hash))
}

/// SHA-crypt with SHA-256, as its author published it.
fn crypt(password: &[u8], salt: &[u8], rounds: u32) -> [u8; HASH_CHARACTERS] {
    let inner = Sha256::new()
        .chain_update(password)
        .chain_update(salt)
        .chain_update(password);
    let inner = inner.finalize();
    let mut outer = Sha256::new().chain_update(password).chain_update(salt);
    outer.update(repeated(&inner, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        outer.update(if bits & 1 == 1 {
            inner.as_slice()
        } else {
            password
        });
        bits >>= 1;
    }
    let mut state = outer.finalize();

    let mut of_password = Sha256::new();
    (0..password.len()).for_each(|_| of_password.update(password));
    let password = repeated(&of_password.finalize(), password.len());
    let mut of_salt = Sha256::new();
    (0..16 + usize::from(state[0])).for_each(|_| of_salt.update(salt));
    let salt = repeated(&of_salt.finalize(), salt.len());

    for round in 0..rounds {
        let mut hash = Sha256::new();
        let is_odd = round & 1 == 1;
        hash.update(if is_odd {
            password.as_slice()
        } else {
            state.as_slice()
        });
        if round % 3 != 0 {
            hash.update(&salt);
        }
        if round % 7 != 0 {
            hash.update(&password);
        }
        hash.update(if is_odd {
            state.as_slice()
        } else {
            password.as_slice()
        });
        state = hash.finalize();
    }
    digits(&state.into())
}

/// The first `length` bytes of a hash written over and over.
fn repeated(hash: &[u8], length: usize) -> Vec<u8> {
    hash.iter().copied().cycle().take(length).collect()
}

/// Writes a hash in SHA-crypt's digits: three bytes, ten places apart, make four digits, lowest
/// first; the two last bytes make three.
fn digits(hash: &[u8; 32]) -> [u8; HASH_CHARACTERS] {
    let mut out = [0; HASH_CHARACTERS];
    let mut places = [0, 10, 20];
    for group in out[..40].chunks_exact_mut(4) {
        let [high, middle, low] = places.map(|place| u32::from(hash[place]));
        let word = high << 16 | middle << 8 | low;
        put_digits(group, word);
        places = [places[2], places[0], places[1]].map(|place| (place + 1) % 30);
    }
    put_digits(
        &mut out[40..],
        u32::from(hash[31]) << 8 | u32::from(hash[30]),
    );
    out
}

/// Writes the low 6 bits of `word` for each place of `out`, lowest first.
fn put_digits(out: &mut [u8], mut word: u32) {
    for digit in out {
        *digit = DIGITS[(word & 63) as usize];
        word >>= 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What MySQL 8.0.12 stored for the password `secret`.
    const STORED: &[u8] = b"$A$005$B{\x0aYi\x1c\x0740\x1fSQ\x0dU(4!\
        T8PPqimPKO7PcwbtLMEk7UukZ3YFKD3i/pdoookqApdbt1";

    #[test]
    fn what_a_server_stored_verifies() {
        assert_eq!(STORED.len(), 70);
        assert!(sha2_stored_verify(b"secret", STORED));
        assert!(!sha2_stored_verify(b"Secret", STORED));
        assert!(!sha2_stored_verify(b"", STORED));
    }

    #[test]
    fn the_published_example_of_another_number_of_rounds() {
        // $5$rounds=10000$saltstringsaltst$ of the author's own list.
        let hash = crypt(b"Hello world!", b"saltstringsaltst", 10_000);
        assert_eq!(&hash, b"3xv.VbSHBb41AL9AvLeujZkZRBAwqFMz2.opqey6IcA");
    }

    #[test]
    fn a_password_that_is_too_long_is_not_hashed() {
        let salt = &STORED[7..7 + SALT_BYTES];
        for (bytes, right) in [(PASSWORD_BYTES_MAX, true), (PASSWORD_BYTES_MAX + 1, false)] {
            let password = vec![b'x'; bytes];
            let hash = crypt(&password, salt, 5 * ROUNDS_UNIT);
            let stored = [&STORED[..7], salt, &hash].concat();
            assert_eq!(sha2_stored_verify(&password, &stored), right, "{bytes}");
        }
    }

    #[test]
    fn what_is_no_hash_verifies_nothing() {
        for stored in [
            &b""[..],
            b"$A$005$",
            &STORED[..69],
            b"*14E65567ABDB5135D0CFD9A70B3032C179A49EE7",
        ] {
            assert!(!sha2_stored_verify(b"secret", stored));
        }
        let mut strange = STORED.to_vec();
        strange[3] = b'+';
        assert!(!sha2_stored_verify(b"secret", &strange));
    }
}
