/work/main/tests/target/release/deps/vector-2183cb2c640e5875.d: selftests/src/bin/vector.rs

/work/main/tests/target/release/deps/libvector-2183cb2c640e5875.rmeta: selftests/src/bin/vector.rs

selftests/src/bin/vector.rs:
