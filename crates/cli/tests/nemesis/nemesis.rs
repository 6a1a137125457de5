//! Whoever makes things go wrong: one fault after the other, of all kinds, as chance wants it, and now and then
//! two at once. While one fault leaves a majority, the majority has to go on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use crate::load::Load;
use crate::random::Random;
use crate::record::{Mark, Record};
use crate::server::{Cluster, until};
use crate::worker;

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A process is killed.
    Kill,
    /// A machine goes down, with all that runs on it.
    KillMachine,
    /// A process is told to end, and hands over what it leads if it can.
    Stop,
    /// A process stands still.
    Pause,
    /// A node is cut off from all others.
    Isolate,
    /// A node hears nobody, but is heard.
    Deaf,
    /// A node hears all, but is heard by nobody.
    Mute,
    /// A minority is cut off from the majority.
    Split,
    /// A disk is full.
    FillDisk,
    /// A clock jumps.
    Skew,
    /// The worker is killed, and what it runs is not.
    KillWorker,
    /// The worker stands still, and what it runs does not.
    PauseWorker,
    /// The worker is cut off from all nodes.
    CutWorker,
}

/// What can happen to nodes.
const FAULTS: [Fault; 10] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Isolate,
    Fault::FillDisk,
    Fault::Skew,
    Fault::Deaf,
    Fault::KillMachine,
    Fault::Mute,
    Fault::Split,
    Fault::Stop,
];
/// What can happen to the worker, if there is one.
const OF_THE_WORKER: [Fault; 3] = [Fault::KillWorker, Fault::PauseWorker, Fault::CutWorker];

/// The shortest time that a fault lasts: longer than it takes the others to lead in a node's place.
const LASTS_MIN: u64 = 2_200;
/// How much longer it may last.
const LASTS_MORE: u64 = 1_500;
/// The longest time of peace between two faults.
const PEACE_MAX: u64 = 1_000;
/// How soon the majority goes on without some nodes, if clocks are right: it elects leaders, the next
/// ticks come, and all that on a machine that is busy.
const GOES_ON_WITHIN: Duration = Duration::from_secs(20);

/// How exactly nodes tell how wrong a clock is.
const CLOCK_READ_MS: u64 = 500;

/// A fault, whom it strikes, and for how long.
struct Stroke {
    fault: Fault,
    victims: Vec<usize>,
    lasts_ms: u64,
}

/// Makes things go wrong.
pub struct Nemesis<'a> {
    cluster: &'a Cluster,
    load: &'a Load<'a>,
    record: &'a Record,
    random: Random,
    /// By how many seconds clocks may be wrong.
    skew_max: i64,
}

impl<'a> Nemesis<'a> {
    /// One that is driven by a seed.
    pub fn new(
        cluster: &'a Cluster,
        load: &'a Load<'a>,
        record: &'a Record,
        seed: u64,
        skew_max: i64,
    ) -> Nemesis<'a> {
        Nemesis { cluster, load, record, random: Random::new(seed), skew_max }
    }

    /// Makes things go wrong for a while, then mends everything. Some kinds come first, whatever time that
    /// takes, then two faults at once; then every kind comes once before any comes again.
    pub async fn rage(&mut self, lasting: Duration, first: &[Fault]) {
        let begun = Instant::now();
        let mut deck = first.to_vec();
        while !deck.is_empty() {
            self.next(&mut deck).await;
        }
        self.strike_twice().await;
        deck = self.all().filter(|fault| !first.contains(fault)).collect();
        while begun.elapsed() < lasting {
            if deck.is_empty() {
                deck = self.all().collect();
                self.strike_twice().await;
            }
            self.next(&mut deck).await;
        }
        self.mend();
    }

    /// Everything that can happen here.
    fn all(&self) -> impl Iterator<Item = Fault> + use<> {
        let of_the_worker = if self.cluster.has_worker() { &OF_THE_WORKER[..] } else { &[] };
        FAULTS.into_iter().chain(of_the_worker.iter().copied())
    }

    /// Draws a fault from a deck, and lets it happen.
    async fn next(&mut self, deck: &mut Vec<Fault>) {
        let fault = deck.swap_remove(self.random.below(deck.len() as u64) as usize);
        if fault == Fault::Skew {
            return self.skew().await;
        }
        let stroke = self.aim(fault).await;
        let mut expected = self.load.to_go_on_without(&stroke.victims).await;
        if fault == Fault::FillDisk {
            // It may still have room for what little it writes.
            expected.values_mut().for_each(|term| *term = 0);
        }
        let mark = self.record.mark();
        tokio::join!(self.strike(&stroke), self.goes_on(mark, &expected));
        self.end(&stroke).await;
        self.random.moment_within(PEACE_MAX).await;
    }

    /// Two faults of different nodes at once, perhaps too many for a majority: then nothing has to go
    /// on meanwhile, but nothing may be lost or doubled either.
    async fn strike_twice(&mut self) {
        let some =
            [Fault::Isolate, Fault::Deaf, Fault::Mute, Fault::Pause, Fault::FillDisk, Fault::Stop];
        let fault = some[self.random.below(some.len() as u64) as usize];
        let one = self.aim(fault).await;
        let fault = [Fault::Kill, Fault::KillMachine][self.random.below(2) as usize];
        let mut other = self.aim(fault).await;
        if other.victims == one.victims {
            other.victims = vec![(one.victims[0] + 1) % self.cluster.len()];
        }
        tokio::join!(self.strike(&one), self.strike(&other));
        self.end(&one).await;
        self.end(&other).await;
        self.random.moment_within(PEACE_MAX).await;
    }

    fn note(&self, what: String) {
        self.cluster.history.note(what);
    }

    /// Chooses whom a fault strikes: often a node that leads much, for little happens to the others.
    async fn aim(&mut self, fault: Fault) -> Stroke {
        let all = self.cluster.len();
        let victim = match self.random.below(2) {
            0 => self.cluster.most_leading_first().await[0],
            _ => self.random.below(all as u64) as usize,
        };
        let size = match fault {
            fault if OF_THE_WORKER.contains(&fault) => 0,
            Fault::Split => (all - 1) / 2,
            _ => 1,
        };
        let victims = (0..size).map(|n| (victim + n) % all).collect();
        Stroke { fault, victims, lasts_ms: LASTS_MIN + self.random.below(LASTS_MORE) }
    }

    fn names(&self, stroke: &Stroke) -> String {
        let names: Vec<_> = stroke.victims.iter().map(|at| self.cluster.name(*at)).collect();
        if names.is_empty() { worker::NAME.to_owned() } else { names.join(", ") }
    }

    /// Lets a fault happen, and time go by.
    async fn strike(&self, stroke: &Stroke) {
        let Stroke { fault, victims, lasts_ms } = stroke;
        self.note(format!("{fault:?} {}", self.names(stroke)));
        for victim in victims {
            match fault {
                Fault::Kill => self.cluster.kill(*victim, false),
                Fault::KillMachine => self.cluster.kill(*victim, true),
                Fault::Stop => self.cluster.tell_to_stop(*victim),
                Fault::Pause => self.cluster.pause(*victim),
                Fault::FillDisk => self.cluster.fill_disk(*victim),
                _ => {}
            }
        }
        match fault {
            Fault::Isolate | Fault::Split => self.cut(victims, true, true),
            Fault::Deaf => self.cut(victims, true, false),
            Fault::Mute => self.cut(victims, false, true),
            Fault::KillWorker => self.cluster.kill_worker(),
            Fault::PauseWorker => self.cluster.signal_worker(Signal::SIGSTOP),
            Fault::CutWorker => self.cut(&[self.cluster.len()], true, true),
            _ => {}
        }
        Random::new(1).moment_after(*lasts_ms, 1).await;
    }

    /// It is over.
    async fn end(&self, stroke: &Stroke) {
        self.note(format!("{:?} {} is over", stroke.fault, self.names(stroke)));
        for victim in &stroke.victims {
            match stroke.fault {
                Fault::Kill | Fault::KillMachine => self.cluster.start_node(*victim),
                Fault::Stop => {
                    // Without a majority it has nobody to hand over to, and ends all the same.
                    self.cluster.until_stopped(*victim).await;
                    self.cluster.start_node(*victim);
                }
                Fault::Pause => self.cluster.resume(*victim),
                Fault::FillDisk => self.cluster.node(*victim).disk.free(),
                Fault::Isolate | Fault::Deaf | Fault::Mute | Fault::Split => {
                    self.cluster.net.heal();
                }
                _ => {}
            }
        }
        match stroke.fault {
            Fault::KillWorker => self.cluster.start_worker(),
            Fault::PauseWorker => self.cluster.signal_worker(Signal::SIGCONT),
            Fault::CutWorker => self.cluster.net.heal(),
            _ => {}
        }
    }

    /// Waits until one of some jobs is launched, under a newer term than it was.
    async fn goes_on(&self, mark: Mark, expected: &BTreeMap<String, u64>) {
        if expected.is_empty() {
            return; // All that ticks has most of its replicas where the fault is.
        }
        let begun = Instant::now();
        let within = GOES_ON_WITHIN + Duration::from_secs(2 * self.skew_max.unsigned_abs());
        let mut look = tokio::time::interval(Duration::from_millis(50));
        loop {
            let launched = self.record.since(mark).into_iter().find(|effect| {
                effect.begins() && expected.get(&effect.key).is_some_and(|t| effect.term() > *t)
            });
            if let Some(launched) = launched {
                let (took, key) = (begun.elapsed().as_secs_f64(), launched.key);
                return self.note(format!("{key} goes on after {took:.1} s"));
            }
            assert!(begun.elapsed() < within, "R116: nobody launches any of {expected:?}");
            look.tick().await;
        }
    }

    /// Cuts some nodes off from the others: what they are sent, what they send, or both.
    fn cut(&self, some: &[usize], inwards: bool, outwards: bool) {
        for inner in some {
            for outer in (0..self.cluster.len()).filter(|at| !some.contains(at)) {
                if inwards {
                    self.cluster.net.cut(outer, *inner);
                }
                if outwards {
                    self.cluster.net.cut(*inner, outer);
                }
            }
        }
    }

    /// Sets the clock of a node that has one, or of several. They stay like that, and the cluster says so.
    async fn skew(&mut self) {
        let mut set = BTreeMap::new();
        for at in 0..self.cluster.len() {
            let span = 2 * self.skew_max.unsigned_abs() + 1;
            let seconds = self.random.below(span).cast_signed() - self.skew_max;
            if let Some(clock) = &self.cluster.node(at).clock
                && self.random.below(2) == 0
            {
                self.note(format!("Skew {} by {seconds} s", self.cluster.name(at)));
                clock.set(seconds);
                set.insert(self.cluster.name(at), 1_000 * seconds);
            }
        }
        let client = self.cluster.client_of_right_clock();
        until("it is told which clocks are wrong", async || {
            let Ok(cluster) = client.cluster().await else { return false };
            set.iter().all(|(name, ahead_ms)| {
                let node = cluster.nodes.iter().find(|node| node.name == *name);
                node.is_some_and(|node| node.clock_ahead_ms.abs_diff(*ahead_ms) < CLOCK_READ_MS)
            })
        })
        .await;
    }

    /// Everything is as it should be again.
    fn mend(&self) {
        self.note("everything is mended".to_owned());
        self.cluster.net.heal();
        for at in 0..self.cluster.len() {
            self.cluster.resume(at);
            let mut node = self.cluster.node(at);
            node.disk.free();
            if let Some(clock) = &node.clock {
                clock.set(0);
            }
        }
    }
}
