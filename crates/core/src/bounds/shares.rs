//! What a shard may have of the queues that have bounds, and what it has.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Answer, Ask, Limit, Limits, Want};
use crate::id::RunId;
use crate::time::Time;
use crate::turn::{Lane, Ready};
use crate::waist::{Shard, Term};

/// Runs that wait, beyond which it makes no difference how many more there are.
const WAITING_MAX: usize = 256;
/// How long there may be room for what waits before it counts as stuck.
const STUCK_AFTER_MS: u64 = 500;
/// How long it counts as that the first time, and at most: it is twice as long each time.
const STUCK_FOR_MS: u64 = 5_000;
const STUCK_FOR_MS_MAX: u64 = 80_000;
/// How long to wait for an answer before it is asked again.
const ANSWER_WITHIN_MS: u64 = 1_000;

/// A shard's part of all queues. What is with workers is counted for every queue, as each may get a
/// bound at any time; the rest exists for queues with bounds only.
#[derive(Debug, Default)]
pub struct Shares {
    limits: Arc<Limits>,
    /// The namespaces of queues that runs were claimed of, and how many are with workers.
    classes: Vec<Class>,
    /// Their places, by queue and namespace.
    places: BTreeMap<String, BTreeMap<String, usize>>,
    /// Runs that are with workers, and the places of their classes: a job may change its queue while
    /// it runs.
    runs: BTreeMap<RunId, usize>,
    /// What is said about queues with bounds.
    talks: BTreeMap<String, Talk>,
    seq: u64,
}

#[derive(Debug)]
struct Class {
    queue: String,
    under_way: u64,
}

/// What this shard and the keeper have said about a queue.
#[derive(Debug, Default)]
struct Talk {
    parts: BTreeMap<String, Part>,
    /// The last ask.
    seq: u64,
    /// What it said; `None` if it has to be said again.
    told: Option<BTreeMap<String, Want>>,
    /// When it was made, if it has not been answered.
    in_flight: Option<Time>,
}

/// What a namespace of a queue may have, and what has come of it.
#[derive(Debug, Default)]
struct Part {
    ceiling: u64,
    launches: u64,
    launched: u64,
    /// Since when there has been room for what waits, and how many were launched then.
    room_since: Option<(Time, u64)>,
    stuck_until: Option<Time>,
    /// How long it was stuck last; 0 if it has launched something since.
    stuck_ms: u64,
}

impl Part {
    fn room(&self, limit: Limit, under_way: u64) -> u64 {
        if limit.paused {
            return 0;
        }
        let seats = match limit.concurrency {
            Some(_) => self.ceiling.saturating_sub(under_way),
            None => u64::MAX,
        };
        match limit.rate_milli {
            0 => seats,
            _ => seats.min(self.launches.saturating_sub(self.launched)),
        }
    }

    /// Whether it has had room for what waits for some time, and did not use it.
    fn look(&mut self, now: Time, idle: bool) -> bool {
        let used = self.room_since.is_some_and(|(_, launched)| launched != self.launched);
        if used {
            self.stuck_ms = 0;
        }
        if used || self.stuck_until.is_some_and(|until| now >= until) {
            (self.stuck_until, self.room_since) = (None, None);
        }
        match self.room_since {
            _ if !idle => self.room_since = None,
            Some((since, _)) if since <= now => {
                if now.since_ms(since) >= STUCK_AFTER_MS && self.stuck_until.is_none() {
                    self.stuck_ms = (2 * self.stuck_ms).clamp(STUCK_FOR_MS, STUCK_FOR_MS_MAX);
                    self.stuck_until = Some(now.plus_ms(self.stuck_ms));
                }
            }
            _ => self.room_since = Some((now, self.launched)),
        }
        self.stuck_until.is_some()
    }
}

impl Shares {
    /// Sets the bounds of all queues. What was left to this shard of one that had none is void.
    pub fn set_limits(&mut self, limits: &Arc<Limits>) {
        if Arc::ptr_eq(&self.limits, limits) {
            return;
        }
        let before = std::mem::replace(&mut self.limits, limits.clone());
        self.talks.retain(|name, _| limits.contains_key(name));
        for (name, limit) in &**limits {
            let talk = self.talks.entry(name.clone()).or_default();
            let old = before.get(name).copied().unwrap_or_default();
            for part in talk.parts.values_mut() {
                if old.concurrency.is_none() {
                    part.ceiling = 0;
                }
                if old.rate_milli == 0 && limit.rate_milli > 0 {
                    part.launches = part.launched;
                }
            }
        }
    }

    /// How many more runs of a lane may be launched now.
    #[must_use]
    pub fn room(&self, lane: &Lane) -> usize {
        let Some(limit) = self.limits.get(&lane.queue) else { return usize::MAX };
        let talk = self.talks.get(&lane.queue);
        let part = talk.and_then(|talk| talk.parts.get(&lane.namespace));
        let under_way = self.under_way_of(&lane.queue, &lane.namespace);
        let room = part
            .map_or_else(|| Part::default().room(*limit, 0), |part| part.room(*limit, under_way));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    fn under_way_of(&self, queue: &str, namespace: &str) -> u64 {
        let place = self.places.get(queue).and_then(|places| places.get(namespace));
        place.map_or(0, |place| self.classes[*place].under_way)
    }

    /// How many runs are with workers, by queue.
    pub fn under_way(&self) -> impl Iterator<Item = (&str, u64)> {
        let busy = self.classes.iter().filter(|class| class.under_way > 0);
        busy.map(|class| (class.queue.as_str(), class.under_way))
    }

    /// A run of a lane was with a worker when the shard was taken over.
    pub fn found(&mut self, run: RunId, lane: &Lane) {
        let place = self.place(lane);
        if self.runs.insert(run, place).is_none() {
            self.classes[place].under_way += 1;
        }
    }

    /// A run of a lane has been claimed.
    pub fn claimed(&mut self, run: RunId, lane: &Lane) {
        self.found(run, lane);
        if let Some(talk) = self.talks.get_mut(&lane.queue) {
            talk.part(&lane.namespace).launched += 1;
        }
    }

    /// A run is with no worker, or not any more.
    pub fn ended(&mut self, run: RunId) {
        if let Some(place) = self.runs.remove(&run) {
            self.classes[place].under_way -= 1;
        }
    }

    fn place(&mut self, lane: &Lane) -> usize {
        let known = self.places.get(&lane.queue).and_then(|places| places.get(&lane.namespace));
        if let Some(place) = known {
            return *place;
        }
        let (queue, namespace) = (lane.queue.clone(), lane.namespace.clone());
        let place = self.classes.len();
        self.places.entry(queue.clone()).or_default().insert(namespace, place);
        self.classes.push(Class { queue, under_way: 0 });
        place
    }

    /// What there is to say to the keeper, once everything has been committed that was claimed and
    /// has ended. What cannot be used is given back with it. Runs of lanes that nobody serves do not
    /// count.
    pub fn tell(
        &mut self,
        (shard, term): (Shard, Term),
        ready: &Ready,
        now: Time,
        serves: &dyn Fn(&Lane) -> bool,
    ) -> Vec<Ask> {
        let mut asks = Vec::new();
        let Shares { limits, classes, places, talks, seq, .. } = self;
        for (queue, talk) in talks {
            let limit = limits.get(queue).copied().unwrap_or_default();
            let line =
                if limit.paused { BTreeMap::new() } else { ready.line(queue, WAITING_MAX, serves) };
            let under_way = places.get(queue);
            for namespace in under_way.into_iter().flat_map(BTreeMap::keys).chain(line.keys()) {
                talk.part(namespace);
            }
            let wants = talk.parts.iter_mut().map(|(namespace, part)| {
                let place = under_way.and_then(|places| places.get(namespace));
                let under_way = place.map_or(0, |place| classes[*place].under_way);
                let (first, waiting, all) = line.get(namespace).copied().unwrap_or_default();
                part.ceiling = part.ceiling.min(under_way.saturating_add(all as u64));
                part.launches = part.launches.min(part.launched.saturating_add(all as u64));
                let stuck = part.look(now, all > 0 && part.room(limit, under_way) > 0);
                let Part { ceiling, launches, launched, .. } = *part;
                let waiting = waiting as u64;
                let want = Want { under_way, ceiling, launched, launches, waiting, first, stuck };
                (namespace.clone(), want)
            });
            let wants = wants.collect();
            talk.look(now);
            if talk.in_flight.is_some() || talk.told.as_ref() == Some(&wants) {
                continue;
            }
            *seq += 1;
            (talk.seq, talk.in_flight, talk.told) = (*seq, Some(now), Some(wants.clone()));
            asks.push(Ask { shard, term, queue: queue.clone(), seq: *seq, wants });
        }
        asks
    }

    /// Takes what the keeper says. Only answers to the last ask count.
    pub fn take(&mut self, answer: &Answer) {
        let Some(talk) = self.talks.get_mut(&answer.queue) else { return };
        match answer.seq {
            None => talk.forget(),
            Some(seq) if seq == talk.seq => {
                talk.in_flight = None;
                let mut changed = false;
                for (namespace, left) in &answer.left {
                    let part = talk.part(namespace);
                    let before = (part.ceiling, part.launches);
                    part.ceiling = left.ceiling;
                    part.launches = left.launches.max(part.launched);
                    changed |= before != (part.ceiling, part.launches);
                }
                // That is to be confirmed, also if it was changed and changed back: until then the
                // keeper counts the most that it may have been.
                if changed {
                    talk.told = None;
                }
            }
            Some(_) => {}
        }
    }

    /// Nobody has heard what was last said about a queue, or somebody else keeps the bounds: it has to
    /// be said again. All queues if none is named.
    pub fn unheard(&mut self, queue: Option<&str>) {
        for (name, talk) in &mut self.talks {
            if queue.is_none_or(|queue| queue == name) {
                talk.forget();
            }
        }
    }

    /// When something is to be said again though nothing has happened.
    #[must_use]
    pub fn next_look(&self) -> Option<Time> {
        let parts = self.talks.values().flat_map(|talk| talk.parts.values());
        let looks = parts.filter_map(|part| match (part.stuck_until, part.room_since) {
            (Some(until), _) => Some(until),
            (None, Some((since, _))) => Some(since.plus_ms(STUCK_AFTER_MS)),
            (None, None) => None,
        });
        let late = |asked: Time| asked.plus_ms(ANSWER_WITHIN_MS);
        let late = self.talks.values().filter_map(|talk| talk.in_flight.map(late));
        looks.chain(late).min()
    }
}

impl Talk {
    fn part(&mut self, namespace: &str) -> &mut Part {
        self.parts.entry(namespace.to_owned()).or_default()
    }

    /// What has not been answered in time is said again. A clock that was set back means now.
    fn look(&mut self, now: Time) {
        let is_late = |asked: Time| asked > now || now.since_ms(asked) >= ANSWER_WITHIN_MS;
        if self.in_flight.is_some_and(is_late) {
            self.forget();
        }
    }

    /// What was said is void, and so are answers to it.
    fn forget(&mut self) {
        (self.told, self.in_flight) = (None, None);
        self.seq = 0;
    }
}
