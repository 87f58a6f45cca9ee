//! The fuzz target's seeds, and many streams that are a little different from them.

mod checking;

use std::fs;
use std::path::Path;

/// Marsaglia's xorshift: the same streams every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

#[test]
fn what_is_nearly_a_request_breaks_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/memcache_parse");
    let mut seeds: Vec<_> = fs::read_dir(folder)
        .expect("the fuzz target has seeds")
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    seeds.sort();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for seed in seeds {
        let text = fs::read(&seed).expect("a seed is a file");
        checking::check(&text);
        for _ in 0..3000 {
            let mut changed = text.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(changed.len());
                match random.below(3) {
                    0 => changed[at] = b" \r\n0-9aAbBmM\x00\x80="[random.below(15)],
                    1 => drop(changed.remove(at)),
                    _ => changed.insert(at, b" \r\n1 kvqTO"[random.below(10)]),
                }
            }
            checking::check(&changed);
        }
    }
}
