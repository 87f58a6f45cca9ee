//! Texts that are deep or long, through everything that reads statements, on half of the stack that the
//! threads of a router have. What is too deep or too long is not read, and nothing ends.

use crate::reading::read;

/// Runs on a thread with half of the stack that the threads of a router have.
fn on_half_a_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(planner::STACK_BYTES / 2);
    let thread = thread.spawn(work).expect("a thread");
    thread.join().expect("it did not panic");
}

/// Texts that grow with a number: their beginning, what is repeated, the end, and what is repeated
/// there.
const SHAPES: [(&str, &str, &str, &str); 26] = [
    ("SELECT * FROM t WHERE v=0", " OR v=1", "", ""),
    ("SELECT * FROM t WHERE id=0", " OR id=1", "", ""),
    ("SELECT * FROM t WHERE v=0", " AND v=1", "", ""),
    ("SELECT * FROM t WHERE v=0", " XOR v=1", "", ""),
    ("SELECT 1 FROM t", " UNION SELECT 1 FROM t", "", ""),
    ("SELECT * FROM t WHERE id IN (1", ",2", ")", ""),
    ("SELECT v FROM t WHERE ", "(", "v", ")"),
    ("SELECT * FROM ", "(", "t", ")"),
    ("SELECT * FROM ", "(SELECT * FROM ", "t", ") x"),
    ("SELECT ", "CASE WHEN v THEN ", "1 FROM t", ""),
    ("SELECT ", "CASE WHEN v THEN ", "1 ", " END"),
    ("SELECT CASE v", " WHEN 1 THEN 2", " END FROM t", ""),
    ("SELECT v /* a", " /* b", " */ FROM t", ""),
    ("SELECT v", " /* b */", " FROM t", ""),
    ("SELECT 1 FROM t", " JOIN t b USING (id)", "", ""),
    ("SELECT 1 FROM t", ", t b", "", ""),
    ("SELECT ", "NOT ", "v FROM t", ""),
    ("SELECT ", "- ", "v FROM t", ""),
    ("SELECT ", "! ", "v FROM t", ""),
    ("SELECT ", "abs(", "v FROM t", ")"),
    ("SELECT v", " + v", " FROM t", ""),
    ("SELECT v", " IS NULL", " FROM t", ""),
    ("SELECT v", " COLLATE binary", " FROM t", ""),
    ("SELECT d", " + INTERVAL 1 DAY", " FROM t", ""),
    ("UPDATE t SET v = v", " + 1", " WHERE id = 1", ""),
    ("DELETE FROM t WHERE v = 0", " OR id = 1", "", ""),
];

fn text(shape: (&str, &str, &str, &str), times: usize) -> String {
    let (first, more, middle, end) = shape;
    format!("{first}{}{middle}{}", more.repeat(times), end.repeat(times))
}

#[test]
fn no_text_is_too_deep_for_the_stack() {
    on_half_a_stack(|| {
        for shape in SHAPES {
            for times in [49, 1150, 100_000] {
                read(&text(shape, times));
            }
        }
    });
}

#[test]
fn what_people_write_is_read() {
    on_half_a_stack(|| {
        for shape in &SHAPES[..3] {
            assert!(read(&text(*shape, 1000)), "{shape:?}");
        }
        assert!(read(&text(SHAPES[5], 20_000)));
        assert!(!read(&text(SHAPES[0], 10_000)));
    });
}

#[test]
fn a_huge_text_is_not_read() {
    on_half_a_stack(|| {
        let times = (64 << 20) / " OR v=1".len();
        for shape in [SHAPES[0], SHAPES[5]] {
            assert!(!read(&text(shape, times)));
        }
    });
}

#[test]
fn long_lists_of_tables_are_read_in_linear_time() {
    let list = ", t IGNORE".repeat(20_000);
    read(&format!("UPDATE t{list} SET v = 1"));
    read(&format!("UPDATE {} t SET v = 1", "IGNORE ".repeat(60_000)));
}

/// The seeds of the fuzz target, and what comes of them when words are left out, doubled and mixed up.
#[test]
fn texts_out_of_order_end_nothing() {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus/planner_read");
    let seeds = std::fs::read_dir(seeds).expect("seeds");
    let text = |entry: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(entry.expect("a seed").path()).expect("a text")
    };
    let mut seeds: Vec<String> = seeds.map(text).collect();
    seeds.sort();
    assert!(seeds.len() > 10, "{seeds:?}");
    assert!(seeds.iter().filter(|seed| read(seed)).count() > 5);
    on_half_a_stack(move || {
        let words: Vec<Vec<&str>> = seeds.iter().map(|it| it.split(' ').collect()).collect();
        let mut number = 1u64;
        let mut below = |count: usize| {
            number = number
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from(number >> 33).expect("31 bits") % count
        };
        for round in 0..10_000 {
            let mut text = words[round % words.len()].clone();
            for _ in 0..=below(4) {
                let at = below(text.len());
                let other = &words[below(words.len())];
                match below(3) {
                    0 if text.len() > 1 => drop(text.remove(at)),
                    1 => text.insert(at, other[below(other.len())]),
                    _ => text[at] = other[below(other.len())],
                }
            }
            read(&text.join(" "));
        }
    });
}
