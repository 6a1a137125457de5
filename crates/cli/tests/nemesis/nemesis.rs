//! Whoever makes things go wrong: one fault after the other, of all kinds, as chance wants it.

use std::time::{Duration, Instant};

use crate::random::Random;
use crate::server::Cluster;

/// Something that goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    /// A process is killed.
    Kill,
    /// A machine goes down, with all that runs on it.
    KillMachine,
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
}

const FAULTS: [Fault; 9] = [
    Fault::Kill,
    Fault::Pause,
    Fault::Isolate,
    Fault::FillDisk,
    Fault::Skew,
    Fault::Deaf,
    Fault::KillMachine,
    Fault::Mute,
    Fault::Split,
];

/// The shortest time that a fault lasts: longer than it takes the others to lead in a node's place.
const LASTS_MIN: u64 = 2_200;
/// How much longer it may last.
const LASTS_MORE: u64 = 1_500;
/// The longest time of peace between two faults.
const PEACE_MAX: u64 = 1_000;

/// Makes things go wrong.
pub struct Nemesis<'a> {
    cluster: &'a Cluster,
    random: Random,
    /// By how many seconds clocks may be wrong.
    skew_max: i64,
}

impl<'a> Nemesis<'a> {
    /// One that is driven by a seed.
    pub fn new(cluster: &'a Cluster, seed: u64, skew_max: i64) -> Nemesis<'a> {
        Nemesis { cluster, random: Random::new(seed), skew_max }
    }

    /// Makes things go wrong for a while, then mends everything. Every kind comes once before any comes
    /// again.
    pub async fn rage(&mut self, lasting: Duration) {
        let begun = Instant::now();
        let mut deck = Vec::new();
        while begun.elapsed() < lasting {
            if deck.is_empty() {
                deck = FAULTS.to_vec();
            }
            let fault = deck.swap_remove(self.random.below(deck.len() as u64) as usize);
            self.inflict(fault).await;
            self.random.moment_within(PEACE_MAX).await;
        }
        self.mend();
    }

    fn note(&self, what: String) {
        self.cluster.history.note(what);
    }

    fn any_node(&mut self) -> usize {
        self.random.below(self.cluster.len() as u64) as usize
    }

    /// A victim: often one that leads much, for little happens to the others.
    async fn victim(&mut self) -> usize {
        match self.random.below(2) {
            0 => self.cluster.most_leading_first().await[0],
            _ => self.any_node(),
        }
    }

    /// Lets time go by while something is wrong.
    async fn endure(&mut self) {
        self.random.moment_after(LASTS_MIN, LASTS_MORE).await;
    }

    async fn inflict(&mut self, fault: Fault) {
        let victim = self.victim().await;
        let name = self.cluster.name(victim);
        match fault {
            Fault::Kill | Fault::KillMachine => {
                self.note(format!("{fault:?} {name}"));
                self.cluster.kill(victim, fault == Fault::KillMachine);
                self.endure().await;
                self.note(format!("{name} is started again"));
                self.cluster.start_node(victim);
            }
            Fault::Pause => {
                self.note(format!("Pause {name}"));
                self.cluster.pause(victim);
                self.endure().await;
                self.note(format!("{name} goes on"));
                self.cluster.resume(victim);
            }
            Fault::Isolate | Fault::Deaf | Fault::Mute => {
                self.note(format!("{fault:?} {name}"));
                self.cut(&[victim], fault != Fault::Mute, fault != Fault::Deaf);
                self.endure().await;
                self.heal();
            }
            Fault::Split => {
                let size = (self.cluster.len() - 1) / 2;
                let minority: Vec<usize> =
                    (0..size).map(|n| (victim + n) % self.cluster.len()).collect();
                let names: Vec<_> = minority.iter().map(|at| self.cluster.name(*at)).collect();
                self.note(format!("Split {} from the others", names.join(", ")));
                self.cut(&minority, true, true);
                self.endure().await;
                self.heal();
            }
            Fault::FillDisk => {
                self.note(format!("FillDisk {name}"));
                self.cluster.fill_disk(victim);
                self.endure().await;
                self.note(format!("{name} has room again"));
                self.cluster.node(victim).disk.free();
            }
            Fault::Skew => self.skew(),
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

    fn heal(&self) {
        self.note("the network is whole again".to_owned());
        self.cluster.net.heal();
    }

    /// Sets the clock of a node that has one, or of several. They stay like that.
    fn skew(&mut self) {
        for at in 0..self.cluster.len() {
            let span = 2 * self.skew_max.unsigned_abs() + 1;
            let seconds = self.random.below(span).cast_signed() - self.skew_max;
            if let Some(clock) = &self.cluster.node(at).clock
                && self.random.below(2) == 0
            {
                self.note(format!("Skew {} by {seconds} s", self.cluster.name(at)));
                clock.set(seconds);
            }
        }
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
