/work/main/tests/target/release/deps/shared_buffers-9ae99fb75349e294.d: selftests/src/bin/shared-buffers.rs

/work/main/tests/target/release/deps/libshared_buffers-9ae99fb75349e294.rmeta: selftests/src/bin/shared-buffers.rs

selftests/src/bin/shared-buffers.rs:
