//! A connection that can be cut without a word to either end.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Passes bytes on to a server, until it is cut.
pub struct Wire {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
}

impl Wire {
    pub fn to(server: &str) -> Wire {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(AtomicBool::new(false));
        let (server, is_cut) = (server.to_owned(), cut.clone());
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let Ok(far) = TcpStream::connect(&server) else { continue };
                pass(near.try_clone().unwrap(), far.try_clone().unwrap(), is_cut.clone());
                pass(far, near, is_cut.clone());
            }
        });
        Wire { address, cut }
    }

    /// From here on nothing comes through, and nobody is told.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::SeqCst);
    }

    /// New connections work again; what was under way when it was cut is lost.
    pub fn heal(&self) {
        self.cut.store(false, Ordering::SeqCst);
    }
}

/// Passes bytes one way. A connection that was cut stays so: it swallows all that comes.
fn pass(mut from: TcpStream, mut to: TcpStream, cut: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        let mut buffer = [0; 16 * 1024];
        let mut lost = false;
        while let Ok(read @ 1..) = from.read(&mut buffer) {
            lost |= cut.load(Ordering::SeqCst);
            if !lost && to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        if !lost {
            let _ = to.shutdown(std::net::Shutdown::Write);
        }
    });
}
