/work/main/tests/target/release/deps/lexopt-92aeb5c146b5f172.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lexopt-0.3.2/src/lib.rs

/work/main/tests/target/release/deps/liblexopt-92aeb5c146b5f172.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lexopt-0.3.2/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/lexopt-0.3.2/src/lib.rs:
