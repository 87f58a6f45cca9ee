//! A set of a map's shards.

use farm::shard::ShardIx;

/// Some shards of one map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardSet {
    /// Without words of zeros at the end, so that equal sets are equal.
    words: Vec<u64>,
}

impl ShardSet {
    /// Puts a shard in.
    pub fn insert(&mut self, at: ShardIx) {
        let (word, bit) = (usize::from(at.0) / 64, at.0 % 64);
        if self.words.len() <= word {
            self.words.resize(word + 1, 0);
        }
        self.words[word] |= 1 << bit;
    }

    /// What either has.
    pub fn join(&mut self, other: &ShardSet) {
        if self.words.len() < other.words.len() {
            self.words.resize(other.words.len(), 0);
        }
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine |= theirs;
        }
    }

    /// What both have.
    pub fn meet(&mut self, other: &ShardSet) {
        self.words.truncate(other.words.len());
        for (mine, theirs) in self.words.iter_mut().zip(&other.words) {
            *mine &= theirs;
        }
        while self.words.last() == Some(&0) {
            self.words.pop();
        }
    }

    /// How many shards it has.
    pub fn len(&self) -> usize {
        self.words
            .iter()
            .map(|word| word.count_ones() as usize)
            .sum()
    }

    /// True without a shard.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// In the order of the map.
    pub fn iter(&self) -> impl Iterator<Item = ShardIx> + '_ {
        let words = (0u16..).zip(&self.words);
        words.flat_map(|(word, bits)| {
            let there = move |bit: &u16| bits & (1 << bit) != 0;
            (0..64u16)
                .filter(there)
                .map(move |bit| ShardIx(word * 64 + bit))
        })
    }

    /// The only one, when there is one only.
    pub fn only(&self) -> Option<ShardIx> {
        let mut all = self.iter();
        all.next().filter(|_| all.next().is_none())
    }
}

impl FromIterator<ShardIx> for ShardSet {
    fn from_iter<I: IntoIterator<Item = ShardIx>>(all: I) -> ShardSet {
        let mut set = ShardSet::default();
        all.into_iter().for_each(|at| set.insert(at));
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_join_and_meet() {
        let set = |all: &[u16]| all.iter().map(|at| ShardIx(*at)).collect::<ShardSet>();
        let mut joined = set(&[1, 70]);
        joined.join(&set(&[0, 130]));
        assert_eq!(joined, set(&[0, 1, 70, 130]));
        let mut met = joined.clone();
        met.meet(&set(&[1, 2, 3]));
        assert_eq!((met.only(), met.len()), (Some(ShardIx(1)), 1));
        met.meet(&set(&[70]));
        assert!(met.is_empty() && met.only().is_none());
        assert_eq!(
            joined.iter().map(|at| at.0).collect::<Vec<_>>(),
            [0, 1, 70, 130]
        );
    }
}
