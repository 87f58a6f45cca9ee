//! The router's RSA key: with it a client sends its password for a full caching_sha2_password login
//! where there is no TLS. Made when the first client needs it, for this run only.

use std::sync::{Arc, Mutex, PoisonError};

use futures_channel::oneshot;
use mysql_wire::auth;
use rsa::pkcs8::{EncodePublicKey, LineEnding};

/// Bits of the key: what the servers themselves generate.
const KEY_BITS: usize = 2048;

/// A key pair in the form that the login needs.
pub struct KeyPair {
    private: rsa::RsaPrivateKey,
    /// What a client gets.
    pub public_pem: String,
}

/// The key, made at most once. Making it takes up to seconds, so it has a thread of its own.
#[derive(Clone, Default)]
pub struct RsaKey {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
enum State {
    #[default]
    Absent,
    Making(Vec<oneshot::Sender<Arc<KeyPair>>>),
    Ready(Arc<KeyPair>),
}

impl RsaKey {
    /// The key, waiting until it is made. `None` when it could not be made.
    pub async fn get(&self) -> Option<Arc<KeyPair>> {
        let waiter = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            let (tell, told) = oneshot::channel();
            match &mut *state {
                State::Ready(pair) => return Some(pair.clone()),
                State::Making(waiters) => waiters.push(tell),
                State::Absent => {
                    *state = State::Making(vec![tell]);
                    let shared = self.state.clone();
                    let maker = move || make(&shared);
                    let thread = std::thread::Builder::new().name("rsa-key".to_owned());
                    if thread.spawn(maker).is_err() {
                        *state = State::Absent;
                        return None;
                    }
                }
            }
            told
        };
        waiter.await.ok()
    }
}

fn make(shared: &Mutex<State>) {
    let pair =
        rsa::RsaPrivateKey::new(&mut rsa::rand_core::OsRng, KEY_BITS).ok().and_then(|private| {
            let public_pem = private.to_public_key().to_public_key_pem(LineEnding::LF).ok()?;
            Some(Arc::new(KeyPair {
                private,
                public_pem,
            }))
        });
    let mut state = shared.lock().unwrap_or_else(PoisonError::into_inner);
    let next = pair.clone().map_or(State::Absent, State::Ready);
    if let (State::Making(waiters), Some(pair)) = (std::mem::replace(&mut *state, next), pair) {
        for waiter in waiters {
            let _ = waiter.send(pair.clone());
        }
    }
}

impl KeyPair {
    /// The password in what a client sealed for this login; `None` when it was not sealed so.
    pub fn open(&self, sealed: &[u8], salt: &[u8]) -> Option<Vec<u8>> {
        let padding = rsa::Oaep::new::<sha1::Sha1>();
        // Blinded: how long it takes says nothing of the key.
        let random = &mut rsa::rand_core::OsRng;
        let opened = self.private.decrypt_blinded(random, padding, sealed);
        let mut secret = opened.ok()?;
        auth::mask(&mut secret, salt);
        (secret.pop() == Some(0)).then_some(secret)
    }
}
