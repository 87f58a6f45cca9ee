//! The fuzz target's seeds, and many streams that are a little different from them.

mod checking;

use std::fs;
use std::path::Path;

use fastrand::Rng;

#[test]
fn what_is_nearly_a_request_breaks_nothing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/memcache_parse");
    let mut seeds: Vec<_> = fs::read_dir(folder)
        .expect("the fuzz target has seeds")
        .map(|entry| entry.expect("an entry of the corpus").path())
        .collect();
    seeds.sort();
    // The same in every run.
    let mut random = Rng::with_seed(0x9e37_79b9_7f4a_7c15);
    for seed in seeds {
        let text = fs::read(&seed).expect("a seed is a file");
        checking::check(&text);
        for _ in 0..3000 {
            let mut changed = text.clone();
            for _ in 0..=random.usize(..4) {
                let at = random.usize(..changed.len().max(1));
                match random.usize(..3) {
                    0 => changed[at] = b" \r\n0-9aAbBmM\x00\x80="[random.usize(..15)],
                    1 => drop(changed.remove(at)),
                    _ => changed.insert(at, b" \r\n1 kvqTO"[random.usize(..10)]),
                }
            }
            checking::check(&changed);
        }
    }
}
