//! Makes Rust of the protocol, without needing `protoc`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(
        [
            "bellwether/worker/v1/worker.proto",
            "bellwether/peer/v1/peer.proto",
            "bellwether/node/v1/node.proto",
            "bellwether/node/v1/live.proto",
            "bellwether/node/v1/rows.proto",
        ],
        ["proto"],
    )?;
    tonic_prost_build::configure().bytes(".").btree_map(".bellwether.node").compile_fds(files)?;
    Ok(())
}
