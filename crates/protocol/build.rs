//! Makes Rust of the protocol, without needing `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        ["bellwether/worker/v1/worker.proto", "bellwether/peer/v1/peer.proto"],
        ["proto"],
    )?;
    tonic_prost_build::configure().bytes(".").compile_fds(files)?;
    Ok(())
}
