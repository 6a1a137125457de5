"""Being a worker: what leases runs, keeps them, has them handled and says how they ended.

Start reading at `worker`. The server is authoritative: a run is the worker's only until its lease
ends, and the worker stops its own work before that can have happened (`held`). Threads speak with
the server (`engine`, `reports`), so an event loop that a handler blocks costs no lease.

    engine: poller ──lease──► held ──► execute: handlers ──► reports ──complete──► server
            beater ──heartbeat (all that is held)──► extends, stops, loses
            watcher ──on the lease clock──► stops what may be another's soon
"""
