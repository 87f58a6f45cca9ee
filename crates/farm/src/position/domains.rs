//! MariaDB's domains: nearly always there is one, and it asks the allocator for nothing.

use std::collections::BTreeMap;

use super::Last;

/// The last transaction of each domain, by the domains' numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Domains {
    /// The smallest number.
    first: Option<(u32, Last)>,
    /// Greater ones; none without a first.
    others: BTreeMap<u32, Last>,
}

impl Domains {
    /// The last transaction of this domain, if there is one.
    #[inline]
    pub fn get(&self, domain: u32) -> Option<&Last> {
        match &self.first {
            Some((first, last)) if *first == domain => Some(last),
            _ => self.others.get(&domain),
        }
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, domain: u32) -> Option<&mut Last> {
        match &mut self.first {
            Some((first, last)) if *first == domain => Some(last),
            _ => self.others.get_mut(&domain),
        }
    }

    /// Puts this transaction in the place of its domain's.
    pub fn insert(&mut self, domain: u32, last: Last) {
        match &mut self.first {
            Some(first) if domain == first.0 => first.1 = last,
            Some(first) if domain < first.0 => {
                let (greater, of_greater) = std::mem::replace(first, (domain, last));
                self.others.insert(greater, of_greater);
            }
            Some(_) => drop(self.others.insert(domain, last)),
            none => *none = Some((domain, last)),
        }
    }

    /// The only one, if there is no other.
    #[inline]
    pub fn only(&self) -> Option<(u32, Last)> {
        self.first.filter(|_| self.others.is_empty())
    }

    /// Takes over what is later in another one.
    #[inline]
    pub fn join(&mut self, other: &Domains) {
        match (&mut self.first, other.only()) {
            (Some((domain, have)), Some((of, last))) if *domain == of => {
                if have.sequence < last.sequence {
                    *have = last;
                }
            }
            _ => self.join_each(other),
        }
    }

    fn join_each(&mut self, other: &Domains) {
        for (domain, last) in other.iter() {
            match self.get_mut(domain) {
                Some(have) if have.sequence < last.sequence => *have = *last,
                Some(_) => {}
                None => self.insert(domain, *last),
            }
        }
    }

    /// True when it is as far as another one in each domain.
    #[inline]
    pub fn covers(&self, other: &Domains) -> bool {
        let has = |domain, last: &Last| {
            let have = self.get(domain);
            have.is_some_and(|have| have.sequence >= last.sequence)
        };
        match other.only() {
            Some((domain, last)) => has(domain, &last),
            None => other.iter().all(|(domain, last)| has(domain, last)),
        }
    }

    /// All of them, by their numbers.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Last)> {
        let first = self.first.iter().map(|(domain, last)| (*domain, last));
        first.chain(self.others.iter().map(|(domain, last)| (*domain, last)))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

impl Extend<(u32, Last)> for Domains {
    fn extend<I: IntoIterator<Item = (u32, Last)>>(&mut self, all: I) {
        for (domain, last) in all {
            self.insert(domain, last);
        }
    }
}

impl FromIterator<(u32, Last)> for Domains {
    fn from_iter<I: IntoIterator<Item = (u32, Last)>>(all: I) -> Domains {
        let mut domains = Domains::default();
        domains.extend(all);
        domains
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(sequence: u64) -> Last {
        Last {
            server_id: 1,
            sequence,
        }
    }

    #[test]
    fn domains_stand_in_order_whatever_came_first() {
        for order in [[3, 1, 2], [1, 2, 3], [2, 3, 1]] {
            let mut domains = Domains::default();
            assert!(domains.is_empty() && domains.get(order[0]).is_none());
            for domain in order {
                domains.insert(domain, last(u64::from(domain)));
                domains.insert(domain, last(u64::from(domain) * 10));
            }
            let all: Vec<_> = domains
                .iter()
                .map(|(domain, last)| (domain, last.sequence))
                .collect();
            assert_eq!(all, [(1, 10), (2, 20), (3, 30)]);
            assert_eq!(domains.len(), 3);
            for domain in order {
                domains.get_mut(domain).expect("it is there").sequence += 1;
                assert_eq!(domains.get(domain), Some(&last(u64::from(domain) * 10 + 1)));
            }
            assert_eq!(domains.only(), None);
            assert_eq!(domains.get(4), None);
            assert_eq!(
                domains
                    .iter()
                    .map(|(domain, last)| (domain, *last))
                    .collect::<Domains>(),
                domains
            );
        }
    }

    #[test]
    fn the_later_of_two_is_kept_of_each_domain() {
        let of = |all: &[(u32, u64)]| -> Domains {
            let all = all.iter();
            all.map(|&(domain, sequence)| (domain, last(sequence)))
                .collect()
        };
        let sets = [
            of(&[]),
            of(&[(1, 5)]),
            of(&[(1, 6)]),
            of(&[(2, 5)]),
            of(&[(0, 9)]),
            of(&[(1, 4), (2, 8)]),
            of(&[(0, 1), (1, 7), (3, 3)]),
        ];
        for (one, other) in sets
            .iter()
            .flat_map(|one| sets.iter().map(move |it| (one, it)))
        {
            let mut joined = one.clone();
            joined.join(other);
            let mut expected = one.clone();
            for (domain, last) in other.iter() {
                if expected
                    .get(domain)
                    .is_none_or(|have| have.sequence < last.sequence)
                {
                    expected.insert(domain, *last);
                }
            }
            assert_eq!(joined, expected, "{one:?} and {other:?}");
            assert_eq!(one.covers(other), expected == *one, "{one:?} and {other:?}");
        }
        assert_eq!((sets[0].only(), sets[1].only()), (None, Some((1, last(5)))));
    }
}
