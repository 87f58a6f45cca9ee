//! What differs between two texts, by lines, as people know it from `diff -u`.

/// Equal lines shown around a difference.
const AROUND: usize = 3;

/// Beyond so many pairs of lines what differs is shown as one block: finding the fewest changes would
/// take too long.
const PAIRS_MAX: usize = 4_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// The difference, empty where there is none.
pub fn unified(old: &str, new: &str) -> String {
    let lines = compare(
        &old.lines().collect::<Vec<_>>(),
        &new.lines().collect::<Vec<_>>(),
    );
    let differs = |line: &Line<'_>| !matches!(line, Line::Same(_));
    let mut text = String::new();
    // The line numbers, from 1, of the next line of each side.
    let (mut old_at, mut new_at) = (1, 1);
    let mut shown_to = 0;
    for (at, line) in lines.iter().enumerate() {
        let from = at.saturating_sub(AROUND);
        let to = (at + AROUND + 1).min(lines.len());
        let near = lines[from..to].iter().any(differs);
        if near {
            if shown_to != at || at == 0 {
                text.push_str(&format!("@@ -{old_at} +{new_at} @@\n"));
            }
            shown_to = at + 1;
            let (mark, words) = match line {
                Line::Same(words) => (' ', words),
                Line::Old(words) => ('-', words),
                Line::New(words) => ('+', words),
            };
            text.push(mark);
            text.push_str(words);
            text.push('\n');
        }
        old_at += usize::from(!matches!(line, Line::New(_)));
        new_at += usize::from(!matches!(line, Line::Old(_)));
    }
    text
}

/// How many lines differ.
pub fn count(old: &str, new: &str) -> usize {
    let text = unified(old, new);
    let differs = |line: &&str| line.starts_with(['-', '+']);
    text.lines().filter(differs).count()
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let pairs = || old.iter().zip(new);
    let head = pairs().take_while(|(a, b)| a == b).count();
    let rest = pairs().count() - head;
    let backwards = old.iter().rev().zip(new.iter().rev());
    let tail = backwards.take(rest).take_while(|(a, b)| a == b).count();
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let same = |lines: &[&'a str]| -> Vec<Line<'a>> {
        lines.iter().map(|words| Line::Same(words)).collect()
    };
    let mut lines = same(&old[..head]);
    lines.extend(middle(&old[head..old_end], &new[head..new_end]));
    lines.extend(same(&old[old_end..]));
    lines
}

/// The longest common part, and the rest around it.
fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    if old.len().saturating_mul(new.len()) > PAIRS_MAX {
        let old = old.iter().map(|words| Line::Old(words));
        return old
            .chain(new.iter().map(|words| Line::New(words)))
            .collect();
    }
    // `common[i][j]`: how many lines of `old[i..]` and `new[j..]` are common.
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = match old[i] == new[j] {
                true => common[(i + 1) * width + j + 1] + 1,
                false => common[(i + 1) * width + j].max(common[i * width + j + 1]),
            };
        }
    }
    let mut lines = Vec::with_capacity(old.len() + new.len());
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len()
            || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1])
        {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified("a\nb\n", "a\nb\n"), "");
        assert_eq!(unified("", ""), "");
    }

    #[test]
    fn changed_lines_stand_between_what_is_around_them() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\nten\n";
        assert_eq!(
            unified(old, new),
            "@@ -2 +2 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n 9\n+ten\n"
        );
        assert_eq!(count(old, new), 3);
    }

    #[test]
    fn far_changes_are_told_apart() {
        let lines = |first: &str, last: &str| {
            let between: String = (0..20).map(|n| format!("{n}\n")).collect();
            format!("{first}\n{between}{last}\n")
        };
        let text = unified(&lines("a", "y"), &lines("b", "z"));
        assert_eq!(text.matches("@@ -").count(), 2, "{text}");
        assert!(
            text.starts_with("@@ -1 +1 @@\n-a\n+b\n 0\n 1\n 2\n"),
            "{text}"
        );
        assert!(
            text.contains("@@ -19 +19 @@\n 17\n 18\n 19\n-y\n+z\n"),
            "{text}"
        );
    }

    #[test]
    fn what_is_new_or_gone_altogether() {
        assert_eq!(unified("", "a\n"), "@@ -1 +1 @@\n+a\n");
        assert_eq!(unified("a\n", ""), "@@ -1 +1 @@\n-a\n");
        assert_eq!(unified("a\nb\nc\n", "a\nc\n"), "@@ -1 +1 @@\n a\n-b\n c\n");
    }
}
