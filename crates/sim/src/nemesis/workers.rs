//! What happens to workers.

use super::Nemesis;

impl Nemesis {
    /// A worker stands still, dies with its work or without, or loses its connections.
    pub(super) async fn hurt_worker(&self) {
        let Some(worker) = self.chance.lock().of(&self.workers).cloned() else { return };
        let place = worker.place;
        let after = self.ms(200, 9_000);
        match self.below(4) {
            0 => {
                self.tell(format_args!("worker {place} stands still"));
                self.world.saw("a worker stood still");
                worker.pause();
                tokio::time::sleep(self.ms(500, 15_000)).await;
                self.tell(format_args!("worker {place} goes on"));
                worker.resume();
            }
            1 => {
                self.tell(format_args!("worker {place} dies with its work"));
                self.world.saw("a worker died with its work");
                worker.die(true);
                tokio::time::sleep(after).await;
                worker.come_back();
            }
            2 => {
                self.tell(format_args!("the process of worker {place} dies"));
                self.world.saw("a worker's process died");
                worker.die(false);
                tokio::time::sleep(after).await;
                worker.come_back();
            }
            _ => {
                self.tell(format_args!("worker {place} is cut off"));
                self.world.saw("a worker was cut off");
                let one_way = self.below(2) == 0;
                let mut ways = Vec::new();
                for node in self.world.places() {
                    ways.push((place, node));
                    ways.extend((!one_way).then_some((node, place)));
                }
                self.world.links.cut(&ways);
                tokio::time::sleep(after).await;
                self.world.links.uncut(&ways);
            }
        }
    }
}
