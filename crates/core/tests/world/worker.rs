//! Virtual workers: what they start, and what they say about it.

use bellwether_core::id::RunId;
use bellwether_core::record::{Definition, OutputChunk};
use bellwether_core::time::Time;
use bellwether_core::turn::{Assignment, Ending, Finished, Input, Reply, Report, Reported};

use super::World;

/// What a worker does with an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Behaviour {
    /// It goes on until a test says how it ends.
    Wait,
    /// It ends after so many milliseconds.
    Ends(Ending, u64),
    /// It never says anything, whatever happens.
    Silent,
}

/// An attempt that was really started.
#[derive(Clone, Debug)]
pub struct Start {
    pub run: RunId,
    pub attempt: u32,
    pub token: u64,
    pub at: Time,
    pub scheduled: Time,
    pub worker: String,
    pub pinned: String,
    pub definition: Definition,
}

impl World {
    /// A worker gets an attempt and starts it.
    pub fn start(&mut self, assignment: &Assignment) {
        let own = assignment.pinned.is_empty() || assignment.pinned == assignment.worker;
        assert!(own, "{} is another worker's", assignment.run);
        let start = Start {
            run: assignment.run,
            attempt: assignment.attempt,
            token: assignment.token,
            at: self.now,
            scheduled: assignment.scheduled,
            worker: assignment.worker.clone(),
            pinned: assignment.pinned.clone(),
            definition: assignment.definition.clone(),
        };
        if self.eager {
            self.starts.push(start.clone());
        }
        let (run, token) = (start.run, start.token);
        self.handed.push(start.clone());
        self.running.insert(run, start);
        let behaviour = *self.behaviour_of.get(&assignment.run.job).unwrap_or(&self.behaviour);
        if let Behaviour::Ends(how, after_ms) = behaviour {
            let at = self.now.plus_ms(after_ms);
            self.coming.push((self.now, started(run, token, self.now)));
            self.coming.push((at, finished(run, token, at, how)));
        }
    }

    /// A worker stops an attempt when asked, and says so, unless it is one that is silent.
    pub fn asked_to_stop(&mut self, run: RunId, token: u64) {
        self.stops.push((run, token));
        let with_us = self.running.get(&run).is_some_and(|start| start.token == token);
        let behaviour = *self.behaviour_of.get(&run.job).unwrap_or(&self.behaviour);
        if with_us && matches!(behaviour, Behaviour::Ends(..)) {
            self.coming.retain(|(_, input)| !is_report_of(input, run, token));
            self.coming.push((self.now, finished(run, token, self.now, Ending::Canceled)));
        }
    }

    /// A worker that reports an end has the attempt no longer.
    pub fn let_go_of(&mut self, input: &Input) {
        if let Input::Report(Report { run, token, what }) = input
            && matches!(what, Reported::Finished(_) | Reported::HandedBack)
            && self.running.get(run).is_some_and(|start| start.token == *token)
        {
            self.running.remove(run);
        }
    }

    /// A worker says how its attempt of a run ended.
    pub fn end(&mut self, run: RunId, how: Ending) -> Reply {
        let start = self.running.remove(&run).unwrap_or_else(|| panic!("{run} is not running"));
        let reply = self.tell(finished(run, start.token, self.now, how));
        self.settle();
        reply
    }

    pub fn succeed(&mut self, run: RunId) {
        assert_eq!(self.end(run, Ending::Succeeded), Reply::Done);
    }

    pub fn fail(&mut self, run: RunId) {
        assert_eq!(self.end(run, Ending::Failed), Reply::Done);
    }

    /// The worker of a run is gone for good.
    pub fn lose(&mut self, run: RunId) -> Reply {
        let token = self.running.remove(&run).map_or(0, |start| start.token);
        let reply = self.tell(Input::Lost { run, token, detail: "no heartbeat".to_owned() });
        self.settle();
        reply
    }

    /// The runs that workers have, in order.
    pub fn with_workers(&self) -> Vec<RunId> {
        self.running.keys().copied().collect()
    }

    /// When things were started, in seconds from zero.
    pub fn start_seconds(&self) -> Vec<i64> {
        self.starts.iter().map(|start| (start.at.0 - super::ZERO.0) / 1_000).collect()
    }

    /// The numbers of the runs of a job that were started, in order.
    pub fn started(&self, job: bellwether_core::id::JobId) -> Vec<u32> {
        self.starts.iter().filter(|s| s.run.job == job).map(|s| s.run.n).collect()
    }
}

/// "It has been started."
pub fn started(run: RunId, token: u64, at: Time) -> Input {
    Input::Report(Report { run, token, what: Reported::Started { at } })
}

/// "It was given back."
pub fn handed_back(run: RunId, token: u64) -> Input {
    Input::Report(Report { run, token, what: Reported::HandedBack })
}

/// "It has printed something."
pub fn printed(run: RunId, token: u64, sequence: u32, text: &str) -> Input {
    let data = bytes::Bytes::copy_from_slice(text.as_bytes());
    let chunks = vec![OutputChunk { stream: 1, data, dropped_before: 0 }];
    Input::Report(Report { run, token, what: Reported::Output { sequence, chunks } })
}

/// "It has ended."
pub fn finished(run: RunId, token: u64, at: Time, how: Ending) -> Input {
    let exit_code = match how {
        Ending::Succeeded => Some(0),
        Ending::Failed | Ending::FailedForGood => Some(1),
        Ending::Canceled | Ending::Interrupted => None,
    };
    let finished = Finished { exit_code, ..Finished::at(at, how) };
    Input::Report(Report { run, token, what: Reported::Finished(Box::new(finished)) })
}

fn is_report_of(input: &Input, id: RunId, under: u64) -> bool {
    matches!(input, Input::Report(Report { run, token, .. }) if *run == id && *token == under)
}
