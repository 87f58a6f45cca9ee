//! Who is connected, and who may come: so many connections in all, and so many from one address.
//!
//! A connection either works, or waits for its client: for a request, for the rest of one, or for the
//! client to take its answer. Where there is no place, a newcomer gets that of the connection that has waited
//! longest. So clients who send half a request, or read nothing, keep nobody out; only work does.
//!
//! Invariants: pure; the order of calls is the only clock.

use std::collections::BTreeMap;
use std::net::IpAddr;

/// How many connections there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) connections_max: usize,
    pub(crate) address_connections_max: usize,
}

/// A connection's number.
pub(crate) type Id = u64;

/// All connections; `E` is what ends one.
#[derive(Debug)]
pub(crate) struct Census<E> {
    limits: Limits,
    /// Counts calls.
    now: u64,
    places: BTreeMap<Id, Place<E>>,
}

#[derive(Debug)]
struct Place<E> {
    /// `None` for a load balancer's connection until it has said where its client is.
    address: Option<IpAddr>,
    end: E,
    /// Since when it waits for its client; `None` while it works.
    waits_since: Option<u64>,
}

/// Whether a newcomer has a place.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission<E> {
    Welcome(Id),
    /// It has that of another one, which is to be ended by this.
    InPlaceOf(E, Id),
    Refused(Full),
}

/// Which limit is reached, by work alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Address,
    Door,
}

impl<E> Census<E> {
    /// Nobody yet.
    pub(crate) fn new(limits: Limits) -> Census<E> {
        Census {
            limits,
            now: 0,
            places: BTreeMap::new(),
        }
    }

    /// A client connects. It waits for its first request at once. One whose address is not known yet
    /// counts for the door only, until it [`Census::is_at`] one.
    pub(crate) fn admit(&mut self, address: Option<IpAddr>, end: E) -> Admission<E> {
        let ended = if let Some(address) = address.filter(|it| self.is_full_of(*it)) {
            match self.longest_waiting(|place| place.address == Some(address)) {
                None => return Admission::Refused(Full::Address),
                other => other,
            }
        } else if self.places.len() >= self.limits.connections_max {
            match self.longest_waiting(|_| true) {
                None => return Admission::Refused(Full::Door),
                other => other,
            }
        } else {
            None
        };
        let ended = ended.and_then(|id| self.places.remove(&id));
        let id = self.tick();
        let place = Place {
            address,
            end,
            waits_since: Some(id),
        };
        self.places.insert(id, place);
        match ended {
            None => Admission::Welcome(id),
            Some(other) => Admission::InPlaceOf(other.end, id),
        }
    }

    /// A connection's client is at this address. Gives what ends the connection whose place it has now, if
    /// there is one.
    ///
    /// # Errors
    /// All connections of the address are at work.
    pub(crate) fn is_at(&mut self, id: Id, address: IpAddr) -> Result<Option<E>, Full> {
        let mut ended = None;
        if self.is_full_of(address) {
            let other = self.longest_waiting(|place| place.address == Some(address));
            let other = other.ok_or(Full::Address)?;
            ended = self.places.remove(&other).map(|place| place.end);
        }
        if let Some(place) = self.places.get_mut(&id) {
            place.address = Some(address);
        }
        Ok(ended)
    }

    fn is_full_of(&self, address: IpAddr) -> bool {
        let places = self.places.values();
        let same = places.filter(|place| place.address == Some(address));
        same.count() >= self.limits.address_connections_max
    }

    /// It waits for its client from now on.
    pub(crate) fn waits(&mut self, id: Id) {
        let now = self.tick();
        if let Some(place) = self.places.get_mut(&id) {
            place.waits_since = Some(now);
        }
    }

    /// It works for its client from now on.
    pub(crate) fn works(&mut self, id: Id) {
        if let Some(place) = self.places.get_mut(&id) {
            place.waits_since = None;
        }
    }

    /// It has ended.
    pub(crate) fn leaves(&mut self, id: Id) {
        self.places.remove(&id);
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    fn longest_waiting(&self, of: impl Fn(&Place<E>) -> bool) -> Option<Id> {
        let candidates = self.places.iter().filter(|(_, place)| of(place));
        let waiting = candidates.filter_map(|(&id, place)| Some((place.waits_since?, id)));
        waiting.min().map(|(_, id)| id)
    }

    fn tick(&mut self) -> u64 {
        self.now += 1;
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    fn census(connections_max: usize, address_connections_max: usize) -> Census<&'static str> {
        Census::new(Limits {
            connections_max,
            address_connections_max,
        })
    }

    fn welcome(census: &mut Census<&'static str>, address: IpAddr, name: &'static str) -> Id {
        match census.admit(Some(address), name) {
            Admission::Welcome(id) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn who_waits_longest_gives_way() {
        let mut census = census(3, 3);
        let first = welcome(&mut census, HERE, "first");
        welcome(&mut census, THERE, "second");
        welcome(&mut census, HERE, "third");
        // It has had a request since, and waits for the next one.
        census.works(first);
        census.waits(first);
        let fourth = census.admit(Some(THERE), "fourth");
        assert!(
            matches!(fourth, Admission::InPlaceOf("second", _)),
            "{fourth:?}"
        );
        assert_eq!(census.len(), 3);
    }

    #[test]
    fn an_address_has_so_many_and_takes_no_place_of_others() {
        let mut census = census(10, 2);
        let other = welcome(&mut census, THERE, "other");
        let working = welcome(&mut census, HERE, "working");
        census.works(working);
        welcome(&mut census, HERE, "waiting");
        let next = census.admit(Some(HERE), "next");
        assert!(
            matches!(next, Admission::InPlaceOf("waiting", id) if id != other),
            "{next:?}"
        );
        welcome(&mut census, THERE, "another");
    }

    #[test]
    fn only_work_keeps_others_out() {
        let mut census = census(2, 1);
        let here = welcome(&mut census, HERE, "here");
        census.works(here);
        assert_eq!(
            census.admit(Some(HERE), "no"),
            Admission::Refused(Full::Address)
        );
        let there = welcome(&mut census, THERE, "there");
        census.works(there);
        let third = IpAddr::from([10, 0, 0, 3]);
        assert_eq!(
            census.admit(Some(third), "no"),
            Admission::Refused(Full::Door)
        );
        census.leaves(here);
        welcome(&mut census, third, "yes");
        // What a connection says after it has lost its place changes nothing.
        census.waits(here);
        assert_eq!(census.len(), 2);
    }
}
