/work/main/tests/target/release/deps/signals-7a3fc2529c8b2dfc.d: selftests/src/bin/signals.rs

/work/main/tests/target/release/deps/libsignals-7a3fc2529c8b2dfc.rmeta: selftests/src/bin/signals.rs

selftests/src/bin/signals.rs:
