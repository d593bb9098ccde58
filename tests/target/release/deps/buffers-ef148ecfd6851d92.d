/work/main/tests/target/release/deps/buffers-ef148ecfd6851d92.d: selftests/src/bin/buffers.rs

/work/main/tests/target/release/deps/libbuffers-ef148ecfd6851d92.rmeta: selftests/src/bin/buffers.rs

selftests/src/bin/buffers.rs:
