/work/main/tests/target/release/deps/bitflags-94f5099961cf77c8.d: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/bitflags-1.3.2/src/lib.rs

/work/main/tests/target/release/deps/libbitflags-94f5099961cf77c8.rmeta: /root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/bitflags-1.3.2/src/lib.rs

/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f/bitflags-1.3.2/src/lib.rs:
