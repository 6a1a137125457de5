//! Looking at the stored state the way an API would.

use bellwether_core::id::{JobId, RunId};
use bellwether_core::key::{self, Place};
use bellwether_core::record::{
    self, Audit, EventKind, Filed, JobState, Run, RunRow, RunStatus, Tick, TickFate,
};
use bellwether_core::time::Time;
use bellwether_core::waist::{Family, View};

use super::{World, ZERO};

impl World {
    /// A run, open or ended.
    pub fn find_run(&self, id: RunId) -> Option<Run> {
        if let Some(row) = self.store.read::<RunRow>(Family::Active, &key::run(id)) {
            return row.run;
        }
        let compact = (id.n == 1)
            .then(|| self.store.read::<Filed>(Family::Index, &key::job(id.job)))
            .flatten();
        let filed = compact.or_else(|| self.store.read(Family::State, &key::run(id)))?;
        let place = Place { class: filed.class as u16, time: Time(filed.time_ms), run: id };
        if self.is_pruned(&place) {
            return None;
        }
        self.store.read::<RunRow>(Family::History, &place.history())?.run
    }

    /// Whether a place in history has been pruned: readers must not look there.
    pub fn is_pruned(&self, place: &Place) -> bool {
        let upto = self.memory.row.classes.get(&u32::from(place.class));
        upto.is_some_and(|upto| place.time.0 < *upto)
    }

    pub fn run(&self, id: RunId) -> Run {
        self.find_run(id).unwrap_or_else(|| panic!("there is no {id}"))
    }

    pub fn status(&self, id: RunId) -> RunStatus {
        self.run(id).status()
    }

    /// What happened to a run, in order.
    pub fn events(&self, id: RunId) -> Vec<EventKind> {
        self.run(id).events.iter().map(|event| event.kind()).collect()
    }

    /// The reason of the last event of a run.
    pub fn reason(&self, id: RunId) -> String {
        self.run(id).events.last().unwrap().reason.clone()
    }

    /// The state of a job in full form.
    pub fn state(&self, job: JobId) -> JobState {
        self.store.read(Family::State, &key::job(job)).unwrap()
    }

    pub fn is_compact(&self, job: JobId) -> bool {
        self.store.has(Family::Index, &key::job(job))
    }

    /// The next tick of a job in full form, in seconds from zero.
    pub fn next_second(&self, job: JobId) -> Option<i64> {
        self.state(job).next_ms.map(|ms| (ms - ZERO.0) / 1_000)
    }

    /// The rows of a job's ledger.
    pub fn ledger(&self, job: JobId) -> Vec<(Time, Tick)> {
        let (from, to) = key::runs(job);
        self.store
            .scan(Family::Tick, &from, &to)
            .map(|row| {
                let (key, value) = row.unwrap();
                (key::read_tick(&key).unwrap(), record::decode("tick", value).unwrap())
            })
            .collect()
    }

    /// The ledger in words: `60 fired`, `120-300 x4 skipped:misfire`, `180 merged>300`.
    pub fn ledger_text(&self, job: JobId) -> Vec<String> {
        let second = |ms: i64| (ms - ZERO.0) / 1_000;
        self.ledger(job)
            .iter()
            .map(|(time, row)| {
                let mut text = second(time.0).to_string();
                if row.count > 1 {
                    text += &format!("-{} x{}", second(row.until_ms), row.count);
                }
                text += match row.fate() {
                    TickFate::Fired => " fired",
                    TickFate::Late => " late",
                    TickFate::Merged => " merged",
                    TickFate::Skipped => " skipped",
                    TickFate::Triggered => " triggered",
                };
                match row.fate() {
                    TickFate::Merged => text += &format!(">{}", second(row.into_ms)),
                    TickFate::Skipped => text += &format!(":{}", row.reason),
                    _ => {}
                }
                text
            })
            .collect()
    }

    /// The audit log: what, and on what.
    pub fn audits(&self) -> Vec<Audit> {
        let rows = self.store.rows(Family::Audit);
        rows.into_iter().map(|(_, value)| record::decode("audit", value).unwrap()).collect()
    }

    /// The actions in the audit log.
    pub fn actions(&self) -> Vec<String> {
        self.audits().into_iter().map(|entry| entry.action).collect()
    }

    /// The families in which there is anything, but for the shard's own record and the audit log.
    pub fn leftovers(&self) -> Vec<(&'static str, usize)> {
        Family::ALL
            .into_iter()
            .filter(|family| !matches!(family, Family::Meta | Family::Audit))
            .map(|family| {
                let kept = |key: &[u8]| match family {
                    Family::History | Family::Output => !self.is_pruned(&Place::read(key).unwrap()),
                    _ => true,
                };
                let rows = self.store.rows(family);
                (family.name(), rows.iter().filter(|(key, _)| kept(key)).count())
            })
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}
