//! Valid exchanges in any order and in any pieces reach the client as it must read them.

mod exchanging;

#[test]
fn every_exchange_is_what_the_client_must_read() {
    // A generator with a fixed start: the same exchanges in every run.
    let mut state: u64 = 0x9E37_79B9_7F4A_7C15;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as u8
    };
    for length in 0..4000 {
        let input: Vec<u8> = (0..length % 200).map(|_| next()).collect();
        exchanging::check(&input);
    }
}
